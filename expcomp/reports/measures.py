"""Means and rates of groups of trials with their intervals: the task is the unit, as in comparisons."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

if TYPE_CHECKING:
    from collections.abc import Sequence

TASK = ("benchmark", "task")
METHODS = {
    "wilson": "Wilson, where every task has one verdict",
    "min(t, BCa)": "the wider of Student's t and BCa bootstrap over the means of tasks, else",
    "none": "none below two tasks, or where tasks do not differ",
}
"""Method of an interval -> what it is."""


def over_tasks(
    trials: pl.DataFrame,
    by: Sequence[str],
    value: pl.Expr,
    *,
    confidence: float,
    rate: bool = False,
    low: float | None = None,
) -> pl.DataFrame:
    """Mean over tasks of the task's mean, by group.

    Args:
        trials: Table `trials`.
        by: Columns of a group.
        value: Of one trial; null where it does not count.
        confidence: Of the interval.
        rate: The value is true or false; the interval then stays between 0 and 1.
        low: Least value there is: the interval is cut there.

    Returns:
        `by`, `estimate`, `low`, `high`, `n_tasks` and `n` (trials) behind it, `method` (`METHODS`): Wilson's interval of a rate with one
        trial a task, else that of `stats.batch.paired_means` with the tasks as units. Groups without a value are left out.
    """
    tasks = (
        trials.with_columns(_value=value.cast(pl.Float64))
        .filter(pl.col("_value").is_not_null())
        .group_by(list(dict.fromkeys((*by, *TASK))), maintain_order=True)
        .agg(pl.col("_value").mean().alias("mean"), pl.len().alias("k"))
    )
    groups = (
        tasks.group_by(by, maintain_order=True)
        .agg(
            means=pl.col("mean"),
            estimate=pl.col("mean").mean(),
            n_tasks=pl.len().cast(pl.Int64),
            n=pl.col("k").sum().cast(pl.Int64),
            wilson=(pl.col("k") == 1).all() & rate,
        )
        .with_row_index("_group")
    )
    ends = pl.concat(
        [_wilson(groups.filter("wilson"), confidence), _means(groups.filter(~pl.col("wilson")), confidence)]
    )
    if rate:
        ends = ends.with_columns(pl.col("low", "high").clip(0, 1))
    elif low is not None:
        ends = ends.with_columns(pl.col("low").clip(low))
    joined = groups.join(ends, on="_group", how="left", maintain_order="left")
    return joined.select(*by, "estimate", "low", "high", "n_tasks", "n", "method")


def _wilson(groups: pl.DataFrame, confidence: float) -> pl.DataFrame:
    from expcomp.stats.batch import wilson

    if not groups.height:
        return _ends(groups, pl.Series([], dtype=pl.Float64), pl.Series([], dtype=pl.Float64), "wilson")
    passed = groups.select(pl.col("means").list.sum()).to_series()
    limits = wilson(passed, groups["n_tasks"], confidence=confidence)
    return _ends(groups, pl.Series(limits.low), pl.Series(limits.high), "wilson")


def _means(groups: pl.DataFrame, confidence: float) -> pl.DataFrame:
    from expcomp.stats.batch import paired_means

    found = paired_means(groups["means"], confidence=confidence)
    return _ends(groups, found["low"], found["high"], "min(t, BCa)")


def _ends(groups: pl.DataFrame, low: pl.Series, high: pl.Series, method: str) -> pl.DataFrame:
    named = pl.when(pl.col("low").is_not_null()).then(pl.lit(method)).otherwise(pl.lit("none"))
    return groups.select("_group").with_columns(low=low, high=high).with_columns(method=named)
