"""Whether the candidate is at most a margin worse than the baseline."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from expcomp.stats.inputs import Numbers, counts, level, refuse
from expcomp.stats.paired import differences
from expcomp.stats.tango import excess, tango_limits


@dataclass(frozen=True)
class NoninferiorMean:
    """A paired mean difference against minus the margin.

    Attributes:
        n: Pairs.
        mean: Mean difference, candidate minus baseline.
        se: Its standard error.
        statistic: `(mean + margin) / se`.
        p: One-sided p-value of being worse by the margin or more.
        lower: One-sided lower limit of the difference.
        noninferior: `p < 1 - confidence`, the same as `lower > -margin`.
        p_equivalent: The larger of the two one-sided p-values (TOST) of a difference outside -+ margin.
        equivalent: `p_equivalent < 1 - confidence`.
    """

    n: int
    mean: float
    se: float
    statistic: float
    p: float
    lower: float
    noninferior: bool
    p_equivalent: float
    equivalent: bool


@dataclass(frozen=True)
class NoninferiorBinary:
    """A paired difference of pass rates against minus the margin.

    Attributes:
        n: Tasks.
        difference: `(b - c) / n`.
        statistic: Tango's score at a difference of -margin.
        p: One-sided p-value of being worse by the margin or more.
        lower: One-sided lower limit: that of the two-sided Tango interval of confidence `2 confidence - 1`.
        noninferior: `p < 1 - confidence`, the same as `lower > -margin`.
    """

    n: int
    difference: float
    statistic: float
    p: float
    lower: float
    noninferior: bool


def noninferiority_mean(
    baseline: Numbers, candidate: Numbers, *, margin: float, confidence: float = 0.95
) -> NoninferiorMean:
    """Paired t test against -margin, and two one-sided tests for equivalence (`statsmodels ttost_paired`).

    Args:
        baseline: Score of each unit in the baseline arm, shape (n,).
        candidate: Score of the same units, in the same order.
        margin: What the candidate may be worse by, above 0, in units of the score.
        confidence: One-sided.

    Raises:
        StatsError: A margin that is not above 0, or as `paired.differences`.
    """
    from scipy.special import stdtrit
    from statsmodels.stats.weightstats import ttost_paired

    alpha = 1 - level(confidence)
    _margin(margin)
    a, b, d = differences(baseline, candidate)
    n, mean = d.size, float(d.mean())
    se = float(d.std(ddof=1) / np.sqrt(n))
    p_equivalent, (statistic, p, _), _ = ttost_paired(b, a, -margin, margin)
    return NoninferiorMean(
        n=n,
        mean=mean,
        se=se,
        statistic=float(statistic),
        p=float(p),
        lower=mean - float(stdtrit(n - 1, confidence)) * se,
        noninferior=bool(p < alpha),
        p_equivalent=float(p_equivalent),
        equivalent=bool(p_equivalent < alpha),
    )


def noninferiority_binary(
    both_pass: int,
    candidate_only: int,
    baseline_only: int,
    both_fail: int,
    *,
    margin: float,
    confidence: float = 0.95,
) -> NoninferiorBinary:
    """Tango's score test at -margin: `z = (b - c + n m) / sqrt(n (2 q - m (1 + m)))`, q constrained to that difference.

    Args:
        both_pass: Tasks that both arms pass.
        candidate_only: b, tasks that only the candidate passes.
        baseline_only: c, tasks that only the baseline passes.
        both_fail: Tasks that neither passes.
        margin: What the candidate's pass rate may be lower by, above 0 and below 1.
        confidence: One-sided, above 0.5.

    Raises:
        StatsError: A margin or confidence outside its range, an empty table, or a count that is negative or no whole number.
    """
    from scipy.special import ndtr

    alpha = 1 - level(confidence)
    _margin(margin)
    if margin >= 1 or confidence <= 0.5:
        raise refuse("bad_option", f"margin {margin}, confidence {confidence}: use 0 < margin < 1 and confidence > 0.5")
    a, b, c, d = counts(
        "table", both_pass=both_pass, candidate_only=candidate_only, baseline_only=baseline_only, both_fail=both_fail
    )
    n = a + b + c + d
    cells = (np.array([float(b)]), np.array([float(c)]), np.array([float(n)]))
    numerator, variance = excess(*cells, np.array([-margin]))
    z = float(numerator[0] / np.sqrt(variance[0])) if variance[0] > 0 else float(np.inf) * float(np.sign(numerator[0]))
    p = float(ndtr(-z))
    low, _ = tango_limits(*cells, 2 * confidence - 1)
    return NoninferiorBinary(n=n, difference=(b - c) / n, statistic=z, p=p, lower=float(low[0]), noninferior=p < alpha)


def _margin(margin: float) -> None:
    if not (np.isfinite(margin) and margin > 0):
        raise refuse("bad_option", f"margin is {margin}; use a number above 0, in units of the score")
