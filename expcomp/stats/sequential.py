"""Looking while runs come in: an e-process that may be stopped at any time without inflating the error rate."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from expcomp.stats.numbers import between, within

if TYPE_CHECKING:
    from expcomp.stats.inputs import Floats, Numbers


class EProcess(NamedTuple):
    """Evidence against "the mean is at most the null mean", observation by observation.

    Attributes:
        wealth: The e-value after each observation.
        bet: The bet on each observation, set from earlier ones only.
        decided_at: Observations after which wealth first reached the threshold; it stays decided. None: never.
        threshold: `1 / alpha`.
    """

    wealth: Floats
    bet: Floats
    decided_at: int | None
    threshold: float


def e_process(x: Numbers, *, alpha: float = 0.05, max_bet: float = 0.5, null_mean: float = 0.5) -> EProcess:
    """Betting martingale for bounded means (Waudby-Smith and Ramdas 2024, JRSS-B 86:1, approximate GRAPA bets, one-sided).

    Wealth `W_t = prod (1 + b_i (x_i - m0))`; the bet `b_i = (m - m0) / (v + (m - m0)^2)`, held to [0, max_bet], with m and v the shrunk
    mean `(1/2 + sum x) / (t + 1)` and variance `(1/4 + sum (x_j - m_j)^2) / (t + 1)` of the t observations before it. Under the null the
    chance that W ever reaches 1 / alpha is at most alpha (Ville), whenever one looks.

    Args:
        x: One value in [0, 1] a unit, in the order they came. A paired difference d in [-1, 1] enters as (d + 1) / 2.
        alpha: Error rate.
        max_bet: Greatest bet, below `1 / null_mean`, so that wealth stays positive.
        null_mean: Mean under the null; 0.5 says no difference.

    Raises:
        StatsError: No observations, one outside [0, 1] or missing, an option outside its range.
    """
    values = within("x", x, 0, 1)
    alpha, null_mean = between("alpha", alpha, 0, 1), between("null_mean", null_mean, 0, 1)
    max_bet = between("max_bet", max_bet, 0, 1 / null_mean)
    seen = np.arange(values.size + 1)
    mean = (0.5 + np.concatenate(([0.0], np.cumsum(values)))) / (seen + 1)
    spread = (0.25 + np.concatenate(([0.0], np.cumsum((values - mean[1:]) ** 2)))) / (seen + 1)
    edge = mean[:-1] - null_mean
    bet = np.clip(edge / (spread[:-1] + edge**2), 0, max_bet)
    wealth = np.asarray(np.cumprod(1 + bet * (values - null_mean)), dtype=np.float64)
    crossed = np.flatnonzero(wealth >= 1 / alpha)
    return EProcess(wealth, bet, int(crossed[0]) + 1 if crossed.size else None, 1 / alpha)


def encoded(differences: Numbers) -> Floats:
    """Paired differences in [-1, 1] as the observations of `e_process`: `(d + 1) / 2`.

    Raises:
        StatsError: A difference outside [-1, 1] or missing.
    """
    return (within("differences", differences, -1, 1) + 1) / 2


def shifted_null(minimum_lift: float) -> float:
    """`null_mean` that tests "the lift is at most `minimum_lift`" on encoded differences.

    Raises:
        StatsError: A lift not between -1 and 1.
    """
    return (between("minimum_lift", minimum_lift, -1, 1) + 1) / 2
