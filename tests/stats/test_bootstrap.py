"""Bootstrap of one mean: all resamples against plain enumeration, random ones against scipy."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from expcomp.errors import StatsError
from expcomp.stats.bootstrap import bootstrap_exhaustive_clusters, bootstrap_exhaustive_mean, bootstrap_monte_carlo

WHOLE = st.lists(st.integers(-9, 9), min_size=2, max_size=5).filter(lambda w: len(set(w)) > 1)


@given(WHOLE, st.sampled_from([0.8, 0.95]))
def test_every_resample_counts_once(whole, confidence):
    result = bootstrap_exhaustive_mean(np.array(whole) / 8, confidence=confidence)
    means = np.array([np.mean(draw) for draw in product(np.array(whole) / 8, repeat=len(whole))])
    tails = ((1 - confidence) / 2, (1 + confidence) / 2)
    assert result.resamples == means.size
    assert result.se == pytest.approx(means.std())
    assert tuple(result.percentile) == pytest.approx(tuple(np.quantile(means, tails)))
    assert tuple(result.bca) == pytest.approx(tuple(np.quantile(means, tuple(result.bca_levels))))
    own = np.mean(whole) / 8
    share = ((means < own - 1e-9).mean() + (means <= own + 1e-9).mean()) / 2
    assert result.z0 == pytest.approx(stats.norm.ppf(share), abs=1e-12)


@given(WHOLE, st.integers(1, 4))
def test_clusters_of_one_size_are_units(whole, size):
    d = np.array(whole) / 8
    units, clusters = bootstrap_exhaustive_mean(d), bootstrap_exhaustive_clusters(d * size, np.full(d.size, size))
    assert tuple(clusters.bca) == pytest.approx(tuple(units.bca))
    assert clusters.acceleration == pytest.approx(units.acceleration, abs=1e-12)


def test_cluster_sizes_weigh():
    sums, sizes = [1.0, 0.2, -0.3, 0.9], [3, 1, 2, 5]
    draws = np.array(list(product(range(4), repeat=4)))
    ratios = np.array(sums)[draws].sum(axis=1) / np.array(sizes)[draws].sum(axis=1)
    result = bootstrap_exhaustive_clusters(sums, sizes)
    assert result.se == pytest.approx(ratios.std())
    assert tuple(result.percentile) == pytest.approx(tuple(np.quantile(ratios, (0.025, 0.975))))


@pytest.mark.parametrize("n", [7, 25])
def test_random_resamples_are_those_of_scipy(n):
    d = np.round(np.random.default_rng(n).normal(0.1, 0.4, n), 3)
    result = bootstrap_monte_carlo(d, resamples=2000, seed=5, confidence=0.9)
    for method, interval in (("percentile", result.percentile), ("basic", result.basic), ("BCa", result.bca)):
        run = stats.bootstrap(
            (d,), np.mean, n_resamples=2000, confidence_level=0.9, method=method, rng=np.random.default_rng(5)
        )
        assert tuple(interval) == pytest.approx(tuple(run.confidence_interval), rel=1e-12)
        assert result.se == run.standard_error


@settings(max_examples=10)
@given(st.integers(0, 1000))
def test_random_resamples_come_close_to_all_of_them(seed):
    d = [0.05, 0.6, 0.1, 0.02, 0.08, 0.15, 0.3]
    every, some = bootstrap_exhaustive_mean(d), bootstrap_monte_carlo(d, resamples=20_000, seed=seed)
    assert tuple(some.bca) == pytest.approx(tuple(every.bca), abs=0.02)
    assert some.se == pytest.approx(every.se, rel=0.05)


@pytest.mark.parametrize(("resamples", "confidence"), [(39, 0.95), (199, 0.99)])
def test_too_few_resamples_for_a_tail_are_refused(resamples, confidence):
    with pytest.raises(StatsError, match=f"at least {resamples + 1}"):
        bootstrap_monte_carlo([1.0, 2.0, 4.0], resamples=resamples, confidence=confidence)
    bootstrap_monte_carlo([1.0, 2.0, 4.0], resamples=resamples + 1, confidence=confidence)
