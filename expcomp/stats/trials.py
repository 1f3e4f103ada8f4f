"""Tasks with several trials in each arm: the task is the unit, trials only lower the noise inside it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from expcomp.stats.inputs import Floats, Numbers, finite, level, refuse, same_length, spread
from expcomp.stats.interval import Interval, t_interval


@dataclass(frozen=True)
class TasksWithTrials:
    """Difference of two arms over T tasks with several trials each.

    Attributes:
        tasks: T.
        trials: Trials of all tasks, baseline and candidate.
        task_differences: Candidate's task mean minus baseline's, shape (T,).
        mean: Their mean, every task weighing the same.
        se: `sd(task_differences) / sqrt(T)`.
        df: T - 1.
        t: Interval of Student's t.
        p_two_sided: Of no difference.
        within_variance: Mean variance of a task's trials, baseline and candidate; None where a task has one trial.
        noise_variance: `mean(va / Ka) + mean(vb / Kb)`, what the trials add to the variance of a task difference; None as above.
        between_variance: `omega^2 = max(0, var(task_differences) - noise_variance)`; None as above.
        trial_weighted_mean: Mean of all candidate trials minus mean of all baseline trials: a task weighs what it has trials.
        trial_weighted_se: Its cluster-robust (CR1) standard error, clustered by task; None when nothing measures it.
        predicted_se: By K: `sqrt((omega^2 + va / K + vb / K) / T)`, the standard error that K trials would give; empty as above.
    """

    tasks: int
    trials: tuple[int, int]
    task_differences: Floats
    mean: float
    se: float
    df: int
    t: Interval
    p_two_sided: float
    within_variance: tuple[float | None, float | None]
    noise_variance: float | None
    between_variance: float | None
    trial_weighted_mean: float
    trial_weighted_se: float | None
    predicted_se: dict[int, float]


@dataclass(frozen=True)
class _Arm:
    values: Floats
    task: Floats
    size: Floats
    mean: Floats
    variance: Floats | None


def tasks_with_trials(
    baseline: pl.Series | Sequence[Numbers],
    candidate: pl.Series | Sequence[Numbers],
    *,
    confidence: float = 0.95,
    predict: Iterable[int] = (),
) -> TasksWithTrials:
    """Compare two arms by task means.

    Miller 2024, sections 2.1 and 3.2; the trial-weighted mean is the slope of `statsmodels OLS(score ~ 1 + arm)` clustered by task.

    Args:
        baseline: The trials of each task, a list Series or a sequence of columns; tasks may differ in their number of trials.
        candidate: The same tasks in the same order.
        confidence: Of the interval.
        predict: Numbers of trials K to predict the standard error for.

    Raises:
        StatsError: Fewer than 2 tasks, a task without trials, a non-finite score, or task differences that are all equal.
    """
    from scipy.special import stdtr

    level(confidence)
    ks = list(predict)
    if any(k < 1 for k in ks):
        raise refuse("bad_option", f"predict is {ks}; numbers of trials are at least 1")
    a, b = _arm(baseline, "baseline"), _arm(candidate, "candidate")
    tasks = a.size.size
    same_length(tasks, b.size.size, "baseline", "candidate")
    if tasks < 2:
        raise refuse("too_few_units", f"{tasks} task, at least 2 are needed")
    scale = float(max(np.max(np.abs(a.values)), np.max(np.abs(b.values))))
    d = spread(b.mean - a.mean, "the task differences", scale=scale)
    mean, se = float(d.mean()), float(d.std(ddof=1) / np.sqrt(tasks))
    within = tuple(None if arm.variance is None else float(arm.variance.mean()) for arm in (a, b))
    noise = omega = None
    predicted: dict[int, float] = {}
    if a.variance is not None and b.variance is not None:
        noise = float(np.mean(a.variance / a.size) + np.mean(b.variance / b.size))
        omega = max(0.0, float(d.var(ddof=1)) - noise)
        trial = float(a.variance.mean() + b.variance.mean())
        predicted = {k: float(np.sqrt((omega + trial / k) / tasks)) for k in ks}
    weighted, weighted_se = _trial_weighted(a, b)
    return TasksWithTrials(
        tasks=tasks,
        trials=(a.values.size, b.values.size),
        task_differences=d,
        mean=mean,
        se=se,
        df=tasks - 1,
        t=t_interval(mean, se, tasks - 1, confidence),
        p_two_sided=2 * float(stdtr(tasks - 1, -abs(mean / se))),
        within_variance=(within[0], within[1]),
        noise_variance=noise,
        between_variance=omega,
        trial_weighted_mean=weighted,
        trial_weighted_se=weighted_se,
        predicted_se=predicted,
    )


def _arm(trials: pl.Series | Sequence[Numbers], name: str) -> _Arm:
    """The trials of an arm, flat and by task."""
    lists = trials if isinstance(trials, pl.Series) else pl.Series([finite(t, f"a task of {name}") for t in trials])
    lists = lists.cast(pl.List(pl.Float64))
    size = lists.list.len().fill_null(0).to_numpy().astype(np.float64)
    if size.size and size.min() == 0:
        raise refuse("too_few_units", f"task {int(np.argmin(size))} of {name} has no trial")
    values = finite(lists.explode(empty_as_null=True), name)
    several = size.size > 0 and size.min() > 1
    return _Arm(
        values=values,
        task=np.repeat(np.arange(size.size), size.astype(np.int64)).astype(np.float64),
        size=size,
        mean=lists.list.mean().to_numpy(),
        variance=lists.list.var().to_numpy() if several else None,
    )


def _trial_weighted(a: _Arm, b: _Arm) -> tuple[float, float | None]:
    """Difference of all trials' means and its standard error clustered by task."""
    from statsmodels.regression.linear_model import OLS

    arm = np.repeat([0.0, 1.0], [a.values.size, b.values.size])
    fit = OLS(np.concatenate([a.values, b.values]), np.column_stack([np.ones_like(arm), arm])).fit(
        cov_type="cluster", cov_kwds={"groups": np.concatenate([a.task, b.task]).astype(np.int64)}
    )
    # Not `bse`, which takes the root of every variance: that of a constant baseline arm may round to less than 0.
    variance = float(fit.cov_params()[1, 1])
    return float(fit.params[1]), variance**0.5 if variance > 0 else None
