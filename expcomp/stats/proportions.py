"""Intervals of one proportion."""

from __future__ import annotations

from dataclasses import dataclass

from expcomp.stats.inputs import counts, level, refuse
from expcomp.stats.interval import Interval


@dataclass(frozen=True)
class ProportionIntervals:
    """A pass rate with the intervals in use, each within 0..1.

    Attributes:
        successes: k.
        n: Trials.
        rate: k / n.
        normal: Wald; of zero width at 0 and n successes and too narrow near them, shown for comparison only.
        agresti_coull: Wald around `(k + z^2 / 2) / (n + z^2)`.
        clopper_pearson: Exact; never covers less than it says.
        wilson: Score interval; the one to use.
        jeffreys: Posterior of a Beta(1/2, 1/2) prior.
        wilson_corrected: Score interval with continuity correction.
    """

    successes: int
    n: int
    rate: float
    normal: Interval
    agresti_coull: Interval
    clopper_pearson: Interval
    wilson: Interval
    jeffreys: Interval
    wilson_corrected: Interval


# Field of `ProportionIntervals` by the name statsmodels has for the method.
METHODS = {
    "normal": "normal",
    "agresti_coull": "agresti_coull",
    "beta": "clopper_pearson",
    "wilson": "wilson",
    "jeffreys": "jeffreys",
}


def proportion_ci(successes: int, n: int, *, confidence: float = 0.95) -> ProportionIntervals:
    """Intervals of a proportion (`statsmodels proportion_confint`, `scipy.stats.binomtest(...).proportion_ci("wilsoncc")`).

    Raises:
        StatsError: No trial, more successes than trials, or a count that is negative or no whole number.
    """
    from scipy.stats import binomtest
    from statsmodels.stats.proportion import proportion_confint

    level(confidence)
    k, total = counts("proportion", successes=successes, n=n)
    if k > total:
        raise refuse("bad_counts", f"{k} successes of {total}")
    by_method = {
        field: Interval(*map(float, proportion_confint(k, total, alpha=1 - confidence, method=method)))
        for method, field in METHODS.items()
    }
    corrected = binomtest(k, total).proportion_ci(confidence, method="wilsoncc")
    return ProportionIntervals(
        successes=k,
        n=total,
        rate=k / total,
        wilson_corrected=Interval(float(corrected.low), float(corrected.high)),
        **by_method,
    )
