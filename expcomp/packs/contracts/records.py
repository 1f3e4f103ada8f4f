"""Measure JSON documents and JSON lines: kinds of values by path, over all records.

A path is a key of a record, or keys joined by dots, three deep at the most; a key of the record that holds dots counts before a path of
the same spelling. Deeper keys that hold a dot or are empty have no path. Contracts may also name items of arrays, as in `runs.0.id`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import orjson
import polars as pl

from expcomp.packs.contracts.kinds import FACTS
from expcomp.packs.contracts.measured import MAX_FIELDS, MAX_VALUES, Measured, failed

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

DEPTH = 3
_BOM = b"\xef\xbb\xbf"
_DATE = re.compile(r"[0-9]{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12][0-9]|3[01])")
_TIME = re.compile(r"[T ][0-2][0-9]:[0-5][0-9](?::[0-6][0-9](?:\.[0-9]+)?)?(?:Z|[+-][0-2][0-9]:?[0-5][0-9])?")
_SHAPES = {dict: "object", list: "array", str: "string", bool: "boolean", int: "number", float: "number"}


class _TooManyError(Exception):
    """More values or paths than are checked."""


def measure_json(data: bytes, wanted: Collection[str] = ()) -> Measured:
    """Measure one document: an array is taken as its items, anything else as one record."""
    document = parse(data)
    if isinstance(document, Measured):
        return document
    value = document[0]
    if not isinstance(value, dict | list):
        return Measured(shape=_SHAPES.get(type(value), "null"))
    if isinstance(value, list):
        return _records(value, "array", wanted)
    return _records([value], "object", wanted)


def measure_jsonl(data: bytes, wanted: Collection[str] = ()) -> Measured:
    """Measure JSON lines; blank lines do not count."""
    bad: list[tuple[int, Measured]] = []

    def records() -> Iterator[Any]:
        for number, line in enumerate(data.removeprefix(_BOM).split(b"\n"), 1):
            if line.strip():
                found = parse(line)
                if isinstance(found, Measured):
                    bad.append((number, found))
                else:
                    yield found[0]

    measured = _records(records(), "lines", wanted)
    if bad:
        number, first = bad[0]
        detail = f"{len(bad):,} lines are no JSON; the first is line {number}: {first.detail}"
        return failed(first.problem or "invalid_json", detail)
    return measured


def parse(data: bytes) -> tuple[Any] | Measured:
    """The document in a 1-tuple, or why there is none; NaN and infinity are no JSON."""
    try:
        return (orjson.loads(data.removeprefix(_BOM)),)
    except orjson.JSONDecodeError as error:
        try:
            data.decode()
        except UnicodeDecodeError as bad:
            return failed("invalid_encoding", f"byte {bad.start} is 0x{data[bad.start]:02x}, which is not UTF-8")
        return failed("invalid_json", str(error))


def look_up(record: Any, path: str) -> tuple[bool, Any]:
    """The value at a path: a key of the record, else keys and positions joined by dots; a key without a name is on no path."""
    if isinstance(record, dict) and path in record:
        return True, record[path]
    value = record
    for part in path.split("."):
        if isinstance(value, dict) and part and part in value:
            value = value[part]
        elif isinstance(value, list) and part.isdecimal() and int(part) < len(value):
            value = value[int(part)]
        else:
            return False, None
    return True, value


def _records(records: Iterable[Any], shape: str, wanted: Collection[str]) -> Measured:
    walk, rows = _Walk([w for w in wanted if "." in w]), 0
    try:
        for record in records:
            walk.add(rows, record, listed=shape != "object")
            rows += 1
    except _TooManyError as error:
        return failed("file_too_large", str(error))
    return Measured(None if shape == "object" else rows, shape, walk.facts(rows))


class _Walk:
    """Values of records, as columns."""

    def __init__(self, indexed: list[str]) -> None:
        self.indexed = indexed
        # (field, level, kind) -> how many, row and item of the first; a document is never held as values.
        self.counts: dict[tuple[str, str, str], list[Any]] = {}
        # field -> position, records that have it, the last of them, the first that lacks it
        self.fields: dict[str, list[Any]] = {}
        self.n = 0

    def add(self, row: int, record: Any, *, listed: bool) -> None:
        if listed:
            # The record itself is an item of the array or of the lines: the field without a name.
            self._put("", "item", _kind(record), row, row)
        if not isinstance(record, dict):
            return
        self._object(row, "", record, record, 1)
        for path in self.indexed:
            if path not in record:
                there, value = look_up(record, path)
                if there and not self._has_path(record, path):
                    self._value(row, path, value)

    def _object(self, row: int, prefix: str, value: dict[str, Any], top: dict[str, Any], depth: int) -> None:
        for key, inner in value.items():
            name = f"{prefix}.{key}" if prefix else key
            if prefix and (not key or "." in key or name in top):
                continue
            self._value(row, name, inner)
            if isinstance(inner, dict) and depth < DEPTH and key and "." not in key:
                self._object(row, name, inner, top, depth + 1)

    def _value(self, row: int, name: str, value: Any) -> None:
        self._put(name, "value", _kind(value), row, None)
        if isinstance(value, list):
            for position, item in enumerate(value):
                self._put(name, "item", _kind(item), row, position)

    def _has_path(self, record: Any, path: str) -> bool:
        """Whether the walk comes by this path anyway: keys only, not too deep."""
        parts = path.split(".")
        value = record
        for part in parts[:-1]:
            value = value.get(part) if isinstance(value, dict) and part else None
        return len(parts) <= DEPTH and isinstance(value, dict) and bool(parts[-1])

    def _put(self, field: str, level: str, kind: str, row: int, item: int | None) -> None:
        found = self.counts.get((field, level, kind))
        if found is None:
            self.counts[field, level, kind] = [1, row, item]
        else:
            found[0] += 1
        place = self.fields.get(field)
        if place is None:
            place = self.fields[field] = [len(self.fields), 0, -1, None]
        if level == "value":
            if place[3] is None and place[2] + 1 < row:
                place[3] = place[2] + 1
            place[1] += 1
            place[2] = row
        self.n += 1
        if len(self.fields) > MAX_FIELDS or self.n > MAX_VALUES:
            msg = f"holds more than {MAX_FIELDS:,} paths or {MAX_VALUES:,} values"
            raise _TooManyError(msg)

    def facts(self, records: int) -> pl.DataFrame:
        """Counts by field and kind; a record without a field counts as `absent` for it."""
        values = [(*key, *entry) for key, entry in self.counts.items()]
        absent = [
            (field, "value", "absent", records - have, last + 1 if gap is None else gap, None)
            for field, (_, have, last, gap) in self.fields.items()
            if have and have < records
        ]
        names = ("field", "level", "kind", "count", "row", "item")
        facts = pl.DataFrame([*values, *absent], schema={n: FACTS[n] for n in names}, orient="row")
        positions = {field: place[0] for field, place in self.fields.items()}
        position = pl.col("field").replace_strict(positions, default=None, return_dtype=FACTS["position"])
        return facts.with_columns(position=position).select(FACTS.names())


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, str):
        return _kind_of_string(value)
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int):
        return "integer"
    if isinstance(value, float):
        return "integral" if value.is_integer() else "number"
    name = "object" if isinstance(value, dict) else "array"
    return name if value else f"empty_{name}"


def _kind_of_string(value: str) -> str:
    if not value:
        return "empty_text"
    if value[:1].isdecimal() and len(value) < 40 and _DATE.match(value):
        rest = value[10:]
        return "text_date" if not rest else "text_datetime" if _TIME.fullmatch(rest) else "text"
    return "text"
