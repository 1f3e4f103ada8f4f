"""Figures as short text, as JSON values and as HTML."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any

import polars as pl

from expcomp.io.counts import Count

ROWS = 20
NOTHING = 1e-12


def number(value: float | None, *, sign: bool = False) -> str:
    """Three decimals, two digits below 0.001; a question mark for what is not known."""
    if value is None:
        return "?"
    form = "+" if sign else ""
    return f"{value:{form}.1e}" if NOTHING <= abs(value) < 0.001 else f"{value:{form}.3f}"


def interval(low: float | None, high: float | None) -> str:
    """Both limits in brackets."""
    return f"[{number(low, sign=True)}, {number(high, sign=True)}]"


def needed_text(needed: Mapping[str, int | None]) -> str:
    """What would be needed to decide, as `3 more tasks or 4 trials a task`; empty where it is not known."""
    told = {k: n for k, n in needed.items() if n}
    more = [f"{n:,} more {k.removesuffix('s') if n == 1 else k}" for k, n in told.items() if k != "trials"]
    return " or ".join([*more, *(f"{Count(told[k]):trial|trials} a task" for k in told if k == "trials")])


def plain(value: Any) -> Any:
    """A value as JSON holds it; a frame becomes lists by column."""
    if isinstance(value, pl.DataFrame):
        return {name: column.to_list() for name, column in value.to_dict().items()}
    if isinstance(value, Mapping):
        return {k: plain(v) for k, v in value.items()}
    if isinstance(value, tuple | list):
        return [plain(v) for v in value]
    return value


def frames_html(frames: Mapping[str, pl.DataFrame]) -> str:
    """Frames under their titles, as Polars shows them; empty ones are left out."""
    with pl.Config(tbl_rows=ROWS, tbl_cols=-1, tbl_hide_dataframe_shape=True, float_precision=4):
        return "".join(
            (f"<h4>{escape(title)}</h4>" if title else "") + frame._repr_html_()
            for title, frame in frames.items()
            if frame.height
        )
