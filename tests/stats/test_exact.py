"""Exact tests against plain enumeration and scipy."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from expcomp.stats.exact import cluster_sign_flip, exact_paired_tests

DIFFERENCES = st.lists(st.integers(-6, 6), min_size=1, max_size=9)


def flips(sums):
    return np.array([np.dot(signs, sums) for signs in product((-1, 1), repeat=len(sums))])


@given(DIFFERENCES)
def test_every_flip_is_counted(whole):
    result, every = exact_paired_tests(np.array(whole) / 7).flip, flips(whole)
    assert result.p_greater == (every >= sum(whole)).mean()
    assert result.p_two_sided == (abs(every) >= abs(sum(whole))).mean()
    assert result.units == len(whole)


@given(DIFFERENCES)
def test_every_sign_of_the_ranks_is_counted(whole):
    result, moved = exact_paired_tests(np.array(whole) / 7), np.array([w for w in whole if w])
    ranks = stats.rankdata(abs(moved))
    every = np.array([np.dot(up, ranks) for up in product((0, 1), repeat=len(moved))])
    own = ranks[moved > 0].sum()
    assert result.w_plus == own
    assert result.rank_p_greater == pytest.approx((every >= own).mean())
    middle = ranks.sum() / 2
    assert result.rank_p_two_sided == pytest.approx((abs(every - middle) >= abs(own - middle)).mean())
    assert result.positive + result.negative + result.ties == len(whole)


@given(DIFFERENCES, st.data())
def test_whole_clusters_are_flipped(whole, data):
    labels = data.draw(st.lists(st.sampled_from("abcd"), min_size=len(whole), max_size=len(whole)))
    names = sorted(set(labels))
    if len(names) < 2:
        return
    sums = [sum(w for w, k in zip(whole, labels, strict=True) if k == name) for name in names]
    result, every = cluster_sign_flip(np.array(whole) / 7, labels), flips(sums)
    assert result.p_greater == (every >= sum(whole)).mean()
    assert result.p_two_sided == (abs(every) >= abs(sum(whole))).mean()
    assert result.units == len(names)


def test_forty_units_are_still_exact():
    d = np.linspace(-0.4, 1, 39)
    result = exact_paired_tests(d)
    approximate = stats.permutation_test(
        (d,), np.mean, permutation_type="samples", n_resamples=20_000, alternative="greater", rng=1
    )
    assert result.flip.p_greater == pytest.approx(approximate.pvalue, rel=0.5)
    assert result.rank_p_two_sided == pytest.approx(
        stats.wilcoxon(d + 1e-9 * np.arange(39), method="exact").pvalue, rel=1e-6
    )


def test_no_difference_at_all_is_no_evidence():
    result = exact_paired_tests([0.0, 0.0])
    assert (result.sign_p_two_sided, result.rank_p_two_sided, result.flip.p_two_sided, result.ties) == (1, 1, 1, 2)


@given(DIFFERENCES)
def test_swapping_the_arms_swaps_the_sides(whole):
    d = np.array(whole) / 7
    there, back = exact_paired_tests(d), exact_paired_tests(-d)
    assert (there.positive, there.negative) == (back.negative, back.positive)
    for name in ("sign_p_two_sided", "rank_p_two_sided"):
        assert getattr(there, name) == pytest.approx(getattr(back, name))
    assert there.flip.p_two_sided == back.flip.p_two_sided
