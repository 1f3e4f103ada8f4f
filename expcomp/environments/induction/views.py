"""What other families have shown first: views of entities and records of elements. A family never sees its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from expcomp.environments.induction.items import view_items
from expcomp.io.wording import worded

if TYPE_CHECKING:
    from collections.abc import Sequence

    from expcomp.environments.induction.prepared import Prepared

__all__ = ["element_operands", "first_two", "record_views", "view_operands", "views"]


def views(p: Prepared, groups: pl.Series) -> pl.DataFrame:
    """First views of entities: per (cls, key, field) the values of the first two families."""
    changing = p.rows.filter(pl.col("action_type").is_in(p.writers)).select("t")
    real = p.facts.filter((pl.col("cls") != "") & pl.col("group").is_in(groups.implode())).join(
        changing, on="t", how="anti", maintain_order="left"
    )
    first = real.unique(["group", "cls", "key", "field"], keep="first", maintain_order=True)
    return first_two(first, ("cls", "key", "field"))


def first_two(found: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
    """The values of the first two families: a family that may not see its own sees the other."""
    return found.sort("group", maintain_order=True).group_by(list(by), maintain_order=True).head(2)


def record_views(p: Prepared, groups: pl.Series) -> pl.DataFrame:
    """First records of elements: per (fields, ident, field) the values of the first two families."""
    real = p.records.filter(pl.col("group").is_in(groups.implode())).sort("group", "turn", maintain_order=True)
    first = real.unique(["group", "fields", "ident", "field"], keep="first", maintain_order=True)
    two = first_two(first, ("fields", "ident", "field"))
    return two.select("group", "fields", "ident", "field", "value")


def view_operands(p: Prepared, rows: pl.DataFrame, known: pl.DataFrame) -> pl.DataFrame:
    """`kb[arg.x].f`: first view of the entity in another family, for the rows."""
    wanted = p.asked.lazy().join(rows.lazy().select("t", own="group"), on="t", how="inner", maintain_order="left")
    found = wanted.join(
        known.lazy().select("cls", "key", "field", "value", "group"),
        on=["cls", "key"],
        how="inner",
        maintain_order="left",
    ).filter(pl.col("own") != pl.col("group"))
    named = found.select("t", name=worded("kb[{}].{}", "via", "field"), value="value")
    return named.unique(["t", "name"], keep="first", maintain_order=True).collect(engine="in-memory")


def element_operands(p: Prepared, rows: pl.DataFrame, known: pl.DataFrame) -> pl.DataFrame:
    """Element operands of rows, with the records of other families."""
    own = p.items.long.join(rows.select("t"), on="t", how="semi", maintain_order="left")
    return pl.concat([own, view_items(p.items, rows, known, p.args)])
