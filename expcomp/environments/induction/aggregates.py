"""Operands made of array and object operands: lengths, sums of a field, entries that an argument picks out.

`len(x)`, `sum(x[].f)`, `x[arg.y]`, `x[arg.y].f`
"""

from __future__ import annotations

import polars as pl

from expcomp.environments.flatten import elements, members
from expcomp.io.wording import worded

__all__ = ["aggregates", "picked"]

_SOURCES = r"^(arg\.|seen\[)"


def aggregates(long: pl.DataFrame) -> pl.DataFrame:
    """Lengths and sums of the arrays among arguments and entity views: `t`, `name`, `value`."""
    arrays = long.filter(pl.col("name").str.contains(_SOURCES), pl.col("value").str.starts_with("["))
    if arrays.is_empty():
        return long.clear()
    inside = elements(arrays["value"]).rename({"doc": "value", "value": "item"})
    counts = inside.group_by("value", maintain_order=True).agg(n=pl.len())
    lengths = arrays.join(counts, on="value", how="left", maintain_order="left").select(
        "t", name=worded("len({})", "name"), value=pl.col("n").fill_null(0).cast(pl.String)
    )
    fields = members(inside["item"]).rename({"doc": "item", "value": "x"}).with_columns(
        x=pl.col("x").cast(pl.Float64, strict=False)
    ).drop_nulls("x")  # fmt: skip
    sums = (
        inside.join(fields, on="item", how="inner", maintain_order="left")
        .group_by("value", "key", maintain_order=True)
        .agg(total=pl.col("x").sum(), n=pl.len())
        .join(counts, on="value", how="inner", maintain_order="left", suffix="_all")
        .filter(pl.col("n") == pl.col("n_all"))
    )
    totals = arrays.join(sums, on="value", how="inner", maintain_order="left").select(
        "t", name=worded("sum({}[].{})", "name", "key"), value=number_text("total")
    )
    return pl.concat([lengths, totals])


def number_text(column: str) -> pl.Expr:
    """Canonical JSON of a column of numbers."""
    value = pl.col(column)
    whole = value == value.floor()
    return pl.when(whole).then(value.cast(pl.Int64, strict=False).cast(pl.String)).otherwise(value.cast(pl.String))


def picked(long: pl.DataFrame, args: pl.DataFrame) -> pl.DataFrame:
    """Entries of object operands under the key that an argument of the same row gives, and their fields.

    Args:
        long: Operands: `t` (and other key columns), `name`, `value`.
        args: `t`, `key` (argument), `value`.
    """
    on = [c for c in long.columns if c not in ("name", "value")]
    objects = long.filter(pl.col("value").str.starts_with("{"))
    if objects.is_empty():
        return long.clear()
    keys = args.filter(pl.col("value").str.starts_with('"')).select(
        "t", via="key", at=pl.col("value").str.strip_chars('"')
    )
    inside = members(objects["value"]).rename({"doc": "value", "value": "entry"})
    hit = (
        objects.join(keys, on="t", how="inner", maintain_order="left")
        .join(inside, left_on=["value", "at"], right_on=["value", "key"], how="inner", maintain_order="left")
        .select(*on, name=worded("{}[arg.{}]", "name", "via"), value="entry")
    )
    fields = members(hit["value"]).rename({"doc": "value", "value": "inner"})
    deep = hit.join(fields, on="value", how="inner", maintain_order="left").select(
        *on, name=worded("{}.{}", "name", "key"), value="inner"
    )
    return pl.concat([hit, deep])
