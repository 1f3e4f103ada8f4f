"""Figures of a dataset: how long its rows are, and what their labels say. Safe for colour-blind readers and in print."""

from __future__ import annotations

from math import ceil, floor, log2
from typing import Any

import polars as pl

from expcomp.errors import UsageError
from expcomp.figures.canvas import axes_of

_LENGTHS = {
    "tokens": "tokens",
    "_tokens": "tokens",
    "_chars": "characters that carry loss",
    "chars": "characters",
    "_size": "bytes of text",
}
_SHARES = {"margin": "difference of scores", "pass_rate": "share of attempts that passed"}
_LIMITS = (4096, 8192, 16384, 32768)
# Okabe and Ito; each with its own hatch, so that grey print tells them apart as well.
_FILLS = (("#0072B2", ""), ("#E69F00", "///"), ("#999999", "..."), ("#009E73", "xx"))


def lengths(frame: pl.DataFrame, ax: Any = None, *, column: str | None = None) -> Any:
    """Histogram of row lengths on a logarithmic axis, with the usual context limits. Returns the axes.

    Args:
        frame: Has `tokens`, or else `_chars` or `chars`; with `split`, one colour a split.
        ax: Where to draw; a new figure when None.
        column: Another column of whole numbers.
    """
    name = column or next((c for c in _LENGTHS if c in frame.columns), None)
    if name is None:
        raise UsageError(f"no column of lengths; expected one of {', '.join(_LENGTHS)}, or column=")
    axes: Any = axes_of(ax, grid="y")
    unit = _LENGTHS.get(name, name)
    used = frame.filter(pl.col(name) > 0)
    names = used["split"].unique(maintain_order=True).to_list() if "split" in frame.columns else [None]
    groups = [used if s is None else used.filter(pl.col("split") == s) for s in names]
    if used.height:
        from matplotlib.ticker import MaxNLocator

        edges = _edges(used[name].min(), used[name].max())
        axes.set_xscale("log", base=2)
        # Stacked, because bars in front of each other would hide one another.
        drawn = axes.hist(
            [g[name].to_list() for g in groups],
            bins=edges,
            stacked=True,
            color=[_FILLS[i % len(_FILLS)][0] for i in range(len(groups))],
            edgecolor="white",
            linewidth=0.5,
            label=[f"{s} ({g.height:,})" for s, g in zip(names, groups, strict=True)],
        )[2]
        for i, bars in enumerate(drawn if len(groups) > 1 else [drawn]):
            for bar in bars:
                bar.set_hatch(_FILLS[i % len(_FILLS)][1])
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
        axes.set_xlim(edges[0], edges[-1])
        axes.yaxis.set_major_locator(MaxNLocator(integer=True))
        for limit in (n for n in _LIMITS if unit == "tokens" and edges[0] <= n <= edges[-1]):
            axes.axvline(limit, color="black", linewidth=0.8, linestyle="--")
            axes.text(limit, 0.99, f" {limit // 1024}k", transform=axes.get_xaxis_transform(), va="top", fontsize=8)
        if names != [None]:
            axes.legend(frameon=False)
    axes.set_xlabel(unit)
    axes.set_ylabel("rows")
    axes.set_title(f"Length of {used.height:,} rows", loc="left")
    return axes


def labels(frame: pl.DataFrame, ax: Any = None) -> Any:
    """Bars of how often each label occurs, by its source where the rows say it. Returns the axes.

    Args:
        frame: Has `label` or `kto_tag`, or `labels` (a list a row, with `label_sources`).
        ax: Where to draw; a new figure when None.
    """
    name = next((c for c in ("label", "kto_tag", "labels") if c in frame.columns), None)
    if name is None:
        raise UsageError(
            "this dataset has no labels; datasets of kto (label) and prm (labels) have, those of pairs a margin, those of grpo a pass_rate"
        )
    counts = _counts(frame, name)
    total, unit = int(counts["len"].sum()), "steps" if name == "labels" else "rows"
    fills = dict(zip(("good", "bad", "none"), _FILLS, strict=False))
    kinds, values = counts["label"].to_list(), counts["len"].to_list()
    names = [f"{s}: {k}" if s else k for s, k in zip(counts["source"].to_list(), kinds, strict=True)]
    axes: Any = axes_of(ax, grid="x")
    bars = axes.barh(range(len(names)), values, height=0.7, edgecolor="white", color=[fills[k][0] for k in kinds])
    for bar, kind in zip(bars, kinds, strict=True):
        bar.set_hatch(fills[kind][1])
    axes.bar_label(bars, labels=[f"{n:,} ({n / total:.0%})" for n in values], padding=3)
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.margins(x=0.18)
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.set_xlabel(unit)
    axes.set_title(f"Labels of {total:,} {unit}", loc="left")
    return axes


def shares(frame: pl.DataFrame, ax: Any = None) -> Any:
    """Histogram of the margins of pairs or the pass rates of tasks, from 0 to 1. Returns the axes.

    Args:
        frame: Has `margin` or `pass_rate`; rows without a value are not drawn.
        ax: Where to draw; a new figure when None.
    """
    name = next((c for c in _SHARES if c in frame.columns), None)
    if name is None:
        raise UsageError(f"no column of shares; expected {' or '.join(_SHARES)}")
    axes: Any = axes_of(ax, grid="y")
    known = frame[name].drop_nulls()
    axes.hist(known.to_list(), bins=20, range=(0, 1), color=_FILLS[0][0], edgecolor="white", linewidth=0.5)
    axes.set_xlim(0, 1)
    axes.set_xlabel(_SHARES[name])
    axes.set_ylabel("rows")
    axes.set_title(f"{known.len():,} of {frame.height:,} rows", loc="left")
    return axes


def _counts(frame: pl.DataFrame, name: str) -> pl.DataFrame:
    """Columns source, label, len."""
    flat = frame
    if name == "labels":
        lists = [c for c in ("labels", "label_sources") if c in frame.columns]
        flat = frame.select(lists).explode(lists, empty_as_null=False)
    source = pl.col("label_sources").fill_null("unknown") if "label_sources" in flat.columns else pl.lit("")
    label = pl.when(pl.col(name)).then(pl.lit("good")).when(~pl.col(name)).then(pl.lit("bad")).otherwise(pl.lit("none"))
    said = flat.select(source=source, label=label)
    return said.group_by("source", "label", maintain_order=True).len().sort("source", "label", descending=[False, True])


def _edges(low: Any, high: Any) -> list[float]:
    """Borders of the bins: quarters of a doubling, over whole doublings."""
    first = floor(log2(low))
    last = max(ceil(log2(high)), first + 1)
    return [2 ** (first + i / 4) for i in range((last - first) * 4 + 1)]
