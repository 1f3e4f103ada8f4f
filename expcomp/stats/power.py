"""Before spending: how many tasks, trials or pairs a comparison needs, and the smallest difference it can detect.

Plan with these from assumed or pilot variances (`planning`); never from the difference that was observed: power computed from it only
restates its p-value.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from expcomp.stats.inputs import refuse
from expcomp.stats.numbers import at_least_zero, between, whole

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import ArrayLike

    from expcomp.stats.inputs import Floats, Ints

_LARGEST_T = 1000.0
_MOST_TASKS = 1e15
_FURTHEST = 1e12
Alternative = Literal["two-sided", "larger", "smaller"]


class TaskNumber(NamedTuple):
    """Tasks that a comparison of arms with repeated trials needs.

    Attributes:
        z_sum: `z(1 - alpha/2) + z(power)`.
        variance_per_task: Variance of one task's difference of means.
        n_raw: Tasks by the formula.
        n_required: The same, rounded up.
    """

    z_sum: float
    variance_per_task: float
    n_raw: float
    n_required: int


class DetectableLift(NamedTuple):
    """The smallest lift that is found with the wanted power, of the shape of the arguments.

    Attributes:
        z_sum: `z(1 - alpha/2) + z(power)`.
        variance_per_task: Variance of one task's difference of means.
        mde: Minimum detectable effect.
    """

    z_sum: float
    variance_per_task: Floats
    mde: Floats


class McNemarPower(NamedTuple):
    """Power of tests on single-trial pass and fail.

    Attributes:
        n_required_asymptotic: Pairs for the target power by Connor's formula; None: the arms do not differ.
        power_asymptotic: Power at the given pairs by the same approximation; None: the arms do not differ.
        power_exact: Power of the exact two-sided test, by enumeration.
        power_mid_p: Power of the two-sided mid-p test, by enumeration.
    """

    n_required_asymptotic: int | None
    power_asymptotic: float | None
    power_exact: float
    power_mid_p: float


class ProportionNumber(NamedTuple):
    """Units of each of two unpaired arms.

    Attributes:
        cohen_h: `2 asin(sqrt(p_candidate)) - 2 asin(sqrt(p_baseline))`.
        n_per_arm: Units of each arm, not rounded.
    """

    cohen_h: float
    n_per_arm: float


def tasks_needed(
    delta: float,
    *,
    omega2: float,
    sigma2_baseline: float = 0.0,
    sigma2_candidate: float = 0.0,
    trials_baseline: int = 1,
    trials_candidate: int = 1,
    alpha: float = 0.05,
    power: float = 0.8,
) -> TaskNumber:
    """`n = (z_{a/2} + z_b)^2 (omega^2 + va/Ka + vb/Kb) / delta^2` (Miller 2024, arXiv 2411.00640, section 5).

    Args:
        delta: Mean difference to detect, not 0.
        omega2: Variance over tasks of the true difference.
        sigma2_baseline: Mean variance of a trial within a task, baseline arm.
        sigma2_candidate: The same of the candidate arm.
        trials_baseline: Trials of each task, baseline arm.
        trials_candidate: The same of the candidate arm.
        alpha: Two-sided level.
        power: Chance to detect delta.

    Raises:
        StatsError: A negative variance, no variance at all, no trials, delta 0 or so small that more than 10^15 tasks would be needed, a
            level or power not between 0 and 1.
    """
    z, variance = _trials(omega2, sigma2_baseline, sigma2_candidate, trials_baseline, trials_candidate, alpha, power)
    if not (np.isfinite(delta) and delta):
        raise refuse("bad_option", f"delta is {delta}; name the difference that would matter, such as 0.03")
    root = float(np.sqrt(variance)) * z / float(delta)
    raw = root * root
    if raw > _MOST_TASKS:
        raise refuse(
            "bad_option", f"delta is {delta}: {raw:.3g} tasks would be needed; name a difference that can be shown"
        )
    return TaskNumber(z, float(variance), raw, max(2, int(np.ceil(raw))))


def detectable_lift(
    n: ArrayLike,
    *,
    omega2: ArrayLike,
    sigma2_baseline: ArrayLike = 0.0,
    sigma2_candidate: ArrayLike = 0.0,
    trials_baseline: ArrayLike = 1,
    trials_candidate: ArrayLike = 1,
    alpha: float = 0.05,
    power: float = 0.8,
) -> DetectableLift:
    """Inverse of `tasks_needed`: `mde = (z_{a/2} + z_b) sqrt((omega^2 + va/Ka + vb/Kb) / n)`, for n tasks. Arguments broadcast.

    Raises:
        StatsError: As `tasks_needed`, or n below 2.
    """
    z, variance = _trials(omega2, sigma2_baseline, sigma2_candidate, trials_baseline, trials_candidate, alpha, power)
    return DetectableLift(z, variance, np.asarray(z * np.sqrt(variance / whole("n", n, low=2))))


def paired_t(
    *,
    effect_size: float | None = None,
    pairs: float | None = None,
    power: float | None = None,
    alpha: float = 0.05,
    alternative: Alternative = "two-sided",
) -> float:
    """The one of effect size (dz = mean / sd), pairs and power that is not given, by the noncentral t distribution.

    Equal to `statsmodels.stats.power.TTestPower.solve_power` where that finds a solution (its search ends at bounds of its own, or at
    the negative of an effect); of two effects of one power the positive one. Pairs are not rounded.

    Raises:
        StatsError: Not exactly one is open, a value is out of range, or no value of the open one gives the power.
    """
    known = {"effect_size": effect_size, "nobs": pairs, "power": power}
    if list(known.values()).count(None) != 1:
        raise refuse(
            "bad_option", f"effect_size, pairs, power are {effect_size}, {pairs}, {power}; leave exactly one open"
        )
    between("alpha", alpha, 0, 1)
    if pairs is not None:
        between("pairs", pairs, 1, np.inf)
    if power is not None:
        between("power", power, alpha, 1)
    if effect_size is not None and not (np.isfinite(effect_size) and effect_size):
        raise refuse("bad_option", f"effect_size is {effect_size}; use a finite number other than 0")

    def reached(effect: float, n: float) -> float:
        return _t_power(effect * float(np.sqrt(n)), n - 1, alpha, alternative)

    if effect_size is not None and pairs is not None:
        return reached(effect_size, pairs)
    asked = {k: v for k, v in known.items() if v is not None}
    wanted = float(power or 0)
    if effect_size is not None:
        effect = effect_size
        return _crossing(lambda n: reached(effect, n) - wanted, 2.0, asked)
    sign, n = -1.0 if alternative == "smaller" else 1.0, float(pairs or 0)
    return sign * _crossing(lambda effect: reached(sign * effect, n) - wanted, 0.0, asked)


def detectable_t(se: ArrayLike, df: ArrayLike, *, alpha: float = 0.05, power: float = 0.8) -> Floats:
    """Smallest difference that a two-sided t-test shows with the wanted power, `d se`, elementwise.

    d is the noncentrality at which the noncentral t of df exceeds `t(1 - alpha/2, df)` with chance `power` (`scipy.special.nctdtrinc`);
    the other tail is left out: `paired_t` has it, and differs by less than 1e-4 of the value at level 0.05 and power 0.8.

    Args:
        se: Standard error of the difference.
        df: Degrees of freedom, pairs or clusters minus 1.
        alpha: Two-sided level.
        power: Chance to detect the difference.

    Returns:
        Broadcast shape of both; nan where se is nan, df below 1, or `t` above 1,000 (one or two degrees of freedom at a tiny level).

    Raises:
        StatsError: A level or power not between 0 and 1.
    """
    se, df = np.broadcast_arrays(np.asarray(se, dtype=np.float64), np.asarray(df, dtype=np.float64))
    distinct, where = np.unique(df, return_inverse=True)
    return np.asarray(se * _noncentrality(distinct, alpha, power)[where].reshape(se.shape))


def pairs_needed_t(
    delta: float, variance: ArrayLike, *, alpha: float = 0.05, power: float = 0.8, most: int = 10**9
) -> Floats:
    """Fewest pairs n at which `detectable_t(sqrt(variance / n), n - 1)` is at most delta, elementwise; by bisection over whole n.

    Args:
        delta: Difference to detect, above 0.
        variance: Of one pair's difference.
        alpha: Two-sided level.
        power: Chance to detect delta.
        most: No more than this many.

    Returns:
        Whole numbers of at least 2, of the shape of `variance`; nan where that is nan or more than `most` are needed.

    Raises:
        StatsError: delta is not above 0, a level or power not between 0 and 1.
    """
    if not (np.isfinite(delta) and delta > 0):
        raise refuse("bad_option", f"delta is {delta}; name the difference that would matter, such as 0.03")
    spread = np.asarray(variance, dtype=np.float64)

    def enough(n: Floats) -> Floats:
        return np.asarray(detectable_t(np.sqrt(spread / n), n - 1, alpha=alpha, power=power) <= delta)

    # `above` shows delta, `below` does not, as far as is known: nan never does.
    above, below = np.full(spread.shape, float(most)), np.full(spread.shape, 1.0)
    solved = enough(above)
    while (above - below > 1).any():
        middle = np.floor((above + below) / 2)
        shown = enough(np.maximum(middle, 2))
        above, below = np.where(shown, middle, above), np.where(shown, below, middle)
    return np.where(solved, np.maximum(above, 2), np.nan)


def mcnemar_power(
    p10: float, p01: float, pairs: int, *, alpha: float = 0.05, target_power: float = 0.8
) -> McNemarPower:
    """Power of McNemar's tests over n pairs of pass and fail.

    Asymptotic (Connor 1987): `n = (z_{a/2} sqrt(p) + z_b sqrt(p - d^2))^2 / d^2` with p = p10 + p01 and d = p10 - p01. Exact and mid-p:
    sum over the discordant pairs m ~ Bin(n, p) and b | m ~ Bin(m, p10 / p) of the tables that the test rejects.

    Args:
        p10: Chance that only the candidate passes a task.
        p01: Chance that only the baseline passes it.
        pairs: Tasks, one trial an arm.
        alpha: Two-sided level.
        target_power: Power that `n_required_asymptotic` is for.

    Raises:
        StatsError: Chances outside [0, 1], with a sum of 0 or above 1; no pairs; a level or power not between 0 and 1.
    """
    n = int(whole("pairs", pairs, low=1))
    p, d = p10 + p01, p10 - p01
    if not (min(p10, p01) >= 0 and 0 < p <= 1):
        raise refuse("bad_option", f"p10 {p10} and p01 {p01}; use chances of at least 0 with a sum above 0 and up to 1")
    between("alpha", alpha, 0, 1)
    between("target_power", target_power, 0, 1)
    required, asymptotic = _connor(p, d, n, alpha, target_power) if d else (None, None)
    return McNemarPower(required, asymptotic, *_enumerated(p10 / p, p, n, alpha))


def unpaired_proportions(
    p_baseline: float, p_candidate: float, *, alpha: float = 0.05, power: float = 0.8
) -> ProportionNumber:
    """Units of each arm that two unpaired pass rates need: Cohen's h and `statsmodels` `NormalIndPower`, two-sided.

    Raises:
        StatsError: Rates outside [0, 1] or equal, a level or power out of range.
    """
    from statsmodels.stats.power import NormalIndPower
    from statsmodels.stats.proportion import proportion_effectsize

    if not (0 <= p_baseline <= 1 and 0 <= p_candidate <= 1) or p_baseline == p_candidate:
        raise refuse(
            "bad_option", f"p_baseline {p_baseline}, p_candidate {p_candidate}; use two different rates in [0, 1]"
        )
    between("alpha", alpha, 0, 1)
    between("power", power, alpha, 1)
    h = float(proportion_effectsize(p_candidate, p_baseline))
    return ProportionNumber(
        h, _solved(NormalIndPower(), effect_size=h, nobs1=None, alpha=alpha, power=power, ratio=1.0)
    )


def _trials(
    omega2: ArrayLike,
    va: ArrayLike,
    vb: ArrayLike,
    ka: ArrayLike,
    kb: ArrayLike,
    alpha: float,
    power: float,
) -> tuple[float, Floats]:
    from scipy.special import ndtri

    z = float(ndtri(1 - between("alpha", alpha, 0, 1) / 2) + ndtri(between("power", power, 0, 1)))
    within_baseline = at_least_zero("sigma2_baseline", va) / whole("trials_baseline", ka, low=1)
    within_candidate = at_least_zero("sigma2_candidate", vb) / whole("trials_candidate", kb, low=1)
    variance = np.asarray(at_least_zero("omega2", omega2) + within_baseline + within_candidate)
    if not variance.all():
        raise refuse("zero_width", "omega2 and both within-task variances are 0: any difference would be certain")
    return z, variance


def _noncentrality(df: Floats, alpha: float, power: float) -> Floats:
    from scipy.special import nctdtrinc, stdtrit

    between("alpha", alpha, 0, 1)
    between("power", power, 0, 1)
    known = df >= 1
    limit = stdtrit(np.where(known, df, 1), 1 - alpha / 2)
    # Beyond this the series of the noncentral t does not end in reasonable time.
    known &= limit < _LARGEST_T
    found = nctdtrinc(np.where(known, df, 1e6), 1 - power, np.where(known, limit, 1.96))
    return np.where(known, found, np.nan)


def _solved(model: object, **known: object) -> float:
    import warnings

    with warnings.catch_warnings():
        # Statsmodels warns and returns nan where its search fails.
        warnings.simplefilter("ignore")
        try:
            value = float(np.squeeze(model.solve_power(**known)))  # type: ignore[attr-defined]
        except (ValueError, RuntimeError) as error:
            raise refuse("bad_option", f"no solution: {error}") from error
    if not np.isfinite(value):
        asked = {k: v for k, v in known.items() if v is not None}
        raise refuse(
            "bad_option", f"no solution for {asked}: the smallest design is already beyond it, or no design reaches it"
        )
    return value


def _t_power(shift: float, df: float, alpha: float, alternative: Alternative) -> float:
    """Chance that a noncentral t lies beyond the limits of a test."""
    from scipy.special import nctdtr, stdtrit

    limit = float(stdtrit(df, 1 - (alpha / 2 if alternative == "two-sided" else alpha)))
    # Where the series does not end, the tail is 0 or 1 to the last digit.
    above, below = (float(nctdtr(df, side * shift, -limit)) for side in (-1, 1))
    above = float(shift > limit) if np.isnan(above) else above
    below = float(-shift > limit) if np.isnan(below) else below
    return {"two-sided": above + below, "larger": above, "smaller": below}[alternative]


def _crossing(gap: Callable[[float], float], low: float, asked: Mapping[str, object]) -> float:
    """Where a growing gap is 0, above `low`."""
    from scipy.optimize import brentq

    high, below = low + 1.0, gap(low)
    while below < 0 and gap(high) < 0 and high < _FURTHEST:
        high *= 2
    if not (below < 0 <= gap(high)):
        raise refuse(
            "bad_option", f"no solution for {asked}: the smallest design is already beyond it, or no design reaches it"
        )
    return float(brentq(gap, low, high, xtol=1e-14, rtol=1e-13))


def _connor(p: float, d: float, n: int, alpha: float, power: float) -> tuple[int, float]:
    from scipy.special import ndtr, ndtri

    z, rest = float(ndtri(1 - alpha / 2)), float(np.sqrt(max(p - d * d, 0.0)))
    required = int(np.ceil((z * np.sqrt(p) + float(ndtri(power)) * rest) ** 2 / d**2))
    reach = abs(d) * np.sqrt(n) - z * np.sqrt(p)
    # Without spread of the difference the outcome is certain.
    return required, float(ndtr(reach / rest)) if rest else float(reach > 0)


def _enumerated(share: float, p: float, n: int, alpha: float) -> tuple[float, float]:
    """Power of the exact and the mid-p test; `share` is the chance that a discordant pair is the candidate's."""
    from scipy.stats import binom

    m = np.arange(n + 1)
    chance = binom.pmf(m, n, p)
    # The exact test rejects min(b, c) up to the last r with 2 P(X <= r) <= alpha, mid-p perhaps one more.
    first = binom.ppf(alpha / 2, m, 0.5).astype(np.int64)
    below, at = binom.cdf(first - 1, m, 0.5), binom.pmf(first, m, 0.5)

    def power(last: Ints) -> float:
        tails = binom.cdf(last, m, share) + binom.sf(m - last - 1, m, share)
        return float(chance @ tails)

    exact = first - (2 * (below + at) > alpha)
    mid = first - (2 * (below + at / 2) > alpha)
    return power(exact), power(mid)
