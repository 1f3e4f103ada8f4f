"""Standard errors of a mean whose units come in clusters (tasks of one repository, questions on one text)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from expcomp.stats.inputs import ROUNDING, Floats, Ints, Labels, Numbers, codes, finite, level, refuse, spread
from expcomp.stats.interval import Interval, t_interval


@dataclass(frozen=True)
class ClusteredEstimate:
    """A mean of clustered scores.

    Attributes:
        n: Units.
        clusters: Clusters, G.
        mean: Mean over the units.
        se_clt: Standard error as if the units were independent.
        se_miller: Miller 2024: `sqrt(se_clt^2 + sum over clusters of sum_{i != j} e_i e_j / n^2)`.
        se_cr0: Cluster-robust without a correction: `sqrt(sum over clusters of (sum e_i)^2) / n`.
        se_cr1: The same times `sqrt(G / (G - 1))`; the one to use.
        deff: Design effect `(se_cr1 / se_clt)^2`: how many times more units the clusters cost.
        df: Degrees of freedom, G - 1.
        t: Interval of `se_cr1` and Student's t.
        ms_between: Mean square between clusters of a one-way analysis of variance.
        ms_within: Mean square within clusters; None when no cluster has two units.
        n0: Its effective cluster size `(n - sum n_c^2 / n) / (G - 1)`.
        icc: Intraclass correlation `(ms_between - ms_within) / (ms_between + (n0 - 1) ms_within)`; None without `ms_within`.
    """

    n: int
    clusters: int
    mean: float
    se_clt: float
    se_miller: float
    se_cr0: float
    se_cr1: float
    deff: float
    df: int
    t: Interval
    ms_between: float
    ms_within: float | None
    n0: float
    icc: float | None


def clustered_se(scores: Numbers, clusters: Labels, *, confidence: float = 0.95) -> ClusteredEstimate:
    """Mean of clustered scores with the standard errors in use.

    Miller, "Adding error bars to evals" (2024), section 2.2; CR1 is what inspect_ai's `stderr(cluster=)` and
    `statsmodels OLS(...).fit(cov_type="cluster")` on a constant give. With fewer than about ten clusters all of them are too
    small: see `cluster_sign_flip`.

    Args:
        scores: Shape (n,).
        clusters: The cluster of each score, shape (n,).
        confidence: Of the interval.

    Raises:
        StatsError: Fewer than 2 clusters, a missing label or non-finite score, or no spread of the scores or of the clusters' sums.
    """
    level(confidence)
    x = spread(finite(scores, "scores", at_least=2), "scores")
    code, g = codes(clusters, x.size)
    return from_codes(x, code, g, confidence)


def from_codes(x: Floats, code: Ints, g: int, confidence: float, *, scale: float | None = None) -> ClusteredEstimate:
    """`clustered_se` of checked scores and cluster codes 0..g-1; `scale` as in `inputs.spread`."""
    n, mean = x.size, float(x.mean())
    e = x - mean
    sums, sizes = np.bincount(code, e, minlength=g), np.bincount(code, minlength=g)
    reference = float(np.max(np.abs(x))) if scale is None else scale
    if np.ptp(np.bincount(code, x, minlength=g) / sizes) <= ROUNDING * reference:
        raise refuse("zero_width", f"the {g} clusters have equal means, so nothing measures their spread")
    total, between = float(e @ e), float(sums @ sums)
    var_clt = total / (n - 1) / n
    cr0 = between / n**2
    cr1 = cr0 * g / (g - 1)
    ms_between = float(np.sum(sums**2 / sizes)) / (g - 1)
    ms_within = max(0.0, total - ms_between * (g - 1)) / (n - g) if n > g else None
    n0 = float(n - np.sum(sizes**2) / n) / (g - 1)
    return ClusteredEstimate(
        n=n,
        clusters=g,
        mean=mean,
        se_clt=float(np.sqrt(var_clt)),
        se_miller=float(np.sqrt(var_clt + (between - total) / n**2)),
        se_cr0=float(np.sqrt(cr0)),
        se_cr1=float(np.sqrt(cr1)),
        deff=cr1 / var_clt,
        df=g - 1,
        t=t_interval(mean, float(np.sqrt(cr1)), g - 1, confidence),
        ms_between=ms_between,
        ms_within=ms_within,
        n0=n0,
        icc=None if ms_within is None else (ms_between - ms_within) / (ms_between + (n0 - 1) * ms_within),
    )
