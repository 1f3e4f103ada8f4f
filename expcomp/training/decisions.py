"""What was measured, and what is decided on it."""

from __future__ import annotations

from math import isclose
from typing import Annotated, ClassVar, Literal

from msgspec import UNSET, Meta, UnsetType

from expcomp.stats.ship import REASONS
from expcomp.training.documents import (
    Count,
    Document,
    Name,
    Positive,
    Rule,
    Sealed,
    Sha256,
    Share,
    ascending,
    distinct,
)

_TOLERANCE = 1e-9
Reason = Literal[REASONS]  # type: ignore[valid-type]
Outcome = Literal["ship", "hold", "need_more_work"]


class Interval(Document, frozen=True, kw_only=True):
    """Bounds of a difference; null when they cannot be computed."""

    low: float | None
    high: float | None
    confidence: Annotated[float, Meta(gt=0, lt=1)]
    method: Name
    resamples: Annotated[int, Meta(ge=100)] | UnsetType = UNSET


def _inside(value: float | None, interval: Interval) -> bool:
    if value is None or interval.low is None or interval.high is None:
        return True
    return interval.low - _TOLERANCE <= value <= interval.high + _TOLERANCE


_DIFFERENCE = Rule(
    "comparison_difference",
    "difference",
    lambda m: isclose(m.difference, m.candidate_mean - m.baseline_mean, rel_tol=_TOLERANCE, abs_tol=_TOLERANCE),
    "candidateMean - baselineMean",
    lambda m: m.difference,
    tampered=True,
)
_INTERVAL = Rule(
    "comparison_interval",
    "interval",
    lambda m: _inside(m.difference, m.interval),
    "bounds around the difference",
    lambda m: (m.interval.low, m.interval.high),
    tampered=True,
)


class Measure(Document, frozen=True, kw_only=True):
    """One metric of both arms: `difference` is candidate minus baseline over paired units.

    Attributes:
        tolerance: Loss that is accepted, in the unit of the metric; unset where nothing guards it.
        better: Whether more or less of it is.
        p_value: Two-sided, of no difference: McNemar's mid-p where the method is `tango`.
    """

    name: Name
    baseline_mean: float
    candidate_mean: float
    difference: float
    interval: Interval
    n_units: Positive
    tolerance: Annotated[float, Meta(ge=0)] | UnsetType = UNSET
    better: Literal["more", "less"] = "more"
    p_value: Share | UnsetType = UNSET

    RULES: ClassVar[tuple[Rule, ...]] = (_DIFFERENCE, _INTERVAL)


class Accounting(Document, frozen=True, kw_only=True):
    """Cost in billionths of a dollar; `knownNanos` is settled, `unknownMaximumNanos` the declared maximum of calls of unknown cost."""

    preparation_nanos: Count
    measurement_nanos: Count
    known_nanos: Count
    unknown_calls: Count
    unknown_maximum_nanos: Count | None
    ceiling_nanos: Count | UnsetType = UNSET

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "accounting_total",
            "knownNanos",
            lambda a: a.known_nanos == a.preparation_nanos + a.measurement_nanos,
            "preparationNanos + measurementNanos",
            lambda a: a.known_nanos,
            tampered=True,
        ),
    )


class MeasuredComparison(Sealed, frozen=True, kw_only=True):
    """Result of an experiment, recomputed from its paired runs.

    Attributes:
        experiment_digest: Unset where nothing was sealed before the runs; such a result is never proposed.
        evidence_digest: Of the runs that were compared.
        unit: What the interval takes for independent.
        n_samples: Runs that each arm was to make: tasks times repetitions.
        failed_runs: Runs of both arms without a result.
        missing_runs: Runs that are not there.
        surplus_runs: Runs that are there a second time, or that nobody asked for.
        archived_runs: Runs of both arms that lie in the archive of the ledger and are no part of this; unset where none do.
        archived_tasks: Tasks of which all runs of both arms lie there: they were run, and are not compared.
        unmeasured: Metrics that the policy guards and that have no figure.
    """

    kind: Literal["measured-comparison"] = "measured-comparison"
    experiment_digest: Sha256 | UnsetType = UNSET
    policy_digest: Sha256
    evidence_digest: Sha256 | UnsetType = UNSET
    unit: Literal["task", "cluster"]
    n_tasks: Positive
    repetitions: Positive
    n_units: Positive
    n_samples: Positive
    failed_runs: Count
    missing_runs: Count = 0
    surplus_runs: Count = 0
    archived_runs: Positive | UnsetType = UNSET
    archived_tasks: Positive | UnsetType = UNSET
    score: Measure
    objectives: tuple[Measure, ...] = ()
    dimensions: tuple[Measure, ...] = ()
    unmeasured: tuple[Name, ...] = ()
    accounting: Accounting

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "comparison_samples",
            "nSamples",
            lambda m: m.n_samples == m.n_tasks * m.repetitions,
            "nTasks * repetitions",
            lambda m: m.n_samples,
            tampered=True,
        ),
        Rule(
            "comparison_units",
            "nUnits",
            lambda m: m.n_units <= m.n_tasks and (m.unit == "cluster" or m.n_units == m.n_tasks or not m.complete),
            "nTasks, or fewer where the unit is a cluster or runs are not there",
            lambda m: m.n_units,
        ),
        Rule(
            "comparison_dimensions",
            "dimensions",
            lambda m: distinct(tuple(d.name for d in (*m.objectives, *m.dimensions))),
            "each metric once",
        ),
    )

    @property
    def complete(self) -> bool:
        """Whether every run that was asked for is there once, with a result."""
        return not (self.failed_runs or self.missing_runs or self.surplus_runs)


def _in_order(reasons: tuple[str, ...]) -> bool:
    return ascending(tuple(REASONS.index(r) for r in reasons))


class ImprovementDecision(Sealed, frozen=True, kw_only=True):
    """Ship, hold, or need more work, with every reason, in the order of `stats.ship.REASONS`.

    Attributes:
        exposure_digest: Report of the held-out guard that it rests on.
        policy_digest: Policy that it was made under.
    """

    kind: Literal["improvement-decision"] = "improvement-decision"
    experiment_digest: Sha256 | UnsetType = UNSET
    comparison_digest: Sha256
    exposure_digest: Sha256 | UnsetType = UNSET
    policy_digest: Sha256 | UnsetType = UNSET
    outcome: Outcome
    reasons: tuple[Reason, ...]
    low: float | None
    point: float | None
    high: float | None
    method: Name
    n_units: Count

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule("decision_reasons", "reasons", lambda d: _in_order(d.reasons), f"each once, in the order {', '.join(REASONS)}"),
        Rule(
            "decision_outcome",
            "outcome",
            lambda d: (d.outcome == "ship") == (not d.reasons),
            "ship exactly when there is no reason against it",
            lambda d: d.outcome,
            tampered=True,
        ),
    )  # fmt: skip
