"""Backlog of repairs: what to repair first, by benchmark, and what each repair would unlock."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from expcomp.ledger.cases import CASE, active, terminal
from expcomp.tables.ledger_views import BACKLOG

if TYPE_CHECKING:
    from collections.abc import Sequence

    from expcomp.ledger.pack import Pack

READ = (
    *CASE, "arm_id", "archive_state", "status", "countable_score", "is_baseline", "is_treatment", "repair_priority", "repair_class",
    "failure_class", "next_action",
)  # fmt: skip
_ARM = (*CASE, "arm_id")
_REPAIR = ("filed_benchmark", "repair_class")


def backlog(runs: pl.DataFrame, priorities: Sequence[str] = ("P0", "P1", "P2")) -> pl.DataFrame:
    """Open repairs, the most urgent first: one row a benchmark and repair class.

    Counted are ended runs that are not archived. An arm is *scored* at a case when one of its runs there has a score that counts. A
    repair *blocks* a case when one of its runs there is of an arm that is not scored. What it unlocks is counted as if every arm it
    blocks were scored and nothing else changed: with S arms scored at a case and B more that the repair blocks, it makes
    C(S + B, 2) - C(S, 2) comparisons of two arms possible.

    Args:
        runs: Runs of a ledger, with the columns of `READ`.
        priorities: Priorities, the most urgent first; others come last.

    Returns:
        The table `backlog`, by priority, cases blocked, runs, repair class and benchmark.
    """
    live = runs.filter(active(), terminal()).select(*READ)
    said = (pl.col("repair_class").fill_null("") != "") | (pl.col("repair_priority").fill_null("") != "")
    open_ = live.filter(said)
    arms = live.group_by(_ARM, maintain_order=True).agg(
        scored=pl.col("countable_score").is_not_null().any(),
        baseline=pl.col("is_baseline").fill_null(value=False).any(),
        treatment=pl.col("is_treatment").fill_null(value=False).any(),
    )
    blocked = (
        open_.select(*_ARM, "repair_class")
        .unique(maintain_order=True)
        .join(arms.filter(~pl.col("scored")), on=_ARM, how="inner", maintain_order="left")
        .group_by([*CASE, "repair_class"], maintain_order=True)
        .agg(pl.len().alias("more"), pl.col("baseline", "treatment").any())
    )
    found = open_.select(*CASE, "repair_class").unique(maintain_order=True)
    found = found.join(blocked, on=[*CASE, "repair_class"], how="left", nulls_equal=True, maintain_order="left").join(
        _scored(arms), on=CASE, how="left", maintain_order="left"
    )
    return _summed(open_, found.with_columns(_unlocks()), priorities)


def backlog_of(runs: pl.LazyFrame, pack: Pack) -> pl.DataFrame:
    """The backlog of some runs, in the priorities of a profile."""
    return backlog(runs.select(READ).collect(), pack.data("markdown")["priority"]["order"])


def _scored(arms: pl.DataFrame) -> pl.DataFrame:
    """Per case: how many arms are scored, and whether a baseline and a treatment are."""
    good = pl.col("scored")
    return arms.group_by(CASE, maintain_order=True).agg(
        good.sum().cast(pl.Int64).alias("now"),
        (good & pl.col("baseline")).any().alias("baseline_now"),
        (good & pl.col("treatment")).any().alias("treatment_now"),
    )


def _unlocks() -> list[pl.Expr]:
    """Per case and repair: is it blocked, has it no score at all, would it get a pair of roles, how many pairs of arms."""
    more, now = pl.col("more").fill_null(0).cast(pl.Int64), pl.col("now")
    side = {s: pl.col(f"{s}_now") | pl.col(s).fill_null(value=False) for s in ("baseline", "treatment")}
    return [
        (more > 0).alias("blocked"),
        ((more > 0) & (now == 0)).alias("dark"),
        (side["baseline"] & side["treatment"] & ~(pl.col("baseline_now") & pl.col("treatment_now"))).alias("pair"),
        ((now + more) * (now + more - 1) // 2 - now * (now - 1) // 2).alias("comparisons"),
    ]


def _summed(open_: pl.DataFrame, found: pl.DataFrame, priorities: Sequence[str]) -> pl.DataFrame:
    rank = pl.col("repair_priority").replace_strict(
        {p: i for i, p in enumerate(priorities)}, default=len(priorities), return_dtype=pl.Int64
    )
    told = open_.group_by(_REPAIR, maintain_order=True).agg(
        pl.col("repair_priority").sort_by(rank, maintain_order=True).first(),
        pl.col("failure_class").drop_nulls().unique().sort().alias("failure_classes"),
        pl.col("next_action").drop_nulls().first(),
        pl.col("arm_id").drop_nulls().unique().sort().alias("arms"),
        pl.len().cast(pl.Int64).alias("runs"),
    )
    unlocked = found.group_by(_REPAIR, maintain_order=True).agg(
        pl.len().cast(pl.Int64).alias("cases"),
        pl.col("blocked").sum().cast(pl.Int64).alias("cases_blocked"),
        pl.col("filed_case").filter("blocked").sort().alias("blocked_cases"),
        pl.col("dark").sum().cast(pl.Int64).alias("cases_unlocked"),
        pl.col("pair").sum().cast(pl.Int64).alias("pairs_unlocked"),
        pl.col("comparisons").sum().alias("comparisons_unlocked"),
    )
    joined = told.join(unlocked, on=_REPAIR, how="left", nulls_equal=True, maintain_order="left")
    order = [rank, -pl.col("cases_blocked"), -pl.col("runs"), pl.col("repair_class"), pl.col("filed_benchmark")]
    return joined.sort(order, nulls_last=True, maintain_order=True).select(list(BACKLOG.columns))
