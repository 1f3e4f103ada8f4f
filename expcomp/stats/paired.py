"""The difference of two arms over the same units."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from expcomp.stats.clusters import ClusteredEstimate, from_codes
from expcomp.stats.inputs import Floats, Labels, Numbers, codes, level, pair, spread
from expcomp.stats.interval import Interval, normal_interval


@dataclass(frozen=True)
class PairedDifference:
    """Mean difference of paired scores, candidate minus baseline.

    Attributes:
        n: Pairs.
        mean: Mean difference.
        sd: Standard deviation of the differences, divided by n - 1.
        se: `sd / sqrt(n)`.
        se_unpaired: What two independent samples of these scores would have: `sqrt((var_a + var_b) / n)`.
        correlation: Of the arms, Pearson; None when an arm is constant.
        statistic: t.
        df: n - 1.
        p_two_sided: Of no difference.
        p_greater: Of no difference against the candidate being better.
        t: Interval of Student's t.
        normal: Normal interval.
        dz: Standardised effect `mean / sd`.
    """

    n: int
    mean: float
    sd: float
    se: float
    se_unpaired: float
    correlation: float | None
    statistic: float
    df: int
    p_two_sided: float
    p_greater: float
    t: Interval
    normal: Interval
    dz: float


@dataclass(frozen=True)
class PairedClustered:
    """Mean difference of paired scores whose units come in clusters.

    Attributes:
        estimate: Of the differences; its mean is the mean difference.
        statistic: t of `estimate.se_cr1` with `estimate.df` degrees of freedom.
        p_two_sided: Of no difference.
        p_greater: Of no difference against the candidate being better.
    """

    estimate: ClusteredEstimate
    statistic: float
    p_two_sided: float
    p_greater: float


def differences(baseline: Numbers, candidate: Numbers) -> tuple[Floats, Floats, Floats]:
    """Both arms and candidate minus baseline, each of shape (n,).

    Raises:
        StatsError: Fewer than 2 pairs, arms of different length, a non-finite score, or all differences equal.
    """
    a, b = pair(baseline, candidate)
    return a, b, spread(b - a, "candidate - baseline", scale=_magnitude(a, b))


def _magnitude(a: Floats, b: Floats) -> float:
    return float(max(np.max(np.abs(a)), np.max(np.abs(b))))


def paired_difference(baseline: Numbers, candidate: Numbers, *, confidence: float = 0.95) -> PairedDifference:
    """Paired t test and interval (`scipy.stats.ttest_rel`): `SE = sd(d) / sqrt(n)`, so `SE^2 = SEa^2 + SEb^2 - 2 r SEa SEb`.

    Args:
        baseline: Score of each unit in the baseline arm, shape (n,).
        candidate: Score of the same units, in the same order.
        confidence: Of the intervals.

    Raises:
        StatsError: As `differences`.
    """
    from scipy.stats import ttest_rel

    level(confidence)
    a, b, d = differences(baseline, candidate)
    n, mean, sd = d.size, float(d.mean()), float(d.std(ddof=1))
    se = sd / float(np.sqrt(n))
    test = ttest_rel(b, a)
    low, high = test.confidence_interval(confidence)
    varies = bool(np.ptp(a) > 0 and np.ptp(b) > 0)
    return PairedDifference(
        n=n,
        mean=mean,
        sd=sd,
        se=se,
        se_unpaired=float(np.sqrt((a.var(ddof=1) + b.var(ddof=1)) / n)),
        correlation=float(np.corrcoef(a, b)[0, 1]) if varies else None,
        statistic=float(test.statistic),
        df=n - 1,
        p_two_sided=float(test.pvalue),
        p_greater=float(ttest_rel(b, a, alternative="greater").pvalue),
        t=Interval(float(low), float(high)),
        normal=normal_interval(mean, se, confidence),
        dz=mean / sd,
    )


def paired_clustered(
    baseline: Numbers, candidate: Numbers, clusters: Labels, *, confidence: float = 0.95
) -> PairedClustered:
    """Clustered standard error of the differences, t with G - 1 degrees of freedom.

    Equal to `statsmodels OLS(difference ~ 1).fit(cov_type="cluster")`, see `clustered_se`.

    Args:
        baseline: Score of each unit in the baseline arm, shape (n,).
        candidate: Score of the same units, in the same order.
        clusters: Cluster of each unit.
        confidence: Of the interval.

    Raises:
        StatsError: As `differences` and `clustered_se`.
    """
    from scipy.special import stdtr

    level(confidence)
    a, b, d = differences(baseline, candidate)
    code, g = codes(clusters, d.size)
    estimate = from_codes(d, code, g, confidence, scale=_magnitude(a, b))
    statistic = estimate.mean / estimate.se_cr1
    return PairedClustered(
        estimate=estimate,
        statistic=statistic,
        p_two_sided=2 * float(stdtr(estimate.df, -abs(statistic))),
        p_greater=float(stdtr(estimate.df, -statistic)),
    )
