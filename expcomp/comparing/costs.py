"""What one success costs each arm."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from expcomp.comparing.cells import TASK
from expcomp.errors import StatsError

if TYPE_CHECKING:
    from collections.abc import Sequence

SCHEMA = {
    "arm": pl.String,
    "tasks": pl.Int64,
    "tasks_left_out": pl.Int64,
    "trials": pl.Int64,
    "cost_usd": pl.Float64,
    "successes": pl.Int64,
    "cost_per_success": pl.Float64,
    "low": pl.Float64,
    "high": pl.Float64,
    "note": pl.String,
}


def cost_per_success_of(trials: pl.DataFrame, arms: Sequence[str], confidence: float) -> pl.DataFrame:
    """One row an arm: `cost_usd` of all its trials, lost ones too, over `successes`; Fieller's interval with the task as the unit.

    Tasks where a trial of the arm has no known cost are left out and counted. Null, with a `note`, where there is no cost, no success
    or no interval.
    """
    told = (
        trials.group_by(["arm", *TASK], maintain_order=True)
        .agg(
            known=pl.col("cost_usd").is_not_null().all(),
            cost=pl.col("cost_usd").sum(),
            trials=pl.len().cast(pl.Int64),
            successes=(pl.col("passed").fill_null(value=False) & ~pl.col("infra")).sum().cast(pl.Int64),
            verdicts=pl.col("passed").count().cast(pl.Int64),
        )
        .sort("arm", *TASK)
    )
    return pl.DataFrame(
        [_arm(told.filter(pl.col("arm") == arm), arm, confidence) for arm in arms], schema=SCHEMA, orient="row"
    )


def _arm(cells: pl.DataFrame, arm: str, confidence: float) -> tuple[object, ...]:
    from expcomp.stats.cost import cost_per_success

    known = cells.filter("known")
    left_out, n = cells.height - known.height, int(known["trials"].sum())
    if not known.height:
        return arm, 0, left_out, 0, None, None, None, None, None, "no cost is known"
    cost, successes = float(known["cost"].sum()), int(known["successes"].sum())
    head = (arm, known.height, left_out, n, cost)
    if not known["verdicts"].sum():
        return *head, None, None, None, None, "no verdicts: a success is not defined"
    if not successes:
        return *head, 0, None, None, None, "no success"
    try:
        found = cost_per_success(known["cost"], known["successes"], confidence=confidence)
    except StatsError as error:
        return *head, successes, cost / successes, None, None, str(error)
    note = None if found.high_fieller is not None else "too few successes to bound it from above"
    return *head, successes, found.ratio, found.low_fieller, found.high_fieller, note
