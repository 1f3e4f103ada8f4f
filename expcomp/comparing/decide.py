"""From an interval to a decision: the rule as a table, the first line that holds."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import polars as pl

from expcomp.errors import UsageError
from expcomp.stats.inputs import level
from expcomp.stats.interval import z_quantile
from expcomp.stats.ship import ROUNDING

if TYPE_CHECKING:
    from collections.abc import Callable

DECISION = pl.Enum(["improved", "regressed", "no_difference_shown", "need_more_data"])
POWER = 0.8
"""Power that `mde` and the number of further tasks are for."""
MOST = 10**9
"""More units than this are no number to be told."""


class Rule(NamedTuple):
    """How a comparison is judged."""

    alpha: float
    min_units: int
    delta: float | None


def rule_of(confidence: float, min_units: int, delta: float | None) -> Rule:
    """The rule of a call.

    Raises:
        StatsError: A confidence that is not between 0 and 1.
        UsageError: A delta that is not above 0.
    """
    if delta is not None and not 0 < delta < float("inf"):
        msg = f"delta is {delta}; expected the smallest difference that matters, above 0, as 0.05"
        raise UsageError(msg)
    return Rule(1 - level(confidence), min_units, delta)


class Line(NamedTuple):
    """One line of the rule."""

    decision: str
    reason: str
    holds: Callable[[Rule], pl.Expr]


def _n() -> pl.Expr:
    """Units of the interval: clusters where there are, else tasks."""
    return pl.coalesce("n_clusters", "n_units")


def _sure(rule: Rule) -> pl.Expr:
    """Whether p-values agree: McNemar's mid-p for single trials, and Holm's over several treatments."""
    veto = (pl.col("method") != "tango") | (pl.col("p_value") < rule.alpha)
    return veto & (pl.col("p_adjusted") <= rule.alpha).fill_null(value=True)


def beyond(bound: str, sign: int) -> pl.Expr:
    """Whether a bound is above 0 (sign 1) or below it (-1) by more than rounding, as `ship.clears`: null bounds are not."""
    span = pl.max_horizontal(pl.col("low").abs(), pl.col("high").abs())
    return (sign * pl.col(bound) > ROUNDING * span).fill_null(value=False)


def _open(rule: Rule) -> pl.Expr:
    if rule.delta is None:
        return pl.lit(value=False)
    return (pl.col("high") >= rule.delta) | (pl.col("low") <= -rule.delta)


LINES = (
    Line("need_more_data", "too_few_units", lambda r: _n() < r.min_units),
    Line("need_more_data", "degenerate_interval", lambda _: ~(pl.col("low") < pl.col("high")).fill_null(value=False)),
    Line("improved", "interval_above_0", lambda r: beyond("low", 1) & _sure(r)),
    Line("regressed", "interval_below_0", lambda r: beyond("high", -1) & _sure(r)),
    Line("need_more_data", "interval_holds_0_and_delta", _open),
    Line("no_difference_shown", "interval_holds_0", lambda _: pl.lit(value=True)),
)


def decided(estimates: pl.DataFrame, rule: Rule) -> pl.DataFrame:
    """Estimates with `decision`, `reason`, `mde` and `needed_units`.

    `mde`: the difference that this many tasks (clusters), at this spread, show with power 0.8; by the noncentral t with n - 1 degrees of
    freedom (`stats.power.detectable_t`) where the interval is one of t, by `(z_{1-alpha/2} + z_0.8) se` under Tango. `needed_units` are
    the further tasks (clusters) to reach `min_units`, and where `delta` is given also `mde <= delta`. Both rest on the spread of the
    differences, never on the difference observed.
    """
    from expcomp.stats.power import detectable_t, pairs_needed_t

    z = z_quantile(1 - rule.alpha) + z_quantile(2 * POWER - 1)
    n = _n()
    normal = pl.col("method") == "tango"
    units = estimates.select(n=n, se="se").cast(pl.Float64)
    by_t = detectable_t(units["se"], units["n"] - 1, alpha=rule.alpha, power=POWER)
    found = estimates.with_columns(
        mde=pl.when(pl.col("se") > 0).then(
            pl.when(normal).then(z * pl.col("se")).otherwise(pl.Series(by_t).fill_nan(None))
        )
    )
    short = (rule.min_units - n).clip(0)
    if rule.delta is not None:
        variance = units["n"] * units["se"] ** 2
        needed = pl.Series(pairs_needed_t(rule.delta, variance, alpha=rule.alpha, power=POWER, most=MOST)).fill_nan(
            None
        )
        by_z = (variance.sqrt() * (z / rule.delta)).pow(2).ceil()
        by_power = pl.when(normal).then(pl.when(by_z <= MOST).then(by_z)).otherwise(needed).cast(pl.Int64)
        # A spread that is known and no number that is enough: not even a minimum is told.
        short = pl.when(by_power.is_not_null() | pl.col("se").is_null()).then(pl.max_horizontal(short, by_power - n))
    decision, reason = pl.lit(None, pl.String), pl.lit(None, pl.String)
    for line in reversed(LINES):
        holds = line.holds(rule)
        decision = pl.when(holds).then(pl.lit(line.decision)).otherwise(decision)
        reason = pl.when(holds).then(pl.lit(line.reason)).otherwise(reason)
    told = found.with_columns(decision=decision.cast(DECISION), reason=reason)
    # Where the interval has no width nothing says how many tasks give it some.
    unknown = pl.col("reason") == "degenerate_interval"
    return told.with_columns(
        needed_units=pl.when((pl.col("decision") == "need_more_data") & ~unknown).then(short).cast(pl.Int64)
    )
