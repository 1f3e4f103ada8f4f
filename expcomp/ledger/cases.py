"""Words that all operations on runs share: what a case is, which runs are active, in which order they stand."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import polars as pl

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

CASE = ("filed_benchmark", "filed_case")
RUN = (*CASE, "run_key")
ARCHIVED = "archived"
RUNNING = "running"
ARCHIVE_COLUMNS = ("archive_state", "archive_reason", "archive_batch_id", "archived_at")
_NAME = re.compile(r"\{(\w+)\}")


def active() -> pl.Expr:
    """True for a run that is not archived."""
    return pl.col("archive_state").ne_missing(pl.lit(ARCHIVED))


def terminal() -> pl.Expr:
    """True for a run that has ended: only such a run may be written."""
    return pl.col("status").ne_missing(pl.lit(RUNNING))


def ordered(column: str, schema: Mapping[str, pl.DataType]) -> pl.Expr:
    """A column to sort by: a missing text counts as an empty one."""
    return pl.col(column).fill_null("") if schema[column] == pl.String else pl.col(column)


def in_order(runs: pl.DataFrame, order: Iterable[str]) -> pl.DataFrame:
    """Runs by case, within a case by `order`; ties stay as they are."""
    return runs.sort([ordered(c, runs.schema) for c in (*CASE, *order)], maintain_order=True)


def fill_template(template: str) -> pl.Expr:
    """A text with `{column}` in it, as an expression; null where a column is null."""
    parts = _NAME.split(template)
    pieces = [pl.col(p).cast(pl.String) if i % 2 else pl.lit(p) for i, p in enumerate(parts) if p]
    return pl.concat_str(pieces) if pieces else pl.lit("")


def lookup(column: str, table: Mapping[str, str], default: str | None = None) -> pl.Expr:
    """The entry of a table for a text column; `default`, else the table's own `default`."""
    known = {k: v for k, v in table.items() if k != "default"}
    return pl.col(column).replace_strict(known, default=table.get("default", default), return_dtype=pl.String)


def clean_text(column: pl.Expr, limit: int) -> pl.Expr:
    """White space collapsed, ends stripped, cut to `limit` characters with three dots at the end."""
    flat = column.str.replace_all(r"\s+", " ").str.strip_chars()
    short = pl.concat_str(flat.str.slice(0, limit - 3), pl.lit("..."))
    return pl.when(flat.str.len_chars() > limit).then(short).otherwise(flat)
