"""Many comparisons estimated at once: units in, one row a comparison out."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import polars as pl

if TYPE_CHECKING:
    from collections.abc import Sequence

UNIT = ("difference", "single", "baseline_mean", "treatment_mean", "cluster")
"""What a unit brings to an estimate."""
COLUMNS = (
    "n_units", "n_clusters", "method", "baseline_mean", "treatment_mean", "estimate", "se", "low", "high", "p_value", "se_unpaired",
    "better", "worse", "tie_share",
)  # fmt: skip
SCHEMA = {
    "method": pl.String,
    "estimate": pl.Float64,
    "se": pl.Float64,
    "low": pl.Float64,
    "high": pl.Float64,
    "p_value": pl.Float64,
}


class How(NamedTuple):
    """How intervals are made; `clustered` takes the units in clusters."""

    confidence: float = 0.95
    resamples: int = 10_000
    seed: int = 0
    clustered: bool = False


def estimates(units: pl.DataFrame, keys: Sequence[str], how: How) -> pl.DataFrame:
    """One row for each combination of `keys`, in order of appearance; also where no unit is used.

    Args:
        units: `keys` and the columns of `UNIT`; a unit without a difference is left out.
        keys: Columns that tell comparisons apart.
        how: Of the intervals.

    Returns:
        `keys`, `n_units`, `n_clusters` (null unless clustered), `baseline_mean` and `treatment_mean` over the units used, `estimate`
        their difference, `se`, `low`, `high` and `p_value` (two-sided) by `method`, `se_unpaired`
        (`sqrt((var_a + var_b) / n)`), `better`, `worse`, `tie_share`. Interval and p-value are null where the differences are too few
        (below 2) or all the same.

    `method` is `tango` (score interval, McNemar's mid-p) where every unit is pass or fail of one trial each and there are no
    clusters, `min(t, BCa)` otherwise, and `CR1 t, cluster BCa` with clusters.
    """
    every = units.select(keys).unique(maintain_order=True).with_row_index("comparison")
    used = (
        units.filter(pl.col("difference").is_not_null())
        .join(every, on=list(keys), how="inner", nulls_equal=True, maintain_order="left")
        .sort("comparison", maintain_order=True)
    )
    n = pl.len().cast(pl.Int64)
    d = pl.col("difference")
    told = used.group_by("comparison", maintain_order=True).agg(
        n_units=n,
        n_clusters=pl.col("cluster").n_unique().cast(pl.Int64) if how.clustered else pl.lit(None, pl.Int64),
        binary=pl.lit(value=False) if how.clustered else pl.col("single").all(),
        baseline_mean=pl.col("baseline_mean").mean(),
        treatment_mean=pl.col("treatment_mean").mean(),
        se_unpaired=((pl.col("baseline_mean").var() + pl.col("treatment_mean").var()) / pl.len()).sqrt(),
        better=(d > 0).sum().cast(pl.Int64),
        worse=(d < 0).sum().cast(pl.Int64),
        tie_share=(d == 0).mean(),
        mean=d.mean(),
        spread=(d.var() / pl.len()).sqrt(),
        differences=d,
        # What the differences are rounded to: 1.00001 - 1 and 0.00001 are one number.
        scale=pl.max_horizontal(pl.col("baseline_mean", "treatment_mean").abs().max()),
        clusters=pl.col("cluster"),
    )
    intervals = pl.concat([_tango(told.filter("binary"), how), _means(told.filter(~pl.col("binary")), how)])
    return (
        every.join(told, on="comparison", how="left", maintain_order="left")
        .join(intervals, on="comparison", how="left", maintain_order="left")
        .with_columns(pl.col("n_units", "better", "worse").fill_null(0))
        .select(*keys, *COLUMNS)
    )


def _tango(told: pl.DataFrame, how: How) -> pl.DataFrame:
    """Single trials of pass and fail: a task that got better is one that only the treatment passes."""
    if not told.height:
        return pl.DataFrame(schema={"comparison": pl.UInt32, **SCHEMA})
    from expcomp.stats.batch import mcnemar_mid_p, tango

    limits = tango(told["better"], told["worse"], told["n_units"], confidence=how.confidence)
    return told.select(
        "comparison",
        method=pl.lit("tango"),
        estimate="mean",
        se="spread",
        low=pl.Series(limits.low),
        high=pl.Series(limits.high),
        p_value=pl.Series(mcnemar_mid_p(told["better"], told["worse"])),
    )


def _means(told: pl.DataFrame, how: How) -> pl.DataFrame:
    if not told.height:
        return pl.DataFrame(schema={"comparison": pl.UInt32, **SCHEMA})
    from expcomp.stats.batch import clustered_means, paired_means

    d, scale = told["differences"], told["scale"].fill_null(0.0)
    if how.clustered:
        method = "CR1 t, cluster BCa"
        found = clustered_means(
            d, told["clusters"], confidence=how.confidence, resamples=how.resamples, seed=how.seed, scale=scale
        )
    else:
        method = "min(t, BCa)"
        found = paired_means(d, confidence=how.confidence, resamples=how.resamples, seed=how.seed, scale=scale)
    return told.select("comparison", method=pl.lit(method), estimate="mean").hstack(
        found.select("se", "low", "high", p_value="p_two_sided")
    )
