"""Rows of Parquet files as dicts, in parts, and where to cut a file."""

from __future__ import annotations

import base64
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import IO, TYPE_CHECKING, Any

import polars as pl

from expcomp.sources._bytes import open_plain, seekable

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import pyarrow as pa

Record = tuple[int, str, Any]
"""Position in the file, a key that is unique in it, and the record."""

_BATCH_BYTES = 8 << 20
_MOST_ROWS = 2048


def parquet_spans(path: Path, whole: int, part: int) -> list[tuple[tuple[int, int, int], int]]:
    """Parts of a file between row groups, with their size once decompressed; none if it is no larger than `whole`."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with open_plain(path) as handle:
            if not handle.seekable():
                return []
            about = pq.read_metadata(handle)
    except (OSError, pa.ArrowException, UnicodeDecodeError):
        return []
    groups = [about.row_group(i) for i in range(about.num_row_groups)]
    if max(sum(g.total_byte_size for g in groups), path.stat().st_size) <= whole or len(groups) < 2:
        return []
    spans: list[tuple[tuple[int, int, int], int]] = []
    begin = row = first = size = 0
    for index, group in enumerate(groups, 1):
        row += group.num_rows
        size += group.total_byte_size
        if size >= part or index == len(groups):
            spans.append(((begin, index, first), size))
            begin, first, size = index, row, 0
    return spans


def parquet_rows(path: Path, span: tuple[int, int, int] | None, most: int | None) -> Iterator[Record]:
    """Rows as dicts, a batch of some megabytes at a time."""
    with seekable(path) as handle:
        yield from stream_rows(handle, span, most)


def stream_rows(handle: IO[bytes], span: tuple[int, int, int] | None, most: int | None) -> Iterator[Record]:
    """The same of a file that is open, or of bytes."""
    import pyarrow.parquet as pq

    with pq.ParquetFile(handle) as opened:
        about = opened.metadata
        # Names and texts that are not UTF-8 would bring Polars down; looked at here, they raise.
        _check_names(opened.schema_arrow)
        groups = range(span[0], span[1]) if span else range(about.num_row_groups)
        size = sum(about.row_group(g).total_byte_size for g in groups)
        count = sum(about.row_group(g).num_rows for g in groups)
        step = max(1, min(_MOST_ROWS, most or _MOST_ROWS, _BATCH_BYTES * count // max(size, 1)))
        pos = span[2] if span else 0
        for part in opened.iter_batches(batch_size=step, row_groups=list(groups)):
            part.validate(full=True)
            frame = pl.from_arrow(part.replace_schema_metadata(None))
            names = part.schema.names
            columns = [_values(s) for s in frame] if isinstance(frame, pl.DataFrame) else []
            for values in zip(*columns, strict=True):
                yield pos, str(pos), dict(zip(names, values, strict=True))
                pos += 1
                if most is not None and pos >= most:
                    return


def _check_names(schema: pa.Schema) -> None:
    types = [schema.field(i).type for i in range(len(schema.names))]
    for kind in types:
        fields = [kind.field(i) for i in range(kind.num_fields)]
        types += [field.type for field in fields if field.name]


def _values(series: pl.Series) -> list[Any]:
    try:
        values = series.to_list()
    except (OverflowError, ValueError, pl.exceptions.PanicException):
        # Times beyond the years of the calendar stay the numbers they are stored as.
        values = series.to_physical().to_list()
    return values if _is_plain(series.dtype) else [_plain(v) for v in values]


def _is_plain(dtype: pl.DataType) -> bool:
    """Whether every value of a type is a value of JSON."""
    if isinstance(dtype, pl.Struct):
        return all(_is_plain(f.dtype if isinstance(f.dtype, pl.DataType) else f.dtype()) for f in dtype.fields)
    if isinstance(dtype, pl.List | pl.Array):
        inner = dtype.inner
        return _is_plain(inner if isinstance(inner, pl.DataType) else inner())
    return dtype.is_integer() or dtype in (pl.String, pl.Boolean, pl.Null) or isinstance(dtype, pl.Enum)


def _plain(value: Any) -> Any:
    """A value as JSON has it: times as ISO text, bytes as a data URL, NaN and infinities null."""
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_plain(v) for v in value]
    if isinstance(value, float):
        return value if value - value == 0 else None
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, bytes):
        return f"data:{_mime(value)};base64,{base64.b64encode(value).decode()}"
    if isinstance(value, Decimal):
        return float(value)
    return str(value) if isinstance(value, timedelta) else value


def _mime(data: bytes) -> str:
    if data.startswith(b"\x89PNG"):
        return "image/png"
    if data.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    return "application/octet-stream"
