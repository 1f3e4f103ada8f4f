"""Sections on comparisons: one for each treatment, with what its decision rests on."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import polars as pl

from expcomp.comparing.compare import compare
from expcomp.comparing.plots import arm_means, plot_comparison
from expcomp.comparing.showing import needed_text
from expcomp.errors import ExpcompError, UsageError
from expcomp.figures.canvas import interval, number
from expcomp.io.counts import Count, percent
from expcomp.reports.model import Col, Figure, Section, Table

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from expcomp.comparing.comparison import Comparison
    from expcomp.reports.given import Given

ROLES = ("baseline", "treatment")
_MOST_VALUES = 30
_FACTS = (
    "baseline treatment metric n_units n_clusters baseline_mean treatment_mean estimate low high method p_value p_adjusted sign_p better "
    "worse tie_share se se_unpaired decision reason robust"
).split()
_ESTIMATE = Col("estimate", "difference", "number", "low", "high", signed=True)
_MEANS = (Col("baseline_mean", "baseline", "number"), Col("treatment_mean", "treatment", "number"))
_MEANS_WITH_LIMITS = tuple(Col(f"{r}_mean", r, "number", f"{r}_low", f"{r}_high") for r in ROLES)


class Arms(NamedTuple):
    """Who is compared with whom, and whether somebody asked for it."""

    baseline: str
    treatments: list[str]
    asked: bool


def arms_of(given: Given, baseline: str | None, treatment: str | Sequence[str] | None) -> Arms | None:
    """The arms that are named, else the roles `baseline` and `treatment` where arms have them.

    Raises:
        UsageError: Only one of them is named.
    """
    treatments = [treatment] if isinstance(treatment, str) else list(treatment or ())
    if (baseline is None) != (not treatments):
        raise UsageError("a comparison needs both arms: name baseline and treatment, or neither")
    if baseline is not None:
        return Arms(baseline, treatments, asked=True)
    declared = set(ROLES) <= set(given.trials["role"].drop_nulls())
    return Arms(ROLES[0], [ROLES[1]], asked=False) if declared else None


def comparison_sections(
    given: Given, arms: Arms | None, confidence: float, score_scale: tuple[float, float] | None
) -> list[Section]:
    """One section a treatment; without arms to compare a word on how to name them.

    Raises:
        UsageError: There is no such arm, or arms that were asked for cannot be compared.
    """
    trials = given.trials
    if arms is None:
        n = trials["arm"].drop_nulls().n_unique()
        words = f"There are {n:,} arms, and nothing says which is the baseline: name a baseline and a treatment to compare them."
        return [Section("comparison", "Comparison", (words,))] if n > 1 else []
    try:
        each = compare(
            given.what,
            arms.baseline,
            arms.treatments,
            confidence=confidence,
            slices=_slices(trials),
            score_scale=score_scale,
        )
    except ExpcompError as error:
        if arms.asked:
            raise
        return [Section("comparison", "Comparison", (f"Baseline and treatment were not compared: {error}.",))]
    return [_section(c, f"comparison_{i}" if i > 1 else "comparison") for i, c in enumerate(each, 1)]


def _slices(trials: pl.DataFrame) -> list[str]:
    """Columns of the task that take a few values."""
    counts = trials.select(pl.col("benchmark", "domain").n_unique()).row(0, named=True)
    return [name for name, n in counts.items() if 1 < n <= _MOST_VALUES]


def _section(c: Comparison, id_: str) -> Section:
    return Section(
        id_, f"{c.treatment} against {c.baseline}", tuple(_words(c)), tuple(_tables(c, id_)), tuple(_figures(c, id_))
    )


def _words(c: Comparison) -> Iterator[str]:
    found = interval(c.estimate, c.low, c.high, signed=True)
    how = f"{percent(c.confidence)} interval, {c.method}" if c.low is not None else "no interval"
    clusters = "" if c.n_clusters is None else f" in {Count(c.n_clusters):cluster|clusters}"
    yield f"{c.treatment} − {c.baseline}: {found} over {Count(c.n_units):task|tasks}{clusters} ({how})."
    yield f"Decision: {c.decision.replace('_', ' ')}, since {c.reason.replace('_', ' ')}."
    if c.decision == "need_more_data":
        more = needed_text(c.needed)
        yield f"To decide: {more}." if more else "How much more data would decide is not known."
    if c.mde is not None:
        yield f"{Count(c.n_units):task|tasks} of this spread show a difference of {number(c.mde)} or more with power 0.8."
    if c.bounds is not None:
        worst, best = (number(b, signed=True) for b in c.bounds)
        yield f"If every lost trial went against the treatment the difference would be {worst}, if for it {best}."
    if c.non_inferior is not None:
        yield f"The treatment is {'' if c.non_inferior else 'not shown to be '}non-inferior at a margin of {c.margin}."
    yield from (f"Note: {note}." for note in c.notes)


def _tables(c: Comparison, id_: str) -> Iterator[Table]:
    means = arm_means(c)
    facts = pl.DataFrame(
        {
            **{name: [getattr(c, name)] for name in _FACTS},
            **{f"{r}_{end}": [means[end][i]] for i, r in enumerate(ROLES) for end in ("low", "high")},
            "baseline_trials": [c.n_trials[0]],
            "treatment_trials": [c.n_trials[1]],
            "simultaneous_low": [c.simultaneous.low if c.simultaneous else None],
            "simultaneous_high": [c.simultaneous.high if c.simultaneous else None],
        }
    )
    columns = (
        Col("metric", "metric"),
        Col("n_units", "tasks", "count"),
        Col("n_clusters", "clusters", "count"),
        Col("baseline_trials", "trials, baseline", "count"),
        Col("treatment_trials", "trials, treatment", "count"),
        *_MEANS_WITH_LIMITS,
        _ESTIMATE,
        Col("method", "interval"),
        Col("p_value", "p", "p"),
        Col("p_adjusted", "p, Holm", "p"),
        Col("sign_p", "p, sign test", "p"),
        Col("better", "better", "count"),
        Col("worse", "worse", "count"),
        Col("tie_share", "ties", "share"),
        Col("decision", "decision"),
    )
    note = "A difference is treatment minus baseline, over the tasks that both have done; every task weighs the same."
    yield Table(f"{id_}_summary", "Difference", facts, columns, note)
    yield Table(
        f"{id_}_sensitivity",
        "The same under every policy for lost trials",
        c.sensitivity,
        (
            Col("missing", "without a score"),
            Col("infra", "infrastructure"),
            Col("n_units", "tasks", "count"),
            Col("baseline_trials", "trials, baseline", "count"),
            Col("treatment_trials", "trials, treatment", "count"),
            *_MEANS,
            _ESTIMATE,
            Col("p_value", "p", "p"),
            Col("decision", "decision"),
        ),
        "exclude: left out; fail: lowest score; worst, best: every lost trial against, or for, the treatment.",
    )
    flips = c.flips.filter(pl.col("tasks") > 0) if c.flips.height else c.flips
    if flips.height:
        shown = (
            Col("baseline_outcome", "baseline"),
            Col("treatment_outcome", "treatment"),
            Col("tasks", "tasks", "count"),
        )
        yield Table(
            f"{id_}_flips",
            "Tasks by outcome of both arms",
            flips,
            shown,
            "mixed: trials of one arm at one task disagree.",
        )
    yield from _more_tables(c, id_)


def _more_tables(c: Comparison, id_: str) -> Iterator[Table]:
    guards = c.guards.filter(pl.col("n_units") > 0)
    if guards.height:
        shown: tuple[Col, ...] = (
            Col("guard", "guard"),
            Col("n_units", "tasks", "count"),
            *_MEANS,
            Col("difference", "difference", "number", "low", "high", signed=True),
            Col("change", "relative", "number", signed=True),
            Col("p_adjusted", "p, Benjamini-Hochberg", "p"),
            Col("status", "status"),
        )
        yield Table(f"{id_}_guards", "Cost, tokens and time", guards, shown)
    if c.slices.height:
        shown = (
            Col("slice", "slice"),
            Col("value", "value"),
            Col("n_units", "tasks", "count"),
            *_MEANS,
            _ESTIMATE,
            Col("p_adjusted", "p, Benjamini-Hochberg", "p"),
            Col("decision", "decision"),
        )
        yield Table(f"{id_}_slices", "By slice", c.slices, shown)
    if c.cost_per_success["cost_usd"].null_count() < c.cost_per_success.height:
        shown = (
            Col("arm", "arm"),
            Col("tasks", "tasks", "count"),
            Col("tasks_left_out", "tasks of unknown cost", "count"),
            Col("trials", "trials", "count"),
            Col("cost_usd", "cost, USD", "number"),
            Col("successes", "successes", "count"),
            Col("cost_per_success", "cost of a success, USD", "number", "low", "high"),
            Col("note", "note"),
        )
        yield Table(f"{id_}_cost", "Cost of a success", c.cost_per_success, shown)
    repeated = c.table["baseline_flip_rate"].count() + c.table["treatment_flip_rate"].count() > 0
    note = "flips: share of pairs of trials of one arm that disagree." if repeated else ""
    tasks = c.table.sort(pl.col("difference").abs(), descending=True, nulls_last=True, maintain_order=True)
    shown = (
        Col("benchmark", "benchmark"),
        Col("task", "task"),
        Col("baseline_n", "n, baseline", "count"),
        Col("treatment_n", "n, treatment", "count"),
        *_MEANS,
        Col("difference", "difference", "number", signed=True),
        Col("change", "change"),
        Col("baseline_flip_rate", "flips, baseline", "share"),
        Col("treatment_flip_rate", "flips, treatment", "share"),
        Col("left_out", "left out because"),
    )
    yield Table(
        f"{id_}_tasks",
        "Tasks, largest difference first",
        tasks,
        shown,
        note,
    )


def _figures(c: Comparison, id_: str) -> Iterator[Figure]:
    if not c.n_units:
        return
    told = f"{Count(c.better):task|tasks} better, {c.worse:,} worse, {c.n_units - c.better - c.worse:,} the same."
    drawn = {
        "slopes": (
            True,
            "Every task under both arms; at the sides the means of the arms.",
            f"A line for each task between the arms: {told}",
        ),
        "dumbbells": (True, "The same by difference.", f"A row for each task, by difference: {told}"),
        "flips": (
            c.flips.height > 0,
            "Tasks by outcome of both arms.",
            "Counts of tasks by outcome; they stand in the table of outcomes.",
        ),
        "forest": (
            c.slices.height > 0,
            "Difference by slice.",
            "The difference in each slice; the numbers stand in the table of slices.",
        ),
        "policies": (
            c.sensitivity["estimate"].n_unique() > 1,
            "The difference under every policy for lost trials.",
            "The difference under each policy; the numbers stand in the table of policies.",
        ),
        "cumulative": (
            c.low is not None,
            "How the estimate settled; no rule of when to stop.",
            f"Estimate and interval over the first tasks in the order of their ids, up to all {c.n_units:,}.",
        ),
    }
    for which, (wanted, title, alt) in drawn.items():
        if wanted:
            yield Figure(f"{id_}_{which}", title, alt, partial(plot_comparison, c, which))
