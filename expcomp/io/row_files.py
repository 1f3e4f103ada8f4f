"""Files of rows of any shape, read in portions for their texts, and copied without some of their rows."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import orjson
import polars as pl

from expcomp.errors import OutputError, SourceError, UsageError
from expcomp.io.parts import row_groups
from expcomp.io.publish import beside, sync_folder
from expcomp.io.sinks import write_parquet
from expcomp.io.whole import disk_error, whole

PORTION = 64 << 20
"""Bytes of rows that are looked at together."""

LARGE_BYTES = 16 << 20

LINES = (".jsonl", ".ndjson")
NAMES = {
    "row_id": ("row_id",),
    "task_id": ("task_id", "instance_id"),
    "dataset": ("benchmark", "dataset", "data_source"),
}
"""Columns that say which row this is, and of which task."""

IDS: dict[str, pl.DataType] = {"row": pl.UInt32(), **dict.fromkeys(NAMES, pl.String())}
TEXTS: dict[str, pl.DataType] = {"row": pl.UInt32(), "text": pl.String()}


class Shard(NamedTuple):
    """Files that hold the same rows in the same order; the first is read."""

    kind: str
    files: tuple[Path, ...]


class Cut(NamedTuple):
    """A piece of a file: rows of a Parquet file, or bytes of a file of lines, which has the lines that begin in it."""

    path: Path
    start: int
    size: int


class Portion(NamedTuple):
    """Rows of a piece, numbered from 0: `ids` has a line each (`IDS`), `texts` one for each text in them (`TEXTS`)."""

    ids: pl.DataFrame
    texts: pl.DataFrame


def row_shards(path: Path) -> list[Shard]:
    """The files of rows of a dataset folder or a compile output, or the file itself.

    Raises:
        SourceError: There are none.
    """
    if path.is_file():
        if path.suffix.lower() not in (".parquet", *LINES):
            msg = f"{path}: expected a name that ends in .parquet, .jsonl or .ndjson"
            raise SourceError(msg)
        return [Shard(path.stem, (path,))]
    root = path / "data" if (path / "data").is_dir() else path / "rows"
    found: dict[Path, list[Path]] = {}
    for file in sorted(root.rglob("*")):
        if file.is_file() and file.suffix in (".parquet", *LINES):
            found.setdefault(file.with_suffix(""), []).append(file)
    if not found:
        msg = f"{path} holds no rows; expected a dataset folder (data/), a compile output (rows/), a .parquet or a .jsonl file"
        raise SourceError(msg)
    # Parquet says its types; a twin is only copied.
    return [
        Shard(stem.relative_to(root).as_posix(), tuple(sorted(files, key=lambda f: f.suffix != ".parquet")))
        for stem, files in found.items()
    ]


def large(path: Path) -> bool:
    """Whether the files of rows at a path are worth worker processes."""
    return sum(shard.files[0].stat().st_size for shard in row_shards(path)) > LARGE_BYTES


def cuts(path: Path) -> list[Cut]:
    """A file in pieces of about `PORTION` bytes of rows; the rows themselves are not read.

    Raises:
        SourceError: The file cannot be read.
    """
    import pyarrow as pa

    path = path.absolute()
    try:
        if path.suffix.lower() != ".parquet":
            end = path.stat().st_size
            return [Cut(path, start, min(PORTION, end - start)) for start in range(0, end, PORTION)]
        groups = row_groups(path)
    except (OSError, pa.ArrowException) as error:
        msg = f"{path} cannot be read: {error}"
        raise SourceError(msg) from error
    height, size = sum(rows for rows, _ in groups), sum(own for _, own in groups)
    step = max(1, min(100_000, PORTION * height // max(1, 4 * size)))  # encoded text is some four times smaller
    return [Cut(path, start, min(step, height - start)) for start in range(0, height, step)]


def read_cut(cut: Cut) -> Portion:
    """The rows of a piece.

    Raises:
        SourceError: The file cannot be read; the message names the line.
    """
    try:
        return _parquet(cut) if cut.path.suffix.lower() == ".parquet" else _lines(cut)
    except (OSError, pl.exceptions.PolarsError) as error:
        msg = f"{cut.path} cannot be read: {error}"
        raise SourceError(msg) from error


def _parquet(cut: Cut) -> Portion:
    frame = pl.scan_parquet(cut.path, glob=False).slice(cut.start, cut.size).collect()
    row = pl.int_range(pl.len(), dtype=pl.UInt32).alias("row")
    ids = {
        name: next((pl.col(c).cast(pl.String) for c in columns if c in frame.columns), pl.lit(None, pl.String))
        for name, columns in NAMES.items()
    }
    at = frame.select(row)["row"]
    texts = [_leaves(at, frame[c]) for c in frame.columns]
    return Portion(
        frame.select(row, **ids), pl.concat([pl.DataFrame(schema=TEXTS), *(t for part in texts for t in part)])
    )


def _leaves(rows: pl.Series, values: pl.Series) -> list[pl.DataFrame]:
    """Every text in a column, however deep, with its row."""
    dtype = values.dtype
    if isinstance(dtype, pl.BaseExtension):
        return _leaves(rows, values.ext.storage())
    if dtype == pl.String:
        return [pl.DataFrame({"row": rows, "text": values}, schema=TEXTS).drop_nulls("text")]
    if isinstance(dtype, pl.List | pl.Array):
        long = pl.DataFrame({"row": rows, "value": values}).explode("value")
        return _leaves(long["row"], long["value"])
    if isinstance(dtype, pl.Struct):
        return [leaf for name in values.struct.fields for leaf in _leaves(rows, values.struct.field(name))]
    return []


def _lines(cut: Cut) -> Portion:
    ids: list[tuple[Any, ...]] = []
    texts: list[tuple[int, str]] = []
    with cut.path.open("rb") as handle:
        if cut.start:
            handle.seek(cut.start - 1)
            handle.readline()  # the line that began before; nothing but its end where one begins here
        end = handle.tell()
        while (at := end) < cut.start + cut.size and (line := handle.readline()):
            end += len(line)
            if not line.strip():
                continue
            value = _row(cut.path, at, line)
            found = (next((value[c] for c in columns if value.get(c) is not None), None) for columns in NAMES.values())
            row = len(ids)
            ids.append((row, *(None if v is None else str(v) for v in found)))
            texts.extend((row, text) for text in _strings(value))
    return Portion(
        pl.DataFrame(ids, schema=dict(IDS), orient="row"), pl.DataFrame(texts, schema=dict(TEXTS), orient="row")
    )


def _row(path: Path, at: int, line: bytes) -> dict[str, Any]:
    try:
        value = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        msg = f"{path}, line {_line_number(path, at)}: no JSON ({error})"
        raise SourceError(msg) from error
    if not isinstance(value, dict):
        msg = f"{path}, line {_line_number(path, at)}: {type(value).__name__}, expected one JSON object a line"
        raise SourceError(msg)
    return value


def _line_number(path: Path, at: int) -> int:
    """1-based number of the line that begins at a byte."""
    lines = 1
    with path.open("rb") as handle:
        while at and (chunk := handle.read(min(at, 1 << 20))):
            lines += chunk.count(b"\n")
            at -= len(chunk)
    return lines


def _strings(value: Any) -> Iterator[str]:
    ahead = [value]
    while ahead:
        value = ahead.pop()
        if isinstance(value, str):
            yield value
        elif isinstance(value, dict):
            ahead.extend(reversed(value.values()))
        elif isinstance(value, list):
            ahead.extend(reversed(value))


def copy_without(path: Path, out: Path, gone: pl.Series) -> int:
    """Copy a file of rows without those at these positions; returns the number of rows that are left."""
    gone = gone.cast(pl.UInt32).unique(maintain_order=True)
    with whole(out) as beside:
        copy = _copy_parquet if path.suffix.lower() == ".parquet" else _copy_lines
        return copy(path, beside, gone)


def _copy_parquet(path: Path, out: Path, gone: pl.Series) -> int:
    import pyarrow.parquet as pq

    file = pq.ParquetFile(path)
    kept = row = 0
    with pq.ParquetWriter(
        out, file.schema_arrow, compression="zstd", compression_level=3, write_page_index=True
    ) as writer:
        for batch in file.iter_batches(10_000):
            stays = ~pl.int_range(row, row + batch.num_rows, dtype=pl.UInt32, eager=True).is_in(gone.implode())
            row += batch.num_rows
            rest = batch.filter(stays.to_arrow())
            kept += rest.num_rows
            if rest.num_rows:
                writer.write_batch(rest)
    return kept


def _copy_lines(path: Path, out: Path, gone: pl.Series) -> int:
    without = set(gone)
    kept = row = 0
    with path.open("rb") as source, out.open("wb") as target:
        for line in source:
            if not line.strip():
                continue
            if row not in without:
                target.write(line if line.endswith(b"\n") else line + b"\n")
                kept += 1
            row += 1
    return kept


@contextmanager
def replacing(out: Path, *, force: bool) -> Iterator[Path]:
    """A file in a folder beside `out` that takes its place when the block ends well, and is gone otherwise.

    Raises:
        OutputError: `out` exists and may not be replaced, or cannot be written.
    """
    _check_free(out, force=force)
    with beside(out) as folder:
        try:
            folder.mkdir()
            file = folder / out.name
            yield file
            with file.open("rb") as handle:
                os.fsync(handle.fileno())
            _check_free(out, force=force)
            file.replace(out)
            sync_folder(out.absolute().parent)
        except Exception as error:
            if (said := disk_error(error)) is None:
                raise
            msg = f"{out} cannot be written: {said}"
            raise OutputError(msg) from error


def _check_free(out: Path, *, force: bool) -> None:
    if out.is_symlink() or out.is_dir() or (out.exists() and not force):
        msg = f"{out} exists; choose another name, or --force to replace a file"
        raise OutputError(msg)


def replace_parquet(frame: pl.DataFrame, out: Path, *, force: bool = False) -> None:
    """Write a frame as one Parquet file, in one step.

    Raises:
        OutputError: `out` exists and may not be replaced, or cannot be written.
    """
    with replacing(out, force=force) as file:
        write_parquet(frame, file, {})


def check_out(path: Path, out: Path) -> None:
    """Refuse to write over, into or around what is read.

    Raises:
        UsageError: The two meet.
    """
    a, b = path.resolve(), out.resolve()
    if a == b or a in b.parents or b in a.parents:
        msg = f"--out {out} and the rows at {path} are in one place; choose another --out"
        raise UsageError(msg)
