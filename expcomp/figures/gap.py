"""How far arms or attempts are apart by task, and what of it can be learned from."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from expcomp.figures.canvas import (
    DOWN,
    INK,
    QUIET,
    RULE,
    SAME,
    UP,
    axes_of,
    drawn,
    interval,
    nothing,
    require,
    title,
    whole_numbers,
)
from expcomp.io.counts import Count

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Band of a task: (name in the frame, words, fill, marker).
_BANDS: tuple[tuple[str, str, str, str], ...] = (
    ("too_hard", "too hard", "#D55E00", "v"),
    ("learnable", "learnable", "#0072B2", "o"),
    ("too_easy", "too easy", "#E69F00", "^"),
    ("unknown", "cannot be told", "#ffffff", "s"),
)
# Side of 0: (name, words, colour, hatch).
_SIDES: tuple[tuple[str, str, str, str], ...] = (
    ("below", "below 0", DOWN, "///"),
    ("at", "0", SAME, "\\\\"),
    ("above", "above 0", UP, ""),
)
_FEW = 25
_LABELLED = 80


@drawn
def gap_histogram(
    frame: pl.DataFrame,
    *,
    estimate: tuple[float, float | None, float | None] | None = None,
    xlabel: str = "gap of a task: stronger − weaker",
    ax: Axes | None = None,
) -> Axes:
    """Histogram of the gap of tasks; below 0, at 0 and above 0 are told apart and counted.

    Args:
        frame: `gap`, as in table `solver_gap_tasks`; tasks without one are counted in the heading, not drawn.
        estimate: Mean gap with the ends of its interval.
        xlabel: What the gap is.
        ax: Where to draw; a new figure when None.

    Raises:
        UsageError: A column is missing.
    """
    require(frame, "gap_histogram", ("gap",))
    axes = axes_of(ax)
    known = frame["gap"].drop_nulls().drop_nans()
    absent = frame.height - known.len()
    title(
        axes,
        f"Gap of {Count(known.len()):task|tasks}",
        f"{Count(absent):more has|more have} too few scores for one" if absent else "",
    )
    if not known.len():
        return nothing(axes, "no task has a gap")
    bars, width = _bars(known)
    for name, words, colour, hatch in _SIDES:
        some = bars.filter(pl.col("side") == name)
        total = int(some["tasks"].sum())
        if total:
            axes.bar(
                some["at"],
                some["tasks"],
                width,
                color=colour,
                hatch=hatch,
                edgecolor="white",
                linewidth=0.5,
                label=f"{words}: {total:,}",
            )
    if estimate is not None:
        value, left, right = estimate
        axes.axvline(value, color=INK, linewidth=1.2, linestyle="--")
        if left is not None and right is not None:
            axes.axvspan(left, right, color=INK, alpha=0.1, linewidth=0)
        axes.plot([], [], color=INK, linestyle="--", label=f"mean {interval(value, left, right, signed=True)}")
    whole_numbers(axes.yaxis)
    axes.set_xlabel(xlabel)
    axes.set_ylabel("tasks")
    axes.legend(frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return axes


def _bars(known: pl.Series) -> tuple[pl.DataFrame, float]:
    """`side`, `at` (middle), `tasks`, and the width: a bar a value where there are few, else a bar a twentieth of the range from 0."""
    gaps = pl.DataFrame({"gap": known}).with_columns(
        side=pl.when(pl.col("gap") > 1e-9)
        .then(pl.lit("above"))
        .when(pl.col("gap") < -1e-9)
        .then(pl.lit("below"))
        .otherwise(pl.lit("at"))
    )
    values = gaps["gap"].round(9).unique().sort()
    if values.len() <= _FEW:
        steps = values.diff().drop_nulls()
        least = 0.02 * (float(values.max()) - float(values.min()))  # type: ignore[arg-type]
        width = min(max(0.8 * float(steps.min()), least), 0.1) if steps.len() else 0.05  # type: ignore[arg-type]
        at = pl.col("gap").round(9)
    else:
        width = max(1.0, float(known.abs().max())) / 20  # type: ignore[arg-type]
        # No gap of 0 shares a bar with one above or below it.
        within = (pl.col("gap") / width).floor().clip(-20, 19)
        at = pl.when(pl.col("side") == "at").then(0.0).otherwise((within + 0.5) * width)
    return gaps.with_columns(at=at).group_by("side", "at", maintain_order=True).agg(pl.len().alias("tasks")), width


@drawn
def learnability_plane(frame: pl.DataFrame, *, ax: Axes | None = None) -> Axes:
    """Tasks by pass rate and number of verdicts; the upper axis is 4 p (1 − p). Tasks at one place are one mark, as large as they are many.

    Args:
        frame: `n_verdicts`, `pass_rate`, and `band`: `too_hard`, `learnable`, `too_easy` or `unknown`, as in table `solver_gap_tasks`.
        ax: Where to draw; a new figure when None.

    Raises:
        UsageError: A column is missing.
    """
    require(frame, "learnability_plane", ("n_verdicts", "pass_rate", "band"))
    axes = axes_of(ax, size=(7.0, 4.4), grid="")
    known = frame.drop_nulls("pass_rate").with_columns(pl.col("band").cast(pl.String))
    absent = frame.height - known.height
    title(
        axes,
        f"Learnability of {Count(known.height):task|tasks}"
        + (f"; {Count(absent):more has|more have} no verdict" if absent else ""),
    )
    if not known.height:
        return nothing(axes, "no task has a verdict")
    places = known.group_by("n_verdicts", "pass_rate", "band", maintain_order=True).agg(pl.len().alias("tasks"))
    for p in (0.1, 0.25, 0.5, 0.75, 0.9):
        axes.axvline(p, color=RULE, linewidth=0.7, zorder=1)
    most = int(places["tasks"].max())  # type: ignore[arg-type]
    for name, words, fill, marker in _BANDS:
        some = places.filter(pl.col("band") == name)
        total = int(some["tasks"].sum())
        size = [30 + 370 * (t / most if most > 1 else 0) for t in some["tasks"]]
        axes.scatter(
            some["pass_rate"],
            some["n_verdicts"],
            s=size,
            color=fill,
            edgecolor=INK,
            linewidth=0.7,
            marker=marker,
            alpha=0.85,
            zorder=3,
        )
        axes.scatter([], [], s=36, color=fill, edgecolor=INK, linewidth=0.7, marker=marker, label=f"{words}: {total:,}")
    for n, p, t in (
        zip(places["n_verdicts"], places["pass_rate"], places["tasks"], strict=True)
        if places.height <= _LABELLED
        else ()
    ):
        if t > 1:
            away = (30 + 370 * t / most) ** 0.5 / 2 + 2
            axes.annotate(
                f"{t:,}", (p, n), (away, 0), textcoords="offset points", fontsize=7, va="center", zorder=4, color=INK
            )
    axes.set_xlim(-0.06, 1.06)
    highest = int(places["n_verdicts"].max())  # type: ignore[arg-type]
    axes.set_ylim(-0.05 * highest, highest * 1.12 + 0.4)
    whole_numbers(axes.yaxis)
    axes.set_xlabel("pass rate p")
    axes.set_ylabel("attempts with a verdict")
    upper = axes.secondary_xaxis("top")
    ticks = (0, 0.1, 0.25, 0.5, 0.75, 0.9, 1)
    upper.set_xticks(ticks, [f"{4 * p * (1 - p):.2g}" for p in ticks], fontsize=8, color=QUIET)
    upper.set_xlabel("4 p (1 − p)", fontsize=8, color=QUIET)
    upper.spines["top"].set_visible(False)
    axes.legend(frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0), labelspacing=0.9)
    return axes
