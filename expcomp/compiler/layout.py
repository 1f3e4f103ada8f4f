"""Where the rows of each cell stand: in the files of an output, in parts, and in the chunks that row groups are encoded from.

The cells of a file are in the order of their names, which are digests. A chunk holds the cells whose digests begin alike, so that a new
or changed cell moves no other to another chunk; the number of chunks is a power of two that follows the number of rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from expcomp.compiler.plan import DISCOVERY, REST

if TYPE_CHECKING:
    from collections.abc import Sequence

CHUNK_ROWS = 2_048
"""Least average number of rows of a chunk."""

OLD = -1
"""Source of rows that are taken from the output that is updated; others are numbered by job."""

_DIGITS = 4
"""Hexadecimal digits of a cell's name that decide on its chunk; there are 16 bits of them, and no more chunks."""

_REST = 1 << 40


def table_file(name: str) -> str:
    """The file of a table of the common model in an output."""
    return f"{name}.parquet" if name == "diagnostics" else f"tables/{name}.parquet"


def placed(layouts: Sequence[tuple[int, pl.DataFrame]]) -> pl.DataFrame:
    """Layouts of several sources together, cells in order, with the place of each cell's rows and bytes in its source.

    Args:
        layouts: Number of a source and its layout: target, cell, rows, bytes.
    """
    parts = [
        layout.sort("target", "cell", maintain_order=True).with_columns(
            src=pl.lit(number, dtype=pl.Int32),
            row=(pl.col("rows").cum_sum() - pl.col("rows")).over("target"),
            byte=(pl.col("bytes").cum_sum() - pl.col("bytes")).over("target"),
        )
        for number, layout in layouts
    ]
    return pl.concat(parts).sort("target", "cell", maintain_order=True)


def chunked(layout: pl.DataFrame) -> pl.DataFrame:
    """The layout with the number of each cell's chunk, and of chunks (`width` is the share of the names that one takes)."""
    rest = pl.col("cell").str.starts_with(REST)
    known = ~rest & (pl.col("cell") != DISCOVERY)
    wanted = pl.col("rows").filter(known).sum() // CHUNK_ROWS
    chunks = pl.max_horizontal(
        *(pl.when(wanted >= 1 << bit).then(1 << bit).otherwise(1) for bit in range(4 * _DIGITS + 1))
    )
    head = pl.when(known).then(pl.col("cell").str.slice(0, _DIGITS)).str.to_integer(base=16, dtype=pl.Int64)
    bucket = pl.when(rest).then(pl.col("cell").str.slice(1)).replace("", "0").cast(pl.Int64)
    files = layout.group_by("target", maintain_order=True).agg(width=(1 << 4 * _DIGITS) // chunks)
    chunk = pl.when(rest).then(_REST + bucket).otherwise(head.fill_null(0) // pl.col("width"))
    return layout.join(files, on="target", how="left", maintain_order="left").with_columns(chunk=chunk)


def runs(layout: pl.DataFrame) -> pl.DataFrame:
    """Neighbours of one source, one chunk and one stretch of it together: target, chunk, src, row, rows, byte, bytes."""
    new = pl.any_horizontal(*(pl.col(c) != pl.col(c).shift() for c in ("target", "chunk", "src")))
    new = new | (pl.col("row") != (pl.col("row") + pl.col("rows")).shift())
    return (
        layout.with_columns(_run=new.fill_null(value=True).cum_sum())
        .group_by("_run", maintain_order=True)
        .agg(pl.col("target", "chunk", "src", "row", "byte").first(), pl.col("rows", "bytes").sum())
        .drop("_run")
    )
