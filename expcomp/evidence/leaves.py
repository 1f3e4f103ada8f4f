"""Texts of columns of any depth as flat series, and new texts put back in their places."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import polars as pl

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Leaf", "Patch", "leaves", "patched", "put_back"]


class Leaf(NamedTuple):
    """Texts that stand in one place of a column's type, and the row of the frame of each."""

    texts: pl.Series
    rows: pl.Series


class Patch(NamedTuple):
    """New values for some rows of a series: ascending row numbers and as many values."""

    rows: pl.Series
    values: pl.Series


def leaves(column: pl.Series, rows: pl.Series | None = None) -> list[Leaf]:
    """The texts of a column: one leaf for `String`, those of the items of a `List`, those of each field of a `Struct`."""
    rows = pl.int_range(column.len(), dtype=pl.UInt32, eager=True) if rows is None else rows
    if column.dtype == pl.String:
        return [Leaf(column, rows)]
    if isinstance(column.dtype, pl.List):
        filled, lists = _filled(column)
        return leaves(lists.explode(), _owners(rows.gather(filled), lists))
    if isinstance(column.dtype, pl.Struct):
        return [leaf for name in column.struct.fields for leaf in leaves(column.struct.field(name), rows)]
    return []


def put_back(column: pl.Series, patches: Iterator[Patch | None]) -> Patch | None:
    """What changes in a column, given what changes in each of its leaves; takes one patch for each leaf."""
    if column.dtype == pl.String:
        return next(patches)
    if isinstance(column.dtype, pl.List):
        return _put_back_items(column, patches)
    if isinstance(column.dtype, pl.Struct):
        return _put_back_fields(column, patches)
    return None


def patched(column: pl.Series, patch: Patch) -> pl.Series:
    """The column with the patched rows replaced; rows are gathered, text is not copied."""
    where = pl.int_range(column.len(), dtype=pl.UInt32, eager=True).scatter(
        patch.rows, pl.int_range(column.len(), column.len() + patch.rows.len(), dtype=pl.UInt32, eager=True)
    )
    return pl.concat([column, patch.values.cast(column.dtype).alias(column.name)], rechunk=True).gather(where)


def _filled(column: pl.Series) -> tuple[pl.Series, pl.Series]:
    """Lists with items, and their row numbers."""
    filled = (column.list.len() > 0).fill_null(value=False).arg_true()
    return filled, column.gather(filled)


def _owners(rows: pl.Series, lists: pl.Series) -> pl.Series:
    """For every item of non-empty lists, the row that its list stands in."""
    return pl.DataFrame({"row": rows, "n": lists.list.len()}).select(pl.col("row").repeat_by("n").explode()).to_series()


def _put_back_items(column: pl.Series, patches: Iterator[Patch | None]) -> Patch | None:
    filled, lists = _filled(column)
    flat = lists.explode()
    patch = put_back(flat, patches)
    if patch is None:
        return None
    owner = _owners(filled, lists)
    touched = owner.gather(patch.rows).unique(maintain_order=True)
    new = (
        pl.DataFrame({"owner": owner, "item": patched(flat, patch)})
        .filter(pl.col("owner").is_in(touched.implode()))
        .group_by("owner", maintain_order=True)
        .agg("item")
    )
    return Patch(new.get_column("owner"), new.get_column("item"))


def _put_back_fields(column: pl.Series, patches: Iterator[Patch | None]) -> Patch | None:
    fields = {name: column.struct.field(name) for name in column.struct.fields}
    made = {name: patch for name, field in fields.items() if (patch := put_back(field, patches)) is not None}
    if not made:
        return None
    rows = pl.concat([patch.rows for patch in made.values()]).unique().sort()
    whole = {name: patched(field, made[name]) if name in made else field for name, field in fields.items()}
    return Patch(rows, pl.DataFrame({name: f.gather(rows) for name, f in whole.items()}).to_struct(column.name))
