"""Estimates with their intervals, one below the other; and one estimate as evidence accumulates."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from expcomp.figures.canvas import (
    INK,
    QUIET,
    UP,
    axes_of,
    beside,
    drawn,
    interval,
    nothing,
    number,
    require,
    short,
    title,
)
from expcomp.io.counts import percent

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_NEEDS = ("name", "n", "estimate", "low", "high")


@drawn
def forest(
    frame: pl.DataFrame,
    *,
    total: str | None = None,
    zero: float | None = 0.0,
    margin: float | None = None,
    xlabel: str = "difference of mean scores, treatment − baseline",
    heading: str = "Difference by slice",
    signed: bool = True,
    ax: Axes | None = None,
) -> Axes:
    """A row an estimate, with its interval, the numbers and n at the right; a row without an estimate says so.

    Args:
        frame: `name`, `n`, `estimate`, `low`, `high`; with `note`, why a row has no estimate. Rows are drawn from top to bottom.
        total: Name of the row that stands for all: a diamond below a line.
        zero: Where no difference is; None draws no line.
        margin: Another line, at a margin of non-inferiority.
        xlabel: What is estimated.
        heading: Title.
        signed: Write a plus sign.
        ax: Where to draw; a new figure when None.

    Raises:
        UsageError: A column is missing.
    """
    require(frame, "forest", _NEEDS)
    axes = axes_of(ax, size=(7.4, 1.3 + 0.27 * max(frame.height, 2)), grid="x")
    title(axes, heading)
    if margin is not None:
        axes.set_title(heading, loc="left", color=INK, pad=19)
    if not frame.height:
        return nothing(axes, "no slice")
    notes = frame["note"].to_list() if "note" in frame.columns else [None] * frame.height
    for y, (name, n, value, low, high, note) in enumerate(zip(*(frame[c] for c in _NEEDS), notes, strict=True)):
        whole = name == total
        colour = INK if whole else UP
        if value is not None and low is not None and high is not None:
            axes.plot(
                [low, high], [y, y], color=colour, linewidth=2.2 if whole else 1.4, solid_capstyle="butt", zorder=3
            )
        if value is not None:
            axes.plot([value], [y], color=colour, marker="D" if whole else "o", markersize=7 if whole else 5, zorder=4)
        told = (
            interval(value, low, high, signed=signed)
            if value is not None
            else f"no estimate{f': {note}' if note else ''}"
        )
        beside(axes, y, number(n), 36, ha="right")
        beside(axes, y, told, 48, color=QUIET if value is None else INK)
        if whole and frame.height > 1:
            axes.axhline(y - 0.5, color=INK, linewidth=0.7)
    beside(axes, -0.5, "n", 36, ha="right", va="bottom", color=QUIET)
    for at, style, name in ((zero, "-", ""), (margin, "--", "margin")):
        if at is not None:
            axes.axvline(at, color=INK, linewidth=0.8, linestyle=style, zorder=2)
            axes.text(
                at, 1.0, name, transform=axes.get_xaxis_transform(), fontsize=8, ha="center", va="bottom", color=QUIET
            )
    axes.set_yticks(range(frame.height), short(frame["name"].to_list()))
    axes.set_ylim(frame.height - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.set_xlabel(xlabel)
    return axes


@drawn
def cumulative(
    frame: pl.DataFrame,
    *,
    zero: float = 0.0,
    order: str = "task id",
    confidence: float = 0.95,
    ax: Axes | None = None,
) -> Axes:
    """The estimate and its interval over the first n tasks of an order fixed beforehand. It is no rule of when to stop, and says so.

    Args:
        frame: `n`, `estimate`, `low`, `high`, by n; without an interval where there are too few tasks for one.
        zero: Where no difference is.
        order: What fixed the order.
        confidence: Of the interval.
        ax: Where to draw; a new figure when None.

    Raises:
        UsageError: A column is missing.
    """
    require(frame, "cumulative", ("n", "estimate", "low", "high"))
    axes = axes_of(ax)
    title(
        axes,
        "Difference as tasks accumulate",
        f"tasks in the order of {order}; intervals hold for one n each: no stopping rule",
    )
    known = frame.drop_nulls("estimate")
    if not known.height:
        return nothing(axes, "no task has a difference")
    sure = known.drop_nulls(["low", "high"])
    axes.fill_between(
        sure["n"], sure["low"], sure["high"], color=UP, alpha=0.18, linewidth=0, label=f"{percent(confidence)} interval"
    )
    axes.plot(sure["n"], sure["low"], color=UP, linewidth=0.8, linestyle="--")
    axes.plot(sure["n"], sure["high"], color=UP, linewidth=0.8, linestyle="--")
    axes.plot(known["n"], known["estimate"], color=UP, linewidth=1.6, label="estimate")
    axes.axhline(zero, color=INK, linewidth=0.8)
    last = known.row(-1, named=True)
    axes.plot([last["n"]], [last["estimate"]], color=UP, marker="o", markersize=5)
    told = interval(last["estimate"], last["low"], last["high"], signed=True).replace(" [", "\n[")
    beside(axes, last["estimate"], f"{told}\nn {last['n']:,}", 6)
    axes.set_xlim(0, last["n"] * 1.01 + 0.01)
    # Two or three tasks swing from end to end; the axis is for where the interval is of use.
    if sure.height > 8:
        part = sure.tail(max(8, sure.height * 9 // 10))
        bottom, top = (float(v) for v in part.select(pl.col("low").min(), pl.col("high").max()).row(0))
        room = 0.15 * (top - bottom)
        axes.set_ylim(min(bottom, zero) - room, max(top, zero) + room)
    axes.set_xlabel("tasks")
    axes.set_ylabel("treatment − baseline")
    axes.legend(frameon=False, loc="best")
    return axes
