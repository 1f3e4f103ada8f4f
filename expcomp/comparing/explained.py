"""Which failures the gap between two solvers is made of."""

from __future__ import annotations

import polars as pl

from expcomp.comparing.cells import TASK

SCHEMA = {
    "failure_class": pl.String,
    "weak_trials": pl.Int64,
    "strong_trials": pl.Int64,
    "weak_shortfall": pl.Float64,
    "strong_shortfall": pl.Float64,
    "contribution": pl.Float64,
    "share": pl.Float64,
}


def explained(
    trials: pl.DataFrame, tasks: pl.DataFrame, weak: str | None, strong: str | None, *, failure: str, scaled: bool
) -> pl.DataFrame:
    """The gap taken apart by failure class; empty without arms, scale or gap.

    A trial of value v falls short of a full score by `1 - v`. The shortfall of an arm by class is the mean over tasks of the sum over
    its trials of this class, divided by its usable trials at the task. The gap is the difference of the arms' shortfalls, so
    `contribution = weak_shortfall - strong_shortfall` sums to it exactly, and `share = contribution / gap`. A class of which the strong
    arm has more than the weak one contributes less than 0.

    Args:
        trials: Trials with `value`.
        tasks: One row a task with `gap`, `weak_n`, `strong_n`.
        weak: Weak arm.
        strong: Strong arm.
        failure: Column of the class.
        scaled: Whether 1 is a full score.
    """
    used = tasks.drop_nulls("gap")
    if weak is None or strong is None or not scaled or not used.height:
        return pl.DataFrame(schema=SCHEMA)
    n = pl.when(pl.col("arm") == weak).then("weak_n").otherwise("strong_n")
    short = trials.drop_nulls("value").join(
        used.select(*TASK, "weak_n", "strong_n"), on=TASK, how="inner", nulls_equal=True, maintain_order="left"
    )
    short = short.select(
        "arm", failure_class=pl.col(failure).cast(pl.String), lacks=1 - pl.col("value"), part=(1 - pl.col("value")) / n
    ).filter(pl.col("lacks") > 0)
    sides = {
        f"{side}_{name}": expr.filter(pl.col("arm") == arm)
        for side, arm in (("weak", weak), ("strong", strong))
        for name, expr in (("trials", pl.col("lacks")), ("shortfall", pl.col("part")))
    }
    found = short.group_by("failure_class", maintain_order=True).agg(
        **{k: e.len().cast(pl.Int64) if k.endswith("trials") else e.sum() / used.height for k, e in sides.items()}
    )
    gap = used["gap"].mean()
    contribution = pl.col("weak_shortfall") - pl.col("strong_shortfall")
    share = contribution / pl.lit(gap) if gap else pl.lit(None, pl.Float64)
    told = found.with_columns(contribution=contribution, share=share).select(list(SCHEMA))
    return told.sort("contribution", "failure_class", descending=[True, False], nulls_last=True)
