"""An interval, and the two that an estimate and its standard error give."""

from __future__ import annotations

from typing import NamedTuple


class Interval(NamedTuple):
    """Lower and upper limit of a two-sided, equal-tailed interval."""

    low: float
    high: float


def t_interval(estimate: float, se: float, df: float, confidence: float) -> Interval:
    """`estimate -+ t(df, (1 + confidence) / 2) se`."""
    from scipy.special import stdtrit

    half = float(stdtrit(df, (1 + confidence) / 2)) * se
    return Interval(estimate - half, estimate + half)


def normal_interval(estimate: float, se: float, confidence: float) -> Interval:
    """`estimate -+ z((1 + confidence) / 2) se`; too narrow below some fifty units."""
    half = z_quantile(confidence) * se
    return Interval(estimate - half, estimate + half)


def z_quantile(confidence: float) -> float:
    """Normal quantile of a two-sided confidence: 1.96 for 0.95."""
    from scipy.special import ndtri

    return float(ndtri((1 + confidence) / 2))
