"""Pass and fail: proportions, McNemar, Tango and its companions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.optimize import brentq

from expcomp.errors import StatsError
from expcomp.stats import batch
from expcomp.stats.binary import mcnemar, risk_difference
from expcomp.stats.noninferiority import noninferiority_binary, noninferiority_mean
from expcomp.stats.proportions import METHODS, proportion_ci
from expcomp.stats.tango import constrained_rate
from tests.stats.samples import TABLE, arms

Z = stats.norm.ppf(0.975)
METHODS_OF_TABLES = ["tango", "bonett_price", "newcombe", "newcombe_corrected", "wald"]


def score(b, c, n, d):
    """Tango's statistic, written out."""
    half = b + c - (2 * n - b + c) * d
    q = (half + np.sqrt(max(half**2 + 8 * n * c * d * (1 - d), 0))) / (4 * n)
    return (b - c - n * d) / np.sqrt(n * (2 * q + d * (1 - d)))


@given(TABLE)
@example((0, 0, 7, 0))
@example((0, 7, 0, 0))
@example((3, 0, 0, 4))
@example((0, 3, 4, 0))
@example((1, 0, 1, 0))
def test_tango_is_where_the_score_meets_the_quantile(table):
    _, b, c, _ = table
    n = sum(table)
    low, high = risk_difference(*table).tango
    estimate, edge = (b - c) / n, 1 - 1e-13
    if b < n:
        start = estimate + 1e-12
        assert high == pytest.approx(brentq(lambda d: score(b, c, n, d) + Z, start, edge, xtol=1e-14), abs=1e-9)
    else:
        assert high == 1
    if c < n:
        start = estimate - 1e-12
        assert low == pytest.approx(brentq(lambda d: score(b, c, n, d) - Z, -edge, start, xtol=1e-14), abs=1e-9)
    else:
        assert low == -1


@given(TABLE, st.floats(-0.9, 0.9))
def test_the_constrained_rate_maximises_the_likelihood(table, d):
    _, b, c, _ = table
    n = sum(table)
    q = float(constrained_rate(*(np.array([float(x)]) for x in (b, c, n)), np.array([d]))[0])

    def log_likelihood(rate):
        cells = ((b, rate + d), (c, rate), (n - b - c, 1 - 2 * rate - d))
        return sum(k * np.log(max(p, 1e-300)) for k, p in cells if k)

    grid = np.linspace(max(0, -d), (1 - d) / 2, 400)
    assert log_likelihood(q) >= max(map(log_likelihood, grid)) - 1e-6 * n


@given(TABLE)
def test_swapping_the_arms_mirrors_every_interval(table):
    a, b, c, d = table
    there, back = risk_difference(a, b, c, d), risk_difference(a, c, b, d)
    for method in METHODS_OF_TABLES:
        low, high = getattr(back, method)
        assert (-high, -low) == pytest.approx(tuple(getattr(there, method)), abs=1e-12)
    assert (there.exact_conditional is None) == (b + c == 0)


@given(TABLE)
def test_every_interval_holds_the_difference_and_stays_ordered(table):
    result = risk_difference(*table)
    for method in METHODS_OF_TABLES:
        low, high = getattr(result, method)
        if method != "bonett_price":
            assert low - 1e-12 <= result.difference <= high + 1e-12
        assert low <= high
    assert -1 <= result.tango.low < result.tango.high <= 1


@given(TABLE)
def test_more_confidence_is_a_wider_interval(table):
    narrow, wide = (risk_difference(*table, confidence=c).tango for c in (0.8, 0.99))
    assert wide.low <= narrow.low
    assert narrow.high <= wide.high


def test_without_discordant_tasks_tango_still_has_a_width():
    result = risk_difference(30, 0, 0, 20)
    assert tuple(result.tango) == pytest.approx((-(Z**2) / (50 + Z**2), Z**2 / (50 + Z**2)))
    assert result.exact_conditional is None
    assert result.wald == (0, 0)


@given(st.integers(0, 40), st.integers(0, 40))
def test_mcnemar_is_the_binomial_of_the_discordant_tasks(b, c):
    result, m = mcnemar(b, c), b + c
    if m == 0:
        assert (result.p_exact, result.p_mid, result.p_greater, result.chi2, result.p_chi2) == (1, 1, 1, None, None)
        return
    assert result.p_exact == pytest.approx(stats.binomtest(b, m).pvalue)
    assert result.p_greater == pytest.approx(stats.binomtest(b, m, alternative="greater").pvalue)
    assert result.p_chi2 == pytest.approx(stats.chi2.sf((b - c) ** 2 / m, 1))
    assert result.p_mid == pytest.approx(result.p_exact - stats.binom.pmf(min(b, c), m, 0.5) if b != c else 1)
    assert result.probability_better + mcnemar(c, b).probability_better == pytest.approx(1)


@given(st.integers(0, 50), st.integers(0, 50))
def test_proportions_mirror_and_stay_within_0_and_1(k, rest):
    if k + rest == 0:
        return
    there, back = proportion_ci(k, k + rest), proportion_ci(rest, k + rest)
    for field in (*METHODS.values(), "wilson_corrected"):
        low, high = getattr(there, field)
        assert -1e-15 <= low <= high <= 1 + 1e-15
        if field != "jeffreys":
            assert low - 1e-12 <= there.rate <= high + 1e-12
            assert getattr(back, field) == pytest.approx((1 - high, 1 - low), abs=1e-9)
    for field, method in (("clopper_pearson", "exact"), ("wilson", "wilson"), ("wilson_corrected", "wilsoncc")):
        expected = stats.binomtest(k, k + rest).proportion_ci(method=method)
        assert tuple(getattr(there, field)) == pytest.approx((expected.low, expected.high), abs=1e-9)


@settings(max_examples=20)
@given(st.lists(TABLE, min_size=1, max_size=6))
def test_a_batch_is_its_tables_one_by_one(tables):
    b, c = ([t[i] for t in tables] for i in (1, 2))
    n = [sum(t) for t in tables]
    limits, p = batch.tango(b, c, n, confidence=0.9), batch.mcnemar_mid_p(b, c)
    for i, table in enumerate(tables):
        assert (limits.low[i], limits.high[i]) == risk_difference(*table, confidence=0.9).tango
        assert p[i] == mcnemar(table[1], table[2]).p_mid
    wilson = batch.wilson(b, n)
    assert [tuple(x) for x in zip(*wilson, strict=True)] == [
        pytest.approx(proportion_ci(x, y).wilson, abs=1e-15) for x, y in zip(b, n, strict=True)
    ]


@pytest.mark.parametrize(
    "call",
    [
        lambda: batch.tango([1, 5], [1, 6], [4, 10]),
        lambda: batch.tango([0], [0], [0]),
        lambda: batch.tango([0.5], [0], [3]),
        lambda: batch.mcnemar_mid_p([1, -1], [2, 2]),
        lambda: batch.wilson([3], [2]),
        lambda: batch.wilson([float("nan")], [2]),
    ],
)
def test_a_batch_refuses_counts_that_no_sample_has(call):
    with pytest.raises(StatsError, match=r"comparison|proportion") as refused:
        call()
    assert refused.value.reason == "bad_counts"


@given(TABLE, st.sampled_from([0.02, 0.05, 0.2]))
def test_non_inferior_is_a_lower_limit_above_minus_the_margin(table, margin):
    result = noninferiority_binary(*table, margin=margin)
    if abs(result.lower + margin) > 1e-9:
        assert result.noninferior == (result.lower > -margin)
    assert result.lower == pytest.approx(risk_difference(*table, confidence=0.9).tango.low, abs=1e-12)
    assert result.p == pytest.approx(stats.norm.sf(score(table[1], table[2], sum(table), -margin)), abs=1e-9)


@given(arms(), st.sampled_from([0.02, 0.1, 0.5]))
def test_non_inferior_means_and_equivalence(sample, margin):
    a, b = sample
    result, shifted = (
        noninferiority_mean(a, b, margin=margin),
        stats.ttest_rel(b + margin, a, alternative="greater"),
    )
    assert result.p == pytest.approx(shifted.pvalue, rel=1e-6, abs=1e-9)
    if abs(result.lower + margin) > 1e-9:
        assert result.noninferior == (result.lower > -margin)
    assert result.p_equivalent == pytest.approx(
        max(result.p, stats.ttest_rel(b - margin, a, alternative="less").pvalue), rel=1e-6, abs=1e-9
    )
    assert not result.equivalent or result.noninferior
