"""pass@k, pass^k and best-of-k of arms, with intervals over tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from expcomp.comparing.cells import TASK

if TYPE_CHECKING:
    from collections.abc import Sequence

    from expcomp.stats.curves import Estimator

OF_VERDICTS: tuple[Estimator, ...] = ("pass_at_k", "pass_hat_k")
OF_SCORES: tuple[Estimator, ...] = ("best_of_k", "worst_of_k")
COLUMNS = ("arm", "estimator", "k", "tasks", "left_out", "estimate", "low", "high")
SCHEMA = {
    **dict.fromkeys(("arm", "estimator"), pl.String),
    **dict.fromkeys(("k", "tasks", "left_out"), pl.Int64),
    **dict.fromkeys(("estimate", "low", "high"), pl.Float64),
}


def curves_of(
    trials: pl.DataFrame, arms: Sequence[str], ks: Sequence[int] | None, *, confidence: float, resamples: int, seed: int
) -> pl.DataFrame:
    """A row for each arm, estimator and k, in the order of `arms`; of every arm that has trials when none is named.

    pass@k and pass^k where there are verdicts, best-of-k and worst-of-k where the scores are compared. `left_out` are tasks with fewer
    than k usable trials, or none.

    Args:
        trials: Trials with `value`, `metric` and `scaled`; where all are scaled, intervals are cut to [0, 1].
        arms: Arms; none: all with a name.
        ks: Numbers of draws; by default 1, 2, 4, ... up to what half of the tasks have trials for.
        confidence: Of the intervals.
        resamples: Of the bootstrap.
        seed: Of the bootstrap.
    """
    from expcomp.stats.curves import k_curves

    usable = pl.col("value").is_not_null()
    told = trials.filter(pl.col("arm").is_not_null()).with_columns(
        task_key=pl.struct(TASK),
        verdict=pl.when(usable).then("passed"),
        reward=pl.when(pl.col("metric") == "score").then("value"),
    )
    parts = [pl.DataFrame(schema=SCHEMA)]
    scaled = bool(told.filter(pl.col("reward").is_not_null())["scaled"].all())
    for column, estimators in (("verdict", OF_VERDICTS), ("reward", OF_SCORES)):
        if not told[column].count():
            continue
        draws = _draws(told, column) if ks is None else list(ks)
        parts += [
            k_curves(
                told, estimator=e, value=column, task="task_key", by="arm", ks=draws,
                confidence=confidence, resamples=resamples, seed=seed, scale=(0.0, 1.0) if scaled else None,
            ).select(pl.lit(e).alias("estimator"), pl.exclude("reason"))
            for e in estimators
        ]  # fmt: skip
    found = pl.concat([p.select(COLUMNS) for p in parts]).filter(pl.col("tasks") > 0)
    if not arms:
        return found.sort("arm", "estimator", "k")
    order = pl.DataFrame({"arm": list(arms)}, schema={"arm": pl.String})
    return order.join(found, on="arm", how="inner", maintain_order="left_right")


def _draws(trials: pl.DataFrame, column: str) -> list[int]:
    """1, 2, 4, ... up to the median number of trials of a task, of the arm where it is highest."""
    counts = trials.group_by("arm", *TASK, maintain_order=True).agg(n=pl.col(column).count())
    usual = counts.filter(pl.col("n") > 0).group_by("arm", maintain_order=True).agg(pl.col("n").quantile(0.5, "lower"))
    most = int(usual["n"].to_numpy().max())
    return [2**i for i in range(most.bit_length())]
