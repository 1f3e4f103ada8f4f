"""Solver gap: how far apart solvers are on each task, what separates them, and which tasks are worth training on."""

from __future__ import annotations

from dataclasses import dataclass, fields
from html import escape
from typing import TYPE_CHECKING, Any

import polars as pl

from expcomp.comparing.cells import TASK
from expcomp.comparing.curves import curves_of
from expcomp.comparing.estimates import How, estimates
from expcomp.comparing.explained import explained
from expcomp.comparing.prepare import prepared
from expcomp.comparing.showing import frames_html, interval, number, plain
from expcomp.errors import UsageError
from expcomp.io.counts import Count
from expcomp.tables.stats import BAND, KEEP, SOLVER_GAP_TASKS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes

FLAT = 1e-12
"""Scores closer than this are one score, as in a GRPO group."""
BANDS = (0.2, 0.8)
_DOUBTS = {
    "one_arm": "best and worst attempts are compared: their gap grows with the number of attempts, and says nothing of two solvers",
    "raw": "scores have no known scale: gaps are in units of the score, and no share of them is explained",
    "unpaired": "{unpaired:task has|tasks have} no usable trial of one of the arms: no gap",
    "no_verdicts": "no trial has a verdict: no pass rate, band or curve",
}


@dataclass(frozen=True, repr=False)
class SolverGap:
    """What separates solvers, by task and overall.

    Attributes:
        weak: Weak arm, the policy to train; None: all attempts, best against worst.
        strong: Strong arm; None with all attempts.
        metric: `passed` or `score`.
        scaled: Whether 0 is the lowest value and 1 the highest.
        frame: One row a task: the table `solver_gap_tasks`.
        estimate: Mean gap over the tasks with one, every task weighing the same.
        low: Lower limit of its interval; None where nothing measures the spread.
        high: Upper limit.
        confidence: Of the interval, the bands and the curves.
        method: As in `Comparison`.
        n_units: Tasks with a gap.
        bands: `band`, `tasks`, `keep_for_grpo` (tasks of it).
        kept: `keep_reason`, `tasks`.
        explained: By failure class: `weak_shortfall`, `strong_shortfall`, `contribution` (they sum to the gap), `share`, trials.
        curves: pass@k and pass^k by arm and k, with limits.
        notes: What a reader should know.
    """

    weak: str | None
    strong: str | None
    metric: str
    scaled: bool
    frame: pl.DataFrame
    estimate: float | None
    low: float | None
    high: float | None
    confidence: float
    method: str | None
    n_units: int
    bands: pl.DataFrame
    kept: pl.DataFrame
    explained: pl.DataFrame
    curves: pl.DataFrame
    notes: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """All of it as JSON values; a frame is a list of values by column."""
        return {f.name: plain(getattr(self, f.name)) for f in fields(self)}

    def sentence(self) -> str:
        """What was found, in one line."""
        who = "best vs worst attempt" if self.weak is None else f"{self.strong} vs {self.weak}"
        kept = int(self.frame["keep_for_grpo"].sum())
        found = f"{number(self.estimate, sign=True)} {interval(self.low, self.high)}"
        return (
            f"{who}: {found} over {self.n_units:,} of {Count(self.frame.height):task|tasks}; {kept:,} to keep for GRPO"
        )

    def __repr__(self) -> str:
        return f"SolverGap({self.sentence()})"

    def plot(self, which: str = "histogram", *, ax: Axes | None = None) -> Axes:
        """A figure: `histogram` of gaps, learnability `plane`, or `curves` of pass@k and pass^k; on new axes when none are given.

        Raises:
            UsageError: There is no such figure.
        """
        from expcomp.comparing.plots import plot_gap

        return plot_gap(self, which, ax)

    def _repr_html_(self) -> str:
        notes = "".join(f"<li>{escape(n)}</li>" for n in self.notes)
        frames = {
            "Bands": self.bands,
            "Kept for GRPO": self.kept,
            "Explained by failure class": self.explained,
            "pass@k and pass^k": self.curves,
            "Tasks, largest gap first": self.frame.sort("gap", descending=True, nulls_last=True, maintain_order=True),
        }
        return f"<p>{escape(self.sentence())}</p>" + (f"<ul>{notes}</ul>" if notes else "") + frames_html(frames)


def solver_gap(
    what: Any,
    weak: str | None = None,
    strong: str | None = None,
    *,
    metric: str = "auto",
    band: tuple[float, float] = BANDS,
    confidence: float = 0.95,
    k: Sequence[int] | None = None,
    failure: str = "failure_class",
    resamples: int = 10_000,
    seed: int = 0,
    score_scale: tuple[float, float] | None = None,
) -> SolverGap:
    """Solver gap of each task, weak against strong arm, or best against worst attempt when no arm is named.

    A task is `learnable` when some attempts of the policy (the weak arm) passed and some failed, unless the Wilson interval of its
    pass rate lies above or below `band`; `too_easy` and `too_hard` are those that do; `unknown` all others, whose attempts agree
    but are too few. It is kept for GRPO when two or more usable scores differ: a group without spread has no advantage.

    Args:
        what: Ledger, TraceSet, Compilation or frame; see `trials_of`.
        weak: Arm or role of the weak solver.
        strong: Arm or role of the strong solver.
        metric: As in `compare`.
        band: Pass rates above which a task is too easy, and below which it is too hard: (low, high).
        confidence: Of intervals and bands.
        k: Of the curves; by default 1, 2, 4, ... up to the attempts that half of an arm's tasks have.
        failure: Column that says what went wrong in a trial, as `failure_class` or one of the source's own: what the gap is taken
            apart by.
        resamples: Of the bootstrap.
        seed: Of the bootstrap.
        score_scale: Low and high end of scores whose scale is not known.

    Raises:
        UsageError: One arm without the other, an unknown arm or metric, a band that is none.
        TableError: A frame of the caller does not hold to the table of trials.
    """
    if (weak is None) != (strong is None):
        msg = f"weak is {weak!r} and strong {strong!r}; name both arms, or none for best against worst attempt"
        raise UsageError(msg)
    if not 0 < band[0] < band[1] < 1:
        msg = f"band is {band}; expected (low, high) with 0 < low < high < 1"
        raise UsageError(msg)
    arms = [] if weak is None or strong is None else [weak, strong]
    given = prepared(what, arms, metric=metric, columns=[failure], score_scale=score_scale)
    trials = given.trials
    frame = _tasks(trials, weak, strong, band, confidence)
    units = frame.select(
        pl.lit("gap").alias("what"),
        pl.col("gap").alias("difference"),
        single=pl.lit(value=False) if weak is None else _single(trials, frame),
        baseline_mean=pl.col("weak_mean") if weak is not None else pl.col("worst"),
        treatment_mean=pl.col("strong_mean") if weak is not None else pl.col("best"),
        cluster=pl.lit(None, pl.String),
    )
    found = estimates(units, ["what"], How(confidence, resamples, seed)) if frame.height else None
    main = found.row(0, named=True) if found is not None else dict.fromkeys(("estimate", "low", "high", "method"))
    scaled = bool(trials["scaled"].fill_null(value=True).all())
    told = {
        "one_arm": weak is None,
        "raw": not scaled,
        "unpaired": weak is not None and bool(frame["gap"].null_count()),
        "no_verdicts": not frame["n_verdicts"].sum(),
    }
    doubts = [text.format(unpaired=Count(frame["gap"].null_count())) for name, text in _DOUBTS.items() if told[name]]
    return SolverGap(
        weak=weak,
        strong=strong,
        metric=trials["metric"][0] if trials.height else "score",
        scaled=scaled,
        frame=frame,
        estimate=main["estimate"],
        low=main["low"],
        high=main["high"],
        confidence=confidence,
        method=main["method"],
        n_units=frame.height - frame["gap"].null_count(),
        bands=_counted(frame, "band", BAND, keep_for_grpo=pl.col("keep_for_grpo").sum().cast(pl.Int64)),
        kept=_counted(frame, "keep_reason", KEEP),
        explained=explained(trials, frame, weak, strong, failure=failure, scaled=scaled),
        curves=curves_of(trials, arms, k, confidence=confidence, resamples=resamples, seed=seed),
        notes=(*given.notes, *doubts),
    )


def _tasks(
    trials: pl.DataFrame, weak: str | None, strong: str | None, band: tuple[float, float], confidence: float
) -> pl.DataFrame:
    value = pl.col("value")
    usable = value.is_not_null()
    own = usable if weak is None else usable & (pl.col("arm") == weak).fill_null(value=False)
    mine = pl.lit(value=True) if weak is None else (pl.col("arm") == weak).fill_null(value=False)
    verdict = pl.col("passed").filter(own).drop_nulls()
    sides = {
        f"{side}_{name}": expr
        for side, arm in (("weak", weak), ("strong", strong))
        for name, expr in (
            (
                "n",
                value.filter(pl.col("arm") == arm).count().cast(pl.Int64)
                if arm is not None
                else pl.lit(None, pl.Int64),
            ),
            ("mean", value.filter(pl.col("arm") == arm).mean() if arm is not None else pl.lit(None, pl.Float64)),
        )
    }
    told = trials.group_by(TASK, maintain_order=True).agg(
        **sides,
        worst=value.min(),
        best=value.max(),
        n=own.sum().cast(pl.Int64),
        n_unusable=(mine & ~usable).sum().cast(pl.Int64),
        mean=value.filter(own).mean(),
        var=value.filter(own).var(),
        span=value.filter(own).max() - value.filter(own).min(),
        n_verdicts=verdict.len().cast(pl.Int64),
        n_passed=verdict.sum().cast(pl.Int64),
    )
    gap = pl.col("best") - pl.col("worst") if weak is None else pl.col("strong_mean") - pl.col("weak_mean")
    alone = pl.col("n") < 2 if weak is None else pl.lit(value=False)
    told = _with_bounds(told.with_columns(gap=pl.when(~alone).then(gap)).sort(TASK), confidence)
    passed, n = pl.col("n_passed"), pl.col("n_verdicts")
    rate = passed / n
    reason = (
        pl.when(pl.col("n") < 2)
        .then(pl.lit("too_few_attempts"))
        .when(pl.col("span") > FLAT)
        .then(pl.lit("spread"))
        .when((passed == n) & (n == pl.col("n")))
        .then(pl.lit("all_passed"))
        .when((passed == 0) & (n == pl.col("n")))
        .then(pl.lit("all_failed"))
        .otherwise(pl.lit("no_spread"))
    )
    where = (
        pl.when(pl.col("pass_low") > band[1])
        .then(pl.lit("too_easy"))
        .when(pl.col("pass_high") < band[0])
        .then(pl.lit("too_hard"))
        .when((passed > 0) & (passed < n))
        .then(pl.lit("learnable"))
        .otherwise(pl.lit("unknown"))
    )
    return told.with_columns(
        pass_rate=pl.when(n > 0).then(rate),
        learnability=pl.when(n > 1).then(4 * rate * (1 - rate)),
        band=where.cast(BAND),
        keep_for_grpo=reason == "spread",
        keep_reason=reason.cast(KEEP),
    ).select(list(SOLVER_GAP_TASKS.columns))


def _with_bounds(told: pl.DataFrame, confidence: float) -> pl.DataFrame:
    """Wilson's limits of the pass rate, null without a verdict."""
    from expcomp.stats.batch import wilson

    known = told.filter(pl.col("n_verdicts") > 0)
    if not known.height:
        return told.with_columns(pass_low=pl.lit(None, pl.Float64), pass_high=pl.lit(None, pl.Float64))
    limits = wilson(known["n_passed"], known["n_verdicts"], confidence=confidence)
    bounds = known.select(TASK).with_columns(
        pass_low=pl.Series(limits.low).clip(0, 1), pass_high=pl.Series(limits.high).clip(0, 1)
    )
    return told.join(bounds, on=TASK, how="left", nulls_equal=True, maintain_order="left")


def _single(trials: pl.DataFrame, frame: pl.DataFrame) -> pl.Expr:
    """Whether all trials are pass or fail, and this task has one of each arm."""
    two_valued = bool(trials["value"].drop_nulls().is_in([0.0, 1.0]).all())
    lone = (frame["weak_n"] == 1) & (frame["strong_n"] == 1)
    return pl.lit(lone & two_valued)


def _counted(frame: pl.DataFrame, column: str, words: pl.Enum, **more: pl.Expr) -> pl.DataFrame:
    """Tasks by value, also the values no task has."""
    counts = frame.group_by(column, maintain_order=True).agg(tasks=pl.len().cast(pl.Int64), **more)
    every = pl.DataFrame({column: words.categories}, schema={column: words})
    return every.join(counts, on=column, how="left", maintain_order="left").with_columns(
        pl.exclude(column).fill_null(0)
    )
