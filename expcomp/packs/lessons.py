"""What went wrong and what put it right, what reviewers asked for, and what is checked before an end."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from expcomp.packs.about import shortened
from expcomp.packs.counting import gather, totals
from expcomp.packs.kinds import stated

if TYPE_CHECKING:
    from collections.abc import Iterator

    from expcomp.packs.facts import Facts

_TEXT = 240
_NUMBERS = r"[0-9]+(?:[.,][0-9]+)*"


def lessons(facts: Facts, steps: pl.DataFrame) -> Iterator[pl.DataFrame]:
    """Statements of the sections `failures`, `corrections` and `checks`.

    Args:
        facts: The facts.
        steps: What `failed_steps` gives.
    """
    yield _step_failures(facts, steps)
    yield _criterion_failures(facts)
    yield _reviews(facts)
    yield _criteria(facts)
    yield _plan_checks(facts)
    yield _contract_checks(facts)
    yield _verify_actions(facts)


def failed_steps(facts: Facts) -> pl.DataFrame:
    """Failed steps by pack, each with the retry or the later call of the same tool that worked, if there is one.

    `retry` is recorded by the source; `later` is the next call of the tool in the attempt that did not fail.
    """
    actions = (
        facts.actions.sort("pack_id", "attempt_id", "place")
        .with_columns(
            good=pl.when(~pl.col("failed")).then("given"), good_at=pl.when(~pl.col("failed")).then("step_index")
        )
        .with_columns(
            later=pl.col("good").shift(-1).backward_fill().over("pack_id", "attempt_id", "label"),
            later_at=pl.col("good_at").shift(-1).backward_fill().over("pack_id", "attempt_id", "label"),
        )
    )
    done = pl.concat_str("label", "given", separator=": ", ignore_nulls=True)
    given = actions.select("pack_id", "attempt_id", fixed_by_step_index="step_index", retry=done).unique(
        ["pack_id", "attempt_id", "fixed_by_step_index"], keep="first", maintain_order=True
    )
    rows = facts.row_facts("failure_case").filter(pl.col("failure_kind") == "step")
    return (
        actions.filter("failed")
        .select("pack_id", "attempt_id", "step_index", "label", "given", "response", "later", "passed", "place")
        .join(
            rows.select(
                "pack_id",
                "package_id",
                "attempt_id",
                "step_index",
                "error_type",
                "error_message",
                "error_code",
                "outcome",
                "fixed_by_step_index",
                "row_id",
                "cites",
            ),
            on=["pack_id", "attempt_id", "step_index"],
            how="inner",
            maintain_order="left",
        )
        .join(given, on=["pack_id", "attempt_id", "fixed_by_step_index"], how="left", maintain_order="left")
        .with_columns(later=pl.when(pl.col("retry").is_null()).then("later"))
    )


def _step_failures(facts: Facts, steps: pl.DataFrame) -> pl.DataFrame:
    """Failures of one tool with one problem; numbers in messages do not tell problems apart."""
    said = pl.coalesce(
        pl.concat_str("error_type", "error_message", separator=": "),
        "error_message",
        "error_type",
        "response",
        "outcome",
    )
    named = steps.with_columns(subject="label", problem=said).with_columns(
        problem=shortened("problem", _TEXT).str.strip_chars_end(". ")
    )
    found = gather(
        named.with_columns(_sort=pl.col("problem").str.replace_all(_NUMBERS, "#")),
        ["subject", "_sort"],
        more={
            "problem": pl.col("problem").sort().first(),
            "times": pl.len(),
            "retry": pl.col("retry").drop_nulls().first(),
            "later": pl.col("later").drop_nulls().first(),
        },
    ).with_columns(
        retry=shortened("retry", _TEXT),
        later=pl.when(pl.col("retry").is_null()).then(shortened("later", _TEXT)),
    )
    return stated(totals(found, facts.attempts), "step_failure", rank=-pl.col("times").cast(pl.Int64))


def _criterion_failures(facts: Facts) -> pl.DataFrame:
    rows = facts.row_facts("failure_case").filter(pl.col("failure_kind") == "criterion")
    missed = rows.with_columns(subject=pl.coalesce("criterion_name", "criterion"))
    found = gather(
        missed,
        ["subject"],
        more={
            "rationale": pl.col("rationale").drop_nulls().mode().sort().first(),
            "feedback": pl.col("feedback").drop_nulls().mode().sort().first(),
            "fixed": pl.col("fixed_by_attempt_id").drop_nulls().n_unique(),
        },
    ).with_columns(
        fixed=pl.when(pl.col("fixed") > 0).then("fixed"),
        rationale=shortened("rationale", _TEXT),
        feedback=shortened("feedback", _TEXT),
    )
    return stated(totals(found, facts.graded), "criterion_failure")


def _reviews(facts: Facts) -> pl.DataFrame:
    """Instructions of real reviewers that a next attempt followed, with the scores before and after."""
    rows = facts.row_facts("feedback_revision_pair").filter(~pl.col("simulated_review").fill_null(value=False))
    score = facts.attempts.select("pack_id", "attempt_id", "score")
    asked = (
        rows.explode("revision_instructions", empty_as_null=True)
        .with_columns(subject=pl.coalesce("revision_instructions", "feedback"), reviewer=pl.col("reviewer_type"))
        .filter(pl.col("subject").is_not_null() & pl.col("next_attempt_id").is_not_null())
        .join(score.rename({"score": "before"}), on=["pack_id", "attempt_id"], how="left", maintain_order="left")
        .join(
            score.rename({"score": "after", "attempt_id": "next_attempt_id"}),
            on=["pack_id", "next_attempt_id"],
            how="left",
            maintain_order="left",
        )
    )
    both = pl.col("before").is_not_null() & pl.col("after").is_not_null()
    found = gather(
        asked,
        ["subject", "reviewer"],
        more={"before": pl.col("before").filter(both).mean(), "after": pl.col("after").filter(both).mean()},
    ).with_columns(
        before=pl.col("before").round(3),
        after=pl.col("after").round(3),
        reviewer=pl.col("reviewer").fill_null("A reviewer"),
    )
    return stated(found, "review")


def _criteria(facts: Facts) -> pl.DataFrame:
    """Criteria that an agent may see, with the graded attempts in which they hold."""
    rows = facts.row_facts("evaluation_example").filter(~pl.col("verifier_only"))
    graded = rows.with_columns(
        subject=pl.coalesce("criterion_name", "rubric_item_id"),
        description=pl.col("criterion_description").str.strip_chars_end(". "),
        total_id=pl.when(pl.col("passed").is_not_null()).then("attempt_id"),
        held_id=pl.when("passed").then("attempt_id"),
    )
    found = gather(
        graded,
        ["subject", "description"],
        unit="held_id",
        more={
            "total": pl.col("total_id").drop_nulls().n_unique(),
            "weight": _single("weight"),
            "threshold": _single("pass_threshold"),
        },
    ).with_columns(total=pl.when(pl.col("total") > 0).then("total"))
    return stated(found, "criterion", rank=-pl.col("weight").fill_null(0))


def _plan_checks(facts: Facts) -> pl.DataFrame:
    rows = facts.row_facts("feedback_revision_pair")
    named = rows.explode("verification_steps", empty_as_null=False).with_columns(subject=pl.col("verification_steps"))
    found = gather(named.filter(pl.col("subject").is_not_null()), ["subject"], unit="row_id")
    return stated(totals(found, rows, "row_id"), "plan_check")


def _contract_checks(facts: Facts) -> pl.DataFrame:
    """Files that recorded checks of an output contract looked at."""
    checked = pl.List(pl.Struct({"path": pl.String, "exists": pl.Boolean}))
    rows = facts.row_facts("contract_verification_row").filter(pl.col("checked").str.contains(r"^\s*\[\s*\{"))
    named = (
        rows.with_columns(item=pl.col("checked").str.json_decode(checked))
        .explode("item", empty_as_null=False)
        .with_columns(subject=pl.col("item").struct.field("path"), held=pl.when("passed").then("row_id"))
        .filter(pl.col("subject").is_not_null())
    )
    found = gather(named, ["subject"], unit="held", more={"total": pl.col("row_id").n_unique()})
    return stated(found, "contract_check")


def _verify_actions(facts: Facts) -> pl.DataFrame:
    done = facts.actions.filter(pl.col("passed") & (pl.col("operation") == "verify")).with_columns(
        subject="label",
        example=shortened("given", 120),
        cites=pl.concat_list("trace", "grade").list.drop_nulls(),
    )
    found = gather(done, ["subject"], more={"example": pl.col("example").drop_nulls().mode().sort().first()})
    return stated(totals(found, facts.attempts.filter("passed")), "verify_action")


def _single(column: str) -> pl.Expr:
    """The value, when all lines share it."""
    return pl.when(pl.col(column).drop_nulls().n_unique() == 1).then(pl.col(column).drop_nulls().first())
