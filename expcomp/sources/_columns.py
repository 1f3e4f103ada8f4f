"""Rows gathered as dicts to typed frames, column by column.

Lists of structs are built flat and cut by offsets afterwards: Polars takes 30 times longer over nested Python values.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from operator import itemgetter
from typing import Any

import polars as pl
import pyarrow as pa

from expcomp.sources._values import writable

CHUNK = 256
"""Rows that are taken apart at a time: few enough that they are still in the cache when the last column is read."""
_MOST = 16384
"""Rows that make a frame: what they hold is let go, and its memory used again."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TICK = timedelta(microseconds=1)
_MOMENT = pl.Datetime("us", "UTC")


def frame_of(rows: list[dict[str, Any]], schema: pl.Schema) -> pl.DataFrame:
    """A frame with exactly this schema; keys that a row lacks are null.

    Raises:
        KeyError: A row has a key that is no column: a mistake in a reader.
        TypeError: A value does not fit its column: a mistake in a reader.
    """
    gathered = Columns(schema)
    gathered.add(rows)
    return gathered.frame()


class Columns:
    """A frame in the making: rows are taken apart while they are in the cache, and need not be kept."""

    def __init__(self, schema: pl.Schema) -> None:
        self._schema = schema
        self._values: dict[str, list[Any]] = {}
        self._height = 0
        self._done: list[pl.DataFrame] = []

    def add(self, rows: list[dict[str, Any]]) -> None:
        """Add rows.

        Raises:
            KeyError: A row has a key that is no column.
        """
        for start in range(0, len(rows), CHUNK):
            part = rows[start : start + CHUNK]
            alike = _alike(part)
            used = set(alike) if alike is not None else set().union(*part)
            unknown = used - self._schema.keys()
            if unknown:
                msg = f"no such columns: {', '.join(sorted(unknown))}"
                raise KeyError(msg)
            for name in used - self._values.keys():
                self._values[name] = [None] * self._height
            for name, column in self._values.items():
                if alike is None:
                    column.extend([row.get(name) for row in part])
                else:
                    column.extend(alike[name] if name in alike else [None] * len(part))
            self._height += len(part)
            if self._height >= _MOST:
                self._done.append(self._made())
                self._values, self._height = {}, 0

    def frame(self) -> pl.DataFrame:
        """The frame.

        Raises:
            TypeError: A value does not fit its column.
        """
        if self._height or not self._done:
            self._done.append(self._made())
        return self._done[0] if len(self._done) == 1 else pl.concat(self._done)

    def _made(self) -> pl.DataFrame:
        if not self._height:
            return pl.DataFrame(schema=self._schema)
        return pl.DataFrame([self._series(name, dtype) for name, dtype in self._schema.items()])

    def _series(self, name: str, dtype: pl.DataType) -> pl.Series:
        values = self._values.get(name)
        if values is None:
            return pl.Series(name, [None], dtype=dtype).new_from_index(0, self._height)
        if isinstance(dtype, pl.List) and isinstance(dtype.inner, pl.Struct):
            return _structs(name, values, dtype)
        if dtype == _MOMENT:
            return _moments(name, values)
        return _typed(name, values, dtype)


def _typed(name: str, values: list[Any], dtype: pl.DataType) -> pl.Series:
    try:
        return pl.Series(name, values, dtype=dtype, strict=True)
    except UnicodeEncodeError:
        return pl.Series(name, _spelled(values), dtype=dtype, strict=True)


def _spelled(value: Any) -> Any:
    """Texts with what UTF-8 cannot hold spelled out: names of files may be any bytes."""
    if isinstance(value, list):
        return [_spelled(inner) for inner in value]
    return writable(value) if isinstance(value, str) else value


def _alike(rows: list[dict[str, Any]]) -> dict[str, tuple[Any, ...]] | None:
    """The columns of rows that all have the same keys, in a third of the time that asking each row for each key takes; else null."""
    names = tuple(rows[0])
    if len(names) < 2 or set(map(len, rows)) != {len(names)}:
        return None
    try:
        return dict(zip(names, zip(*map(itemgetter(*names), rows), strict=True), strict=True))
    except KeyError:
        return None


def _moments(name: str, values: list[datetime | None]) -> pl.Series:
    """Times as the numbers they are stored as: Polars takes five times longer over `datetime`."""
    try:
        ticks = [None if value is None else (value - _EPOCH) // _TICK for value in values]
    except TypeError:
        # Not all are times with a zone: Polars says what is wrong, or takes them.
        return pl.Series(name, values, dtype=_MOMENT, strict=True)
    return pl.Series(name, ticks, dtype=pl.Int64).cast(_MOMENT)


def _structs(name: str, values: list[list[dict[str, Any]] | None], dtype: pl.List) -> pl.Series:
    flat = [item for items in values if items for item in items]
    if not flat:
        empty = pl.Series(name, [[]], dtype=dtype)
        known = pl.Series([items is not None for items in values])
        return pl.select(pl.when(known).then(empty)).to_series().rename(name).cast(dtype)
    fields = {f.name: f.dtype for f in dtype.inner.fields}  # type: ignore[union-attr]
    parts = [_typed(field, list(map(itemgetter(field), flat)), inner) for field, inner in fields.items()]
    structs = pl.DataFrame(parts).to_struct(name).to_arrow(compat_level=pl.CompatLevel.newest())
    # In Arrow a list without start is null.
    starts: list[int | None] = []
    at = 0
    for items in values:
        starts.append(None if items is None else at)
        at += len(items) if items else 0
    starts.append(at)
    return pl.Series(name, pa.LargeListArray.from_arrays(pa.array(starts, pa.int64()), structs), dtype=dtype)
