"""p-values adjusted for how many comparisons were made."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

if TYPE_CHECKING:
    from expcomp.stats.multiple import Method


def adjusted(frame: pl.DataFrame, method: Method, *, over: str | None = None) -> pl.DataFrame:
    """The frame with `p_adjusted`: of all rows with a p-value, or of those of each value of `over`; null without one."""
    from expcomp.stats.multiple import adjust

    if over is not None:
        parts = [adjusted(part, method) for part in frame.partition_by(over, maintain_order=True)]
        return pl.concat(parts) if parts else frame.with_columns(p_adjusted=pl.lit(None, pl.Float64))
    known = frame["p_value"].drop_nulls()
    values = pl.Series(adjust(known, method=method).adjusted if known.len() else [], dtype=pl.Float64)
    at = frame["p_value"].is_not_null().arg_true()
    spread = pl.repeat(None, frame.height, dtype=pl.Float64, eager=True).scatter(at, values)
    return frame.with_columns(spread.alias("p_adjusted"))
