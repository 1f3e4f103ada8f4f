"""Files of rows of any shape, read in portions for their texts, and copied without some of their rows."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import orjson
import polars as pl

from expcomp.errors import OutputError, SourceError, UsageError

PORTION = 64 << 20
"""Bytes of rows that are looked at together."""

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


class Portion(NamedTuple):
    """Some rows of a file: `ids` has a line each (`IDS`), `texts` one for each text in them (`TEXTS`)."""

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


def portions(path: Path) -> Iterator[Portion]:
    """The rows of a file, in order.

    Raises:
        SourceError: The file cannot be read; the message names the line.
    """
    try:
        yield from _parquet(path) if path.suffix.lower() == ".parquet" else _lines(path)
    except (OSError, pl.exceptions.PolarsError) as error:
        msg = f"{path} cannot be read: {error}"
        raise SourceError(msg) from error


def _parquet(path: Path) -> Iterator[Portion]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        meta = pq.read_metadata(path)
    except pa.ArrowException as error:
        msg = f"{path} cannot be read: {error}"
        raise SourceError(msg) from error
    size = sum(meta.row_group(i).total_byte_size for i in range(meta.num_row_groups))
    step = max(1, min(100_000, PORTION * meta.num_rows // max(1, 4 * size)))  # encoded text is some four times smaller
    for start in range(0, meta.num_rows, step):
        frame = pl.scan_parquet(path, glob=False).slice(start, step).collect()
        row = (pl.int_range(pl.len()) + start).cast(pl.UInt32).alias("row")
        ids = {
            name: next((pl.col(c).cast(pl.String) for c in columns if c in frame.columns), pl.lit(None, pl.String))
            for name, columns in NAMES.items()
        }
        at = frame.select(row)["row"]
        texts = [_leaves(at, frame[c]) for c in frame.columns]
        yield Portion(
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


def _lines(path: Path) -> Iterator[Portion]:
    with path.open("rb") as handle:
        number = row = 0
        while lines := handle.readlines(PORTION):
            ids: list[tuple[Any, ...]] = []
            texts: list[tuple[int, str]] = []
            for line in lines:
                number += 1
                if not line.strip():
                    continue
                value = _row(path, number, line)
                found = (
                    next((value[c] for c in columns if value.get(c) is not None), None) for columns in NAMES.values()
                )
                ids.append((row, *(None if v is None else str(v) for v in found)))
                texts.extend((row, text) for text in _strings(value))
                row += 1
            yield Portion(
                pl.DataFrame(ids, schema=dict(IDS), orient="row"), pl.DataFrame(texts, schema=dict(TEXTS), orient="row")
            )


def _row(path: Path, number: int, line: bytes) -> dict[str, Any]:
    try:
        value = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        msg = f"{path}, line {number}: no JSON ({error})"
        raise SourceError(msg) from error
    if not isinstance(value, dict):
        msg = f"{path}, line {number}: {type(value).__name__}, expected one JSON object a line"
        raise SourceError(msg)
    return value


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
    return _copy_parquet(path, out, gone) if path.suffix.lower() == ".parquet" else _copy_lines(path, out, gone)


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
    """A file beside `out` that takes its place when the block ends well, and is gone otherwise.

    Raises:
        OutputError: `out` exists and may not be replaced, or cannot be written.
    """
    if out.is_symlink() or out.is_dir() or (out.exists() and not force):
        msg = f"{out} exists; choose another name, or --force to replace a file"
        raise OutputError(msg)
    beside = out.absolute().with_name(f".{out.name}.expcomp-{secrets.token_hex(6)}")
    try:
        out.absolute().parent.mkdir(parents=True, exist_ok=True)
        yield beside
        with beside.open("rb") as handle:
            os.fsync(handle.fileno())
        beside.replace(out)
    except OSError as error:
        msg = f"{out} cannot be written: {error.strerror or error}"
        raise OutputError(msg) from error
    finally:
        beside.unlink(missing_ok=True)


def check_out(path: Path, out: Path) -> None:
    """Refuse to write over, into or around what is read.

    Raises:
        UsageError: The two meet.
    """
    a, b = path.resolve(), out.resolve()
    if a == b or a in b.parents or b in a.parents:
        msg = f"--out {out} and the rows at {path} are in one place; choose another --out"
        raise UsageError(msg)
