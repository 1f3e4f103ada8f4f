"""Records to a typed frame by a table of fields: column, kind, path. One loop over records, and no other.

A field is written `kind path`, with alternatives after `|`: the first path that gives something counts. A path goes through
objects by dots; `a[].b` takes `b` of each object in the list `a`, `a[b=x].c` takes `c` of the first object of `a` whose `b` is `x`.
Kinds are those of `expcomp.ledger.values`, and `object(name)` for an allow-list of the pack. The path defaults to the column's name.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import polars as pl
import pyarrow as pa

from expcomp.errors import ConfigError
from expcomp.ledger.objects import clean_json, cleaner
from expcomp.ledger.values import converter

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    Convert = Callable[[Any], Any]

_OBJECT = re.compile(r"object\(([\w.]+)\)")
_EACH = re.compile(r"(.+)\[\]\.([^.\[]+)")
_WHERE = re.compile(r"(.+)\[([^=\]]+)=([^\]]+)\]\.([^.\[]+)")


@dataclass(slots=True)
class _Node:
    leaves: list[tuple[int, Convert, bool]] = field(default_factory=list)
    children: dict[str, _Node] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Fields:
    """A compiled table of fields.

    Attributes:
        schema: Column -> dtype.
        written: Column -> name of its kind, and its paths.
    """

    schema: Mapping[str, Any]
    written: Mapping[str, tuple[str, tuple[str, ...]]]
    _root: _Node
    _slots: tuple[tuple[str, int], ...]

    def frame(self, records: Sequence[Mapping[str, Any]], refused: list[tuple[int, str]] | None = None) -> pl.DataFrame:
        """One row for each record; what a record does not give is null.

        Args:
            records: Any mappings.
            refused: Takes (row, column) of what a record gives in a form the field does not take.
        """
        columns: list[list[Any] | None] = [None] * len(self._slots)
        height = len(records)
        lost: list[tuple[int, int]] | None = None if refused is None else []
        for i, record in enumerate(records):
            _walk(self._root, record, i, height, columns, lost)
        parts: dict[str, list[pl.Series]] = {}
        for (name, _), values in zip(self._slots, columns, strict=True):
            parts.setdefault(name, []).append(series(values, self.schema[name], height))
        wide = pl.DataFrame({f"{n}#{i}": s for n, found in parts.items() for i, s in enumerate(found)})
        frame = wide.select(pl.coalesce([f"{n}#{i}" for i in range(len(found))]).alias(n) for n, found in parts.items())
        for i, slot in lost or ():
            name = self._slots[slot][0]
            if refused is not None and frame[name][i] is None:
                refused.append((i, name))
        return frame


def compile_fields(name: str, table: Mapping[str, str], objects: Mapping[str, Mapping[str, Any]]) -> Fields:
    """Compile a table of fields.

    Raises:
        ConfigError: A field that is not written as described.
    """
    schema: dict[str, Any] = {}
    spelled: dict[str, tuple[str, tuple[str, ...]]] = {}
    root = _Node()
    slots: list[tuple[str, int]] = []
    for column, written in table.items():
        where = f"fields.{name}.{column}"
        if not isinstance(written, str) or not written.split():
            raise ConfigError(f"{where}: expected a text `kind path`")
        kind, _, rest = written.strip().partition(" ")
        found = _OBJECT.fullmatch(kind)
        schema[column], convert = (
            (pl.String(), clean_json(cleaner(found[1], objects))) if found else converter(kind, where)
        )
        paths = [p.strip() for p in rest.split("|")] if rest.strip() else [column]
        spelled[column] = (kind.partition("(")[0], tuple(paths))
        for rank, path in enumerate(paths):
            _add(root, path, len(slots), convert)
            slots.append((column, rank))
    return Fields(schema, spelled, root, tuple(slots))


def _add(root: _Node, path: str, slot: int, convert: Convert) -> None:
    each, where = _EACH.fullmatch(path), _WHERE.fullmatch(path)
    if each:
        path, inner = each[1], each[2]
        then = convert
        convert = lambda v: then([x.get(inner) for x in v if isinstance(x, dict)]) if isinstance(v, list) else None  # noqa: E731
    elif where:
        path, convert = where[1], _first_where(where[2], where[3], where[4], convert)
    node = root
    for key in path.split("."):
        node = node.children.setdefault(key, _Node())
    node.leaves.append((slot, convert, not (each or where)))


def _first_where(key: str, wanted: str, inner: str, convert: Convert) -> Convert:
    def take(value: Any) -> Any:
        for item in value if isinstance(value, list) else ():
            if isinstance(item, dict) and item.get(key) == wanted:
                return convert(item.get(inner))
        return None

    return take


def _walk(
    node: _Node,
    record: Any,
    i: int,
    height: int,
    columns: list[list[Any] | None],
    lost: list[tuple[int, int]] | None,
) -> None:
    children = node.children
    for key, value in record.items():
        child = children.get(key)
        if child is None or value is None:
            continue
        inside = bool(child.children) and isinstance(value, dict)
        for slot, convert, whole in child.leaves:
            found = convert(value)
            if found is not None:
                column = columns[slot]
                if column is None:
                    column = columns[slot] = [None] * height
                column[i] = found
            elif lost is not None and whole and not inside and value not in ("", [], {}):
                lost.append((i, slot))
        if inside:
            _walk(child, value, i, height, columns, lost)


def series(values: list[Any] | None, dtype: Any, height: int) -> pl.Series:
    """A series of values; None for the values is all null."""
    if values is None:
        return pl.repeat(None, height, dtype=dtype, eager=True)
    if isinstance(dtype, pl.List):
        # Arrow takes lists as they are; Polars would make a series of each.
        return pl.Series(pa.array(values, type=_arrow(dtype)), dtype=dtype)
    return pl.Series(values, dtype=dtype)


def _arrow(dtype: Any) -> pa.DataType:
    if isinstance(dtype, pl.List):
        return pa.list_(_arrow(dtype.inner))
    if isinstance(dtype, pl.Struct):
        return pa.struct([(f.name, _arrow(f.dtype)) for f in dtype.fields])
    return {pl.String: pa.string(), pl.Int64: pa.int64(), pl.Float64: pa.float64(), pl.Boolean: pa.bool_()}[type(dtype)]
