"""What an evaluator can score with: criteria, graded cases with the files that were graded, verdicts, expected files, real variants."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from expcomp.packs.statements import citations

if TYPE_CHECKING:
    from expcomp.packs.facts import Facts


def evals(facts: Facts, files: pl.DataFrame) -> dict[str, pl.DataFrame]:
    """Frames by file name; each has pack_id and citations. Criteria that only a verifier may see are in none of them.

    Args:
        facts: The facts.
        files: What `handed_over` gives.
    """
    graded = facts.row_facts("evaluation_example").filter(~pl.col("verifier_only"))
    return {
        "rubric_items": _rubric_items(graded),
        "grader_cases": _grader_cases(graded, files),
        "verifier_cases": _verifier_cases(facts),
        "expected_artifacts": _expected(files),
        "transfer_tasks": pl.concat([_variants(facts), _siblings(facts)], how="diagonal_relaxed"),
    }


def _rubric_items(graded: pl.DataFrame) -> pl.DataFrame:
    keys = (
        "pack_id",
        "package_id",
        "task_id",
        "rubric_id",
        "rubric_item_id",
        "criterion_name",
        "criterion_description",
        "weight",
        "pass_threshold",
        "required_artifacts",
    )
    return (
        graded.group_by(keys, maintain_order=True)
        .agg(
            n_graded=pl.col("score").count(),
            n_passed=pl.col("passed").sum(),
            score_mean=pl.col("score").mean(),
            cites=pl.col("cites").explode(empty_as_null=False, keep_nulls=False).unique().sort(),
        )
        .with_columns(citations=citations("cites"))
        .drop("cites")
    )


def _grader_cases(graded: pl.DataFrame, files: pl.DataFrame) -> pl.DataFrame:
    """Each graded criterion with the contents of the files that were graded.

    `evidence_source` says which: `cited` by the grade, `required` by the criterion, or all that the `attempt` handed over
    when neither names one.
    """
    contents = files.filter(pl.col("content").is_not_null()).select(
        "pack_id",
        "attempt_id",
        "cite",
        base=pl.col("name").str.split("/").list.last(),
        file=pl.struct(ref="uri", content="content"),
    )
    required = pl.col("required_artifacts").list.eval(pl.element().str.split("/").list.last())
    seen = (
        graded.select("pack_id", "row_id", "attempt_id", "cites", required=required)
        .join(contents, on=["pack_id", "attempt_id"], how="inner", maintain_order="left_right")
        .group_by("pack_id", "row_id", maintain_order=True)
        .agg(
            cited=pl.col("file").filter(pl.col("cites").list.contains(pl.col("cite"))),
            required=pl.col("file").filter(pl.col("required").list.contains(pl.col("base")).fill_null(value=False)),
            attempt="file",
        )
    )
    sources = ("cited", "required", "attempt")
    chosen = seen.select(
        "pack_id",
        "row_id",
        evidence=pl.coalesce(pl.when(pl.col(n).list.len() > 0).then(n) for n in sources),
        evidence_source=pl.coalesce(pl.when(pl.col(n).list.len() > 0).then(pl.lit(n)) for n in sources),
    )
    return (
        graded.join(chosen, on=["pack_id", "row_id"], how="left", maintain_order="left")
        .filter(pl.col("score").is_not_null() | pl.col("passed").is_not_null())
        .select(
            "pack_id",
            "row_id",
            "package_id",
            "task_id",
            "attempt_id",
            "instruction",
            "rubric_item_id",
            "criterion_name",
            "criterion_description",
            "evidence",
            "evidence_source",
            "score",
            "passed",
            "rationale",
            citations=citations("cites"),
        )
    )


def _verifier_cases(facts: Facts) -> pl.DataFrame:
    return facts.row_facts("verifier_example").select(
        "pack_id",
        "row_id",
        "package_id",
        "task_id",
        "attempt_id",
        "instruction",
        "claim",
        "evidence",
        "verdict",
        "issues",
        "unsupported_claims",
        "notes",
        "confidence",
        citations=citations("cites"),
    )


def _expected(files: pl.DataFrame) -> pl.DataFrame:
    """What passing attempts handed over."""
    good = files.filter("passed").with_columns(cites=pl.concat_list("cite", "grade").list.drop_nulls())
    return good.select(
        "pack_id",
        "package_id",
        "task_id",
        "attempt_id",
        "name",
        "mime",
        "bytes",
        "sha256",
        ref="uri",
        citations=citations("cites"),
    )


def _variants(facts: Facts) -> pl.DataFrame:
    """What a user really changed in the task."""
    return facts.row_facts("task_variant").select(
        "pack_id",
        "package_id",
        "task_id",
        "attempt_id",
        "row_id",
        "base_instruction",
        variant_kind="variant_kind",
        instruction="variant_instruction",
        citations=citations("cites"),
    )


def _siblings(facts: Facts) -> pl.DataFrame:
    """The tasks of a family, where they differ: each is a real variant of the others."""
    families = facts.members.filter(pl.col("pack_kind") == "family").select("pack_id").unique(maintain_order=True)
    judged = (
        facts.attempts.filter(pl.col("passed").is_not_null())
        .group_by("pack_id", "task_id", maintain_order=True)
        .agg(n_judged=pl.len(), pass_rate=pl.col("passed").mean(), grades=pl.col("grade").unique().sort())
    )
    return (
        facts.tasks.filter(pl.col("instruction").is_not_null())
        .join(families, on="pack_id", how="semi", maintain_order="left")
        .unique(["pack_id", "instruction"], keep="first", maintain_order=True)
        .filter(pl.len().over("pack_id") > 1)
        .join(judged, on=["pack_id", "task_id"], how="left", maintain_order="left")
        .with_columns(
            cites=pl.concat_list(
                pl.concat_list("cite"), pl.col("grades").fill_null(pl.lit([], dtype=pl.List(pl.String)))
            )
        )
        .select(
            "pack_id",
            "package_id",
            "task_id",
            "instruction",
            "n_judged",
            "pass_rate",
            variant_kind=pl.lit("sibling_task"),
            citations=citations("cites"),
        )
    )
