"""Exact tests of paired differences: every flip of the signs is visited, so there is no approximation to trust."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from expcomp.stats.inputs import Floats, Labels, Numbers, codes, finite, refuse

# Each half of the units gives 2^(n/2) sums; 40 nonzero units need two sorted halves of 2^20.
MAX_UNITS = 40


@dataclass(frozen=True)
class SignFlip:
    """Test of the mean by flipping the signs of whole units.

    Attributes:
        units: Units or clusters, those of a zero difference counted.
        mean: Mean difference observed.
        p_greater: Share of the flips whose sum is at least the observed one.
        p_two_sided: Share whose sum is at least as far from 0.
    """

    units: int
    mean: float
    p_greater: float
    p_two_sided: float


@dataclass(frozen=True)
class ExactPaired:
    """Three exact tests of paired differences, from the fewest to the most assumptions.

    Attributes:
        positive: Units above 0.
        negative: Units below 0.
        ties: Units of no difference; they count in none of the tests.
        sign_p_two_sided: Sign test: positive units are binomial of positive + negative and 1/2.
        sign_p_greater: Of it, one-sided.
        w_plus: Wilcoxon's sum of the ranks of the positive units, average ranks.
        rank_p_greater: Signed-rank test, one-sided.
        rank_p_two_sided: Signed-rank test.
        flip: Sign-flip test of the mean. It assumes a symmetric distribution under no difference: few large losses among many small
            gains make it find an effect that is not there.
    """

    positive: int
    negative: int
    ties: int
    sign_p_two_sided: float
    sign_p_greater: float
    w_plus: float
    rank_p_greater: float
    rank_p_two_sided: float
    flip: SignFlip


def exact_paired_tests(differences: Numbers) -> ExactPaired:
    """Sign test (`scipy.stats.binomtest`), signed-rank test by its exact distribution, and sign-flip test of the mean.

    Args:
        differences: Candidate minus baseline by unit, shape (n,).

    Raises:
        StatsError: No unit, a non-finite one, or more than 40 with a difference.
    """
    from scipy.stats import binomtest

    d = finite(differences, "differences")
    positive, negative = int((d > 0).sum()), int((d < 0).sum())
    m = positive + negative
    rank_greater, rank_two, w_plus = _signed_rank(d)
    return ExactPaired(
        positive=positive,
        negative=negative,
        ties=d.size - m,
        sign_p_two_sided=float(binomtest(positive, m).pvalue) if m else 1.0,
        sign_p_greater=float(binomtest(positive, m, alternative="greater").pvalue) if m else 1.0,
        w_plus=w_plus,
        rank_p_greater=rank_greater,
        rank_p_two_sided=rank_two,
        flip=_flip(d, d.size, float(d.mean())),
    )


def cluster_sign_flip(differences: Numbers, clusters: Labels) -> SignFlip:
    """Sign-flip test of the mean that flips whole clusters, 2^G flips; for a few clusters, where `clustered_se` is too small.

    Args:
        differences: Candidate minus baseline by unit, shape (n,).
        clusters: Cluster of each unit, shape (n,).

    Raises:
        StatsError: A missing label, a non-finite difference, fewer than 2 clusters, or more than 40 with a sum other than 0.
    """
    d = finite(differences, "differences")
    code, g = codes(clusters, d.size)
    return _flip(np.bincount(code, d, minlength=g).astype(np.float64), g, float(d.mean()))


def _flip(sums: Floats, units: int, mean: float) -> SignFlip:
    """Count the flips by meeting in the middle: sums of one half against sorted sums of the other, exact for 2^n flips in 2^(n/2)."""
    moved = np.abs(sums[sums != 0])
    if moved.size > MAX_UNITS:
        raise refuse(
            "too_many_units", f"{moved.size} units differ, at most {MAX_UNITS} are enumerated; use the t interval"
        )
    observed, slack = float(sums.sum()), 1e-12 * float(moved.sum())
    left, right = _all_sums(moved[::2]), np.sort(_all_sums(moved[1::2]))

    def share(at_least: float) -> float:
        above = right.size - np.searchsorted(right, at_least - slack - left, side="left")
        return int(above.sum()) / (left.size * right.size)

    two = 1.0 if abs(observed) <= slack else 2 * share(abs(observed))
    return SignFlip(units=units, mean=mean, p_greater=share(observed), p_two_sided=two)


def _all_sums(values: Floats) -> Floats:
    """The sums of `values` under every choice of signs, shape (2^n,)."""
    sums = np.zeros(1)
    for value in values:
        sums = np.concatenate([sums - value, sums + value])
    return sums


def _signed_rank(d: Floats) -> tuple[float, float, float]:
    """One- and two-sided p of the signed-rank test, and W+; ties have average ranks, zeros are dropped.

    Twice an average rank is a whole number, so that the distribution of 2 W+ is a convolution over the ranks: exact at any n.
    """
    from scipy.stats import rankdata

    moved = d[d != 0]
    if not moved.size:
        return 1.0, 1.0, 0.0
    doubled = np.rint(2 * rankdata(np.abs(moved))).astype(np.int64)
    chance = np.zeros(int(doubled.sum()) + 1)
    chance[0] = 1.0
    for rank in doubled:
        chance[rank:] += chance[:-rank].copy()
        chance /= 2
    w = int(doubled[moved > 0].sum())
    greater, less = float(chance[w:].sum()), float(chance[: w + 1].sum())
    return min(greater, 1.0), min(1.0, 2 * min(greater, less)), w / 2
