"""Quantile levels of the bias-corrected and accelerated bootstrap, and its acceleration."""

from __future__ import annotations

import numpy as np

from expcomp.stats.inputs import Floats


def bca_levels(z0: Floats, acceleration: Floats, confidence: float) -> tuple[Floats, Floats]:
    """Levels of the lower and the upper limit: `Phi(z0 + (z0 + z) / (1 - a (z0 + z)))` (Efron 1987).

    Args:
        z0: Normal quantile of the share of resamples below the estimate, half of those equal to it counted.
        acceleration: a.
        confidence: Of the interval.
    """
    from scipy.special import ndtr, ndtri

    z = ndtri((1 + confidence) / 2)
    with np.errstate(divide="ignore", invalid="ignore"):
        levels = [ndtr(z0 + (z0 + q) / (1 - acceleration * (z0 + q))) for q in (-z, z)]
    return np.asarray(levels[0]), np.asarray(levels[1])


def acceleration(sums: Floats, sizes: Floats) -> Floats:
    """`sum U^3 / (6 (sum U^2)^1.5)`, U the mean of the jackknife estimates minus each; along the last axis.

    Args:
        sums: Sum of each unit or cluster, shape (..., G).
        sizes: Its size, same shape; an estimate is sum of sums over sum of sizes.
    """
    left_out = (sums.sum(axis=-1, keepdims=True) - sums) / (sizes.sum(axis=-1, keepdims=True) - sizes)
    u = left_out.mean(axis=-1, keepdims=True) - left_out
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray((u**3).sum(axis=-1) / (6 * (u**2).sum(axis=-1) ** 1.5))
