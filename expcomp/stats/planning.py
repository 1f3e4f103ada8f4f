"""Plan a comparison from a pilot: what the pilot says about variance, and which lift which design would find."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import NamedTuple

import numpy as np
import polars as pl

from expcomp.stats.inputs import Floats, refuse
from expcomp.stats.numbers import whole
from expcomp.stats.power import detectable_lift, paired_t, tasks_needed

TRIALS = (1, 2, 4, 8, 16)


@dataclass(frozen=True, slots=True)
class Pilot:
    """Variance between and within the tasks that both arms of a pilot ran.

    Attributes:
        tasks: Tasks with a score in both arms.
        unpaired_tasks: Tasks left out: a score in one arm only.
        unscored_trials: Trials of these two arms left out: no score.
        trials_baseline: Scored trials of the paired tasks, baseline arm.
        trials_candidate: The same of the candidate arm.
        replicated_tasks: Paired tasks with 2 or more trials in both arms.
        difference_variance: Variance over tasks of the difference of task means.
        sigma2_baseline: Mean variance of a trial within a task with 2 or more trials; None: no such task.
        sigma2_candidate: The same of the candidate arm.
        omega2: Variance over tasks of the true difference, `max(0, difference_variance - noise)`; None without both of the above.
    """

    tasks: int
    unpaired_tasks: int
    unscored_trials: int
    trials_baseline: int
    trials_candidate: int
    replicated_tasks: int
    difference_variance: float
    sigma2_baseline: float | None
    sigma2_candidate: float | None
    omega2: float | None

    def variance(self, trials: Sequence[int]) -> list[float | None]:
        """Variance of a task's difference with K trials an arm, `omega^2 + va/K + vb/K`; None where the pilot cannot tell.

        A pilot of one trial a task cannot split its variance: it says what K = 1 gives, and nothing about other K.
        """
        ks = whole("trials", trials, low=1)
        if self.omega2 is not None and self.sigma2_baseline is not None and self.sigma2_candidate is not None:
            return [float(v) for v in self.omega2 + (self.sigma2_baseline + self.sigma2_candidate) / ks]
        single = self.trials_baseline == self.trials_candidate == self.tasks
        return [self.difference_variance if single and k == 1 else None for k in ks]


class Plan(NamedTuple):
    """What a pilot says about designs to come.

    Attributes:
        pilot: Its variances.
        mde: `trials`, `tasks`, `se`, `mde` (normal formula), `mde_t` (the same by the noncentral t: what few tasks really need).
        needed: `trials`, `tasks`: tasks that the wanted lift needs at each number of trials; None when no lift was named.
    """

    pilot: Pilot
    mde: pl.DataFrame
    needed: pl.DataFrame | None

    def __repr__(self) -> str:
        return (
            f"Plan(pilot of {self.pilot.tasks:,} tasks, {self.pilot.trials_baseline:,} and {self.pilot.trials_candidate:,} trials; "
            f"{self.mde.height:,} designs)"
        )

    def _repr_html_(self) -> str:
        frames = [f for f in (self.mde, self.needed) if f is not None]
        return f"<p>{escape(repr(self))}</p>{''.join(f._repr_html_() for f in frames)}"


def pilot(
    frame: pl.DataFrame | pl.LazyFrame,
    *,
    baseline: str,
    candidate: str,
    task: str = "task_id",
    arm: str = "arm",
    score: str = "score",
) -> Pilot:
    """Variances from one row a trial (Miller 2024, arXiv 2411.00640, section 5).

    `noise = mean(va / Ka) + mean(vb / Kb)` over the tasks; a task with one trial in an arm takes that arm's mean within-task variance.

    Args:
        frame: Trials, with the columns named below.
        baseline: Value of `arm` of the baseline.
        candidate: Value of `arm` of the candidate.
        task: Column of the task.
        arm: Column of the arm.
        score: Column of the score, a number or a boolean; null: no score.

    Raises:
        StatsError: A score that is not finite, fewer than 2 tasks with a score in both arms.
    """
    trials = (
        frame.lazy()
        .filter(pl.col(arm).cast(pl.String).is_in([baseline, candidate]))
        .select(
            task=pl.col(task),
            side=pl.when(pl.col(arm).cast(pl.String) == baseline).then(pl.lit("a")).otherwise(pl.lit("b")),
            score=pl.col(score).cast(pl.Float64),
        )
        .collect()
    )
    scored = trials.drop_nulls("score")
    if not scored["score"].is_finite().all():
        raise refuse("non_finite", f"a value of {score}; make it null where a trial has no score")
    cells = scored.group_by("task", maintain_order=True).agg(
        agg
        for side in "ab"
        for agg in (
            pl.col("score").filter(pl.col("side") == side).mean().alias(f"mean_{side}"),
            pl.col("score").filter(pl.col("side") == side).var().alias(f"var_{side}"),
            pl.col("score").filter(pl.col("side") == side).len().cast(pl.Int64).alias(f"n_{side}"),
        )
    )
    paired = cells.filter((pl.col("n_a") > 0) & (pl.col("n_b") > 0))
    if paired.height < 2:
        raise refuse("too_few_units", f"{paired.height} tasks with a score under both {baseline!r} and {candidate!r}")
    figures = paired.select(
        difference=(pl.col("mean_b") - pl.col("mean_a")).var(),
        within_a=pl.col("var_a").mean(),
        within_b=pl.col("var_b").mean(),
        noise=pl.sum_horizontal(
            (pl.col(f"var_{s}").fill_null(pl.col(f"var_{s}").mean()) / pl.col(f"n_{s}")).mean() for s in "ab"
        ),
        n_a=pl.col("n_a").sum(),
        n_b=pl.col("n_b").sum(),
        replicated=(pl.min_horizontal("n_a", "n_b") > 1).sum(),
    ).row(0, named=True)
    known = figures["within_a"] is not None and figures["within_b"] is not None
    return Pilot(
        tasks=paired.height,
        unpaired_tasks=cells.height - paired.height,
        unscored_trials=trials.height - scored.height,
        trials_baseline=figures["n_a"],
        trials_candidate=figures["n_b"],
        replicated_tasks=figures["replicated"],
        difference_variance=figures["difference"],
        sigma2_baseline=figures["within_a"],
        sigma2_candidate=figures["within_b"],
        omega2=max(0.0, figures["difference"] - figures["noise"]) if known else None,
    )


def mde_table(
    known: Pilot,
    *,
    tasks: Sequence[int] | None = None,
    trials: Sequence[int] = TRIALS,
    alpha: float = 0.05,
    power: float = 0.8,
) -> pl.DataFrame:
    """Minimum detectable effect of each design: `trials`, `tasks`, `se`, `mde`, `mde_t`, one row a pair, tasks slowest.

    Args:
        known: Variances of a pilot.
        tasks: Numbers of tasks; the pilot's own, twice and four times as many when not given.
        trials: Numbers of trials an arm.
        alpha: Two-sided level.
        power: Chance to detect the effect.

    Raises:
        StatsError: Fewer than 2 tasks or 1 trial, a level or power not between 0 and 1.
    """
    sizes = list(tasks) if tasks is not None else [known.tasks * f for f in (1, 2, 4)]
    n, k = (x.ravel() for x in np.meshgrid(whole("tasks", sizes, low=2), whole("trials", trials, low=1), indexing="ij"))
    variance = np.tile(_floats(known.variance(trials)), len(sizes))
    told = np.isfinite(variance) & (variance > 0)
    mde, mde_t = np.full(n.size, np.nan), np.full(n.size, np.nan)
    if told.any():
        dz = {int(size): paired_t(pairs=int(size), power=power, alpha=alpha) for size in dict.fromkeys(n)}
        mde[told] = detectable_lift(n[told], omega2=variance[told], alpha=alpha, power=power).mde
        mde_t[told] = np.sqrt(variance[told]) * np.array([dz[int(size)] for size in n[told]])
    se = np.sqrt(np.where(told, variance, np.nan) / n)
    return pl.DataFrame({"trials": k, "tasks": n, "se": se, "mde": mde, "mde_t": mde_t}).with_columns(
        pl.col("se", "mde", "mde_t").fill_nan(None)
    )


def tasks_table(
    known: Pilot, delta: float, *, trials: Sequence[int] = TRIALS, alpha: float = 0.05, power: float = 0.8
) -> pl.DataFrame:
    """Tasks that the lift `delta` needs at each number of trials: `trials`, `tasks`; null where the pilot cannot tell.

    Raises:
        StatsError: As `tasks_needed`.
    """
    needed = [
        tasks_needed(delta, omega2=v, alpha=alpha, power=power).n_required if v else None
        for v in known.variance(trials)
    ]
    return pl.DataFrame({"trials": list(trials), "tasks": needed}, schema={"trials": pl.Int64, "tasks": pl.Int64})


def plan(
    frame: pl.DataFrame | pl.LazyFrame,
    *,
    baseline: str,
    candidate: str,
    delta: float | None = None,
    tasks: Sequence[int] | None = None,
    trials: Sequence[int] = TRIALS,
    task: str = "task_id",
    arm: str = "arm",
    score: str = "score",
    alpha: float = 0.05,
    power: float = 0.8,
) -> Plan:
    """Which lift which design finds, and how many tasks `delta` needs, from a pilot of one row a trial.

    Arguments as `pilot`, `mde_table` and `tasks_table`. The difference that the pilot showed is not used.

    Raises:
        StatsError: As these.
    """
    known = pilot(frame, baseline=baseline, candidate=candidate, task=task, arm=arm, score=score)
    return Plan(
        known,
        mde_table(known, tasks=tasks, trials=trials, alpha=alpha, power=power),
        None if delta is None else tasks_table(known, delta, trials=trials, alpha=alpha, power=power),
    )


def _floats(values: Sequence[float | None]) -> Floats:
    return np.array([np.nan if v is None else v for v in values], dtype=np.float64)
