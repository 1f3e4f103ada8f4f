"""Bootstrap of statistics of sums: balanced accuracy, correlation, calibration error, of units that come in clusters."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from expcomp.stats.bootstrap import enough
from expcomp.stats.inputs import refuse
from expcomp.stats.interval import Interval
from expcomp.stats.numbers import numbers

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import ArrayLike

    from expcomp.stats.inputs import Floats

__all__ = ["additive_bootstrap"]

DEFINED = 0.95
"""Share of the resamples that must have a value; the interval is that of those."""


def additive_bootstrap(
    sums: ArrayLike,
    statistic: Callable[[Floats], Floats],
    *,
    confidence: float = 0.95,
    resamples: int = 2_000,
    seed: int = 0,
) -> Interval:
    """Percentile interval of a statistic of totals, whole clusters drawn with replacement (Efron 1979).

    Args:
        sums: What each cluster adds to the totals, shape (clusters, k).
        statistic: Totals of shape (..., k) to values of shape (...); NaN where it has none.
        confidence: Of the interval.
        resamples: At least `2 / (1 - confidence)`.
        seed: Of the resamples.

    Raises:
        StatsError: Fewer than 2 clusters, or so few that resamples have no value (DEFINED); or all resamples alike.
    """
    enough(resamples, confidence)
    table = numbers("sums", sums)
    if len(table) < 2:
        raise refuse("too_few_clusters", f"{len(table)} clusters, at least 2 are needed")

    drawn = np.random.default_rng(seed).multinomial(len(table), np.full(len(table), 1 / len(table)), size=resamples)
    values = statistic(drawn @ table)
    known = np.isfinite(values)
    if known.mean() < DEFINED:
        raise refuse(
            "too_few_clusters",
            f"{(~known).sum()} of {resamples} resamples have no value; too few clusters hold a class",
        )
    values = values[known]
    if values.min() == values.max():
        raise refuse("zero_width", "all resamples have one value")
    low, high = np.quantile(values, [(1 - confidence) / 2, (1 + confidence) / 2])
    return Interval(float(low), float(high))
