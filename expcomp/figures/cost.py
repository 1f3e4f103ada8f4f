"""What success costs, arm by arm."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from expcomp.figures.canvas import QUIET, axes_of, drawn, nothing, require, series, short, title

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_NEEDS = ("arm", "n", "cost", "success", "low", "high")


@drawn
def cost_success(
    frame: pl.DataFrame,
    *,
    xlabel: str = "mean cost of an attempt, USD",
    ylabel: str = "share of attempts that passed",
    ax: Axes | None = None,
) -> Axes:
    """One mark an arm, with intervals of both; the dotted steps join arms that no other beats in both.

    Args:
        frame: `arm`, `n`, `cost`, `success`, `low`, `high` of the success; with `cost_low`, `cost_high` also of the cost. Arms without
            a cost or a success are named below, not drawn.
        xlabel: What the cost is.
        ylabel: What the success is.
        ax: Where to draw; a new figure when None.

    Raises:
        UsageError: A column is missing.
    """
    require(frame, "cost_success", _NEEDS)
    axes = axes_of(ax, grid="both")
    known = frame.drop_nulls(["cost", "success"]).sort("arm", maintain_order=True)
    absent = frame.filter(pl.col("cost").is_null() | pl.col("success").is_null())["arm"].to_list()
    title(
        axes,
        "Cost against success",
        f"no cost or no verdict: {', '.join(short(absent[:4], 20))}{' …' if len(absent) > 4 else ''}" if absent else "",
    )
    if not known.height:
        return nothing(axes, "no arm has both a cost and a verdict")
    wide = {"cost_low", "cost_high"} <= set(known.columns)
    for i, (arm, n, cost, success, low, high) in enumerate(zip(*(known[c] for c in _NEEDS), strict=True)):
        colour, marker, _, _ = series(i)
        left, right = (known["cost_low"][i], known["cost_high"][i]) if wide else (None, None)
        axes.errorbar(
            [cost],
            [success],
            yerr=None if low is None or high is None else [[success - low], [high - success]],
            xerr=None if left is None or right is None else [[cost - left], [right - cost]],
            color=colour,
            marker=marker,
            markersize=7,
            capsize=3,
            linewidth=1.2,
            linestyle="",
            zorder=4,
            label=f"{short([arm], 24)[0]}\nn {n:,}",
        )
    best = known.sort("cost", pl.col("success").neg()).filter(
        pl.col("success") > pl.col("success").cum_max().shift(1).fill_null(-1.0)
    )
    if best.height > 1:
        axes.step(best["cost"], best["success"], where="post", color=QUIET, linestyle=":", linewidth=1.0, zorder=2)
    axes.set_ylim(-0.02, 1.02)
    axes.set_xlim(left=0)
    axes.set_xlabel(xlabel)
    axes.set_ylabel(ylabel)
    axes.legend(frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0), labelspacing=0.8)
    return axes
