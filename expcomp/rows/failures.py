"""What went wrong: failed criteria of attempts and failed steps, with what repaired them if anything did."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from expcomp.rows.family import EVIDENCE, RowFamily, refs
from expcomp.tables.families import BY_NAME

if TYPE_CHECKING:
    from expcomp.rows.context import Context


def failure(c: Context) -> pl.DataFrame:
    """One row for each failed criterion of an attempt and for each failed or blocked step."""
    return pl.concat([_failed_criteria(c), _failed_steps(c)], how="diagonal")


def _failed_criteria(c: Context) -> pl.DataFrame:
    grades = c.tables["grades"]
    primary = grades.filter(pl.col("is_primary") & (pl.col("failed_criteria").list.len() > 0))
    private = c.private
    hidden = pl.concat(
        [
            private.select("package_id", criterion="rubric_item_id"),
            private.select("package_id", criterion="criterion_name"),
        ]
    ).unique(maintain_order=True)
    own = grades.filter(~pl.col("is_primary") & pl.col("rubric_item_id").is_not_null()).unique(
        ["attempt_id", "rubric_item_id"], keep="first", maintain_order=True
    )
    said = (
        c.tables["feedback"]
        .filter((pl.col("kind") == "evaluator") & ~pl.col("simulated"))
        .unique("attempt_id", keep="first", maintain_order=True)
        .select("attempt_id", feedback="content", feedback_ref="source_ref")
    )
    held = own.filter(pl.col("passed").fill_null(value=False))
    held = held.join(c.order, on="attempt_id", how="inner", maintain_order="left")
    items = c.tables["rubric_items"].unique(["package_id", "rubric_item_id"], keep="first", maintain_order=True)
    names = items.select("package_id", "criterion_name", "criterion_description", criterion="rubric_item_id")
    frame = (
        c.attempts.select("package_id", "task_id", "attempt_id", "instruction", "label_strength", "issue")
        .join(
            primary.select("attempt_id", "failed_criteria", "source_ref"),
            on="attempt_id",
            how="inner",
            maintain_order="left",
        )
        .explode("failed_criteria", empty_as_null=False)
        .rename({"failed_criteria": "criterion"})
        # Private criteria stay in flagged evaluation rows.
        .join(hidden, on=["package_id", "criterion"], how="anti", maintain_order="left")
        .join(
            own.select("attempt_id", "rationale", criterion="rubric_item_id"),
            on=["attempt_id", "criterion"],
            how="left",
            maintain_order="left",
        )
        .join(said, on="attempt_id", how="left", maintain_order="left")
        .join(c.order.select("attempt_id", "order"), on="attempt_id", how="left", maintain_order="left")
        .join(names, on=["package_id", "criterion"], how="left", maintain_order="left")
        .with_columns(row=pl.int_range(pl.len()))
    )
    fixed = (
        frame.select("row", "package_id", "criterion", "order")
        .join(
            held.select("package_id", criterion="rubric_item_id", fixed="attempt_id", later="order"),
            on=["package_id", "criterion"],
            how="inner",
            maintain_order="left_right",
        )
        .filter(pl.col("later") > pl.col("order"))
        .sort("row", "later")
        .unique("row", keep="first", maintain_order=True)
    )
    rows = frame.join(fixed.select("row", "fixed"), on="row", how="left", maintain_order="left").select(
        "package_id",
        "task_id",
        "attempt_id",
        "instruction",
        "criterion",
        "criterion_name",
        "criterion_description",
        "rationale",
        "feedback",
        refs("source_ref", "feedback_ref"),
        failure_kind=pl.lit("criterion"),
        fixed_by_attempt_id="fixed",
        _issue="issue",
        _label_strength="label_strength",
        _discriminator=pl.concat_str(pl.lit("criterion:"), "criterion"),
    )
    return c.cite(rows)


def _failed_steps(c: Context) -> pl.DataFrame:
    steps = c.agent_steps
    fixed = steps.filter(pl.col("retry_of").is_not_null() & pl.col("success").fill_null(value=False)).unique(
        ["attempt_id", "retry_of"], keep="first", maintain_order=True
    )
    return (
        steps.filter("is_error")
        .join(
            fixed.select("attempt_id", step_number="retry_of", fixed_by_step_index="step_index"),
            on=["attempt_id", "step_number"],
            how="left",
            maintain_order="left",
        )
        .select(
            "package_id",
            "task_id",
            "attempt_id",
            "step_index",
            *EVIDENCE,
            "instruction",
            "error_type",
            "error_message",
            "error_code",
            "fixed_by_step_index",
            failure_kind=pl.lit("step"),
            agent_action="action",
            observed_result="response",
            outcome=pl.col("outcome").cast(pl.String),
            _duplicate=pl.col("duplicate_of").is_not_null(),
            _label_strength=pl.lit(0.25),
            _discriminator=pl.lit("step"),
        )
    )


FAILURE_FAMILIES: tuple[RowFamily, ...] = (
    RowFamily(BY_NAME["failure_case"], ("grades", "steps", "feedback", "rubric_items"), failure),
)
