"""The mean of independent scores and its standard error."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from expcomp.stats.inputs import Numbers, finite, level, spread
from expcomp.stats.interval import Interval, normal_interval, t_interval


@dataclass(frozen=True)
class MeanEstimate:
    """A mean with its standard error.

    Attributes:
        n: Units.
        mean: Their mean.
        variance: Sample variance, divided by n - 1.
        se: `sqrt(variance / n)`.
        normal: Normal interval.
        t: Interval of Student's t with n - 1 degrees of freedom.
    """

    n: int
    mean: float
    variance: float
    se: float
    normal: Interval
    t: Interval


def mean_se(scores: Numbers, *, confidence: float = 0.95) -> MeanEstimate:
    """Mean of independent scores, `SE = sqrt(var / n)` (`scipy.stats.sem`); pass and fail as 1 and 0 are scores, too.

    Raises:
        StatsError: Fewer than 2 scores, a non-finite one, or all of them equal.
    """
    from scipy.stats import sem

    level(confidence)
    x = spread(finite(scores, "scores", at_least=2), "scores")
    mean, se = float(x.mean()), float(sem(x))
    return MeanEstimate(
        n=x.size,
        mean=mean,
        variance=float(np.var(x, ddof=1)),
        se=se,
        normal=normal_interval(mean, se, confidence),
        t=t_interval(mean, se, x.size - 1, confidence),
    )
