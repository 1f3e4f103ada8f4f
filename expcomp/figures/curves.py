"""pass@k and pass^k of arms over k, with bands."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from expcomp.figures.canvas import QUIET, axes_of, drawn, nothing, require, series, short, title

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_NEEDS = ("arm", "measure", "k", "estimate", "low", "high", "tasks")
# pass@k rises and pass^k falls with k, so the two halves of a fan are told apart by direction as well as by fill.
_MEASURES: tuple[tuple[str, str], ...] = (("pass@k", "full"), ("pass^k", "none"))


@drawn
def pass_curves(frame: pl.DataFrame, *, ax: Axes | None = None) -> Axes:
    """Curves by arm: pass@k, some of k attempts passes (filled markers); pass^k, all of them do (hollow). Bands where they are known.

    Args:
        frame: `arm`, `measure` (`pass@k` or `pass^k`), `k`, `estimate`, `low`, `high`, `tasks` behind each point.
        ax: Where to draw; a new figure when None.

    Raises:
        UsageError: A column is missing.
    """
    require(frame, "pass_curves", _NEEDS)
    axes = axes_of(ax, size=(7.0, 4.4))
    known = frame.drop_nulls("estimate").sort("k", maintain_order=True)
    title(axes, "pass@k (filled) and pass^k (hollow)", "chance that some, and that all, of k attempts at a task pass")
    if not known.height:
        return nothing(axes, "no task has repeated attempts with a verdict")
    for i, arm in enumerate(known["arm"].unique(maintain_order=True).sort()):
        colour, marker, style, _ = series(i)
        for measure, fill in _MEASURES:
            one = known.filter(pl.col("arm") == arm, pl.col("measure") == measure)
            if not one.height:
                continue
            band = one.drop_nulls(["low", "high"])
            axes.fill_between(band["k"], band["low"], band["high"], color=colour, alpha=0.13, linewidth=0)
            told: dict[str, Any] = {"label": _label(arm, one)} if measure == _MEASURES[0][0] else {}
            axes.plot(
                one["k"],
                one["estimate"],
                color=colour,
                marker=marker,
                linestyle=style,
                fillstyle=fill,
                markersize=5,
                **told,
            )
    most = int(known["k"].max())  # type: ignore[arg-type]
    axes.set_xticks(range(1, most + 1, max(1, -(-most // 12))))
    axes.set_ylim(-0.02, 1.02)
    axes.set_xlim(0.8, most + 0.2)
    axes.set_xlabel("k, attempts")
    axes.set_ylabel("mean over tasks")
    axes.legend(frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    if known.filter(pl.col("low").is_null()).height:
        axes.text(
            0.99,
            0.01,
            "no band: too few tasks",
            transform=axes.transAxes,
            ha="right",
            va="bottom",
            fontsize=8,
            color=QUIET,
        )
    return axes


def _label(arm: object, one: pl.DataFrame) -> str:
    fewest, most = int(one["tasks"].min()), int(one["tasks"].max())  # type: ignore[arg-type]
    tasks = f"{most:,}" if fewest == most else f"{most:,} to {fewest:,}"
    return f"{short([arm], 24)[0]}\n{tasks} {'task' if tasks == '1' else 'tasks'}"
