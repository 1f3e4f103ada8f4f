"""Sections on repeated attempts: solver gap and learnability, pass@k and pass^k."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import polars as pl

from expcomp.comparing.gap import solver_gap
from expcomp.comparing.plots import plot_gap
from expcomp.errors import ExpcompError
from expcomp.figures.canvas import interval
from expcomp.figures.curves import pass_curves
from expcomp.io.counts import Count, percent
from expcomp.reports.model import Col, Figure, Section, Table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from expcomp.comparing.gap import SolverGap
    from expcomp.reports.compared import Arms
    from expcomp.reports.given import Given
    from expcomp.stats.curves import Estimator

_BY = ["benchmark", "arm"]
_SHARE = 0.9
_MOST_K = 32
_MOST_CURVES = 7
_MEASURES: tuple[tuple[str, Estimator], ...] = (("pass@k", "pass_at_k"), ("pass^k", "pass_hat_k"))


def passk_section(given: Given, confidence: float) -> Section | None:
    """pass@k and pass^k of the arms that repeat tasks, for each k that nine tenths of their tasks have verdicts for."""
    from expcomp.stats.curves import k_curves

    judged = given.trials.filter(~pl.col("infra"), pl.col("passed").is_not_null())
    counts = judged.group_by([*_BY, "task"], maintain_order=True).agg(n=pl.len())
    deepest = counts.group_by(_BY, maintain_order=True).agg(
        deepest=pl.col("n").quantile(1 - _SHARE, "lower").cast(pl.Int64)
    )
    several = deepest.filter(pl.col("deepest") > 1).with_columns(pl.col("deepest").clip(upper_bound=_MOST_K))
    if not several.height:
        return None
    used = judged.join(several, on=_BY, how="inner", nulls_equal=True, maintain_order="left")
    ks = range(1, int(several["deepest"].to_numpy().max()) + 1)
    parts = [
        k_curves(used, estimator=estimator, task="task", by=_BY, ks=ks, confidence=confidence).with_columns(
            measure=pl.lit(measure)
        )
        for measure, estimator in _MEASURES
    ]
    frame = (
        pl.concat(parts)
        .join(several, on=_BY, how="left", nulls_equal=True, maintain_order="left")
        .filter(pl.col("k") <= pl.col("deepest"))
        .sort([*_BY, "measure", "k"], nulls_last=True, maintain_order=True)
        .select(*_BY, "measure", "k", "tasks", "left_out", "estimate", "low", "high", "reason")
    )
    columns = (
        Col("benchmark", "benchmark"),
        Col("arm", "arm"),
        Col("measure", "measure"),
        Col("k", "k", "count"),
        Col("tasks", "tasks", "count"),
        Col("left_out", "tasks with fewer attempts", "count"),
        Col("estimate", "mean over tasks", "share", "low", "high"),
    )
    text = (
        "pass@k is the chance that at least one of k attempts at a task passes, pass^k that all of them do: unbiased over all subsets of "
        f"the attempts a task has, with {percent(confidence)} intervals over tasks. "
        "k ends where fewer than nine tenths of the tasks have k verdicts."
    )
    note = (
        ""
        if several.height <= _MOST_CURVES
        else f"{several.height:,} curves of each are too many to draw in one figure."
    )
    table = Table("passk", "pass@k and pass^k", frame, columns, note)
    figures = []
    if several.height <= _MOST_CURVES:
        arm = pl.col("arm").fill_null("arm unknown")
        if frame["benchmark"].n_unique() > 1:
            arm = pl.concat_str(pl.col("benchmark").fill_null("?"), arm, separator=" · ")
        alt = "Curves of pass@k, rising, and pass^k, falling, over k, one pair for each arm, with bands; the numbers stand in the table."
        figures.append(
            Figure("passk_curves", "pass@k and pass^k.", alt, partial(pass_curves, frame.with_columns(arm=arm)))
        )
    return Section("passk", "pass@k and pass^k", (text,), (table,), tuple(figures))


def gap_sections(
    given: Given, arms: Arms | None, confidence: float, score_scale: tuple[float, float] | None
) -> list[Section]:
    """The gap of each treatment over the baseline, else of the best over the worst attempt; none where no task has a gap.

    Raises:
        UsageError: Scores cannot be put together, and the arms were asked for.
    """
    pairs: list[tuple[str | None, str | None]] = (
        [(arms.baseline, t) for t in arms.treatments] if arms else [(None, None)]
    )
    made: list[Section] = []
    for i, (weak, strong) in enumerate(pairs if given.trials.height else [], 1):
        id_ = "gap" if i == 1 else f"gap_{i}"
        try:
            gap = solver_gap(given.what, weak, strong, confidence=confidence, score_scale=score_scale)
        except ExpcompError as error:
            if arms is not None and arms.asked:
                raise
            made.append(Section(id_, "Solver gap", (f"No solver gap was computed: {error}.",)))
            continue
        if gap.n_units:
            made.append(_gap(gap, id_))
    return made


def _gap(gap: SolverGap, id_: str) -> Section:
    title = "Solver gap" if gap.weak is None else f"Solver gap of {gap.strong} over {gap.weak}"
    who = "best − worst attempt" if gap.weak is None else f"{gap.strong} − {gap.weak}"
    how = f"{percent(gap.confidence)} interval, {gap.method}" if gap.low is not None else "no interval"
    found = (
        f"{who}: {interval(gap.estimate, gap.low, gap.high, signed=True)} over {Count(gap.n_units):task|tasks} ({how})."
    )
    text = (found, *(f"Note: {n}." for n in gap.notes))
    return Section(id_, title, text, tuple(_gap_tables(gap, id_)), tuple(_gap_figures(gap, id_)))


def _gap_tables(gap: SolverGap, id_: str) -> Iterator[Table]:
    bands = (Col("band", "band"), Col("tasks", "tasks", "count"), Col("keep_for_grpo", "to keep for GRPO", "count"))
    note = "By Wilson's interval of the pass rate; unknown: attempts agree and are too few to tell."
    yield Table(f"{id_}_bands", "Learnability of tasks", gap.bands, bands, note)
    kept = (Col("keep_reason", "reason"), Col("tasks", "tasks", "count"))
    yield Table(f"{id_}_kept", "To keep for GRPO: only tasks with spread", gap.kept, kept)
    if gap.explained.height:
        shown = (
            Col("failure_class", "failure class"),
            Col("weak_trials", "trials, weak", "count"),
            Col("strong_trials", "trials, strong", "count"),
            Col("weak_shortfall", "shortfall, weak", "number"),
            Col("strong_shortfall", "shortfall, strong", "number"),
            Col("contribution", "part of the gap", "number", signed=True),
            Col("share", "share of the gap", "number", signed=True),
        )
        note = f"Over {Count(gap.n_units):task|tasks}; the parts sum to the gap. A sum of parts has no interval of its own here."
        told = gap.explained.with_columns(pl.col("failure_class").fill_null("none recorded"))
        yield Table(f"{id_}_explained", "What the gap is made of", told, shown, note)
    tasks = gap.frame.sort("gap", descending=True, nulls_last=True, maintain_order=True)
    columns = (
        Col("benchmark", "benchmark"),
        Col("task", "task"),
        Col("weak_n", "n, weak", "count"),
        Col("weak_mean", "weak", "number"),
        Col("strong_n", "n, strong", "count"),
        Col("strong_mean", "strong", "number"),
        Col("worst", "worst", "number"),
        Col("best", "best", "number"),
        Col("gap", "gap", "number", signed=True),
        Col("n_verdicts", "verdicts", "count"),
        Col("pass_rate", "pass rate", "share", "pass_low", "pass_high"),
        Col("learnability", "4 p (1 - p)", "share"),
        Col("band", "band"),
        Col("keep_reason", "GRPO"),
    )
    yield Table(f"{id_}_tasks", "Tasks, largest gap first", tasks, columns)


def _gap_figures(gap: SolverGap, id_: str) -> Iterator[Figure]:
    alt = f"Histogram of the gap of {Count(gap.n_units):task|tasks}; the numbers stand in the table of tasks."
    yield Figure(
        f"{id_}_histogram", "How far apart solvers are on each task.", alt, partial(plot_gap, gap, "histogram")
    )
    if gap.frame["pass_rate"].count():
        alt = "Tasks by pass rate and number of verdicts, marked by band; the counts stand in the table of bands."
        yield Figure(f"{id_}_plane", "What can be learned from.", alt, partial(plot_gap, gap, "plane"))
