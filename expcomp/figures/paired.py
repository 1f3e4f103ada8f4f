"""Two arms on the same tasks: a slope a task, or a dumbbell a task."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from expcomp.figures.canvas import (
    DOWN,
    INK,
    QUIET,
    SAME,
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
from expcomp.io.counts import Count

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_NEEDS = ("task", "baseline_mean", "treatment_mean")
_MEANS = ["baseline_mean", "treatment_mean"]
# What became of a task: (name, colour, line style, marker, where on a line its count stands), from back to front.
_WAYS: tuple[tuple[str, str, str, str, float], ...] = (
    ("same", SAME, ":", "_", 0.5),
    ("worse", DOWN, "--", "v", 0.3),
    ("better", UP, "-", "^", 0.3),
)
_NAMED = 50
_CROWD = 250
_COUNTED = 12


@drawn
def slopes(
    frame: pl.DataFrame,
    *,
    arms: pl.DataFrame | None = None,
    names: tuple[str, str] = ("baseline", "treatment"),
    ax: Axes | None = None,
) -> Axes:
    """One line a task from its score under the baseline to that under the treatment; equal lines are one, as thick as they are many.

    Args:
        frame: `task`, `baseline_mean`, `treatment_mean`, as in table `comparison_units`. Tasks that lack one are counted in the
            heading, not drawn.
        arms: `arm`, `estimate`, `low`, `high`, in the order baseline, treatment: drawn beside the lines.
        names: Names of the arms.
        ax: Where to draw; a new figure when None.

    Raises:
        UsageError: A column is missing.
    """
    require(frame, "slopes", _NEEDS)
    axes = axes_of(ax, size=(6.4, 4.6))
    both, absent = _both(frame)
    title(axes, f"{Count(both.height):task|tasks} under both arms", _absent(absent))
    if not both.height:
        return nothing(axes, "no task has a score under both arms")
    lines = (
        both.group_by(*_MEANS, "change", maintain_order=True)
        .agg(pl.len().alias("tasks"))
        .sort("tasks", *_MEANS, maintain_order=True)
    )
    many = lines.height > _CROWD
    if not many:  # of a crowd none may lie on top of the others for what it is
        lines = lines.sort(pl.col("change").cast(pl.Enum([w[0] for w in _WAYS])), maintain_order=True)
    looks = {way: (colour, style, marker, place) for way, colour, style, marker, place in _WAYS}
    found = [looks[c] for c in lines["change"]]
    axes.add_collection(
        _lines()(
            [[(0, low), (1, high)] for low, high in zip(*(lines[c] for c in _MEANS), strict=True)],
            colors=[look[0] for look in found],
            linestyles=[look[1] for look in found],
            linewidths=[0.9 + min(7.0, 0.9 * (n - 1) ** 0.5) for n in lines["tasks"]],
            alpha=0.2 if many else 0.8,
        )
    )
    for (colour, _, marker, place), low, high, n in zip(found, *(lines[c] for c in (*_MEANS, "tasks")), strict=True):
        if not many:
            axes.plot([0, 1], [low, high], color=colour, linestyle="", marker=marker, markersize=4, zorder=4)
        if n > 1 and lines.height <= _COUNTED:
            axes.annotate(
                f"{n:,}",
                (place, low + (high - low) * place),
                fontsize=8,
                ha="center",
                va="center",
                color=INK,
                zorder=6,
                bbox={"boxstyle": "round,pad=0.15", "facecolor": "white", "edgecolor": colour, "linewidth": 0.8},
            )
    for way, colour, style, marker, _ in reversed(_WAYS):
        total = both.filter(pl.col("change") == way).height
        axes.plot([], [], color=colour, linestyle=style, marker=marker, label=f"{way}: {total:,}")
    _means(axes, arms)
    axes.set_xticks([0, 1], short(names, 24))
    axes.set_xlim(-0.42, 1.42)
    axes.grid(visible=False, axis="x")
    axes.set_ylabel("mean score of a task")
    axes.legend(frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.1), ncols=3)
    return axes


def _means(axes: Axes, arms: pl.DataFrame | None) -> None:
    """The mean of each arm with its interval, outside the lines."""
    if arms is None:
        return
    require(arms, "slopes, arms", ("arm", "estimate", "low", "high"))
    for place, side, value, low, high in zip(
        (-0.09, 1.09), ("right", "left"), arms["estimate"], arms["low"], arms["high"], strict=True
    ):
        if value is None:
            continue
        if low is not None and high is not None:
            axes.errorbar(
                [place], [value], yerr=[[value - low], [high - value]], color=INK, marker="o", capsize=3, zorder=7
            )
        else:
            axes.plot([place], [value], color=INK, marker="o", zorder=7)
        shift = -0.03 if side == "right" else 0.03
        told = interval(value, low, high).replace(" [", "\n[")
        axes.text(place + shift, value, told, ha=side, va="center", fontsize=8, color=INK)


@drawn
def dumbbells(
    frame: pl.DataFrame,
    *,
    names: tuple[str, str] = ("baseline", "treatment"),
    ax: Axes | None = None,
) -> Axes:
    """One row a task, by difference: hollow where the baseline stands, filled where the treatment stands. Over 50 tasks without names.

    Args:
        frame: `task`, `baseline_mean`, `treatment_mean`, as in table `comparison_units`; with `baseline_n` and `treatment_n` the number
            of trials stands at the right.
        names: Names of the arms.
        ax: Where to draw; a new figure when None.

    Raises:
        UsageError: A column is missing.
    """
    require(frame, "dumbbells", _NEEDS)
    both, absent = _both(frame)
    named = both.height <= _NAMED
    axes = axes_of(ax, size=(7.6, 1.4 + 0.2 * max(both.height, 4) if named else 6.0), grid="x")
    title(axes, f"{Count(both.height):task|tasks} by difference", _absent(absent))
    if not both.height:
        return nothing(axes, "no task has a score under both arms")
    rows = both.sort("difference", "baseline_mean", "task", maintain_order=True)
    size = 5.5 if named else 2.2
    for way, colour, style, _, _ in _WAYS:
        some = rows.with_row_index("y").filter(pl.col("change") == way)
        axes.hlines(
            some["y"],
            some["baseline_mean"],
            some["treatment_mean"],
            color=colour,
            linestyle=style if named else "-",
            linewidth=1.6 if named else 0.5,
            alpha=1 if named else 0.6,
        )
        axes.plot(
            some["baseline_mean"],
            some["y"],
            color=colour,
            marker="o",
            markerfacecolor="white",
            linestyle="",
            markersize=size,
            zorder=5,
        )
        axes.plot(
            some["treatment_mean"], some["y"], color=colour, marker="D", linestyle="", markersize=size * 0.85, zorder=6
        )
    counts = dict(zip(*(c.to_list() for c in rows["change"].value_counts(sort=True)), strict=True))
    key = [("o", "white", names[0]), ("D", INK, names[1])]
    for marker, fill, name in key:
        axes.plot([], [], color=INK, marker=marker, markerfacecolor=fill, linestyle="", label=short([name], 34)[0])
    for way, colour, style, _, _ in reversed(_WAYS):
        axes.plot([], [], color=colour, linestyle=style if named else "-", label=f"{way}: {counts.get(way, 0):,}")
    axes.set_ylim(-0.8, rows.height - 0.2)
    axes.set_xlabel("mean score of a task")
    if named:
        axes.set_yticks(range(rows.height), short(_labels(rows), 44), fontsize=8)
        _trials(axes, rows)
    else:
        axes.set_ylabel("tasks, by difference")
        axes.set_yticks([0, rows.height - 1], ["1", f"{rows.height:,}"])
    axes.legend(frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.7 / _height(axes)), ncols=3, fontsize=8)
    return axes


def _trials(axes: Axes, rows: pl.DataFrame) -> None:
    if not {"baseline_n", "treatment_n"} <= set(rows.columns):
        return
    for y, a, b in zip(range(rows.height), rows["baseline_n"], rows["treatment_n"], strict=True):
        beside(axes, y, f"{number(a)}, {number(b)}", 6, fontsize=7, color=QUIET)
    beside(axes, rows.height - 0.4, "trials", 6, fontsize=7, color=QUIET, va="bottom")


def _height(axes: Axes) -> float:
    """Height of the figure in inches: legends stand a fixed length below the axes."""
    return float(axes.figure.get_figure(root=True).get_size_inches()[1])


def _lines() -> type:
    from matplotlib.collections import LineCollection

    return LineCollection


def _both(frame: pl.DataFrame) -> tuple[pl.DataFrame, int]:
    """Tasks with a score under both arms, with `difference` and `change`, and how many lack one."""
    both = frame.drop_nulls(_MEANS).with_columns(difference=pl.col("treatment_mean") - pl.col("baseline_mean"))
    if "change" in frame.columns:
        return both.with_columns(pl.col("change").cast(pl.String)), frame.height - both.height
    sign = pl.col("difference").sign()
    change = pl.when(sign > 0).then(pl.lit("better")).when(sign < 0).then(pl.lit("worse")).otherwise(pl.lit("same"))
    return both.with_columns(change=change), frame.height - both.height


def _absent(n: int) -> str:
    return f"{Count(n):more has|more have} no score under one of them" if n else ""


def _labels(rows: pl.DataFrame) -> list[str]:
    """Task ids, after the benchmark where there are several."""
    if "benchmark" in rows.columns and rows["benchmark"].n_unique() > 1:
        return (
            rows.select(pl.concat_str(pl.col("benchmark").fill_null("?"), "task", separator=" ")).to_series().to_list()
        )
    return rows["task"].to_list()
