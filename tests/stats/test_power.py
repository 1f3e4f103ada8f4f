from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom, multinomial, nct
from scipy.stats import t as student
from statsmodels.stats.contingency_tables import mcnemar

from expcomp.errors import StatsError
from expcomp.stats.power import (
    detectable_lift,
    detectable_t,
    mcnemar_power,
    paired_t,
    pairs_needed_t,
    tasks_needed,
    unpaired_proportions,
)

variances = st.floats(0.001, 1)


@given(st.floats(0.01, 0.5), variances, variances, variances, st.integers(1, 20), st.integers(1, 20))
def test_the_lift_that_the_needed_tasks_detect_is_the_wanted_one(delta, omega2, va, vb, ka, kb) -> None:
    known = {
        "omega2": omega2,
        "sigma2_baseline": va,
        "sigma2_candidate": vb,
        "trials_baseline": ka,
        "trials_candidate": kb,
    }
    needed = tasks_needed(delta, **known)
    assert detectable_lift(needed.n_required, **known).mde <= delta * (1 + 1e-12) or needed.n_required == 2
    if needed.n_required > 3:
        assert detectable_lift(needed.n_required - 1, **known).mde > delta * (1 - 1e-12)


def test_more_trials_help_down_to_the_variance_between_tasks() -> None:
    k = np.array([1, 2, 4, 1_000_000])
    got = detectable_lift(
        100, omega2=0.04, sigma2_baseline=0.2, sigma2_candidate=0.2, trials_baseline=k, trials_candidate=k
    )
    assert (np.diff(got.mde) < 0).all()
    assert got.mde[-1] == pytest.approx(got.z_sum * 0.02, rel=1e-4)


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"delta": 0}, "delta is 0"),
        ({"delta": float("nan")}, "delta"),
        ({"omega2": -1}, "omega2 is -1"),
        ({"omega2": 0}, "any difference would be certain"),
        ({"trials_baseline": 0}, "trials_baseline is 0"),
        ({"alpha": 1}, "alpha is 1"),
        ({"power": 0}, "power is 0"),
    ],
)
def test_a_plan_without_its_numbers_is_refused(changes, what) -> None:
    with pytest.raises(StatsError, match=what):
        tasks_needed(**({"delta": 0.1, "omega2": 0.1} | changes))


def test_one_task_detects_nothing() -> None:
    with pytest.raises(StatsError, match="n is 1"):
        detectable_lift(1, omega2=0.1)


@settings(max_examples=30)
@given(st.floats(0.1, 1.5), st.floats(0.6, 0.95))
def test_pairs_effect_and_power_turn_into_each_other(dz, power) -> None:
    pairs = paired_t(effect_size=dz, power=power)
    assert paired_t(effect_size=dz, pairs=pairs) == pytest.approx(power, rel=1e-6)
    assert paired_t(pairs=pairs, power=power) == pytest.approx(dz, rel=1e-4)  # the root finder of statsmodels
    assert paired_t(effect_size=dz, power=power, alternative="larger") < pairs


@pytest.mark.parametrize(
    ("known", "what"),
    [
        ({"effect_size": 0.5}, "leave exactly one open"),
        ({"effect_size": 0.5, "pairs": 10, "power": 0.8}, "leave exactly one open"),
        ({"effect_size": 0, "power": 0.8}, "effect_size is 0"),
        ({"pairs": 1, "power": 0.8}, "pairs is 1"),
        ({"pairs": 10, "power": 0.04}, "power is 0.04"),
        ({"effect_size": 50, "power": 0.9}, "no solution"),
        ({"effect_size": -0.5, "power": 0.9, "alternative": "larger"}, "no solution"),
    ],
)
def test_a_t_plan_without_an_answer_is_refused(known, what) -> None:
    with pytest.raises(StatsError, match=what):
        paired_t(**known)


@pytest.mark.parametrize(
    ("p10", "p01", "n", "alpha"), [(0.3, 0.1, 9, 0.05), (0.5, 0.2, 8, 0.2), (0.25, 0.25, 7, 0.3), (1.0, 0.0, 6, 0.05)]
)
def test_exact_powers_sum_over_all_tables(p10, p01, n, alpha) -> None:
    exact = mid = 0.0
    for b, c in product(range(n + 1), repeat=2):
        if b + c > n:
            continue
        chance = multinomial.pmf([b, c, n - b - c], n, [p10, p01, 1 - p10 - p01])
        p = mcnemar([[0, b], [c, 0]], exact=True).pvalue if b + c else 1.0
        exact += chance * (p <= alpha)
        mid_p = 2 * (binom.cdf(min(b, c), b + c, 0.5) - binom.pmf(min(b, c), b + c, 0.5) / 2)
        mid += chance * (mid_p <= alpha)
    got = mcnemar_power(p10, p01, n, alpha=alpha)
    assert got.power_exact == pytest.approx(exact, abs=1e-12)
    assert got.power_mid_p == pytest.approx(mid, abs=1e-12)


@settings(max_examples=30)
@given(st.floats(0.01, 0.4), st.floats(0.01, 0.4), st.integers(5, 300))
def test_the_arms_of_mcnemar_swap(p10, p01, n) -> None:
    one, other = mcnemar_power(p10, p01, n), mcnemar_power(p01, p10, n)
    assert one.n_required_asymptotic == other.n_required_asymptotic
    assert one.power_exact == pytest.approx(other.power_exact, abs=1e-9)
    assert one.power_mid_p == pytest.approx(other.power_mid_p, abs=1e-9)
    assert one.power_exact <= one.power_mid_p + 1e-12


def test_the_asymptotic_number_of_pairs_gives_the_target_power() -> None:
    needed = mcnemar_power(0.2, 0.1, 10).n_required_asymptotic
    assert needed is not None
    assert mcnemar_power(0.2, 0.1, needed).power_asymptotic >= 0.8
    assert mcnemar_power(0.2, 0.1, needed - 1).power_asymptotic < 0.8


def test_a_candidate_that_wins_every_task_is_certain() -> None:
    got = mcnemar_power(1.0, 0.0, 10)
    assert (got.power_asymptotic, got.power_exact) == (1.0, 1.0)


@pytest.mark.parametrize(
    ("p10", "p01", "n"), [(0, 0, 10), (0.6, 0.5, 10), (-0.1, 0.2, 10), (0.2, 0.1, 0), (0.2, 0.1, 2.5)]
)
def test_chances_that_cannot_be_are_refused(p10, p01, n) -> None:
    with pytest.raises(StatsError):
        mcnemar_power(p10, p01, n)


def test_unpaired_rates_need_the_same_either_way_round() -> None:
    up, down = unpaired_proportions(0.3, 0.4), unpaired_proportions(0.4, 0.3)
    assert up.n_per_arm == pytest.approx(down.n_per_arm)
    assert up.cohen_h == -down.cohen_h > 0
    for a, b in ((0.3, 0.3), (1.2, 0.3)):
        with pytest.raises(StatsError, match="two different rates"):
            unpaired_proportions(a, b)


@given(st.integers(2, 3000), st.floats(0.01, 0.1), st.floats(0.75, 0.95))
def test_the_vectorised_difference_has_the_wanted_power(pairs: int, alpha: float, power: float) -> None:
    found = detectable_t([1 / np.sqrt(pairs), np.nan], pairs - 1, alpha=alpha, power=power)
    limit = student.ppf(1 - alpha / 2, pairs - 1)
    assert nct.sf(limit, pairs - 1, found[0] * np.sqrt(pairs)) == pytest.approx(power, abs=1e-3)
    assert np.isnan(found[1])


@pytest.mark.parametrize("pairs", [2, 3, 5, 10, 30, 100, 1000])
def test_the_vectorised_difference_is_that_of_statsmodels(pairs: int) -> None:
    assert detectable_t(1 / np.sqrt(pairs), pairs - 1) == pytest.approx(paired_t(pairs=pairs, power=0.8), rel=1e-4)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=5), st.floats(0.02, 2))
def test_the_fewest_pairs_show_delta_and_one_less_does_not(variances: list[float], delta: float) -> None:
    n = pairs_needed_t(delta, variances)
    spread = np.sqrt(variances)
    assert (detectable_t(spread / np.sqrt(n), n - 1) <= delta).all()
    less = n - 1
    assert ((n == 2) | ~(detectable_t(spread / np.sqrt(less), less - 1) <= delta)).all()


def test_what_no_number_of_pairs_shows_is_unknown() -> None:
    assert np.isnan(pairs_needed_t(0.1, [np.nan, 1e12])).all()
    assert np.isnan(detectable_t(0.1, [0, -1, np.nan])).all()
    with pytest.raises(StatsError):
        pairs_needed_t(0, [1.0])


@pytest.mark.parametrize("delta", [1e-12, 1e-200, 5e-324])
def test_a_delta_that_no_number_of_tasks_shows_is_refused(delta: float) -> None:
    with pytest.raises(StatsError, match="tasks would be needed"):
        tasks_needed(delta, omega2=0.1)
    assert tasks_needed(1e300, omega2=0.1).n_required == 2


def test_the_least_effect_that_two_sided_pairs_show_is_not_negative() -> None:
    assert paired_t(pairs=paired_t(effect_size=0.1623109067804602, power=0.6015625), power=0.6015625) > 0
    assert paired_t(pairs=73, power=0.8) == pytest.approx(0.332356, abs=1e-6)


@pytest.mark.parametrize(("pairs", "power"), [(2, 0.6), (2, 0.9), (3, 0.99), (1_000_000, 0.8)])
@pytest.mark.parametrize("alternative", ["two-sided", "larger", "smaller"])
def test_an_effect_far_out_has_the_wanted_power(pairs: int, power: float, alternative: Any) -> None:
    effect = paired_t(pairs=pairs, power=power, alternative=alternative)
    assert paired_t(effect_size=effect, pairs=pairs, alternative=alternative) == pytest.approx(power, abs=1e-6)
    if pairs > 2:
        assert paired_t(effect_size=effect, power=power, alternative=alternative) == pytest.approx(pairs, rel=1e-4)
