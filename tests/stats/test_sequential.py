from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from expcomp.errors import StatsError
from expcomp.stats.sequential import e_process, encoded, shifted_null

streams = st.lists(st.floats(0, 1), min_size=1, max_size=40)


def by_hand(x, null_mean, max_bet):
    """The recursion of the paper, one observation at a time."""
    wealth, total, squares, path = 1.0, 0.0, 0.0, []
    for t, value in enumerate(x):
        mean, spread = (0.5 + total) / (t + 1), (0.25 + squares) / (t + 1)
        edge = mean - null_mean
        wealth *= 1 + min(max(edge / (spread + edge**2), 0), max_bet) * (value - null_mean)
        total += value
        squares += (value - (0.5 + total) / (t + 2)) ** 2
        path.append(wealth)
    return path


@given(streams, st.floats(0.1, 0.9), st.floats(0.05, 1))
def test_the_path_is_that_of_the_recursion(x, null_mean, max_bet) -> None:
    got = e_process(x, null_mean=null_mean, max_bet=max_bet)
    np.testing.assert_allclose(got.wealth, by_hand(x, null_mean, max_bet), rtol=1e-9)
    assert ((got.bet >= 0) & (got.bet <= max_bet)).all()
    assert (got.wealth > 0).all()


@given(streams, st.floats(0, 1))
def test_a_bet_knows_earlier_observations_only(x, last) -> None:
    one, other = e_process([*x, last]), e_process([*x, 1 - last])
    np.testing.assert_array_equal(one.bet, other.bet)
    np.testing.assert_array_equal(one.wealth[:-1], e_process(x).wealth)
    assert one.bet[0] == 0


def test_wins_decide_and_the_decision_stays() -> None:
    got = e_process([1.0] * 20 + [0.0] * 20)
    assert got.decided_at == 15
    assert got.wealth[13] < got.threshold <= got.wealth[14]
    assert got.wealth[-1] < got.threshold
    assert e_process([0.0] * 50).decided_at is None


def test_looking_after_every_task_keeps_the_error_rate() -> None:
    rng = np.random.default_rng(20)
    decided = [e_process(encoded(d)).decided_at is not None for d in rng.choice([-1.0, 0.0, 1.0], (500, 100))]
    assert np.mean(decided) <= 0.05


def test_differences_enter_between_zero_and_one() -> None:
    assert encoded([-1, 0, 1]).tolist() == [0, 0.5, 1]
    assert shifted_null(0) == 0.5
    assert shifted_null(0.1) == pytest.approx(0.55)


@pytest.mark.parametrize(
    ("call", "what"),
    [
        (lambda: e_process([]), "x has 0 values"),
        (lambda: e_process([0.5, 1.5]), r"x\[1\] is 1.5"),
        (lambda: e_process([0.5, float("nan")]), r"x\[1\] is nan"),
        (lambda: e_process([0.5], alpha=1), "alpha"),
        (lambda: e_process([0.5], max_bet=2), "max_bet is 2"),
        (lambda: e_process([0.5], null_mean=0), "null_mean"),
        (lambda: encoded([2]), r"differences\[0\] is 2"),
        (lambda: shifted_null(1), "minimum_lift"),
    ],
)
def test_what_would_break_the_guarantee_is_refused(call, what) -> None:
    with pytest.raises(StatsError, match=what):
        call()
