"""Named estimators of a benchmark's score, each with what it rests on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from expcomp.errors import UsageError
from expcomp.ledger.cases import CASE, active, in_order, terminal

if TYPE_CHECKING:
    from collections.abc import Sequence

ESTIMATORS = ("mean_of_case_means", "latest", "best_of_n")


def estimate(runs: pl.DataFrame, estimator: str, *, by: Sequence[str] = ("filed_benchmark", "arm_id")) -> pl.DataFrame:
    """The score by group under a named estimator, with its denominators.

    Args:
        runs: Runs of a ledger; archived ones and such that have not ended are left out.
        estimator: What one case gives: `mean_of_case_means` the mean of its scores, `latest` the last one, `best_of_n` the highest,
            which grows with the number of attempts and is therefore shown with it.
        by: Columns of a group; cases are averaged within it.

    Returns:
        One row a group: `estimator`, `value` (mean over the cases with a score), `value_missing_as_zero` (over all cases), `cases`,
        `cases_scored`, `runs`, `runs_scored`, `runs_infra`, `runs_per_case` (mean) and `max_runs_per_case`.

    Raises:
        UsageError: An unknown estimator.
    """
    if estimator not in ESTIMATORS:
        raise UsageError(f"unknown estimator {estimator!r}; known are {', '.join(ESTIMATORS)}")
    keys = list(dict.fromkeys((*by, *CASE)))
    score = pl.col("countable_score").drop_nulls()
    value = {"mean_of_case_means": score.mean(), "latest": score.last(), "best_of_n": score.max()}[estimator]
    live = in_order(runs.filter(active(), terminal()), ("run_at", "recorded_at", "run_id"))
    cases = live.group_by(keys, maintain_order=True).agg(
        value.alias("value"),
        runs=pl.len().cast(pl.Int64),
        runs_scored=score.len().cast(pl.Int64),
        runs_infra=pl.col("infra").sum().cast(pl.Int64),
    )
    return (
        cases.group_by(by, maintain_order=True)
        .agg(
            pl.lit(estimator).alias("estimator"),
            pl.col("value").mean().alias("value"),
            (pl.col("value").sum() / pl.len()).alias("value_missing_as_zero"),
            pl.len().cast(pl.Int64).alias("cases"),
            pl.col("value").is_not_null().sum().cast(pl.Int64).alias("cases_scored"),
            pl.col("runs", "runs_scored", "runs_infra").sum(),
            pl.col("runs").mean().alias("runs_per_case"),
            pl.col("runs").max().alias("max_runs_per_case"),
        )
        .sort(by)
    )
