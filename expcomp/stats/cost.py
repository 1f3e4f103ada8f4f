"""Cost per success: a ratio of two totals, with intervals that know both are uncertain."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from expcomp.stats.inputs import level, refuse, same_length, spread
from expcomp.stats.numbers import within

if TYPE_CHECKING:
    from expcomp.stats.inputs import Floats, Numbers


class CostPerSuccess(NamedTuple):
    """What one success costs.

    Attributes:
        ratio: Total cost over total successes.
        n: Units.
        se_delta: Standard error by the delta method.
        se_jackknife: Standard error by leaving one unit out; None when all successes are in one unit.
        low_delta: Lower end of the normal interval by `se_delta`. May be below 0 with few units.
        high_delta: Upper end of it.
        low_fieller: Lower end of Fieller's interval, the one to show; None: no positive bound.
        high_fieller: Upper end; None: the successes are too few to bound the cost from above at this confidence.
    """

    ratio: float
    n: int
    se_delta: float
    se_jackknife: float | None
    low_delta: float
    high_delta: float
    low_fieller: float | None
    high_fieller: float | None


def cost_per_success(cost: Numbers, success: Numbers, *, confidence: float = 0.95) -> CostPerSuccess:
    """Ratio of totals R = sum cost / sum success over independent units.

    Delta method: `SE = sqrt(var(cost - R success) / n) / mean(success)` with ddof 1, normal quantiles. Jackknife: delete one unit.
    Fieller (1954): all R with `mean(cost - R success)^2 <= t^2 var(cost - R success) / n`, t with n - 1 degrees of freedom.

    Args:
        cost: Cost of each unit, in one currency. The unit is what was drawn independently: with several trials a task, the task and
            the sums over its trials.
        success: Successes of each unit, 0 or 1 with one trial.
        confidence: Of the two-sided intervals.

    Raises:
        StatsError: Fewer than 2 units, lengths differ, a negative or missing value, no success at all, every
            unit paid the same per success (nothing measures the spread).
    """
    from scipy.stats import norm, t

    x, y = within("cost", cost, 0, at_least=2), within("success", success, 0, at_least=2)
    tail = (1 + level(confidence)) / 2
    n = x.size
    same_length(n, y.size, "cost", "success")
    if not y.sum():
        raise refuse("no_success", f"success is 0 in all {n} units; report the total cost instead")
    ratio = x.sum() / y.sum()
    residual = spread(x - ratio * y, "cost - R success", scale=float(x.max()))
    se = float(np.sqrt(residual.var(ddof=1) / n) / y.mean())
    reach = float(norm.ppf(tail)) * se
    low, high = _fieller(x, y, float(t.ppf(tail, n - 1)))
    return CostPerSuccess(float(ratio), n, se, _jackknife(x, y), float(ratio - reach), float(ratio + reach), low, high)


def _jackknife(x: Floats, y: Floats) -> float | None:
    rest = y.sum() - y
    if (rest <= 0).any():
        return None
    without = (x.sum() - x) / rest
    return float(np.sqrt((x.size - 1) * without.var(ddof=0)))


def _fieller(x: Floats, y: Floats, quantile: float) -> tuple[float | None, float | None]:
    """Roots of `(y'^2 - g syy) R^2 - 2 (x'y' - g sxy) R + (x'^2 - g sxx) = 0`, g = t^2 / n; costs and ratios are not negative."""
    (sxx, sxy), (_, syy) = np.cov(x, y, ddof=1)
    g = quantile**2 / x.size
    a, b, c = y.mean() ** 2 - g * syy, x.mean() * y.mean() - g * sxy, x.mean() ** 2 - g * sxx
    if a > 0:
        # The discriminant is not negative here: the ratio itself lies inside.
        root = np.sqrt(max(b * b - a * c, 0.0))
        return float(max((b - root) / a, 0.0)), float((b + root) / a)
    if a < 0 < c:
        # Outside of two roots of unlike sign: all ratios from the positive one up.
        return float((b - np.sqrt(b * b - a * c)) / a), None
    return None, None
