"""Two arms that pass or fail the same tasks once: a table of four counts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from expcomp.stats.inputs import counts, level
from expcomp.stats.interval import Interval, z_quantile
from expcomp.stats.tango import tango_limits


@dataclass(frozen=True)
class McNemar:
    """Tests of equal pass rates from the discordant tasks.

    Attributes:
        b: Tasks that only the candidate passes.
        c: Tasks that only the baseline passes.
        discordant: b + c.
        p_exact: `min(1, 2 P(X <= min(b, c)))`, X binomial of b + c and 1/2.
        p_mid: `2 (P(X < min) + P(X = min) / 2)`; 1 when b = c.
        p_greater: `P(X >= b)`, against the candidate being better.
        probability_better: `P(rate of b > rate of c)` under a uniform prior: Beta(b + 1, c + 1) above 1/2.
        chi2: `(b - c)^2 / (b + c)`; this and the next three are None without a discordant task.
        p_chi2: Its p-value with one degree of freedom.
        chi2_corrected: `(|b - c| - 1)^2 / (b + c)`.
        p_chi2_corrected: Its p-value.
    """

    b: int
    c: int
    discordant: int
    p_exact: float
    p_mid: float
    p_greater: float
    probability_better: float
    chi2: float | None
    p_chi2: float | None
    chi2_corrected: float | None
    p_chi2_corrected: float | None


@dataclass(frozen=True)
class RiskDifference:
    """Difference of two pass rates over the same tasks, candidate minus baseline, with the intervals in use.

    Attributes:
        n: Tasks.
        difference: `(b - c) / n`.
        tango: Score interval (Tango 1998); the one to decide on.
        bonett_price: Wald with one task added to b and c (Bonett and Price 2012).
        newcombe: Square-and-add of the Wilson limits with the correlation `phi` (Newcombe 1998, method 10 without its correction).
        newcombe_corrected: The same with `phi_corrected` (method 10).
        exact_conditional: `(2 p - 1) (b + c) / n` with p's Clopper-Pearson limits given b + c; None without a discordant task.
        wald: `difference -+ z sqrt(b + c - (b - c)^2 / n) / n`; too narrow, and of zero width without a discordant task.
        phi: Correlation of the arms; 0 when an arm passes all or none.
        phi_corrected: The same with its positive numerator moved towards 0 by n / 2.
    """

    n: int
    difference: float
    tango: Interval
    bonett_price: Interval
    newcombe: Interval
    newcombe_corrected: Interval
    exact_conditional: Interval | None
    wald: Interval
    phi: float
    phi_corrected: float


def mcnemar(candidate_only: int, baseline_only: int) -> McNemar:
    """McNemar's tests (`statsmodels mcnemar`, `scipy.stats.binom`, `scipy.stats.beta`).

    Raises:
        StatsError: A count is negative or no whole number.
    """
    from scipy.stats import beta, binom
    from statsmodels.stats.contingency_tables import mcnemar as test

    b, c = _cells(candidate_only, baseline_only)
    table, m = np.array([[0, b], [c, 0]]), b + c
    chi2 = test(table, exact=False, correction=False) if m else None
    corrected = test(table, exact=False, correction=True) if m else None
    return McNemar(
        b=b,
        c=c,
        discordant=m,
        p_exact=min(1.0, float(test(table, exact=True).pvalue)) if m else 1.0,
        p_mid=float(mid_p(np.array([b]), np.array([c]))[0]),
        p_greater=float(binom.sf(b - 1, m, 0.5)),
        probability_better=float(beta.sf(0.5, b + 1, c + 1)),
        chi2=None if chi2 is None else float(chi2.statistic),
        p_chi2=None if chi2 is None else float(chi2.pvalue),
        chi2_corrected=None if corrected is None else float(corrected.statistic),
        p_chi2_corrected=None if corrected is None else float(corrected.pvalue),
    )


def mid_p(b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """McNemar's mid-p of checked counts, elementwise: `2 (P(X < min) + P(X = min) / 2)`."""
    from scipy.stats import binom

    low, m = np.minimum(b, c), b + c
    return np.asarray(np.minimum(1.0, 2 * binom.cdf(low - 1, m, 0.5) + binom.pmf(low, m, 0.5)))


def risk_difference(
    both_pass: int, candidate_only: int, baseline_only: int, both_fail: int, *, confidence: float = 0.95
) -> RiskDifference:
    """Intervals of a paired difference of pass rates.

    Args:
        both_pass: Tasks that both arms pass.
        candidate_only: b, tasks that only the candidate passes.
        baseline_only: c, tasks that only the baseline passes.
        both_fail: Tasks that neither passes.
        confidence: Of the intervals.

    Raises:
        StatsError: The table is empty, or a count is negative or no whole number.
    """
    level(confidence)
    a, b, c, d = counts(
        "table", both_pass=both_pass, candidate_only=candidate_only, baseline_only=baseline_only, both_fail=both_fail
    )
    n = a + b + c + d
    low, high = tango_limits(np.array([float(b)]), np.array([float(c)]), np.array([float(n)]), confidence)
    product = (a + b) * (c + d) * (a + c) * (b + d)
    determinant = a * d - b * c
    shrunk = max(determinant - n / 2, 0) if determinant > 0 else determinant
    phi, phi_corrected = (x / product**0.5 if product else 0.0 for x in (determinant, shrunk))
    return RiskDifference(
        n=n,
        difference=(b - c) / n,
        tango=Interval(float(low[0]), float(high[0])),
        bonett_price=_wald(b + 1, c + 1, n + 2, confidence),
        newcombe=_square_and_add(a + b, a + c, n, phi, confidence),
        newcombe_corrected=_square_and_add(a + b, a + c, n, phi_corrected, confidence),
        exact_conditional=_conditional(b, c, n, confidence) if b + c else None,
        wald=_wald(b, c, n, confidence),
        phi=phi,
        phi_corrected=phi_corrected,
    )


def _cells(b: int, c: int) -> tuple[int, int]:
    # All of a sample may be concordant, so that both counts are 0: the table is not empty then.
    cells = counts("discordant tasks", candidate_only=b, baseline_only=c, other=1)
    return cells[0], cells[1]


def _wald(b: int, c: int, n: int, confidence: float) -> Interval:
    difference = (b - c) / n
    half = z_quantile(confidence) * float(np.sqrt(b + c - (b - c) ** 2 / n)) / n
    return Interval(difference - half, difference + half)


def _square_and_add(candidate: int, baseline: int, n: int, phi: float, confidence: float) -> Interval:
    from statsmodels.stats.proportion import proportion_confint

    low1, high1 = proportion_confint(candidate, n, alpha=1 - confidence, method="wilson")
    low2, high2 = proportion_confint(baseline, n, alpha=1 - confidence, method="wilson")
    p1, p2 = candidate / n, baseline / n

    def distance(x: float, y: float) -> float:
        return float(np.sqrt(max(x**2 - 2 * phi * x * y + y**2, 0)))

    return Interval(p1 - p2 - distance(p1 - low1, high2 - p2), p1 - p2 + distance(high1 - p1, p2 - low2))


def _conditional(b: int, c: int, n: int, confidence: float) -> Interval:
    from statsmodels.stats.proportion import proportion_confint

    low, high = proportion_confint(b, b + c, alpha=1 - confidence, method="beta")
    return Interval((2 * float(low) - 1) * (b + c) / n, (2 * float(high) - 1) * (b + c) / n)
