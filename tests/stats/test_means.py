"""Means, clustered means and paired differences against scipy and statsmodels, and what must not change them."""

from __future__ import annotations

import numpy as np
import pytest
import statsmodels.api as sm
from hypothesis import given
from scipy import stats

from expcomp.stats.clusters import clustered_se
from expcomp.stats.means import mean_se
from expcomp.stats.paired import paired_clustered, paired_difference
from tests.stats.samples import arms, clustered


def close(x, **kwargs):
    return pytest.approx(x, rel=1e-9, abs=1e-12, **kwargs)


@given(arms())
def test_the_mean_and_its_t_interval_are_those_of_scipy(sample):
    a, b = sample
    estimate, test = mean_se(b - a, confidence=0.9), stats.ttest_1samp(b - a, 0)
    assert (estimate.mean, estimate.se) == close(((b - a).mean(), stats.sem(b - a)))
    assert tuple(estimate.t) == close(tuple(test.confidence_interval(0.9)))
    assert tuple(estimate.normal) == close(stats.norm.interval(0.9, estimate.mean, estimate.se))


@given(arms())
def test_a_paired_difference_is_the_mean_of_the_differences(sample):
    a, b = sample
    paired, mean, test = paired_difference(a, b), mean_se(b - a), stats.ttest_rel(b, a)
    assert (paired.mean, paired.se, *paired.t) == close((mean.mean, mean.se, *mean.t))
    assert (paired.statistic, paired.p_two_sided) == close((test.statistic, test.pvalue))
    assert min(paired.p_greater, 1 - paired.p_greater) == close(paired.p_two_sided / 2)
    assert paired.dz == close(paired.statistic / np.sqrt(paired.n))


@given(arms())
def test_swapping_the_arms_negates_the_difference(sample):
    a, b = sample
    there, back = paired_difference(a, b), paired_difference(b, a)
    assert (back.mean, back.se, back.p_two_sided) == close((-there.mean, there.se, there.p_two_sided))
    assert tuple(back.t) == close((-there.t.high, -there.t.low))


@given(arms())
def test_the_paired_error_is_the_unpaired_one_less_the_correlation(sample):
    a, b = sample
    paired = paired_difference(a, b)
    if paired.correlation is None:
        assert np.ptp(a) == 0 or np.ptp(b) == 0
    else:
        covered = 2 * paired.correlation * stats.sem(a) * stats.sem(b)
        assert paired.se**2 == pytest.approx(paired.se_unpaired**2 - covered, abs=1e-12)


@given(clustered())
def test_the_clustered_error_is_the_one_of_a_regression_on_a_constant(sample):
    d, labels = sample
    estimate = clustered_se(d, labels)
    for corrected, se in ((True, estimate.se_cr1), (False, estimate.se_cr0)):
        fit = sm.OLS(d, np.ones_like(d)).fit(
            cov_type="cluster", cov_kwds={"groups": labels, "use_correction": corrected, "df_correction": True}
        )
        assert se == close(fit.bse[0])


@given(clustered())
def test_the_clustered_error_of_miller_is_its_double_sum(sample):
    d, labels = sample
    estimate, e = clustered_se(d, labels), d - d.mean()
    same = labels[:, None] == labels[None, :]
    cross = (np.outer(e, e) * (same & ~np.eye(d.size, dtype=bool))).sum()
    assert estimate.se_miller == close(np.sqrt(estimate.se_clt**2 + cross / d.size**2))


@given(clustered())
def test_the_intraclass_correlation_is_the_one_of_a_one_way_analysis(sample):
    d, labels = sample
    estimate, groups = clustered_se(d, labels), [d[labels == k] for k in set(labels.tolist())]
    if estimate.ms_within is None:
        assert estimate.icc is None
        assert estimate.clusters == d.size
    elif estimate.ms_within > 1e-12:
        assert estimate.ms_between / estimate.ms_within == pytest.approx(stats.f_oneway(*groups).statistic, rel=1e-6)
        assert estimate.icc <= 1


@given(arms(least=3))
def test_clusters_of_one_unit_change_nothing(sample):
    a, b = sample
    single, plain = paired_clustered(a, b, np.arange(a.size)), paired_difference(a, b)
    assert single.estimate.se_cr1 == close(plain.se)
    assert single.estimate.deff == close(1.0)
    assert (*single.estimate.t, single.p_two_sided, single.p_greater) == close(
        (*plain.t, plain.p_two_sided, plain.p_greater)
    )


@given(clustered())
def test_the_names_of_clusters_and_the_order_of_units_change_nothing(sample):
    d, labels = sample
    order = np.argsort(d, kind="stable")
    one, other = clustered_se(d, labels), clustered_se(d[order], [f"c{9 - k}" for k in labels[order]])
    assert (one.mean, one.se_cr1, one.n0) == close((other.mean, other.se_cr1, other.n0))
