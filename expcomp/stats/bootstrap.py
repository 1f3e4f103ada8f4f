"""Bootstrap intervals of one mean: by every resample where they can be counted, by a seeded sample of them elsewhere."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from expcomp.stats.bca import acceleration, bca_levels
from expcomp.stats.inputs import Floats, Numbers, finite, level, refuse, same_length, spread
from expcomp.stats.interval import Interval

# 11 units have 352,716 different resamples, 12 already 1.35 million.
MAX_EXHAUSTIVE = 11


@dataclass(frozen=True)
class Bootstrap:
    """Intervals of a mean (or of a ratio of sums over clusters).

    Attributes:
        estimate: Of the sample itself.
        resamples: Resamples behind the intervals; all G^G of them when exhaustive.
        se: Standard deviation of the resamples' estimates, divided by their number (by one less when sampled, as scipy does).
        percentile: Quantiles of the resamples' estimates, linear between two.
        basic: `2 estimate - percentile`, limits swapped.
        bca: Bias-corrected and accelerated.
        z0: Bias correction: normal quantile of the share of resamples below the estimate, half of the equal ones counted.
        acceleration: From the jackknife, `sum U^3 / (6 (sum U^2)^1.5)`.
        bca_levels: Levels of the two quantiles that `bca` is.
    """

    estimate: float
    resamples: int
    se: float
    percentile: Interval
    basic: Interval
    bca: Interval
    z0: float
    acceleration: float
    bca_levels: Interval


def bootstrap_exhaustive_mean(differences: Numbers, *, confidence: float = 0.95) -> Bootstrap:
    """Bootstrap of the mean over all n^n resamples: no random error and no seed.

    Raises:
        StatsError: Fewer than 2 or more than 11 units, a non-finite one, or all equal.
    """
    d = finite(differences, "differences", at_least=2)
    return _exhaustive(d, np.ones_like(d), confidence)


def bootstrap_exhaustive_clusters(sums: Numbers, sizes: Numbers, *, confidence: float = 0.95) -> Bootstrap:
    """Bootstrap of `sum of sums / sum of sizes` over all G^G resamples of clusters.

    Args:
        sums: Sum of each cluster's differences, shape (G,).
        sizes: Units of each cluster, above 0.
        confidence: Of the intervals.

    Raises:
        StatsError: Fewer than 2 or more than 11 clusters, a size that is not above 0, or clusters of equal means.
    """
    s, m = finite(sums, "sums", at_least=2), finite(sizes, "sizes", at_least=2)
    same_length(s.size, m.size, "sums", "sizes")
    if m.min() <= 0:
        raise refuse("bad_counts", f"sizes[{int(np.argmin(m))}] is {m.min():g}; a cluster has units")
    return _exhaustive(s, m, confidence)


def bootstrap_monte_carlo(
    differences: Numbers, *, confidence: float = 0.95, resamples: int = 10_000, seed: int = 0
) -> Bootstrap:
    """Bootstrap of the mean over seeded random resamples (`scipy.stats.bootstrap`, equal to its three methods).

    Estimates are compared as floats, as scipy does: among scores on a grid, where many resamples give the sample's own mean, rounding
    decides which of them count as below it. `batch.paired_means` counts on a grid of integers instead.

    Raises:
        StatsError: Fewer than 2 units, a non-finite one, all equal, or fewer than `2 / (1 - confidence)` resamples.
    """
    from scipy.stats import bootstrap

    enough(resamples, confidence)
    d = spread(finite(differences, "differences", at_least=2), "differences")
    run = bootstrap(
        (d,),
        np.mean,
        n_resamples=resamples,
        confidence_level=confidence,
        method="percentile",
        rng=np.random.default_rng(seed),
    )
    estimate = float(d.mean())
    values, counted = np.sort(run.bootstrap_distribution), np.full(resamples, 1)
    return _intervals(
        values, counted, estimate, d, np.ones_like(d), confidence, slack=0.0, se=float(run.standard_error)
    )


def enough(resamples: int, confidence: float) -> None:
    """Refuse fewer resamples than a tail of the interval needs.

    Raises:
        StatsError: Fewer than `2 / (1 - confidence)`, or a confidence that is not between 0 and 1.
    """
    least = math.ceil(2 / (1 - level(confidence)) - 1e-9)
    if resamples < least:
        raise refuse(
            "bad_option", f"{resamples} resamples at confidence {confidence}; at least {least} reach its tails"
        )


def _exhaustive(sums: Floats, sizes: Floats, confidence: float) -> Bootstrap:
    """Visit each multiset of units once, with the number of resamples it stands for."""
    level(confidence)
    g = sums.size
    if g > MAX_EXHAUSTIVE:
        raise refuse("too_many_units", f"{g} units, at most {MAX_EXHAUSTIVE} are enumerated; use bootstrap_monte_carlo")
    spread(sums / sizes, "the units' means")
    weights = _multisets(g)
    factorial = np.array([math.factorial(k) for k in range(g + 1)], dtype=np.int64)
    counted = math.factorial(g) // np.prod(factorial[weights], axis=1)
    values = (weights @ sums) / (weights @ sizes)
    order = np.argsort(values, kind="stable")
    # Equal estimates come out of sums in different order: what differs by rounding is equal.
    slack = 1e-12 * float(np.max(np.abs(sums / sizes)))
    return _intervals(
        values[order], counted[order], float(sums.sum() / sizes.sum()), sums, sizes, confidence, slack=slack
    )


def _multisets(g: int) -> Floats:
    """How often each of g units is drawn, for every multiset of g draws: shape (C(2g - 1, g), g), by stars and bars."""
    bars = np.array(list(combinations(range(2 * g - 1), g - 1)), dtype=np.int64)
    edges = np.hstack([np.full((len(bars), 1), -1), bars, np.full((len(bars), 1), 2 * g - 1)])
    return np.asarray(np.diff(edges, axis=1) - 1)


def _intervals(
    values: Floats,
    counted: Floats,
    estimate: float,
    sums: Floats,
    sizes: Floats,
    confidence: float,
    *,
    slack: float,
    se: float | None = None,
) -> Bootstrap:
    """All intervals of sorted estimates, each standing for `counted` resamples; within `slack` of the estimate is equal to it."""
    from scipy.special import ndtri

    total = int(counted.sum())
    below = float(counted[values < estimate - slack].sum())
    equal = float(counted[np.abs(values - estimate) <= slack].sum())
    z0, a = np.asarray(ndtri((below + equal / 2) / total)), acceleration(sums, sizes)
    low, high = bca_levels(z0, a, confidence)
    tail = (1 - confidence) / 2
    percentile, bca = (
        Interval(*(_quantile(values, counted, float(q)) for q in levels)) for levels in ((tail, 1 - tail), (low, high))
    )
    if se is None:
        mean = float(np.average(values, weights=counted))
        se = float(np.sqrt(np.average((values - mean) ** 2, weights=counted)))
    return Bootstrap(
        estimate=estimate,
        resamples=total,
        se=se,
        percentile=percentile,
        basic=Interval(2 * estimate - percentile.high, 2 * estimate - percentile.low),
        bca=bca,
        z0=float(z0),
        acceleration=float(a),
        bca_levels=Interval(float(low), float(high)),
    )


def _quantile(values: Floats, counted: Floats, q: float) -> float:
    """`numpy.quantile` (linear) of `values` repeated `counted` times."""
    ends = np.cumsum(counted)
    position = q * (int(ends[-1]) - 1)
    below = math.floor(position)
    low, high = values[np.searchsorted(ends, [below, min(below + 1, int(ends[-1]) - 1)], side="right")]
    return float(low + (high - low) * (position - below))
