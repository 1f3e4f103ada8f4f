from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import t

from expcomp.errors import StatsError
from expcomp.stats.cost import cost_per_success

units = st.lists(
    st.tuples(st.floats(0.01, 10).map(lambda x: round(x, 2)), st.integers(0, 3)), min_size=3, max_size=25
).filter(lambda u: sum(s for _, s in u) and len({(c, s) for c, s in u}) > 2)


def columns(sample):
    return [c for c, _ in sample], [s for _, s in sample]


@given(units, st.floats(0.1, 100))
def test_the_currency_only_scales_the_figures(sample, rate) -> None:
    cost, success = columns(sample)
    one, other = cost_per_success(cost, success), cost_per_success(np.array(cost) * rate, success)
    for a, b in zip(one, other, strict=True):
        assert (a is None) == (b is None)
    assert other.n == one.n
    assert other.ratio == pytest.approx(one.ratio * rate)
    assert other.se_delta == pytest.approx(one.se_delta * rate)


@given(units, st.randoms(use_true_random=False))
def test_the_order_of_units_does_not_matter(sample, random) -> None:
    shuffled = sample.copy()
    random.shuffle(shuffled)
    for a, b in zip(cost_per_success(*columns(sample)), cost_per_success(*columns(shuffled)), strict=True):
        assert a is b is None or a == pytest.approx(b, rel=1e-6, abs=1e-9)


@given(units)
def test_fieller_holds_the_ratios_that_a_t_test_does_not_reject(sample) -> None:
    cost, success = (np.array(x, dtype=float) for x in columns(sample))
    got, n = cost_per_success(cost, success), len(sample)

    def statistic(ratio):
        rest = cost - ratio * success
        return rest.mean() ** 2 / (rest.var(ddof=1) / n)

    limit = t.ppf(0.975, n - 1) ** 2
    assert got.low_fieller is None or got.low_fieller <= got.ratio
    assert got.high_fieller is None or got.high_fieller >= got.ratio
    for end in (got.low_fieller, got.high_fieller):
        if end:
            assert statistic(end) == pytest.approx(limit, rel=1e-4)
    if got.high_fieller is None:
        assert statistic(1e9) <= limit * (1 + 1e-6)


def test_few_successes_leave_the_cost_without_an_upper_bound() -> None:
    got = cost_per_success([1, 2, 3, 1], [0, 0, 1, 0])
    assert got.ratio == 7
    assert got.high_fieller is None
    assert got.low_fieller is not None
    assert 0 < got.low_fieller < 7
    assert got.se_jackknife is None


def test_the_jackknife_leaves_one_unit_out() -> None:
    cost, success = np.array([1.0, 2, 4, 3]), np.array([1.0, 0, 1, 1])
    without = [np.delete(cost, i).sum() / np.delete(success, i).sum() for i in range(4)]
    exact = np.sqrt(3 / 4 * np.square(np.array(without) - np.mean(without)).sum())
    assert cost_per_success(cost, success).se_jackknife == pytest.approx(exact)


@pytest.mark.parametrize(
    ("cost", "success", "reason"),
    [
        ([1], [1], "too_few_units"),
        ([1, 2], [1], "too_few_units"),
        ([1, 2, 3], [1, 1], "lengths_differ"),
        ([1, 2], [0, 0], "no_success"),
        ([1, -2], [1, 0], "outside"),
        ([1, None], [1, 0], "non_finite"),
        ([0.1, 0.2, 0.3], [1, 2, 3], "zero_width"),
    ],
)
def test_what_has_no_ratio_is_refused_with_the_reason(cost, success, reason) -> None:
    with pytest.raises(StatsError) as refusal:
        cost_per_success(cost, success)
    assert refusal.value.reason == reason
