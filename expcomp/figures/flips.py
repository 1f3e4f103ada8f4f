"""Which verdicts changed between two arms."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from expcomp.figures.canvas import DOWN, INK, QUIET, UP, axes_of, drawn, nothing, require, short, title
from expcomp.io.counts import Count

if TYPE_CHECKING:
    from matplotlib.axes import Axes


_STATES = ("fail", "mixed", "pass")
_NEEDS = ("baseline_outcome", "treatment_outcome")


@drawn
def flip_matrix(
    frame: pl.DataFrame,
    *,
    names: tuple[str, str] = ("baseline", "treatment"),
    note: str = "",
    ax: Axes | None = None,
) -> Axes:
    """Counts of tasks by their outcome under the baseline (rows) and under the treatment (columns); what changed has a frame.

    Args:
        frame: `baseline_outcome`, `treatment_outcome`: `fail`, `mixed` (trials disagree) or `pass`, as in table `comparison_units`. Tasks
            that lack one are counted in the heading, not in the matrix.
        names: Names of the arms.
        note: A line below the title, as the test of the changes.
        ax: Where to draw; a new figure when None.

    Raises:
        UsageError: A column is missing.
    """
    require(frame, "flip_matrix", _NEEDS)
    both = frame.select(pl.col(_NEEDS).cast(pl.String)).drop_nulls()
    seen = {*both[_NEEDS[0]], *both[_NEEDS[1]]}
    states = [s for s in _STATES if s != "mixed" or s in seen]
    side = 1.6 + 1.0 * len(states)
    axes = axes_of(ax, size=(side + 0.7, side), grid="")
    total, absent = both.height, frame.height - both.height
    note = "; ".join(t for t in (note, f"{Count(absent):more lacks|more lack} a verdict" if absent else "") if t)
    title(axes, f"Verdicts of {Count(total):task|tasks}", note)
    if not total:
        return nothing(axes, "no task has a verdict under both arms")
    rectangle = _rectangle()
    for i, before in enumerate(states):
        for j, after in enumerate(states):
            n = both.filter(pl.col(_NEEDS[0]) == before, pl.col(_NEEDS[1]) == after).height
            shade = 1 - 0.45 * n / total
            axes.add_patch(
                rectangle((j - 0.5, i - 0.5), 1, 1, facecolor=(shade, shade, shade), edgecolor="white", linewidth=2)
            )
            if i != j:
                axes.add_patch(
                    rectangle(
                        (j - 0.44, i - 0.44),
                        0.88,
                        0.88,
                        fill=False,
                        edgecolor=UP if j > i else DOWN,
                        linewidth=2,
                        linestyle="-" if j > i else "--",
                    )
                )
            axes.text(j, i - 0.06, f"{n:,}", ha="center", va="center", fontsize=15, color=INK)
            way = "gained" if j > i else "lost" if j < i else "same"
            axes.text(j, i + 0.26, f"{way}, {n / total:.1%}", ha="center", va="center", fontsize=8, color=INK)
    axes.set_xlim(-0.5, len(states) - 0.5)
    axes.set_ylim(len(states) - 0.5, -0.5)
    axes.set_aspect("equal")
    axes.set_xticks(range(len(states)), states)
    axes.set_yticks(range(len(states)), states)
    axes.tick_params(length=0)
    axes.spines[["left", "bottom"]].set_visible(False)
    axes.set_xlabel(short([names[1]], 34)[0])
    axes.set_ylabel(short([names[0]], 34)[0])
    axes.xaxis.label.set_color(QUIET)
    axes.yaxis.label.set_color(QUIET)
    return axes


def _rectangle() -> type:
    from matplotlib.patches import Rectangle

    return Rectangle
