"""Tables of telemetry: Parquet and CSV files whose rows are spans, runs, observations or traces, as records of JSON would hold them."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING, Any

import polars as pl

from expcomp.sources._bytes import seekable
from expcomp.sources._json import Problem
from expcomp.sources.chat._parquet import stream_rows

if TYPE_CHECKING:
    from expcomp.sources._chat import Row
    from expcomp.sources._look import Look

PARQUET = b"PAR1"
_BOM = b"\xef\xbb\xbf"
_SEEN = "telemetry_columns"
_IDS = frozenset({"context.trace_id", "trace_id", "traceId", "request_id"})
"""Columns one of which any table of telemetry has; a text whose first line names none of them is no table."""
_DEEP = 200
_LONGEST_HEADER = 64 * 1024
_LONGEST_CELL = 2**31 - 1


def columns(look: Look) -> frozenset[str]:
    """Names of the columns of a table, or the keys of the first record of JSON. The answer is kept with the look."""
    kept = vars(look)
    if _SEEN not in kept:
        kept[_SEEN] = _columns(look)
    found: frozenset[str] = kept[_SEEN]
    return found


def _columns(look: Look) -> frozenset[str]:
    if look.kind == "parquet":
        return _parquet_columns(look)
    return look.keys if look.kind in ("object", "array") else frozenset(_header(look.head))


def _parquet_columns(look: Look) -> frozenset[str]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with seekable(look.path) as handle:
            return frozenset(pq.read_schema(handle).names)
    except (OSError, ValueError, pa.ArrowException):
        return frozenset()


def _header(data: bytes) -> list[str]:
    """Column names in the first line of a CSV file of telemetry; none if it is anything else."""
    line = data[:_LONGEST_HEADER].removeprefix(_BOM).partition(b"\n")[0]
    if b"," not in line or line[:1] in (b"{", b"[") or not any(name.encode() in line for name in _IDS):
        return []
    try:
        names = next(csv.reader([line.decode("utf-8", "replace").rstrip("\r")]), [])
    except csv.Error:
        return []
    return names if _IDS & set(names) else []


def is_table(data: bytes) -> bool:
    """Whether the bytes are of a table, not of JSON."""
    return data.startswith(PARQUET) or bool(_header(data))


def table_rows(data: bytes) -> tuple[list[tuple[int, Row]], list[Problem]]:
    """Rows with 0-based positions, without the cells that are empty, and what is wrong with the table."""
    rows, problems = _parquet(data) if data.startswith(PARQUET) else _csv(data)
    if not rows and not problems:
        problems = [Problem("empty_file", "the table holds no row")]
    return rows, problems


def _parquet(data: bytes) -> tuple[list[tuple[int, Row]], list[Problem]]:
    import pyarrow as pa

    rows: list[tuple[int, Row]] = []
    try:
        for pos, _, record in stream_rows(io.BytesIO(data), None, None):
            rows.append((pos, _filled(record, 0)))
    except (OSError, ValueError, pa.ArrowException, pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        why = (str(error).splitlines() or ["no reason given"])[0][:200]
        detail = f"the Parquet file cannot be read from row {len(rows)} on: {why}"
        return rows, [Problem("bad_parquet", detail, pos=len(rows))]
    return rows, []


def _filled(value: Any, depth: int) -> Any:
    """The value without nulls in objects: in a table every object has the keys of all others."""
    if isinstance(value, dict):
        return {k: _filled(v, depth + 1) for k, v in value.items() if v is not None} if depth < _DEEP else {}
    if isinstance(value, list):
        return [_filled(v, depth + 1) for v in value] if depth < _DEEP else []
    return value


def _csv(data: bytes) -> tuple[list[tuple[int, Row]], list[Problem]]:
    problems: list[Problem] = []
    try:
        data.decode()
    except UnicodeDecodeError as error:
        detail = f"byte 0x{data[error.start]:02x} is not UTF-8; decoded with replacement"
        problems.append(Problem("not_utf8", detail, byte_offset=error.start, severity="warning"))
        data = data.decode("utf-8", "replace").encode()
    try:
        frame = pl.read_csv(io.BytesIO(data), infer_schema=False)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException):
        return _broken_csv(data, problems)
    rows = zip(*(frame[name].to_list() for name in frame.columns), strict=True)
    return [
        (pos, {k: v for k, v in zip(frame.columns, row, strict=True) if v}) for pos, row in enumerate(rows)
    ], problems


def _broken_csv(data: bytes, problems: list[Problem]) -> tuple[list[tuple[int, Row]], list[Problem]]:
    """Rows of a file that is cut inside a cell, or whose rows are of different lengths."""
    rows: list[tuple[int, Row]] = []
    before = csv.field_size_limit(_LONGEST_CELL)
    try:
        reader = csv.reader(io.StringIO(data.decode("utf-8", "replace").removeprefix("\ufeff"), newline=""))
        names = next(reader)
        for pos, cells in enumerate(row for row in reader if row):
            if len(cells) == len(names):
                rows.append((pos, {k: v for k, v in zip(names, cells, strict=True) if v}))
                continue
            detail = f"row {pos} has {len(cells)} cells, the header names {len(names)} columns; left out"
            problems.append(Problem("bad_row", detail, pos=pos))
    except (csv.Error, StopIteration) as error:
        problems.append(Problem("bad_csv", f"cannot be read from row {len(rows)} on: {error}", pos=len(rows)))
    finally:
        csv.field_size_limit(before)
    if not problems:
        problems.append(Problem("odd_csv", "has quotes in odd places; read all the same", severity="warning"))
    return rows, problems
