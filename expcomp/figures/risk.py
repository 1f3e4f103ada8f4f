"""How exact answers are at each share of the questions that is answered."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from expcomp.figures.canvas import QUIET, axes_of, drawn, nothing, require, series, title

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_NEEDS = ("confidence", "coverage", "selective")


@drawn
def risk_coverage(frame: pl.DataFrame, *, gate: float, turns: int, ax: Axes | None = None) -> Axes:
    """Risk-coverage curve: the less confidence is asked, the more is answered, and the less of it need be exact.

    Args:
        frame: `confidence`, `coverage` and `selective` (exactness of what is answered), one row a confidence.
        gate: Confidence that is asked; marked on the curve.
        turns: Turns behind the curve.
        ax: Where to draw; a new figure when None.

    Raises:
        UsageError: A column is missing.
    """
    require(frame, "risk_coverage", _NEEDS)
    axes = axes_of(ax, size=(6.0, 4.0))
    title(axes, "Exactness of what is answered", f"by the share of {turns:,} held-out turns that is answered")
    if frame.is_empty():
        return nothing(axes, "nothing was answered")
    ordered = frame.sort("coverage", maintain_order=True)
    colour, marker, style, _ = series(0)
    axes.step(ordered["coverage"], ordered["selective"], where="post", color=colour, linestyle=style)
    kept = ordered.filter(pl.col("confidence") >= gate).tail(1)
    if kept.height:
        axes.plot(kept["coverage"], kept["selective"], color=colour, marker=marker, markersize=7, linestyle="none")
        told = f"gate {gate:g}: {kept['coverage'][0]:.1%} answered, {kept['selective'][0]:.1%} exact"
        at = (kept["coverage"][0], kept["selective"][0])
        axes.annotate(told, at, (0, -16), textcoords="offset points", ha="center", color=QUIET, fontsize=8)
    axes.set_xlim(-0.02, 1.02)
    axes.set_ylim(-0.02, 1.05)
    axes.set_xlabel("share answered")
    axes.set_ylabel("share of the answered that is exact")
    return axes
