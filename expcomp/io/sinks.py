"""Files of tables and rows: IPC parts while a build runs, Parquet and JSON lines when it is published."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

ROW_GROUP = 16_384
ROW_GROUP_BYTES = 24 << 20
"""A row group ends at this many rows or about this many bytes: whole conversations make rows of many kilobytes."""

COMPRESSION_LEVEL = 3
LINES = 1_024


def write_part(frame: pl.DataFrame, path: Path) -> None:
    """One part of a build: Arrow IPC, uncompressed, to be read back once."""
    frame.write_ipc(path, compression="uncompressed")


def write_lines(lines: pl.Series, path: Path) -> None:
    """One text a line, UTF-8, each line ended by a newline."""
    with path.open("wb") as handle:
        for start in range(0, lines.len(), LINES):
            text = lines.slice(start, LINES).str.join("\n").item()
            handle.write(text.encode())
            handle.write(b"\n")


def join_lines(parts: Sequence[Path], out: Path) -> int:
    """Concatenate text files; returns the number of lines."""
    rows = 0
    with out.open("wb") as target:
        for part in parts:
            with part.open("rb") as source:
                while chunk := source.read(1 << 20):
                    rows += chunk.count(b"\n")
                    target.write(chunk)
    return rows


def join_parquet(parts: Sequence[Path], out: Path, schema: pl.Schema, metadata: Mapping[str, str]) -> int:
    """Write IPC parts as one Parquet file: zstd, fixed row groups, contract in the key-value metadata; returns the number of rows.

    The parts are streamed, so memory does not grow with their number.
    """
    if not parts:
        pl.DataFrame(schema=schema).write_parquet(
            out,
            compression="zstd",
            compression_level=COMPRESSION_LEVEL,
            row_group_size=ROW_GROUP,
            metadata=dict(metadata),
        )
        return 0
    scan = pl.scan_ipc(list(parts))
    rows = int(scan.select(pl.len()).collect().item())
    row_bytes = sum(p.stat().st_size for p in parts) / max(1, rows)
    scan.sink_parquet(
        out,
        compression="zstd",
        compression_level=COMPRESSION_LEVEL,
        row_group_size=max(64, min(ROW_GROUP, int(ROW_GROUP_BYTES / row_bytes))),
        metadata=dict(metadata),
        maintain_order=True,
        mkdir=False,
    )
    return rows
