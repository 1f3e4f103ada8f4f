"""Trials of arms at tasks, and what comparisons and solver gaps say of each task."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from expcomp.tables._spec import (
    Table,
    finite,
    flag,
    integer,
    not_negative,
    one_of,
    real,
    text,
    unit_interval,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

CHANGE = pl.Enum(["better", "same", "worse"])
OUTCOME = pl.Enum(["pass", "mixed", "fail"])
LEFT_OUT = pl.Enum(["no_baseline_trial", "no_treatment_trial", "no_usable_baseline_trial", "no_usable_treatment_trial"])
BAND = pl.Enum(["too_easy", "learnable", "too_hard", "unknown"])
KEEP = pl.Enum(["spread", "too_few_attempts", "all_passed", "all_failed", "no_spread"])


def _units(columns: Iterable[str]) -> dict[str, pl.Expr]:
    return {f"{c}|unit_interval": unit_interval(c) for c in columns}


TRIALS = Table(
    "trials",
    "One trial: one attempt of one arm at one task, with its verdict and what it cost. What comparisons are made of.",
    {
        "benchmark": text("benchmark or dataset of the task"),
        "task": text("the task", nullable=False),
        "arm": text("agent configuration; null when unknown"),
        "role": text("`baseline`, `treatment` or another declared role of the arm"),
        "attempt": integer("which attempt of the arm at the task, as the source numbers it"),
        "source_id": text("attempt or run the trial was made from"),
        "run_id": text("job or batch it belongs to"),
        "score": real("0 to 1 where the scale is known, else as the source gives it; null when it does not count"),
        "scale_known": flag("the score is on 0 to 1; null without a score"),
        "passed": flag("the verdict; null without one"),
        "infra": flag("the failure is not the agent's: runner, setup, verifier, or no score", nullable=False),
        "failure_class": text("what went wrong; null when nothing did"),
        "cost_usd": real("cost in US dollars; null is not 0"),
        "input_tokens": integer("tokens read"),
        "output_tokens": integer("tokens written"),
        "duration_s": real("wall time in seconds"),
        "cluster": text("unit above the task: repository, domain, template"),
        "domain": text("domain of the task"),
        "agent": text("agent"),
        "model": text("model"),
    },
    rules={
        **{f"{c}|finite": finite(c) for c in ("score", "cost_usd", "duration_s")},
        **{f"{c}|not_negative": not_negative(c) for c in ("cost_usd", "input_tokens", "output_tokens", "duration_s")},
        "score|unit_interval": unit_interval("score") | ~pl.col("scale_known").fill_null(value=False),
    },
)

_SIDE = {
    "trials": ("integer", "trials of the {arm}"),
    "infra": ("integer", "of them lost to infrastructure"),
    "missing": ("integer", "of them without a score for another reason"),
    "n": ("integer", "trials the mean of the {arm} is over, by the policies"),
    "mean": ("real", "mean of the {arm}; null when nothing counts"),
    "var": ("real", "variance of its trials, ddof 1; null below two"),
    "outcome": ("outcome", "pass: all its trials, fail: none; null unless pass or fail"),
    "flip_rate": ("rate", "share of pairs of its trials that disagree; null below two"),
}
_MAKE = {
    "integer": integer,
    "real": real,
    "rate": real,
    "outcome": lambda words: one_of(OUTCOME, words),
}

COMPARISON_UNITS = Table(
    "comparison_units",
    "One task of a comparison: what each arm did on it, also where it was left out.",
    {
        "benchmark": text("benchmark or dataset of the task"),
        "task": text("the task", nullable=False),
        "cluster": text("unit above the task"),
        **{
            f"{arm}_{name}": _MAKE[kind](words.format(arm=arm))
            for arm in ("baseline", "treatment")
            for name, (kind, words) in _SIDE.items()
        },
        "difference": real("treatment mean - baseline mean; null when the task is left out"),
        "change": one_of(CHANGE, "sign of the difference"),
        "gain_rate": real("chance that a trial of the treatment passes where one of the baseline fails"),
        "loss_rate": real("chance that a trial of the treatment fails where one of the baseline passes"),
        "used": flag("the task enters the estimate", nullable=False),
        "left_out": one_of(LEFT_OUT, "why not"),
    },
    rules={
        **_units(("gain_rate", "loss_rate", "baseline_flip_rate", "treatment_flip_rate")),
        **{f"{c}|finite": finite(c) for c in ("difference", "baseline_mean", "treatment_mean")},
        "used|has_difference": pl.col("used") == pl.col("difference").is_not_null(),
        "left_out|when_not_used": pl.col("used") == pl.col("left_out").is_null(),
    },
    keys=("benchmark", "task"),
)

SOLVER_GAP_TASKS = Table(
    "solver_gap_tasks",
    "One task: how far apart its solvers are, and what the task is good for in training.",
    {
        "benchmark": text("benchmark or dataset of the task"),
        "task": text("the task", nullable=False),
        "weak_n": integer("usable trials of the weak arm; null without arms"),
        "weak_mean": real("mean score of the weak arm"),
        "strong_n": integer("usable trials of the strong arm; null without arms"),
        "strong_mean": real("mean score of the strong arm"),
        "gap": real("strong mean - weak mean; best - worst trial without arms"),
        "worst": real("lowest score of a trial, of any arm that is looked at"),
        "best": real("highest score of a trial, of any arm that is looked at"),
        "n": integer("usable trials of the policy: the weak arm, all without arms", nullable=False),
        "n_unusable": integer("its trials without a usable score", nullable=False),
        "mean": real("mean score of the policy"),
        "var": real("variance of its scores, ddof 1; null below two"),
        "n_verdicts": integer("its usable trials with a verdict", nullable=False),
        "pass_rate": real("p: share of them that passed"),
        "pass_low": real("lower Wilson bound of p"),
        "pass_high": real("upper Wilson bound of p"),
        "learnability": real("4 p (1 - p); null below two verdicts"),
        "band": one_of(BAND, "by the Wilson bounds of p", nullable=False),
        "keep_for_grpo": flag("two or more usable scores that differ", nullable=False),
        "keep_reason": one_of(KEEP, "why, or why not", nullable=False),
    },
    rules={
        **_units(("pass_rate", "pass_low", "pass_high", "learnability")),
        "keep_for_grpo|spread": pl.col("keep_for_grpo") == (pl.col("keep_reason") == "spread"),
    },
    keys=("benchmark", "task"),
)
STATS_TABLES = {t.name: t for t in (TRIALS, COMPARISON_UNITS, SOLVER_GAP_TASKS)}
