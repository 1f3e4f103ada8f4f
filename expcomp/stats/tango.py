"""Tango's score interval of a paired difference of pass rates, for many tables at once."""

from __future__ import annotations

import numpy as np

from expcomp.stats.inputs import Floats
from expcomp.stats.interval import z_quantile


def constrained_rate(b: Floats, c: Floats, n: Floats, d: Floats) -> Floats:
    """Maximum-likelihood rate of baseline-only passes when the true difference is `d`: the larger root of a quadratic.

    `2n q^2 - (b + c - (2n - b + c) d) q - c d (1 - d) = 0` (Tango 1998, Statistics in Medicine 17:891).
    """
    half = (b + c - (2 * n - b + c) * d) / (4 * n)
    root = np.sqrt(np.maximum(half**2 + c * d * (1 - d) / (2 * n), 0))
    return np.asarray(np.clip(half + root, np.maximum(0, -d), None))


def excess(b: Floats, c: Floats, n: Floats, d: Floats) -> tuple[Floats, Floats]:
    """Numerator `b - c - n d` of the score at a difference `d`, and its variance `n (2 q + d (1 - d))`."""
    q = constrained_rate(b, c, n, d)
    return b - c - n * d, np.maximum(n * (2 * q + d * (1 - d)), 0)


def tango_limits(b: Floats, c: Floats, n: Floats, confidence: float) -> tuple[Floats, Floats]:
    """Differences whose score is `+z` and `-z`.

    Args:
        b: Tasks that only the candidate passes, shape (m,).
        c: Tasks that only the baseline passes.
        n: All tasks, at least 1 and at least b + c.
        confidence: Of the interval.

    Returns:
        Lower and upper limits, shape (m,).
    """
    z2 = z_quantile(confidence) ** 2
    # The lower limit of (b, c) mirrors the upper one of (c, b).
    return -_upper(c, b, n, z2), _upper(b, c, n, z2)


def _upper(b: Floats, c: Floats, n: Floats, z2: float) -> Floats:
    """The difference above `(b - c) / n` at which the squared score is `z2`, by bracketing (`scipy.optimize.elementwise.find_root`).

    Where the variance is 0 at the estimate the equation has a closed form: `z^2 / (n + z^2)` without a discordant task,
    `(z^2 - n) / (z^2 + n)` when the baseline alone passes every task, 1 when the candidate does.
    """
    from scipy.optimize.elementwise import find_root

    def gap(d: Floats, b: Floats, c: Floats, n: Floats) -> Floats:
        numerator, variance = excess(b, c, n, d)
        return numerator**2 - z2 * variance

    none = (b + c) == 0
    result = np.select([none, c == n, b == n], [z2 / (n + z2), (z2 - n) / (z2 + n), 1.0])
    inside = ~none & (c < n) & (b < n)
    if inside.any():
        args = (b[inside], c[inside], n[inside])
        start = (args[0] - args[1]) / args[2]
        result[inside] = find_root(gap, (start, np.ones_like(start)), args=args).x
    return np.asarray(result)
