"""Named estimators of a benchmark's score, each with what it rests on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from expcomp.errors import UsageError
from expcomp.ledger.cases import CASE, active, in_order, terminal

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

ESTIMATORS = ("mean_of_case_means", "latest", "best_of_n")
COLUMNS = (
    *("estimator", "value", "value_missing_as_zero", "lower_bound", "upper_bound", "scale", "cases", "cases_scored"),
    *("runs", "runs_scored", "runs_infra", "runs_unscored", "runs_per_case", "max_runs_per_case"),
)


def estimate(runs: pl.DataFrame, estimator: str, *, by: Sequence[str] = ("filed_benchmark", "arm_id")) -> pl.DataFrame:
    """The score by group under a named estimator, under three policies for runs without a counted score, with its denominators.

    Scores are means of `score_norm` where each counted run of a group has one (`scale` is `0..1`), and of the scores as they are
    where none has (`raw`). Where some have and some have not (`mixed`), there is no unit to average in, and no value. Where no run has
    a counted score, nothing tells the scale: it is null, and so are value and bounds.

    Args:
        runs: Runs of a ledger; archived ones and such that have not ended are left out.
        estimator: What one case gives: `mean_of_case_means` the mean of its scores, `latest` the last one, `best_of_n` the highest,
            which grows with the number of attempts and is therefore shown with it.
        by: Columns of a group; cases are averaged within it.

    Returns:
        One row a group: `estimator`; `value` over the counted scores alone (runs without one are excluded);
        `value_missing_as_zero`, where each run without one stands as 0 (counted as fail); `lower_bound` and `upper_bound`, where each
        stands as the worst and the best of the scale, null on a `raw` one; `cases`, `cases_scored`; `runs` = `runs_scored` +
        `runs_infra` (not the agent's failure) + `runs_unscored` (neither; both null where no run
        says, as under profile `loopx`); `runs_per_case` (mean), `max_runs_per_case`; `scale`.

    Raises:
        UsageError: An unknown estimator.
    """
    if estimator not in ESTIMATORS:
        raise UsageError(f"unknown estimator {estimator!r}; known are {', '.join(ESTIMATORS)}")
    of: Callable[[pl.Expr], pl.Expr] = {
        "mean_of_case_means": pl.Expr.mean,
        "latest": pl.Expr.last,
        "best_of_n": pl.Expr.max,
    }[estimator]
    keys = list(dict.fromkeys((*by, *CASE)))
    raw = pl.col("countable_score")
    norm = pl.when(raw.is_not_null()).then("score_norm") if "score_norm" in runs.columns else pl.lit(None, pl.Float64)
    live = in_order(runs.filter(active(), terminal()), ("run_at", "recorded_at", "run_id")).with_columns(_norm=norm)
    cases = live.group_by(keys, maintain_order=True).agg(
        *(of(c.drop_nulls()).alias(n) for n, c in (("raw", raw), ("norm", pl.col("_norm")))),
        *(of(c.fill_null(0.0)).alias(n) for n, c in (("raw_low", raw), ("norm_low", pl.col("_norm")))),
        of(pl.col("_norm").fill_null(1.0)).alias("norm_high"),
        runs=pl.len().cast(pl.Int64),
        runs_scored=raw.count().cast(pl.Int64),
        runs_normed=pl.col("_norm").count().cast(pl.Int64),
        runs_infra=(pl.col("infra").fill_null(value=False) & raw.is_null()).sum().cast(pl.Int64),
        told=pl.col("infra").is_not_null().any(),
    )
    some = pl.col("runs_scored").sum() > 0
    whole, none = (pl.col("runs_normed").sum() == n for n in (pl.col("runs_scored").sum(), 0))
    whole = whole & some
    return (
        cases.group_by(by, maintain_order=True)
        .agg(
            pl.when(some)
            .then(pl.when(whole).then(pl.lit("0..1")).when(none).then(pl.lit("raw")).otherwise(pl.lit("mixed")))
            .alias("scale"),
            pl.lit(estimator).alias("estimator"),
            pl.when(whole).then(pl.col("norm").mean()).when(none).then(pl.col("raw").mean()).alias("value"),
            pl.when(whole)
            .then(pl.col("norm_low").mean())
            .when(none)
            .then(pl.col("raw_low").mean())
            .alias("value_missing_as_zero"),
            pl.when(whole).then(pl.col("norm_low").mean()).alias("lower_bound"),
            pl.when(whole).then(pl.col("norm_high").mean()).alias("upper_bound"),
            pl.len().cast(pl.Int64).alias("cases"),
            pl.col("raw").is_not_null().sum().cast(pl.Int64).alias("cases_scored"),
            pl.col("runs", "runs_scored").sum(),
            pl.when(pl.col("told").any()).then(pl.col("runs_infra").sum()).alias("runs_infra"),
            pl.col("runs").mean().alias("runs_per_case"),
            pl.col("runs").max().alias("max_runs_per_case"),
        )
        .with_columns(runs_unscored=pl.col("runs") - pl.col("runs_scored") - pl.col("runs_infra"))
        .select(*by, *COLUMNS)
        .sort(by)
    )
