"""Files of tables and rows: IPC parts while a build runs, Parquet and JSON lines when it is published."""

from __future__ import annotations

import os
from contextlib import ExitStack
from hashlib import sha256
from typing import TYPE_CHECKING, Any, BinaryIO

import polars as pl

from expcomp.io.digest import PREFIX
from expcomp.io.hashing import Hashing, Written
from expcomp.io.whole import whole

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

ROW_GROUP = 16_384
ROW_GROUP_BYTES = 24 << 20
"""A row group ends at this many rows or about this many bytes: whole conversations make rows of many kilobytes."""

LEAST_ROWS = 64
_ONE_PAGE = 1 << 30
"""Where pages of nested columns end depends on what a column takes in memory, which its values do not decide: so there is one."""

COMPRESSION_LEVEL = 3
LINES = 1_024


def write_part(frame: pl.DataFrame, path: Path) -> None:
    """One part of a build: Arrow IPC, uncompressed, to be read back once."""
    with whole(path) as beside:
        frame.write_ipc(beside, compression="uncompressed")


def read_part(path: Path) -> pl.DataFrame:
    """A part, whole."""
    return pl.scan_ipc(path, glob=False).collect(engine="in-memory")


def write_pieces(pieces: Iterable[bytes], path: Path) -> None:
    """One file of pieces laid end to end."""
    with path.open("wb") as handle:
        handle.writelines(pieces)


def write_private_parquet(frame: pl.DataFrame, path: Path) -> None:
    """A new Parquet file that only its owner can read; the mode holds before the first byte is there."""
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))
    with path.open("r+b") as handle:
        frame.write_parquet(handle)


def write_lines(lines: pl.Series, path: Path) -> None:
    """One text a line, UTF-8, each line ended by a newline."""
    with whole(path) as beside, beside.open("wb") as handle:
        for start in range(0, lines.len(), LINES):
            handle.write(lines.slice(start, LINES).str.join("\n").cast(pl.Binary).item())
            handle.write(b"\n")


def lines_digest(path: Path) -> tuple[int, str]:
    """Number of lines and digest of a text file."""
    rows, digest = 0, sha256()
    with path.open("rb") as handle:
        while chunk := handle.read(1 << 20):
            rows += chunk.count(b"\n")
            digest.update(chunk)
    return rows, PREFIX + digest.hexdigest()


def write_parquet(frame: pl.DataFrame, out: Path, metadata: Mapping[str, str]) -> int:
    """Write a frame as Parquet: zstd, bounded row groups, contract in the key-value metadata; returns the number of rows."""
    frame.write_parquet(
        out,
        compression="zstd",
        compression_level=COMPRESSION_LEVEL,
        row_group_size=_row_group(frame.height, int(frame.estimated_size())),
        metadata=dict(metadata),
    )
    return frame.height


def in_pieces(frame: pl.DataFrame) -> pl.DataFrame:
    """The same rows in chunks of a row group, each with no list items but its own.

    The writer goes through all items of the chunk that a row group is cut from: one chunk costs row groups times items.
    """
    if frame.height <= ROW_GROUP or not any(isinstance(d, pl.List) for d in frame.dtypes):
        return frame
    starts = range(0, frame.height, ROW_GROUP)
    pieces = (pl.int_range(start, min(start + ROW_GROUP, frame.height), dtype=pl.UInt32) for start in starts)
    return pl.concat([frame.select(pl.all().gather(piece)) for piece in pieces], rechunk=False)


def write_row_groups(frame: pl.DataFrame, out: Path, metadata: Mapping[str, str]) -> int:
    """A frame as Parquet whose bytes depend on its values only, to be copied into a larger file; returns the number of row groups."""
    frame = frame.rechunk()
    # A row group holds at least 64 rows, whatever their size; what a frame takes in memory depends on where it came from.
    size = _row_group(frame.height, _text_bytes(frame)) if frame.height > LEAST_ROWS else LEAST_ROWS
    with whole(out) as beside:
        frame.write_parquet(
            beside,
            compression="zstd",
            compression_level=COMPRESSION_LEVEL,
            row_group_size=size,
            data_page_size=_ONE_PAGE,
            metadata=dict(metadata),
        )
    return -(-frame.height // size)


def _text_bytes(frame: pl.DataFrame) -> int:
    """Bytes of text in all columns, at any depth."""
    sums = [expr for name, dtype in frame.schema.items() for expr in _lengths(pl.col(name), dtype)]
    return int(frame.select(n=pl.sum_horizontal(expr.cast(pl.Int64) for expr in sums)).item()) if sums else 0


def _lengths(expr: pl.Expr, dtype: Any) -> list[pl.Expr]:
    if dtype == pl.String:
        return [expr.str.len_bytes().sum()]
    if isinstance(dtype, pl.List):
        return _lengths(expr.list.explode(keep_nulls=False, empty_as_null=False), dtype.inner)
    if isinstance(dtype, pl.Struct):
        return [found for f in dtype.fields for found in _lengths(expr.struct.field(f.name), f.dtype)]
    return []


def join_ranges(ranges: Iterable[tuple[Path, int, int]], out: Path) -> Written:
    """Ranges (file, first byte, bytes) of text files, end to end; a line is a row. `out` may be one of the files."""
    rows = 0
    with whole(out) as beside, beside.open("wb") as raw, ExitStack() as stack:
        target = Hashing(raw)
        files: dict[Path, BinaryIO] = {}
        for path, start, length in ranges:
            if path not in files:
                files[path] = stack.enter_context(path.open("rb"))
            files[path].seek(start)
            left = length
            while left:
                chunk = files[path].read(min(left, 1 << 20))
                if not chunk:
                    msg = f"{path.name} is shorter than it was"
                    raise OSError(msg)
                left -= len(chunk)
                rows += chunk.count(b"\n")
                target.write(chunk)
    return Written(rows, target.size, target.sha256)


def same_ranges(pairs: Iterable[tuple[Path, int, Path, int, int]]) -> bool:
    """Whether ranges of files (file, first byte, the other file, its first byte, bytes) hold the same; stops at the first difference."""
    with ExitStack() as stack:
        files: dict[Path, BinaryIO] = {}
        for path, start, other, place, length in pairs:
            for one in (path, other):
                if one not in files:
                    files[one] = stack.enter_context(one.open("rb"))
            files[path].seek(start)
            files[other].seek(place)
            left = length
            while left:
                size = min(left, 1 << 20)
                if files[path].read(size) != files[other].read(size):
                    return False
                left -= size
    return True


def parquet_height(files: Path | list[Path]) -> int:
    """Rows of Parquet files of one schema."""
    return int(pl.scan_parquet(files, glob=False).select(pl.len()).collect().item())


def _row_group(rows: int, size: int) -> int:
    return max(LEAST_ROWS, min(ROW_GROUP, ROW_GROUP_BYTES * rows // max(1, size)))
