"""Comparison: what a treatment did against a baseline, and how sure that is."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from html import escape
from typing import TYPE_CHECKING, Any

import polars as pl

from expcomp.comparing.showing import frames_html, interval, number, plain
from expcomp.io.counts import Count

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from matplotlib.axes import Axes

    from expcomp.stats.interval import Interval

SUMMARY = (
    "baseline treatment metric decision reason estimate low high confidence method p_value p_adjusted n_units n_clusters baseline_mean "
    "treatment_mean mde non_inferior robust"
).split()


@dataclass(frozen=True, repr=False)
class Comparison:
    """Treatment against baseline over the tasks both did; a difference is treatment minus baseline.

    Attributes:
        baseline: Name of the baseline.
        treatment: Name of the treatment.
        metric: `passed` (verdicts) or `score`.
        scaled: Whether 0 is the lowest value and 1 the highest; else the score is raw.
        policy: What lost trials count as: `missing` and `infra`.
        table: One row a task, also those left out: the table `comparison_units`, with the columns of the slices; under `bounds`
            lost trials are left out of its means.
        estimate: Mean difference over the tasks used, every task weighing the same; None without tasks and under `bounds`.
        bounds: The estimate with every lost trial going against the treatment, and for it; None where the scale is not known.
        low: Lower limit of the interval; None where nothing measures the spread.
        high: Upper limit.
        confidence: Of the interval.
        simultaneous: Limits that hold together with those of the other treatments (Bonferroni); None with one treatment.
        method: `tango`, `min(t, BCa)`, or `CR1 t, cluster BCa`.
        se: Standard error of the estimate.
        se_unpaired: What it would be if the arms had not done the same tasks.
        p_value: Two-sided, of no difference: McNemar's mid-p with `tango`, else of t. Under `bounds` this, `p_adjusted` and `sign_p` are
            the larger of both cases, and 1 where these point in different directions.
        p_adjusted: Holm's, over the treatments; None with one.
        sign_p: Exact two-sided sign test of better against worse tasks; None when all tie.
        n_units: Tasks used.
        n_clusters: Clusters of these tasks; None unless clustered.
        n_trials: Trials behind the means, baseline and treatment.
        baseline_mean: Mean of the baseline over the tasks used.
        treatment_mean: Mean of the treatment over them.
        better: Tasks with a positive difference; under `bounds` those that have it in both cases.
        worse: Tasks with a negative one; under `bounds` likewise.
        tie_share: Share of the tasks without a difference; None where the two cases of `bounds` disagree.
        flips: Tasks by outcome of both arms: `baseline_outcome`, `treatment_outcome`, `tasks`; empty unless pass or fail.
        decision: `improved`, `regressed`, `no_difference_shown` or `need_more_data`.
        reason: The line of the rule that held.
        mde: Difference that so many tasks (clusters) of this spread show with power 0.8: by the noncentral t, under Tango by the normal
            formula; None where nothing measures the spread.
        needed: With `need_more_data`: `tasks` (or `clusters`) more at the present trials a task; `trials` a task at the present tasks,
            of 1, 2, 4, 8, 16. None where it is not known, or no number is enough.
        delta: Smallest difference that matters, as given.
        margin: Non-inferiority margin, as given.
        non_inferior: Whether `low` is above `-margin`; None without a margin or an interval.
        sensitivity: The comparison under every policy: `missing`, `infra`, estimates, `decision`, `reason`.
        guards: One row a guard: cost, tokens, latency; see `expcomp.comparing.guards`.
        slices: One row a slice and value, with `p_adjusted` (Benjamini-Hochberg over them) and `decision`.
        cost_per_success: One row an arm.
        left_out: Attempts of the source that are no trials, by reason.
        notes: What a reader should know before believing this.
    """

    baseline: str
    treatment: str
    metric: str
    scaled: bool
    policy: Mapping[str, str]
    table: pl.DataFrame
    estimate: float | None
    bounds: tuple[float, float] | None
    low: float | None
    high: float | None
    confidence: float
    simultaneous: Interval | None
    method: str | None
    se: float | None
    se_unpaired: float | None
    p_value: float | None
    p_adjusted: float | None
    sign_p: float | None
    n_units: int
    n_clusters: int | None
    n_trials: tuple[int, int]
    baseline_mean: float | None
    treatment_mean: float | None
    better: int
    worse: int
    tie_share: float | None
    flips: pl.DataFrame
    decision: str
    reason: str
    mde: float | None
    needed: Mapping[str, int | None]
    delta: float | None
    margin: float | None
    non_inferior: bool | None
    sensitivity: pl.DataFrame
    guards: pl.DataFrame
    slices: pl.DataFrame
    cost_per_success: pl.DataFrame
    left_out: pl.DataFrame
    notes: tuple[str, ...] = field(default=())

    @property
    def robust(self) -> bool:
        """Whether the decision is the same under every policy it could be made under."""
        return self.sensitivity["decision"].drop_nulls().n_unique() <= 1

    def to_dict(self) -> dict[str, Any]:
        """All of it as JSON values; a frame is a list of values by column."""
        return {f.name: plain(getattr(self, f.name)) for f in fields(self)} | {"robust": self.robust}

    def summary(self) -> dict[str, Any]:
        """The figures in one flat line."""
        return {name: plain(getattr(self, name)) for name in SUMMARY}

    def sentence(self) -> str:
        """What was found, in one line."""
        found = f"{number(self.estimate, sign=True)} {interval(self.low, self.high)}"
        clustered = "" if self.n_clusters is None else f" in {Count(self.n_clusters):cluster|clusters}"
        return f"{self.treatment} vs {self.baseline}: {found}, {Count(self.n_units):task|tasks}{clustered}, {self.decision}"

    def plot(self, which: str = "slopes", *, ax: Axes | None = None) -> Axes:
        """A figure: `slopes`, `dumbbells`, `flips`, `forest` (by slice), `cumulative` or `policies`; on new axes when none are given.

        Raises:
            UsageError: There is no such figure.
        """
        from expcomp.comparing.plots import plot_comparison

        return plot_comparison(self, which, ax)

    def __repr__(self) -> str:
        return f"Comparison({self.sentence()})"

    def _repr_html_(self) -> str:
        shown = self.table.sort(pl.col("difference").abs(), descending=True, nulls_last=True, maintain_order=True)
        frames = {
            "": pl.DataFrame([self.summary()]),
            "Under every policy": self.sensitivity,
            "Flips": self.flips.filter(pl.col("tasks") > 0),
            "Guards": self.guards,
            "Slices": self.slices,
            "Cost per success": self.cost_per_success.filter(pl.col("cost_usd").is_not_null()),
            "Tasks, largest difference first": shown,
        }
        notes = "".join(f"<li>{escape(n)}</li>" for n in self.notes)
        return f"<p>{escape(self.sentence())}</p>" + (f"<ul>{notes}</ul>" if notes else "") + frames_html(frames)


@dataclass(frozen=True, repr=False)
class Comparisons:
    """Several treatments against one baseline: a sequence of `Comparison`, in the order of the call.

    Attributes:
        each: The comparisons; p-values adjusted by Holm, limits also as `simultaneous`.
    """

    each: tuple[Comparison, ...]

    @property
    def table(self) -> pl.DataFrame:
        """One row a treatment."""
        return pl.DataFrame([c.summary() for c in self.each], infer_schema_length=None)

    def plot(self, *, ax: Axes | None = None) -> Axes:
        """Draw a forest of the treatments."""
        from expcomp.comparing.plots import plot_comparisons

        return plot_comparisons(self, ax)

    def to_dict(self) -> dict[str, Any]:
        """By treatment, as `Comparison.to_dict`."""
        return {c.treatment: c.to_dict() for c in self.each}

    def __getitem__(self, which: int | str) -> Comparison:
        if isinstance(which, int):
            return self.each[which]
        found = {c.treatment: c for c in self.each}
        if which not in found:
            msg = f"there is no treatment {which!r}; there are {', '.join(found)}"
            raise KeyError(msg)
        return found[which]

    def __iter__(self) -> Iterator[Comparison]:
        return iter(self.each)

    def __len__(self) -> int:
        return len(self.each)

    def __repr__(self) -> str:
        return "Comparisons(\n" + "".join(f"  {c.sentence()}\n" for c in self.each) + ")"

    def _repr_html_(self) -> str:
        return frames_html({"": self.table})
