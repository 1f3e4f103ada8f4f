"""Wire frame to Arrow: one schema for a target whatever its rows hold, in the types that every loader knows."""

from __future__ import annotations

import polars as pl
import pyarrow as pa

from expcomp.tables.targets import Target

__all__ = ["arrow_schema", "to_arrow"]

_PLAIN: dict[type[pl.DataType], pa.DataType] = {
    pl.String: pa.string(),
    pl.Boolean: pa.bool_(),
    pl.Int32: pa.int32(),
    pl.Int64: pa.int64(),
    pl.Float64: pa.float64(),
}


def arrow_schema(target: Target) -> pa.Schema:
    """Arrow types of a target's columns: `list` and `string`, never large ones or views; JSON where the profile is typed."""
    json = target.profile == "typed"
    return pa.schema([pa.field(n, _type(c.dtype, n, json=json)) for n, c in target.columns.items()])


def to_arrow(target: Target, wire: pl.DataFrame) -> pa.Table:
    """The frame as a table of `arrow_schema`; texts are copied once."""
    return wire.to_arrow(compat_level=pl.CompatLevel.oldest()).cast(arrow_schema(target))


def _type(dtype: pl.DataType | type[pl.DataType], name: str, *, json: bool) -> pa.DataType:
    if isinstance(dtype, pl.List):
        return pa.list_(_type(dtype.inner, name, json=json))  # type: ignore[arg-type]
    if isinstance(dtype, pl.Struct):
        return pa.struct([pa.field(f.name, _type(f.dtype, f.name, json=json)) for f in dtype.fields])  # type: ignore[arg-type]
    if json and name == "arguments":
        return pa.json_(pa.string())
    return _PLAIN[dtype.base_type()]
