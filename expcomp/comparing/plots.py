"""Which figure shows what of a comparison or a gap: a table of names, drawn by `expcomp.figures`."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import polars as pl

from expcomp.comparing.estimates import How, estimates
from expcomp.comparing.policies import SIDES
from expcomp.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from matplotlib.axes import Axes

    from expcomp.comparing.comparison import Comparison, Comparisons
    from expcomp.comparing.gap import SolverGap

_Drawn = TypeVar("_Drawn")
CURVES = {"pass_at_k": "pass@k", "pass_hat_k": "pass^k"}
_POINTS = 25


def arm_means(c: Comparison) -> pl.DataFrame:
    """`arm`, `estimate`, `low`, `high`, `n`: mean of each arm over the tasks used, baseline first.

    Wilson's interval where every task has one verdict, else the wider of Student's t and BCa over the task means; null where these do
    not differ. With clusters that of whole clusters.
    """
    from expcomp.stats.batch import clustered_means, paired_means, wilson

    used = c.table.filter("used")
    arms = pl.DataFrame(
        {
            "arm": [c.baseline, c.treatment],
            "estimate": [used[f"{s}_mean"].mean() for s in SIDES],
            "passed": [used[f"{s}_mean"].sum() for s in SIDES],
        },
        schema={"arm": pl.String, "estimate": pl.Float64, "passed": pl.Float64},
    ).with_columns(n=pl.lit(used.height, pl.Int64))
    if not used.height:
        return arms.select(
            "arm", "estimate", pl.lit(None, pl.Float64).alias("low"), pl.lit(None, pl.Float64).alias("high"), "n"
        )
    if c.method == "tango":
        limits = wilson(arms["passed"], arms["n"], confidence=c.confidence)
        low, high = pl.Series(limits.low).clip(0, 1), pl.Series(limits.high).clip(0, 1)
    else:
        means = [used[f"{s}_mean"] for s in SIDES]
        if c.n_clusters is None:
            found = paired_means(means, confidence=c.confidence)
        else:
            found = clustered_means(means, [used["cluster"]] * 2, confidence=c.confidence)
        low, high = (found[end].clip(0, 1) if c.scaled else found[end] for end in ("low", "high"))
    return arms.select("arm", "estimate", low=low, high=high, n="n")


def accumulated(c: Comparison, *, resamples: int = 10_000, seed: int = 0) -> pl.DataFrame:
    """`n`, `estimate`, `low`, `high` over the first n tasks in the order of benchmark and task, at up to 25 numbers; the last is all."""
    used = c.table.filter("used").sort("benchmark", "task", nulls_last=True, maintain_order=True)
    used = used.with_row_index("place", offset=1)
    steps = pl.DataFrame({"n": sorted({max(1, round(used.height * i / _POINTS)) for i in range(1, _POINTS + 1)})})
    units = steps.join(used, how="cross", maintain_order="left_right").filter(pl.col("place") <= pl.col("n"))
    how = How(c.confidence, resamples, seed, c.n_clusters is not None)
    return estimates(units.with_columns(single=pl.lit(c.method == "tango")), ["n"], how).select(
        "n", "estimate", "low", "high"
    )


def _slopes(c: Comparison, ax: Axes | None) -> Axes:
    from expcomp.figures.paired import slopes

    return slopes(c.table, arms=arm_means(c), names=(c.baseline, c.treatment), ax=ax)


def _dumbbells(c: Comparison, ax: Axes | None) -> Axes:
    from expcomp.figures.paired import dumbbells

    return dumbbells(c.table, names=(c.baseline, c.treatment), ax=ax)


def _flips(c: Comparison, ax: Axes | None) -> Axes:
    from expcomp.figures.flips import flip_matrix

    note = f"McNemar, mid-p: {c.p_value:.3g}" if c.p_value is not None and c.method == "tango" else ""
    return flip_matrix(c.table.filter("used"), names=(c.baseline, c.treatment), note=note, ax=ax)


def _forest(c: Comparison, ax: Axes | None) -> Axes:
    from expcomp.figures.forest import forest

    value = pl.col("value").fill_null("unknown")
    name = pl.concat_str("slice", value, separator=": ") if c.slices["slice"].n_unique() > 1 else value
    rows = c.slices.select(name=name, n="n_units", estimate="estimate", low="low", high="high")
    own = {"name": ["all tasks"], "n": [c.n_units], "estimate": [c.estimate], "low": [c.low], "high": [c.high]}
    whole = pl.DataFrame(own, schema=rows.schema)
    return forest(pl.concat([rows, whole]), total="all tasks", margin=None if c.margin is None else -c.margin, ax=ax)


def _cumulative(c: Comparison, ax: Axes | None) -> Axes:
    from expcomp.figures.forest import cumulative

    return cumulative(accumulated(c), confidence=c.confidence, ax=ax)


def _policies(c: Comparison, ax: Axes | None) -> Axes:
    from expcomp.figures.forest import forest

    name = pl.concat_str("missing", "infra", separator=" / ")
    rows = c.sensitivity.select(name=name, n="n_units", estimate="estimate", low="low", high="high")
    return forest(rows, heading="Difference by policy: without a score / infrastructure", ax=ax)


def _histogram(g: SolverGap, ax: Axes | None) -> Axes:
    from expcomp.figures.gap import gap_histogram

    who = "best − worst attempt" if g.weak is None else f"{g.strong} − {g.weak}"
    told = None if g.estimate is None else (g.estimate, g.low, g.high)
    return gap_histogram(g.frame, estimate=told, xlabel=f"gap of a task: {who}", ax=ax)


def _plane(g: SolverGap, ax: Axes | None) -> Axes:
    from expcomp.figures.gap import learnability_plane

    return learnability_plane(g.frame, ax=ax)


def _curves(g: SolverGap, ax: Axes | None) -> Axes:
    from expcomp.figures.curves import pass_curves

    known = g.curves.filter(pl.col("estimator").is_in(list(CURVES)))
    measure = pl.col("estimator").replace_strict(CURVES, return_dtype=pl.String)
    return pass_curves(known.with_columns(measure=measure), ax=ax)


OF_COMPARISON: Mapping[str, Callable[[Comparison, Axes | None], Axes]] = {
    "slopes": _slopes,
    "dumbbells": _dumbbells,
    "flips": _flips,
    "forest": _forest,
    "cumulative": _cumulative,
    "policies": _policies,
}
OF_GAP: Mapping[str, Callable[[SolverGap, Axes | None], Axes]] = {
    "histogram": _histogram,
    "plane": _plane,
    "curves": _curves,
}


def plot_comparison(c: Comparison, which: str, ax: Axes | None = None) -> Axes:
    """Draw a comparison; see `Comparison.plot`."""
    return _known(which, OF_COMPARISON)(c, ax)


def plot_gap(g: SolverGap, which: str, ax: Axes | None = None) -> Axes:
    """Draw a solver gap; see `SolverGap.plot`."""
    return _known(which, OF_GAP)(g, ax)


def plot_comparisons(several: Comparisons, ax: Axes | None = None) -> Axes:
    """A forest of treatments."""
    from expcomp.figures.forest import forest

    rows = several.table.select(name="treatment", n="n_units", estimate="estimate", low="low", high="high")
    return forest(rows, heading=f"Difference to {several.each[0].baseline}", ax=ax)


def _known(which: str, known: Mapping[str, _Drawn]) -> _Drawn:
    if which not in known:
        msg = f"there is no figure {which!r}; there are {', '.join(known)}"
        raise UsageError(msg)
    return known[which]
