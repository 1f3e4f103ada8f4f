"""How many tasks and trials a comparison needs, from a pilot."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from expcomp.comparing.prepare import prepared

if TYPE_CHECKING:
    from collections.abc import Sequence

    from expcomp.stats.planning import Plan

TRIALS = (1, 2, 4, 8, 16)


def power(
    what: Any,
    baseline: str,
    treatment: str,
    *,
    delta: float | None = None,
    tasks: Sequence[int] | None = None,
    trials: Sequence[int] = TRIALS,
    metric: str = "auto",
    confidence: float = 0.95,
    target: float = 0.8,
    score_scale: tuple[float, float] | None = None,
) -> Plan:
    """Which difference which design would show, and how many tasks `delta` needs.

    Only the variances of the pilot are used, never the difference it showed: power computed from that restates its p-value.

    Args:
        what: Pilot: Ledger, TraceSet, Compilation or frame; see `trials_of`.
        baseline: Arm or role.
        treatment: Arm or role.
        delta: Difference to plan for.
        tasks: Numbers of tasks; by default those of the pilot, twice and four times as many.
        trials: Trials a task and arm.
        metric: As in `compare`.
        confidence: Of the comparison to come.
        target: Its power: the chance to show a difference that is there.
        score_scale: Low and high end of scores whose scale is not known.

    Raises:
        UsageError: An unknown arm or metric.
        StatsError: Fewer than two tasks with a usable trial of both arms.
    """
    from expcomp.stats.planning import plan

    found = prepared(what, [baseline, treatment], metric=metric, score_scale=score_scale).trials
    return plan(
        found.with_columns(pl.struct("benchmark", "task").alias("task_key")),
        baseline=baseline,
        candidate=treatment,
        delta=delta,
        tasks=tasks,
        trials=trials,
        task="task_key",
        score="value",
        alpha=1 - confidence,
        power=target,
    )
