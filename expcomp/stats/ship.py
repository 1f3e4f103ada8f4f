"""Ship or hold: the rule that turns a comparison, its guards and its cost into a decision with every reason named.

Pure: it looks at measured bounds only. All reasons of `RULES` that apply are collected, in the order of the table.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Literal, NamedTuple

from expcomp.stats.inputs import refuse

ROUNDING = 1e-9

Decision = Literal["ship", "hold"]
Label = Literal["ship", "hold", "need_more_work"]
Weight = Literal["hard", "more_data", "interval"]


class Guard(NamedTuple):
    """A metric that must not get worse.

    Attributes:
        name: What it measures.
        low: Lower confidence bound of candidate minus baseline, where more is better.
        tolerance: Loss that is accepted, at least 0.
    """

    name: str
    low: float
    tolerance: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What is known about a candidate.

    Attributes:
        n_units: Independent units: tasks, or the clusters above them.
        low_t: Lower bound of the lift: t, or Tango where single-trial pass and fail is decided. None when it could not be computed.
        high_t: Upper bound of the same interval.
        low_bca: Lower BCa bound; None when there is none.
        mcnemar_mid_p: Two-sided mid-p of single-trial pass and fail; None elsewhere.
        guards: Metrics that must not get worse.
        coverage_complete: Every designed cell ran once and succeeded.
        exposure_hits: Held-out tasks found in the training data or its ancestors.
        known_cost_usd: Settled cost.
        unknown_cost_calls: Calls that ended without a known cost.
        unknown_cost_bounded_usd: Declared maximum of those calls together; None when one of them declared none.
    """

    n_units: int
    low_t: float | None
    high_t: float | None
    low_bca: float | None = None
    mcnemar_mid_p: float | None = None
    guards: Sequence[Guard] = ()
    coverage_complete: bool
    exposure_hits: int
    known_cost_usd: float
    unknown_cost_calls: int = 0
    unknown_cost_bounded_usd: float | None = None

    @property
    def low(self) -> float | None:
        """Lower bound that decides: the smaller of t and BCa; null when the interval is."""
        t, bca = _finite(self.low_t), _finite(self.low_bca)
        return t if t is None or bca is None else min(t, bca)

    @property
    def cost_upper_bound_usd(self) -> float | None:
        """Known cost plus the declared maximum of calls of unknown cost; null when one of them declared none."""
        if not self.unknown_cost_calls:
            return self.known_cost_usd
        if self.unknown_cost_bounded_usd is None:
            return None
        return self.known_cost_usd + self.unknown_cost_bounded_usd


@dataclass(frozen=True, slots=True, kw_only=True)
class ShipPolicy:
    """What is asked of a candidate, frozen before any run.

    Attributes:
        minimum_lift: Lift that the lower bound must exceed; below 0 for non-inferiority.
        min_units: Units below which nothing is decided.
        alpha: Level of the McNemar veto.
        cost_ceiling_usd: Cost that must not be exceeded; None: no ceiling.
    """

    minimum_lift: float = 0.0
    min_units: int = 20
    alpha: float = 0.05
    cost_ceiling_usd: float | None = None


class Rule(NamedTuple):
    """A reason to hold.

    Attributes:
        reason: Its code.
        weight: `hard`: no further data cures it; `more_data`: it asks for data; `interval`: the interval says which of the two.
        applies: Whether it does.
    """

    reason: str
    weight: Weight
    applies: Callable[[Evidence, ShipPolicy], bool]


class ShipDecision(NamedTuple):
    """The outcome.

    Attributes:
        decision: `ship` when no reason speaks against it, else `hold`.
        label: As `decision`, with `need_more_work` where nothing is wrong but the evidence does not suffice.
        lower_bound: Lower bound that decided; None: there is none.
        cost_upper_bound_usd: What the work cost at most; None: unknown.
        reasons: Codes of all rules that apply, in the order of `RULES`.
    """

    decision: Decision
    label: Label
    lower_bound: float | None
    cost_upper_bound_usd: float | None
    reasons: tuple[str, ...]


def clears(low: float, high: float | None, lift: float) -> bool:
    """Whether a lower bound is above the lift by more than rounding: a billionth of the greatest of the three.

    Scores in steps put bounds exactly on 0: a bootstrap mean of 40 times 0.2 and 10 times -0.8 is 0 on paper and 3e-15 in binary, and
    would ship half of such ties.
    """
    return low - lift > ROUNDING * max(abs(low), abs(lift), abs(_finite(high) or 0.0))


def _finite(value: float | None) -> float | None:
    return value if value is not None and isfinite(value) else None


def _degenerate(e: Evidence) -> bool:
    high = _finite(e.high_t)
    return e.low is None or high is None or not e.low < high


def _undecided(e: Evidence, p: ShipPolicy) -> bool:
    """Whether the interval contains both no lift and the lift asked for."""
    if e.low is None or e.high_t is None:
        return True
    return e.low <= min(0.0, p.minimum_lift) and max(0.0, p.minimum_lift) <= e.high_t


def _above_ceiling(e: Evidence, p: ShipPolicy) -> bool:
    bound, ceiling = e.cost_upper_bound_usd, p.cost_ceiling_usd
    return bound is not None and ceiling is not None and bound > ceiling


RULES: tuple[Rule, ...] = (
    Rule("coverage_incomplete", "hard", lambda e, p: not e.coverage_complete),
    Rule("held_out_exposure", "hard", lambda e, p: e.exposure_hits > 0),
    Rule("too_few_units", "more_data", lambda e, p: e.n_units < p.min_units),
    Rule("degenerate_interval", "more_data", lambda e, p: _degenerate(e)),
    Rule(
        "lower_bound_not_above_minimum_lift",
        "interval",
        lambda e, p: e.low is not None and not clears(e.low, e.high_t, p.minimum_lift),
    ),
    # A veto speaks for more data, not against the candidate: the bound is above the lift, the test is not yet sure.
    Rule(
        "mcnemar_veto",
        "more_data",
        lambda e, p: e.mcnemar_mid_p is not None and p.minimum_lift >= 0 and not e.mcnemar_mid_p < p.alpha,
    ),
    Rule("guard_regression", "hard", lambda e, p: any(g.low < -g.tolerance for g in e.guards)),
    Rule("cost_accounting_incomplete", "hard", lambda e, p: e.cost_upper_bound_usd is None),
    Rule("cost_ceiling_exceeded", "hard", _above_ceiling),
)
REASONS = tuple(r.reason for r in RULES)


def ship_decision(evidence: Evidence, policy: ShipPolicy | None = None) -> ShipDecision:
    """`ship` when no rule of `RULES` applies, else `hold` with all that do; pure and total over valid evidence.

    The label is `need_more_work` when the reasons are only such that more data may cure: too few units, a degenerate interval, a
    McNemar veto, or a bound not above the lift while the interval contains both 0 and the lift.

    Raises:
        StatsError: A negative count or cost, a p-value outside [0, 1], a guard without a bound or with a negative tolerance.
    """
    policy = policy or ShipPolicy()
    _check(evidence, policy)
    found = [r for r in RULES if r.applies(evidence, policy)]
    curable = all(r.weight == "more_data" or (r.weight == "interval" and _undecided(evidence, policy)) for r in found)
    decision: Decision = "hold" if found else "ship"
    return ShipDecision(
        decision=decision,
        label="need_more_work" if found and curable else decision,
        lower_bound=evidence.low,
        cost_upper_bound_usd=evidence.cost_upper_bound_usd,
        reasons=tuple(r.reason for r in found),
    )


def _check(e: Evidence, p: ShipPolicy) -> None:
    not_negative = {
        "n_units": e.n_units,
        "exposure_hits": e.exposure_hits,
        "unknown_cost_calls": e.unknown_cost_calls,
        "known_cost_usd": e.known_cost_usd,
        "unknown_cost_bounded_usd": e.unknown_cost_bounded_usd,
        "cost_ceiling_usd": p.cost_ceiling_usd,
        **{f"tolerance of guard {g.name}": g.tolerance for g in e.guards},
    }
    for name, value in not_negative.items():
        if value is not None and not (value >= 0 and isfinite(value)):
            raise refuse("outside", f"{name} is {value}; use a finite number of at least 0")
    for guard in e.guards:
        if _finite(guard.low) is None:
            raise refuse(
                "non_finite", f"guard {guard.name} has no lower bound; measure it or leave the guard out and say so"
            )
    if e.mcnemar_mid_p is not None and not 0 <= e.mcnemar_mid_p <= 1:
        raise refuse("outside", f"mcnemar_mid_p is {e.mcnemar_mid_p}; use a p-value in [0, 1]")
    if not isfinite(p.minimum_lift) or not 0 < p.alpha < 1 or p.min_units < 0:
        raise refuse("bad_option", f"minimum_lift {p.minimum_lift}, alpha {p.alpha}, min_units {p.min_units}")
