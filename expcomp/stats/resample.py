"""Bootstrap of many means at once, exact in its arithmetic: a comparison gives the same bits alone, in a batch and on any machine.

Values are put on a grid of whole numbers so fine that it costs less than 2^-45 of the largest value at 200 units, and so coarse that no
sum of a resample rounds. Sums then do not depend on the order in which a linear-algebra library takes them, and equal estimates are equal.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from expcomp.stats.bca import acceleration, bca_levels
from expcomp.stats.inputs import Floats

# Cells of a block of resample weights: 32 MB.
WEIGHT_CELLS = 4_000_000


def resample_weights(units: int, resamples: int, seed: int) -> Iterator[Floats]:
    """How often each unit is drawn in each resample, in blocks of shape (rows, units) that sum to `resamples` rows.

    They depend on the seed, the number of units and of resamples alone, so comparisons of one size share them.
    """
    rng, rows = np.random.default_rng([seed, units]), max(1, WEIGHT_CELLS // units)
    for start in range(0, resamples, rows):
        block = min(rows, resamples - start)
        # Counting drawn indices takes a fifth of the time of multinomial draws, which make a binomial for each cell.
        drawn = rng.integers(0, units, (block, units)) + np.arange(block)[:, None] * units
        yield np.bincount(drawn.ravel(), minlength=block * units).reshape(block, units).astype(np.float64)


def bca_limits(sums: Floats, sizes: Floats, *, confidence: float, resamples: int, seed: int) -> tuple[Floats, Floats]:
    """BCa interval of `sum of sums / sum of sizes`, resampling the units (or clusters) of each comparison.

    Args:
        sums: Sum of each unit, shape (comparisons, G); units in an order that does not depend on the input's.
        sizes: Its size, same shape; 1 for single units.
        confidence: Of the interval.
        resamples: Number of resamples.
        seed: Of the resamples, at least 0.

    Returns:
        Lower and upper limits, shape (comparisons,); NaN where all resamples lie on one side of the estimate.
    """
    from scipy.special import ndtri

    comparisons, g = sums.shape
    bits = 52 - int(np.ceil(np.log2(g)))
    _, exponent = np.frexp(np.max(np.abs(sums), axis=1))
    shift = (bits - exponent)[:, None]
    whole = np.rint(np.ldexp(sums, shift))
    single = bool((sizes == 1).all())
    estimates = np.empty((comparisons, resamples))
    done = 0
    for weights in resample_weights(g, resamples, seed):
        block = slice(done, done + len(weights))
        estimates[:, block] = whole @ weights.T / (g if single else sizes @ weights.T)
        done = block.stop
    estimates.sort(axis=1)
    own = (whole.sum(axis=1) / sizes.sum(axis=1))[:, None]
    # A unit is off its place on the grid by half a step, a mean of them by less than one: such means are equal.
    below = (estimates < own - 1).sum(axis=1)
    equal = (estimates <= own + 1).sum(axis=1) - below
    z0 = ndtri((below + equal / 2) / resamples)
    levels = bca_levels(z0, acceleration(sums, sizes), confidence)
    low, high = (np.ldexp(_quantiles(estimates, level), -shift[:, 0]) for level in levels)
    return low, high


def _quantiles(ordered: Floats, level: Floats) -> Floats:
    """Quantile of each row at its own level, linear between two values as in `numpy.quantile`; NaN where the level is."""
    known = np.isfinite(level)
    position = np.where(known, level, 0) * (ordered.shape[1] - 1)
    below = np.floor(position).astype(np.int64)
    above = np.minimum(below + 1, ordered.shape[1] - 1)
    low, high = (np.take_along_axis(ordered, i[:, None], axis=1)[:, 0] for i in (below, above))
    return np.where(known, low + (high - low) * (position - below), np.nan)
