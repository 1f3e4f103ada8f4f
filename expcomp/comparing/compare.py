"""Did the treatment help, by how much, and how sure is that: arms paired by task."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypedDict, Unpack, overload

import polars as pl

from expcomp.comparing.adjusting import adjusted
from expcomp.comparing.assemble import Parts, comparison
from expcomp.comparing.cells import TASK, cells, compared, under
from expcomp.comparing.comparison import Comparison, Comparisons
from expcomp.comparing.costs import cost_per_success_of
from expcomp.comparing.decide import Rule, decided, rule_of
from expcomp.comparing.estimates import UNIT, How, estimates
from expcomp.comparing.guards import GUARDS, guard_units, judged, tolerances
from expcomp.comparing.policies import SENSITIVITY, SIDES, Policy, policies
from expcomp.comparing.prepare import check_unit, one_of_a_task, prepared
from expcomp.errors import UsageError
from expcomp.io.counts import Count

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

POLICY = ("missing", "infra")


@dataclass(frozen=True)
class Settings:
    """How arms are compared; the arguments of `compare`."""

    missing: str
    infra: str | None
    how: How
    rule: Rule
    margin: float | None
    limits: Mapping[str, float | None]
    slices: tuple[str, ...]

    @property
    def policies(self) -> tuple[Policy, ...]:
        """The policies of the call: one, or the worst and the best case."""
        return policies(self.missing, self.infra)


class Options(TypedDict, total=False):
    """The options of `compare`."""

    unit: str
    cluster: str | None
    metric: str
    missing: str
    infra: str | None
    confidence: float
    delta: float | None
    margin: float | None
    guards: Mapping[str, float | None] | Sequence[str]
    slices: str | Sequence[str]
    min_units: int
    resamples: int
    seed: int
    score_scale: tuple[float, float] | None


@overload
def compare(what: Any, baseline: str, treatment: str, **options: Unpack[Options]) -> Comparison: ...
@overload
def compare(
    what: Any, baseline: str, treatment: list[str] | tuple[str, ...], **options: Unpack[Options]
) -> Comparisons: ...


def compare(
    what: Any,
    baseline: str,
    treatment: str | list[str] | tuple[str, ...],
    *,
    unit: str = "task",
    cluster: str | None = None,
    metric: str = "auto",
    missing: str = "exclude",
    infra: str | None = None,
    confidence: float = 0.95,
    delta: float | None = None,
    margin: float | None = None,
    guards: Mapping[str, float | None] | Sequence[str] = tuple(GUARDS),
    slices: str | Sequence[str] = (),
    min_units: int = 20,
    resamples: int = 10_000,
    seed: int = 0,
    score_scale: tuple[float, float] | None = None,
) -> Comparison | Comparisons:
    """Compare treatments with a baseline over the tasks both did.

    Single trials of pass and fail are compared by Tango's score interval and McNemar's mid-p, all else by task means with the wider of
    Student's t and BCa bootstrap on each side; with clusters by CR1 and a bootstrap of whole clusters. Trials of one task lower its
    noise and never count as units.

    Args:
        what: Ledger, TraceSet, Compilation or frame; see `trials_of`.
        baseline: Arm, or role (`baseline` where a ledger declares roles).
        treatment: Arm or role; a list compares each and adjusts p-values by Holm.
        unit: `task`.
        cluster: Column of a unit above the task, as `cluster`, `domain` or one of the source's own.
        metric: `passed`, `score`, or `auto`: verdicts where every trial has one and no score lies between 0 and 1.
        missing: What a trial without a score, or a task an arm has not done, counts as: `exclude` leaves it out, `fail` gives it the
            lowest score, `bounds` gives the worst and the best case.
        infra: The same of trials lost to infrastructure; by default as `missing`.
        confidence: Of intervals and decisions.
        delta: Smallest difference that matters: an interval that holds 0 and delta is no answer yet.
        margin: Non-inferiority margin.
        guards: Of `cost_usd`, `tokens` and `duration_s` those to look at; with the relative increase each tolerates as a mapping.
        slices: Columns of the task to compare within.
        min_units: Tasks (or clusters) below which the decision is `need_more_data`.
        resamples: Of the bootstrap.
        seed: Of the bootstrap.
        score_scale: Low and high end of scores whose scale is not known.

    Raises:
        UsageError: An unknown arm, column, policy, metric or guard; a delta or margin that is none; a policy that needs a scale nobody
            knows.
        StatsError: A confidence or number of resamples outside its range.
        TableError: A frame of the caller does not hold to the table of trials.
    """
    check_unit(unit)
    several = not isinstance(treatment, str)
    treatments = [treatment] if isinstance(treatment, str) else list(treatment)
    if not treatments:
        msg = "there is no treatment to compare; name one or more"
        raise UsageError(msg)
    if margin is not None and not margin >= 0:
        msg = f"margin is {margin}; expected a loss that is tolerated, 0 or more, as 0.02"
        raise UsageError(msg)
    settings = Settings(
        missing,
        infra,
        How(confidence, resamples, seed, cluster is not None),
        rule_of(confidence, min_units, delta),
        margin,
        tolerances(guards),
        (slices,) if isinstance(slices, str) else tuple(slices),
    )
    checked = settings.policies
    given = prepared(
        what,
        [baseline, *treatments],
        metric=metric,
        cluster=cluster,
        columns=settings.slices,
        score_scale=score_scale,
    )
    paired = compared(cells(given.trials, ()), (), baseline, treatments)
    paired = paired.join(
        _task_facts(given.trials, settings.slices), on=TASK, how="left", nulls_equal=True, maintain_order="left"
    )
    _needs_scale(paired, checked)
    parts = Parts(
        given,
        paired,
        _under_every_policy(paired, settings, several=len(treatments) > 1),
        _simultaneous(paired, settings, len(treatments)),
        _sliced(paired, settings),
        judged(
            guard_units(given.trials, list(settings.limits), baseline, treatments),
            settings.limits,
            treatments,
            settings.how,
        ),
        cost_per_success_of(given.trials, [baseline, *treatments], confidence),
    )
    each = tuple(comparison(parts, baseline, name, settings) for name in treatments)
    return Comparisons(each) if several else each[0]


def _task_facts(trials: pl.DataFrame, slices: Sequence[str]) -> pl.DataFrame:
    """One row a task with the columns to slice by."""
    for column in slices:
        one_of_a_task(trials, column)
    own = [c for c in slices if c not in (*TASK, "cluster")]
    return trials.group_by(TASK, maintain_order=True).agg(pl.col(c).drop_nulls().first() for c in own)


def _fillable(paired: pl.DataFrame) -> pl.Series:
    """True where some policy would give a lost trial a score."""
    lost = [pl.col(f"{s}_{c}").fill_null(0) > 0 for s in SIDES for c in ("infra", "missing")]
    return paired.select(pl.any_horizontal(*lost, *(pl.col(f"{s}_trials").is_null() for s in SIDES))).to_series()


def _needs_scale(paired: pl.DataFrame, asked: Sequence[Policy]) -> None:
    raw = ~paired["scaled"] & _fillable(paired)
    if raw.any() and any(p.fills for p in asked):
        msg = (
            f"{Count(raw.sum()):task has|tasks have} lost trials, and their scores no known scale to fill in from; "
            "give score_scale=(low, high), or use missing='exclude' and infra='exclude'"
        )
        raise UsageError(msg)


def _under_every_policy(paired: pl.DataFrame, settings: Settings, *, several: bool) -> pl.DataFrame:
    """One row a treatment and policy, decided; without a scale only those that fill nothing in."""
    fillable = _fillable(paired)
    raw = bool((~paired["scaled"] & fillable).any())
    every = [p for p in dict.fromkeys((*SENSITIVITY, *settings.policies)) if not (raw and p.fills)]
    wanted = every if fillable.any() else every[:1]
    counted = [
        pl.when(pl.col("difference").is_not_null()).then(f"{s}_n").otherwise(0).alias(f"{s}_trials") for s in SIDES
    ]
    units = pl.concat(
        under(paired, p).select("treatment", *counted, *UNIT, missing=pl.lit(p.missing), infra=pl.lit(p.infra))
        for p in wanted
    )
    keys = ["treatment", *POLICY]
    trials = units.group_by(keys, maintain_order=True).agg(pl.col("baseline_trials", "treatment_trials").sum())
    found = estimates(units, keys, settings.how).join(trials, on=keys, how="left", maintain_order="left")
    if several:
        found = pl.concat(adjusted(part, "holm") for part in found.partition_by(POLICY, maintain_order=True))
    else:
        found = found.with_columns(p_adjusted=pl.lit(None, pl.Float64))
    told = decided(found, settings.rule)
    if len(wanted) < len(every):
        # Nothing was lost: every policy is the first.
        names = pl.DataFrame(every, schema=dict.fromkeys(POLICY, pl.String), orient="row")
        told = told.drop(POLICY).join(names, how="cross", maintain_order="left_right").select(told.columns)
    return told


def _simultaneous(paired: pl.DataFrame, settings: Settings, treatments: int) -> pl.DataFrame:
    """Limits that hold together over the treatments (Bonferroni), under the first policy of the call."""
    from expcomp.stats.multiple import resamples_needed, simultaneous_confidence

    if treatments < 2:
        return pl.DataFrame(schema={"treatment": pl.String, "low": pl.Float64, "high": pl.Float64})
    how = settings.how
    wide = how._replace(
        confidence=simultaneous_confidence(how.confidence, treatments),
        resamples=max(how.resamples, resamples_needed(how.confidence, treatments)),
    )
    parts = [estimates(under(paired, p).select("treatment", *UNIT), ["treatment"], wide) for p in settings.policies]
    both = pl.concat(parts).group_by("treatment", maintain_order=True)
    # A case without an interval bounds nothing.
    known = pl.col("low").is_not_null().all()
    return both.agg(low=pl.when(known).then(pl.col("low").min()), high=pl.when(known).then(pl.col("high").max()))


def _sliced(paired: pl.DataFrame, settings: Settings) -> pl.DataFrame:
    """One row a treatment, slice and value; under `bounds` lost trials are left out."""
    main = settings.policies
    filled = under(paired, main[0] if len(main) == 1 else Policy("exclude", "exclude"))
    keys = ["treatment", "slice", "value"]
    units = [
        filled.select("treatment", *UNIT, slice=pl.lit(c), value=pl.col(c).cast(pl.String)) for c in settings.slices
    ]
    empty = filled.head(0).select("treatment", *UNIT, slice=pl.lit(""), value=pl.lit(""))
    found = estimates(
        pl.concat([empty, *units]).sort("treatment", "slice", "value", maintain_order=True), keys, settings.how
    )
    found = adjusted(found, "fdr_bh", over="treatment")
    return decided(found, settings.rule).select(
        *keys, "n_units", "n_clusters", "method", "baseline_mean", "treatment_mean", "estimate", "low", "high", "p_value",
        "p_adjusted", "better", "worse", "tie_share", "decision", "reason", "mde", "needed_units",
    )  # fmt: skip
