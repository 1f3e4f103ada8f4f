"""Canonical JSON text of rows, vectorised: sorted keys, compact, nulls left out; the text that content hashes and JSONL share."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import polars as pl

if TYPE_CHECKING:
    from collections.abc import Sequence

# A quote inside a JSON string is always escaped, so these patterns can only match keys of the schema, never text.
BATCH = 4_096
_NULL_AFTER = r',"[A-Za-z0-9_]+":null'
_NULL_FIRST = r'\{"[A-Za-z0-9_]+":null,?'


def wire(column: str, dtype: pl.DataType) -> pl.Expr:
    """A column in the form JSON gets: times as ISO 8601 UTC text, vocabularies as text, struct fields in order of their names."""
    expr = pl.col(column)
    if isinstance(dtype, pl.Datetime):
        return expr.dt.strftime("%Y-%m-%dT%H:%M:%S%.6fZ").alias(column)
    if isinstance(dtype, pl.Enum):
        return expr.cast(pl.String)
    if not dtype.is_nested() or _sorted(dtype) == dtype:
        return expr
    return _reorder(expr, dtype).alias(column)


def _sorted(dtype: pl.DataType) -> pl.DataType:
    if isinstance(dtype, pl.List):
        return pl.List(_sorted(dtype.inner))  # type: ignore[arg-type]
    if isinstance(dtype, pl.Struct):
        return pl.Struct({f.name: _sorted(f.dtype) for f in sorted(dtype.fields, key=lambda f: f.name)})  # type: ignore[arg-type]
    return dtype


def _reorder(expr: pl.Expr, dtype: pl.DataType) -> pl.Expr:
    if isinstance(dtype, pl.List):
        return expr.list.eval(_reorder(pl.element(), dtype.inner))  # type: ignore[arg-type]
    if isinstance(dtype, pl.Struct):
        fields = sorted(dtype.fields, key=lambda f: f.name)
        built = pl.struct(_reorder(expr.struct.field(f.name), f.dtype).alias(f.name) for f in fields)  # type: ignore[arg-type]
        return pl.when(expr.is_not_null()).then(built)
    return expr


def _tiny(expr: pl.Expr, dtype: pl.DataType) -> pl.Expr | None:
    """True where a float would be written unlike Python writes it (below 1e-4, not 0); None when there is no float."""
    if isinstance(dtype, pl.Float64):
        return (expr.abs() < 1e-4) & (expr != 0)
    if isinstance(dtype, pl.List):
        inner = _tiny(pl.element(), dtype.inner)  # type: ignore[arg-type]
        return None if inner is None else expr.list.eval(inner).list.any()
    if isinstance(dtype, pl.Struct):
        parts = [t for f in dtype.fields if (t := _tiny(expr.struct.field(f.name), f.dtype)) is not None]  # type: ignore[arg-type]
        return pl.any_horizontal(p.fill_null(value=False) for p in parts) if parts else None
    return None


def _columns(frame: pl.DataFrame, names: Sequence[str], schema: pl.Schema) -> tuple[list[pl.Expr], bool]:
    """The columns to encode, and whether nulls may still be among them. What is null throughout is left out beforehand:
    taking it out of the text afterwards costs as much as writing it."""
    exprs: list[pl.Expr] = []
    nulls = False
    for name in names:
        column, dtype = frame.get_column(name), schema[name]
        missing = column.null_count()
        if missing == frame.height:
            continue
        nulls = nulls or missing > 0
        live = _live(column, frame.height) if isinstance(dtype, pl.Struct) else {}
        if not live:
            exprs.append(wire(name, dtype))
            nulls = nulls or _holds_struct(dtype)
            continue
        nulls = nulls or any(live.values())
        kept = pl.struct(pl.col(name).struct.field(f) for f in sorted(live)).alias(name)
        exprs.append(pl.when(pl.col(name).is_not_null()).then(kept).alias(name) if missing else kept)
    return exprs, nulls


def _holds_struct(dtype: pl.DataType) -> bool:
    if isinstance(dtype, pl.List):
        return _holds_struct(dtype.inner)  # type: ignore[arg-type]
    return isinstance(dtype, pl.Struct)


def _live(column: pl.Series, height: int) -> dict[str, int]:
    """Fields of a struct column that are not null throughout, with their nulls."""
    counts = {name: column.struct.field(name).null_count() for name in column.struct.fields}
    return {name: n for name, n in counts.items() if n < height}


def json_lines(frame: pl.DataFrame, columns: Sequence[str]) -> pl.Series:
    """One canonical JSON object for each row, over the named columns.

    Equal to `json.dumps(row, sort_keys=True, separators=(",", ":"), ensure_ascii=False)` over the row without its null
    values; a property test holds the two together.
    """
    schema = frame.schema
    names = sorted(columns)
    exprs, nulls = _columns(frame, names, schema)
    if not exprs:
        return pl.Series("json", ["{}"], dtype=pl.String).new_from_index(0, frame.height)
    encoded = pl.struct(exprs).struct.json_encode()
    if nulls:
        encoded = encoded.str.replace_all(_NULL_AFTER, "").str.replace_all(_NULL_FIRST, "{")
    # In batches the texts between the steps stay small and their memory is used again; in one go most of the time is page faults.
    batches = [
        frame.slice(start, BATCH).select(encoded.alias("json"))["json"] for start in range(0, frame.height, BATCH)
    ]
    text = pl.concat(batches, rechunk=False)
    checks = [t for n in names if (t := _tiny(pl.col(n), schema[n])) is not None]
    if not checks or not frame.height:
        return text
    rare = frame.select(pl.any_horizontal(c.fill_null(value=False) for c in checks).arg_true())
    at = rare.to_series()
    if not at.len():
        return text
    # Exponents are spelt 1e-5 here and 1e-05 by Python; the few rows that hold one are written by Python.
    fixed = [
        json.dumps(json.loads(t), sort_keys=True, separators=(",", ":"), ensure_ascii=False) for t in text.gather(at)
    ]
    return text.scatter(at, fixed)
