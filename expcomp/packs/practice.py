"""What passing attempts do, and what separates them from failing ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from expcomp.packs.counting import gather, split_by_verdict, totals
from expcomp.packs.kinds import stated

if TYPE_CHECKING:
    from collections.abc import Iterator

    from expcomp.packs.facts import Facts

GAP = 0.5
"""Least difference of two shares that counts as separating: a practice that half of one side more has than the other."""

_SEQUENCE = 24  # actions of an example; the whole attempt is in the compile
_MEASURES = {"actions": "Actions", "errors": "Failed actions", "seconds": "Seconds"}


def practice(facts: Facts) -> Iterator[pl.DataFrame]:
    """Statements of the sections `steps` and `decisions`."""
    passing = _with_cites(facts.actions.filter("passed"))
    good = facts.attempts.filter("passed")
    yield _steps(passing, good)
    yield _programs(passing, good)
    yield _order(passing, good)
    yield _sequence(passing)
    yield _unrated(facts)
    yield _tool_gap(facts)
    yield _program_gap(facts)
    yield _criterion_gap(facts)
    yield _measure_gap(facts)


def _with_cites(actions: pl.DataFrame) -> pl.DataFrame:
    return actions.with_columns(cites=pl.concat_list("trace", "grade").list.drop_nulls())


def _steps(passing: pl.DataFrame, good: pl.DataFrame) -> pl.DataFrame:
    """Each tool with the operations it serves, where the first use of it stands, and how many passing attempts use it."""
    firsts = (
        passing.group_by("pack_id", "package_id", "attempt_id", "label", "cites", maintain_order=True)
        .agg(first=pl.col("place").min(), operation=pl.col("operation").drop_nulls().mode().sort().first())
        .with_columns(subject="label")
    )
    found = gather(
        firsts,
        ["subject"],
        more={
            "at": pl.col("first").median(),
            "operation": pl.col("operation").drop_nulls().mode().sort().first(),
        },
    ).with_columns(
        first=(pl.col("at") + 1).round(1).cast(pl.String).str.strip_suffix(".0"),
        operation=pl.when((pl.col("operation") != pl.col("subject")) & (pl.col("operation") != "other")).then(
            "operation"
        ),
    )
    return stated(totals(found, good), "step", rank=pl.col("at"))


def _programs(passing: pl.DataFrame, good: pl.DataFrame) -> pl.DataFrame:
    ran = passing.filter(pl.col("program").is_not_null() & (pl.col("program") != pl.col("label")))
    found = gather(ran.rename({"label": "tool"}), ["tool", "program"]).with_columns(
        subject=pl.concat_str("tool", "program", separator=" ")
    )
    return stated(totals(found, good), "program")


def _order(passing: pl.DataFrame, good: pl.DataFrame) -> pl.DataFrame:
    """The relation `directly follows` of process mining, over what two passing attempts or more share."""
    pairs = passing.with_columns(after=pl.col("label").shift(-1).over("pack_id", "attempt_id")).filter(
        pl.col("after").is_not_null() & (pl.col("after") != pl.col("label"))
    )
    found = (
        gather(pairs.rename({"label": "tool"}), ["tool", "after"], more={"at": pl.col("place").median()})
        .filter(pl.col("support") > 1)
        .with_columns(subject=pl.concat_str("tool", "after", separator=" → "))
    )
    # More support first, then in the order of the work.
    return stated(totals(found, good), "order", rank=pl.col("at") - 1e6 * pl.col("support").cast(pl.Float64))


def _sequence(passing: pl.DataFrame) -> pl.DataFrame:
    walks = (
        passing.group_by("pack_id", "package_id", "attempt_id", "cites", maintain_order=True)
        .agg(
            actions=pl.len(),
            sequence=pl.col("label").head(_SEQUENCE).str.join(" → "),
        )
        .sort("pack_id", "actions", "package_id", "attempt_id")
        .unique("pack_id", keep="first", maintain_order=True)
        .with_columns(
            attempt_ids=pl.concat_list("attempt_id"),
            subject=pl.lit("sequence"),
            sequence=pl.when(pl.col("actions") > _SEQUENCE)
            .then(pl.concat_str("sequence", pl.lit(" → …")))
            .otherwise("sequence"),
            support=pl.lit(1),
            total=pl.lit(1),
        )
    )
    return stated(walks, "sequence")


def _unrated(facts: Facts) -> pl.DataFrame:
    """Tools of packs in which no attempt passed: what was done, without a word on whether it was good."""
    judged = facts.attempts.filter("passed").select("pack_id").unique(maintain_order=True)
    loose = facts.actions.filter(pl.col("passed").is_null()).join(
        judged, on="pack_id", how="anti", maintain_order="left"
    )
    used = _with_cites(loose).with_columns(subject="label")
    found = gather(used, ["subject"], more={"calls": pl.len()})
    among = facts.attempts.filter(pl.col("passed").is_null())
    return stated(totals(found, among), "unrated_use")


def _tool_gap(facts: Facts) -> pl.DataFrame:
    found = split_by_verdict(facts.actions, ["label"], facts.attempts).filter(pl.col("gap").abs() >= GAP)
    return stated(found.with_columns(subject="label"), "tool_gap", rank=-pl.col("gap").abs())


def _program_gap(facts: Facts) -> pl.DataFrame:
    ran = facts.actions.filter(pl.col("program").is_not_null())
    found = split_by_verdict(ran, ["program"], facts.attempts).filter(pl.col("gap").abs() >= GAP)
    return stated(found.with_columns(subject="program"), "program_gap", rank=-pl.col("gap").abs())


def _criterion_gap(facts: Facts) -> pl.DataFrame:
    rows = facts.row_facts("evaluation_example").filter(
        ~pl.col("verifier_only") & pl.col("passed").fill_null(value=False)
    )
    verdict = facts.attempts.select("pack_id", "attempt_id", verdict="passed")
    held = (
        rows.drop("passed")
        .join(verdict, on=["pack_id", "attempt_id"], how="inner", maintain_order="left")
        .with_columns(passed="verdict", subject=pl.coalesce("criterion_name", "rubric_item_id"))
    )
    found = split_by_verdict(held, ["subject"], facts.attempts).filter(pl.col("gap").abs() >= GAP)
    return stated(found, "criterion_gap", rank=-pl.col("gap").abs())


def _measure_gap(facts: Facts) -> pl.DataFrame:
    """Medians of passing and failing attempts, where they differ."""
    acted = facts.actions.group_by("pack_id", "attempt_id", maintain_order=True).agg(
        actions=pl.len().cast(pl.Float64), errors=pl.col("failed").sum().cast(pl.Float64)
    )
    each = (
        facts.attempts.filter(pl.col("passed").is_not_null())
        .join(acted, on=["pack_id", "attempt_id"], how="inner", maintain_order="left")
        .select(
            "pack_id",
            "attempt_id",
            "passed",
            "actions",
            "errors",
            seconds="duration_s",
            cites=pl.concat_list("trace", "grade").list.drop_nulls(),
        )
        .unpivot(list(_MEASURES), index=["pack_id", "attempt_id", "passed", "cites"], variable_name="measure")
        .filter(pl.col("value").is_not_null())
    )
    value = pl.col("value")
    found = gather(
        each,
        ["measure"],
        more={
            "passing": value.filter("passed").median(),
            "failing": value.filter(~pl.col("passed")).median(),
            "all_passing": pl.col("attempt_id").filter("passed").n_unique(),
            "all_failing": pl.col("attempt_id").filter(~pl.col("passed")).n_unique(),
        },
    ).filter((pl.col("passing") != pl.col("failing")).fill_null(value=False))
    shown = found.with_columns(
        subject=pl.col("measure").replace_strict(_MEASURES),
        passing=_number("passing"),
        failing=_number("failing"),
    ).drop("support")
    place = pl.col("measure").replace_strict({m: i for i, m in enumerate(_MEASURES)}, return_dtype=pl.Int64)
    return stated(shown, "measure_gap", rank=place)


def _number(column: str) -> pl.Expr:
    return pl.col(column).round(1).cast(pl.String).str.strip_suffix(".0")
