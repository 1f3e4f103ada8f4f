"""Families from judgements: criteria, verdicts, feedback, changes of the task."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from expcomp.rows.family import EVIDENCE, RowFamily
from expcomp.tables.families import BY_NAME

if TYPE_CHECKING:
    from expcomp.rows.context import Context

FILE = pl.Struct({"ref": pl.String(), "content": pl.String()})


def deliverables(c: Context) -> pl.DataFrame:
    """(attempt_id, files, file_refs): the text deliverables of each attempt, in order."""
    files = c.tables["artifacts"].filter(pl.col("content").is_not_null() & (pl.col("kind") == "file"))
    return files.group_by("attempt_id", maintain_order=True).agg(
        files=pl.struct(ref="uri", content="content").cast(FILE), file_refs=pl.col("uri")
    )


def evaluation(c: Context) -> pl.DataFrame:
    """One row for each rubric item and attempt of its package; items only the verifier may see are flagged."""
    items = c.tables["rubric_items"].select(
        "package_id",
        "rubric_id",
        "rubric_item_id",
        "position",
        "verifier_only",
        "criterion_name",
        "criterion_description",
        "weight",
        "pass_threshold",
        "required_artifacts",
        rubric_ref="source_ref",
    )
    scored = (
        c.tables["grades"]
        .filter(pl.col("rubric_item_id").is_not_null() & ~pl.col("is_primary"))
        .unique(["attempt_id", "rubric_item_id"], keep="first", maintain_order=True)
        .select(
            "attempt_id",
            "rubric_item_id",
            "rationale",
            "invalid_reason",
            item_passed="passed",
            item_value="value",
            item_min="score_min",
            item_max="score_max",
            item_ref="source_ref",
            item_refs="refs",
        )
    )
    usable = pl.col("invalid_reason").is_null() & (pl.col("item_max") > pl.col("item_min"))
    return (
        c.attempts.select("package_id", "task_id", "attempt_id", "instruction", "label_strength")
        .join(items, on="package_id", how="inner", maintain_order="left_right")
        .join(scored, on=["attempt_id", "rubric_item_id"], how="left", maintain_order="left")
        .select(
            pl.exclude(
                "label_strength", "position", "invalid_reason", "item_passed", "item_value", "item_min", "item_max"
            ),
            score=pl.when(usable).then(
                (pl.col("item_value") - pl.col("item_min")) / (pl.col("item_max") - pl.col("item_min"))
            ),
            score_raw="item_value",
            score_max="item_max",
            passed="item_passed",
            _label_strength=pl.when(pl.col("item_ref").is_not_null()).then("label_strength"),
            _issue=pl.when(pl.col("item_ref").is_null()).then(pl.lit("label_missing")).otherwise("invalid_reason"),
            _discriminator="rubric_item_id",
        )
        .with_columns(
            pl.col("verifier_only").fill_null(value=False),
            _refs=pl.concat_list(
                pl.concat_list("rubric_ref", "item_ref").list.drop_nulls(), pl.col("item_refs").fill_null([])
            ),
        )
    )


def verifier(c: Context) -> pl.DataFrame:
    """One row for each verdict of a verifier: the attempt's claim, the files it handed over, what the verifier found."""
    checks = pl.Struct(
        {"issues": pl.List(pl.String()), "unsupported_claims": pl.List(pl.String()), "confidence": pl.Float64()}
    )
    verdicts = c.tables["grades"].filter((pl.col("name") == "verification") & (pl.col("kind") == "verifier"))
    decoded = pl.col("metadata").str.json_decode(checks)
    return (
        c.attempts.select(
            "package_id", "task_id", "attempt_id", "instruction", "output_summary", "outputs_ref", "label_strength"
        )
        .join(verdicts.drop("refs"), on="attempt_id", how="inner", maintain_order="left")
        .join(deliverables(c), on="attempt_id", how="left", maintain_order="left")
        .select(
            "package_id",
            "task_id",
            "attempt_id",
            "instruction",
            claim="output_summary",
            evidence="files",
            verdict=pl.when("valid").then("label"),
            checks="metadata",
            issues=decoded.struct.field("issues"),
            unsupported_claims=decoded.struct.field("unsupported_claims"),
            notes="rationale",
            confidence=decoded.struct.field("confidence"),
            _issue="invalid_reason",
            _label_strength=pl.when("valid").then(1.0).otherwise(0.0),
            _refs=pl.concat_list(
                pl.concat_list("source_ref", "outputs_ref").list.drop_nulls(), pl.col("file_refs").fill_null([])
            ),
        )
    )


def critique(c: Context) -> pl.DataFrame:
    """One row for each piece of feedback that a later attempt followed: critique, deliverables before and after, change of score."""
    files = deliverables(c)
    score = c.attempts.select(
        "attempt_id", "outputs_ref", "instruction", "task_id", "grade_ref", score=pl.when("usable").then("score_norm")
    )
    after = files.join(
        score.select("attempt_id", "score", after_grade="grade_ref"),
        on="attempt_id",
        how="right",
        maintain_order="right",
    )
    strength = (
        pl.when("simulated")
        .then(0.0)
        .when(
            pl.col("reviewer_type").str.contains("human|expert").fill_null(value=False) & (pl.col("kind") == "reviewer")
        )
        .then(0.75)
        .otherwise(0.5)
    )
    return (
        c.tables["feedback"]
        .filter(pl.col("kind").is_in(["evaluator", "reviewer"]) & pl.col("attempt_id").is_not_null())
        .drop("score")
        .join(
            c.next_attempt.filter(pl.col("next_attempt_id").is_not_null()),
            on="attempt_id",
            how="inner",
            maintain_order="left",
        )
        .join(score.rename({"score": "score_before"}), on="attempt_id", how="left", maintain_order="left")
        .join(files.select("attempt_id", before="files"), on="attempt_id", how="left", maintain_order="left")
        .join(
            after.select(
                "after_grade", next_attempt_id="attempt_id", after="files", score_after="score", after_refs="file_refs"
            ),
            on="next_attempt_id",
            how="left",
            maintain_order="left",
        )
        .select(
            "package_id",
            "task_id",
            "attempt_id",
            "instruction",
            "suggestions",
            "reviewer_type",
            "before",
            "after",
            "score_before",
            "score_after",
            critique="content",
            simulated_review="simulated",
            before_attempt_id="attempt_id",
            after_attempt_id="next_attempt_id",
            score_change=pl.col("score_after") - pl.col("score_before"),
            _simulated="simulated",
            _label_strength=strength,
            _refs=pl.concat_list(
                pl.concat_list("source_ref", "grade_ref", "after_grade").list.drop_nulls(),
                pl.col("after_refs").fill_null([]),
            ),
            _discriminator=pl.concat_str(
                pl.col("kind").cast(pl.String),
                pl.col("loop_iteration").cast(pl.String),
                separator=":",
                ignore_nulls=True,
            ),
        )
    )


def task_variant(c: Context) -> pl.DataFrame:
    """One row for each later user turn of a recorded attempt: a real change of what was asked."""
    turns = c.steps.filter(
        (pl.col("source") == "user") & pl.col("content").is_not_null() & (pl.col("source_format") == "packages")
    )
    return (
        turns.with_columns(
            nth=pl.int_range(pl.len()).over("attempt_id"), first=pl.col("content").first().over("attempt_id")
        )
        .filter((pl.col("nth") > 0) & (pl.col("content") != pl.col("first")))
        .select(
            "package_id",
            "task_id",
            "attempt_id",
            "step_index",
            *EVIDENCE,
            variant_kind=pl.lit("follow_up"),
            base_instruction=pl.coalesce("instruction", "first"),
            variant_instruction="content",
            _duplicate=pl.col("duplicate_of").is_not_null(),
            _discriminator=pl.lit("follow_up"),
        )
    )


RECORD_FAMILIES: tuple[RowFamily, ...] = (
    RowFamily(BY_NAME["evaluation_example"], ("rubric_items", "grades", "attempts"), evaluation),
    RowFamily(BY_NAME["verifier_example"], ("grades", "attempts", "artifacts"), verifier),
    RowFamily(BY_NAME["critique_revision_pair"], ("feedback", "attempts", "artifacts"), critique),
    RowFamily(BY_NAME["task_variant"], ("steps",), task_variant),
)
