"""pass@k, pass^k and best-of-k over k, averaged over tasks, with intervals over tasks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
import polars as pl

from expcomp.stats.batch import paired_means
from expcomp.stats.inputs import Floats, Ints, refuse
from expcomp.stats.numbers import whole
from expcomp.stats.passk import best_of_k_expr, pass_at_k, pass_hat_k

Estimator = Literal["pass_at_k", "pass_hat_k", "best_of_k", "worst_of_k"]
COUNTED = {"pass_at_k": pass_at_k, "pass_hat_k": pass_hat_k}
RANKED = {"best_of_k": 1, "worst_of_k": -1}


def k_curves(
    frame: pl.DataFrame | pl.LazyFrame,
    *,
    estimator: Estimator = "pass_at_k",
    value: str = "passed",
    task: str = "task_id",
    by: str | Sequence[str] = (),
    ks: Sequence[int] | None = None,
    confidence: float = 0.95,
    resamples: int = 10_000,
    seed: int = 0,
    scale: tuple[float, float] | None = None,
) -> pl.DataFrame:
    """A curve for each group: the mean over its tasks of an estimator of `passk`, for each k.

    The interval is that of a mean over tasks, `min(t, BCa)` to `max(t, BCa)` of `batch.paired_means`, cut to the scale where it is
    known: [0, 1] for pass rates, `scale` for rewards. The task is the unit, and the trials of a task only sharpen its own value.

    Args:
        frame: One row a trial.
        estimator: `pass_at_k` and `pass_hat_k` of passes, `best_of_k` and `worst_of_k` of rewards.
        value: Column of the verdict (boolean, or 0 and 1) or of the reward; null: the trial has none and does not count.
        task: Column of the task.
        by: Columns of the groups, such as the arm; none: one curve.
        ks: Numbers of draws; 1 up to the fewest trials that a task with any has, when not given, so that every such task counts in
            every point.
        confidence: Of the intervals.
        resamples: Bootstrap resamples.
        seed: Of the resamples.
        scale: Lowest and highest reward there can be; None where it is not known.

    Returns:
        Sorted by group and k: the `by` columns, `k`, `tasks`, `left_out` (tasks with fewer than k trials: points that leave tasks out do
        not compare with those that do not), `estimate`, `low`, `high`, and `reason` where there is no interval.

    Raises:
        StatsError: A verdict that is neither 0 nor 1, a reward that is not finite, a k below 1, no trial with a value.
    """
    groups = [by] if isinstance(by, str) else list(by)
    trials = frame.lazy().select(*groups, task, value=pl.col(value).cast(pl.Float64)).collect()
    known = trials["value"].drop_nulls()
    if not known.is_finite().all():
        raise refuse("non_finite", f"a value of {value}; make it null where a trial has none")
    if estimator in COUNTED and not known.is_in([0.0, 1.0]).all():
        raise refuse("outside", f"a value of {value} is neither 0 nor 1; compare rewards with best_of_k")
    if known.is_empty():
        raise refuse("too_few_units", f"no trial has a value of {value}")
    cells = trials.group_by(*groups, task, maintain_order=True).agg(
        n=pl.col("value").count().cast(pl.Int64), c=pl.col("value").sum().cast(pl.Int64), values=pl.col("value")
    )
    fewest = int(cells.filter(pl.col("n") > 0).get_column("n").to_numpy().min())
    draws = whole("ks", range(1, fewest + 1) if ks is None else ks, low=1)
    points = (
        _values(cells, estimator, draws)
        .with_columns(cells.select(groups).get_columns())
        .unpivot(index=groups, variable_name="k", value_name="estimate")
        .with_columns(pl.col("k").cast(pl.Int64))
        .group_by(*groups, "k", maintain_order=True)
        .agg(left_out=pl.col("estimate").null_count().cast(pl.Int64), estimate=pl.col("estimate").drop_nulls())
        .sort(*groups, "k", maintain_order=True)
    )
    means = paired_means(points["estimate"], confidence=confidence, resamples=resamples, seed=seed)
    bounds = means.select("low", "high", "reason")
    limits = (0.0, 1.0) if estimator in COUNTED else scale
    if limits is not None:
        bounds = bounds.with_columns(pl.col("low", "high").clip(*limits))
    return points.select(
        *groups,
        "k",
        tasks=pl.col("estimate").list.len().cast(pl.Int64),
        left_out="left_out",
        estimate=pl.col("estimate").list.mean(),
    ).hstack(bounds)


def _values(cells: pl.DataFrame, estimator: Estimator, ks: Ints) -> pl.DataFrame:
    """The estimator of each task, one column a k; null where the task has fewer trials."""
    if estimator in RANKED:
        sign = RANKED[estimator]
        flat = cells.with_row_index("cell").select("cell", "values").explode("values", empty_as_null=True)
        return (
            flat.group_by("cell", maintain_order=True)
            .agg((sign * best_of_k_expr(sign * pl.col("values"), int(k))).alias(str(k)) for k in ks)
            .drop("cell")
        )
    n, c = (cells[x].to_numpy()[:, None] for x in ("n", "c"))
    enough = n >= ks
    told: Floats = np.full(enough.shape, np.nan)
    n, c, k = (np.broadcast_to(x, enough.shape)[enough] for x in (n, c, ks))
    told[enough] = COUNTED[estimator](n, c, k)
    return pl.DataFrame(told, schema=[str(k) for k in ks]).fill_nan(None)
