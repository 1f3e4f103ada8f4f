from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from math import inf, nan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from expcomp.errors import StatsError
from expcomp.stats.ship import REASONS, Evidence, Guard, ShipPolicy, clears, ship_decision

GOOD = Evidence(
    n_units=60,
    low_t=0.02,
    high_t=0.11,
    low_bca=0.019,
    coverage_complete=True,
    exposure_hits=0,
    known_cost_usd=12.0,
)
CEILING = ShipPolicy(cost_ceiling_usd=20.0)
FAULTS = {
    "coverage_incomplete": {"coverage_complete": False},
    "held_out_exposure": {"exposure_hits": 1},
    "too_few_units": {"n_units": 19},
    "degenerate_interval": {"high_t": -0.5},
    "lower_bound_not_above_minimum_lift": {"low_bca": 0.0},
    "mcnemar_veto": {"mcnemar_mid_p": 0.05},
    "guard_regression": {"guards": (Guard("safety", -0.08, 0.05), Guard("latency", 0.0))},
    "cost_accounting_incomplete": {"unknown_cost_calls": 1},
    "cost_ceiling_exceeded": {"known_cost_usd": 20.01},
}


def decide(policy=CEILING, **changes):
    return ship_decision(replace(GOOD, **changes), policy)


def test_nothing_against_it_ships() -> None:
    got = decide()
    assert got == ("ship", "ship", 0.019, 12.0, ())


def test_every_reason_is_tried_here() -> None:
    assert tuple(FAULTS) == REASONS


@pytest.mark.parametrize("reason", REASONS)
def test_one_fault_gives_its_reason_alone(reason) -> None:
    got = decide(**FAULTS[reason])
    assert (got.decision, got.reasons) == ("hold", (reason,))


@pytest.mark.parametrize("pair", list(combinations(REASONS, 2)))
def test_faults_add_up_in_the_order_of_the_table(pair) -> None:
    if pair == ("cost_accounting_incomplete", "cost_ceiling_exceeded"):
        return  # a cost that is unknown is above no ceiling
    changes = FAULTS[pair[0]] | FAULTS[pair[1]]
    assert decide(**changes).reasons == pair


@pytest.mark.parametrize(
    ("changes", "policy", "label"),
    [
        ({"n_units": 3}, CEILING, "need_more_work"),
        ({"low_t": None, "high_t": None, "low_bca": None}, CEILING, "need_more_work"),
        ({"low_t": 0.1, "high_t": 0.1, "low_bca": None}, CEILING, "need_more_work"),
        ({"low_t": nan}, CEILING, "need_more_work"),
        ({"high_t": inf}, CEILING, "need_more_work"),
        ({"low_t": -0.01}, CEILING, "need_more_work"),
        ({"mcnemar_mid_p": 0.2}, CEILING, "need_more_work"),
        ({"low_t": -0.2, "high_t": -0.01}, CEILING, "hold"),
        ({"low_t": -0.01, "high_t": 0.04}, ShipPolicy(minimum_lift=0.05), "hold"),
        ({"low_t": -0.01, "high_t": 0.06}, ShipPolicy(minimum_lift=0.05), "need_more_work"),
        ({"low_t": 0.01, "high_t": 0.06}, ShipPolicy(minimum_lift=0.05), "hold"),
        ({"low_t": -0.06, "high_t": 0.02, "low_bca": None}, ShipPolicy(minimum_lift=-0.05), "need_more_work"),
        ({"low_t": -0.06, "high_t": -0.01, "low_bca": None}, ShipPolicy(minimum_lift=-0.05), "hold"),
        ({"low_t": -0.04, "high_t": 0.02, "mcnemar_mid_p": 0.9}, ShipPolicy(minimum_lift=-0.05), "ship"),
        ({"n_units": 3, "exposure_hits": 1}, CEILING, "hold"),
        ({"n_units": 3, "coverage_complete": False}, CEILING, "hold"),
    ],
)
def test_the_label_tells_missing_evidence_from_evidence_against(changes, policy, label) -> None:
    got = decide(policy, **changes)
    assert got.label == label
    assert got.decision == ("ship" if label == "ship" else "hold")


def test_calls_of_unknown_cost_count_at_their_declared_maximum() -> None:
    assert decide(unknown_cost_calls=2, unknown_cost_bounded_usd=8.0).reasons == ()
    over = decide(unknown_cost_calls=2, unknown_cost_bounded_usd=9.0)
    assert (over.reasons, over.cost_upper_bound_usd) == (("cost_ceiling_exceeded",), 21.0)
    assert decide(unknown_cost_calls=2).cost_upper_bound_usd is None
    assert decide(ShipPolicy(), known_cost_usd=1e9).decision == "ship"


def test_a_bound_on_the_lift_but_for_rounding_is_not_above_it() -> None:
    assert decide(low_t=2.8e-15, low_bca=None).reasons == ("lower_bound_not_above_minimum_lift",)
    assert decide(ShipPolicy(minimum_lift=0.1), low_t=0.3 - 0.2 + 2**-54, low_bca=None).decision == "hold"
    assert clears(1e-9, 0.1, 0.0)
    assert clears(2.8e-15, 1e-14, 0.0)
    assert not clears(-1e-9, 0.1, 0.0)


bounds = st.one_of(st.none(), st.floats(-1, 1))


@given(bounds, bounds, bounds, st.integers(0, 40), st.floats(-0.1, 0.1))
def test_shipping_needs_a_bound_above_the_lift(low, bca, high, n, lift) -> None:
    got = decide(ShipPolicy(minimum_lift=lift), low_t=low, low_bca=bca, high_t=high, n_units=n)
    if got.decision == "ship":
        assert got.lower_bound is not None
        assert got.lower_bound > lift
        assert n >= 20
        assert got.lower_bound < high
    assert got.lower_bound == (None if low is None else low if bca is None else min(low, bca))


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"n_units": -1}, "n_units is -1"),
        ({"known_cost_usd": nan}, "known_cost_usd"),
        ({"mcnemar_mid_p": 1.5}, "mcnemar_mid_p is 1.5"),
        ({"guards": (Guard("safety", nan),)}, "guard safety has no lower bound"),
        ({"guards": (Guard("safety", 0.0, -1.0),)}, "tolerance of guard safety"),
    ],
)
def test_evidence_that_cannot_be_is_refused(changes, what) -> None:
    with pytest.raises(StatsError, match=what):
        decide(**changes)


def test_a_policy_that_cannot_be_is_refused() -> None:
    for policy in (ShipPolicy(alpha=0), ShipPolicy(minimum_lift=nan), ShipPolicy(cost_ceiling_usd=-1)):
        with pytest.raises(StatsError):
            decide(policy)
