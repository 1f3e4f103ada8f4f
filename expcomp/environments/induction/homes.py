"""Where snapshots keep what rules speak of: `world.part_id[...]` of a rule is `world.parts[...]` of the snapshot, `world.cash` is
`world.shop.cash`. Rules are written for the places of the snapshot, so that a state can be given as it was recorded."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import polars as pl

from expcomp.environments.flatten import members
from expcomp.io.wording import worded

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from expcomp.environments.induction.prepared import Prepared

__all__ = ["homes", "moved"]

_TEXTS: Mapping[str, Sequence[str]] = {
    "conditions": ("left", "right"),
    "mutations": ("path", "value_json"),
    "renderers": ("template",),
    "facts": ("subject",),
    "state_schema": ("path",),
}
_NAME = r"^[A-Za-z_]\w*$"


def homes(p: Prepared) -> dict[str, str]:
    """Class or label to its place in every snapshot before a first call: `part_id` to `parts`, `cash` to `shop.cash`.

    A class has one where the keys of a map are the values of that field of its entries, and of no other map; a label where it is
    the name of one scalar inside an object of the snapshot. States that are told before every call need none.
    """
    first = p.rows.filter(~pl.col("counterfactual")).filter(
        pl.col("before").is_not_null(),
        pl.col("before").count().over("episode_id") == 1,
        pl.len().over("episode_id") > 1,
    )
    top = members(first["before"]).filter(pl.col("key").str.contains(_NAME)).select(home="key", value="value")
    inner = members(top["value"]).rename({"doc": "value", "value": "entry", "key": "name"})
    below = top.unique(maintain_order=True).join(inner, on="value", how="inner", maintain_order="left")
    fields = members(below["entry"]).rename({"doc": "entry", "value": "shown", "key": "cls"})
    keyed = (
        below.join(fields, on="entry", how="left", maintain_order="left")
        .filter(pl.col("cls").is_in(p.classes), pl.col("shown") == worded('"{}"', "name"))
        .group_by("home", "cls", maintain_order=True)
        .agg(n=pl.len())
        .join(
            below.group_by("home", maintain_order=True).agg(all=pl.len()), on="home", how="left", maintain_order="left"
        )
        .filter(pl.col("n") == pl.col("all"), pl.len().over("cls") == 1, pl.len().over("home") == 1)
    )
    own = set(top["home"])
    scalars = (
        below.filter(
            ~pl.col("home").is_in(keyed["home"].implode()), pl.col("name").str.contains(_NAME), ~pl.col("entry").str.contains(r"^[\[{]")
        )
        .select("home", "name")
        .unique(maintain_order=True)
        .filter(pl.len().over("name") == 1, ~pl.col("name").is_in([*own, *p.classes]))
    )  # fmt: skip
    found = dict(zip(keyed["cls"], keyed["home"], strict=True))
    places = scalars.select(worded("{}.{}", "home", "name")).to_series()
    return {k: v for k, v in found.items() if k not in own} | dict(zip(scalars["name"], places, strict=True))


def moved(tables: Mapping[str, pl.DataFrame], at: Mapping[str, str]) -> dict[str, pl.DataFrame]:
    """Tables whose paths and expressions name the places of the snapshots.

    Args:
        tables: Tables of a package by name.
        at: `homes`.
    """
    found = dict(tables)
    if not at:
        return found
    for name, columns in _TEXTS.items():
        found[name] = found[name].with_columns(_renamed(c, at) for c in columns)
    # A rule reads a member of the world, which is what has to be declared.
    top = pl.col("path").str.extract(r"^(world\.[A-Za-z_]\w*)")
    schema = found["state_schema"].with_columns(path=pl.coalesce(top, "path"))
    found["state_schema"] = schema.unique("path", keep="first", maintain_order=True).sort("path")
    return found


def _renamed(column: str, at: Mapping[str, str]) -> pl.Expr:
    text = pl.col(column)
    for name, place in sorted(at.items()):
        text = text.str.replace_all(rf"\bworld\.{re.escape(name)}\b", f"world.{place}")
    return text
