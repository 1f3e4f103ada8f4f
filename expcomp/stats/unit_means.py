"""Means of single units or whole clusters for many comparisons: standard error, Student's t, and the bootstrap beside it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import polars as pl
from numpy.typing import NDArray

from expcomp.stats.flat import REFUSALS, Units
from expcomp.stats.inputs import ROUNDING, Floats, Ints, Scale, refuse, same_length
from expcomp.stats.resample import bca_limits

# Comparisons computed at once: 20 MB of estimates at 10,000 resamples, and at most this many cells of units.
ROWS = 256
CELLS = 4_000_000


def unit_means(units: Units, *, confidence: float, resamples: int, seed: int, scale: Scale) -> pl.DataFrame:
    """One row a comparison: mean, CR1 standard error (that of single units is `sd / sqrt(n)`), t and BCa intervals, their envelope.

    Raises:
        StatsError: A negative seed, or not one scale for each comparison.
    """
    from scipy.special import stdtr, stdtrit

    if seed < 0:
        raise refuse("bad_option", f"seed is {seed}; use a whole number of at least 0")
    m = units.count.size
    magnitude = None if scale is None else np.asarray(scale, dtype=np.float64)
    if magnitude is not None and magnitude.ndim:
        same_length(m, magnitude.size, "comparisons", "scale")
    starts = np.cumsum(units.count) - units.count
    usable = units.reason.is_null().to_numpy()
    flat = np.zeros(m, dtype=bool)
    mean, se, t, low_bca, high_bca = (np.full(m, np.nan) for _ in range(5))
    for g, rows in _alike(units.count, usable):
        at = starts[rows][:, None] + np.arange(g)
        sign, sums, sizes = _canonical(units.sums[at], units.sizes[at])
        # Squares of 1e-170 are 0, those of 1e170 infinite: near 1 they are neither, and a power of two rounds nothing.
        _, power = np.frexp(np.max(np.abs(sums), axis=1))
        sums = np.ldexp(sums, -power[:, None])
        total = sizes.sum(axis=1)
        estimate = sums.sum(axis=1) / total
        residual = sums - sizes * estimate[:, None]
        each = sums / sizes
        reference = np.max(np.abs(each), axis=1)
        if magnitude is not None:
            reference = np.ldexp(np.broadcast_to(magnitude, m)[rows], -power)
        varies = np.ptp(each, axis=1) > ROUNDING * reference
        mean[rows], flat[rows] = sign * np.ldexp(estimate, power), ~varies
        some, turn = rows[varies], sign[varies] > 0
        error = np.sqrt(g / (g - 1) * (residual[varies] ** 2).sum(axis=1)) / total[varies]
        t[some], se[some] = (sign * estimate)[varies] / error, np.ldexp(error, power[varies])
        limits = bca_limits(sums[varies], sizes[varies], confidence=confidence, resamples=resamples, seed=seed)
        low, high = (np.ldexp(limit, power[varies]) for limit in limits)
        low_bca[some], high_bca[some] = np.where(turn, low, -high), np.where(turn, high, -low)
    df = np.where(np.isnan(se), np.nan, units.count - 1)
    half = stdtrit(df, (1 + confidence) / 2) * se
    columns = {
        "mean": mean,
        "se": se,
        "t": t,
        "df": df,
        "p_two_sided": 2 * stdtr(df, -np.abs(t)),
        "low_t": mean - half,
        "high_t": mean + half,
        "low_bca": low_bca,
        "high_bca": high_bca,
        "low": np.fmin(mean - half, low_bca),
        "high": np.fmax(mean + half, high_bca),
    }
    reason = pl.when("flat").then(pl.lit("zero_width", REFUSALS)).otherwise("reason")
    return (
        pl.DataFrame(
            {**columns, "reason": units.reason, "flat": flat}, schema_overrides=dict.fromkeys(columns, pl.Float64)
        )
        .with_columns(pl.col(*columns).fill_nan(None), reason=reason)
        .select(pl.col(*columns), pl.col("reason").is_not_null().alias("degenerate"), "reason")
        .with_columns(pl.col("df").cast(pl.Int64))
    )


def _alike(count: Ints, usable: NDArray[np.bool_]) -> Iterator[tuple[int, Ints]]:
    """Numbers of units, and in chunks the comparisons that have them."""
    for g in np.flatnonzero(np.bincount(count[usable])):
        rows, step = np.flatnonzero(usable & (count == g)), max(1, min(ROWS, CELLS // int(g)))
        for start in range(0, rows.size, step):
            yield int(g), rows[start : start + step]


def _canonical(sums: Floats, sizes: Floats) -> tuple[Floats, Floats, Floats]:
    """Each comparison turned so that its sum is not negative, its units in ascending order, and the sign that turns it back.

    Resamples then fall on the same units whatever order they came in, and swapping the arms mirrors the interval.
    """
    # Both ways of summing, so that rounding cannot break the symmetry.
    total = np.sort(sums, axis=1).sum(axis=1) - np.sort(-sums, axis=1).sum(axis=1)
    skew = sums.max(axis=1) + sums.min(axis=1)
    sign = np.where(np.where(total == 0, skew, total) < 0, -1.0, 1.0)
    turned = sums * sign[:, None]
    order = np.lexsort((sizes, turned), axis=-1)
    return sign, np.take_along_axis(turned, order, axis=1), np.take_along_axis(sizes, order, axis=1)
