"""Calls with an array of objects: each element joined with what is known of it, so that an answer can list them enriched.

Operands of an element, beside those of its row: `item.f` its own field; `seen[item].f` the latest record of the episode that has
the same values in the fields that elements are told by; `kb[item].f` such a record of another family; `peer[x].f` the element
of the array operand x with the same values.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from expcomp.environments.flatten import elements, members
from expcomp.environments.induction.aggregates import number_text, picked
from expcomp.environments.induction.explain import explain
from expcomp.environments.induction.matrix import matrix
from expcomp.environments.induction.predicates import predicates
from expcomp.io.wording import worded

if TYPE_CHECKING:
    from expcomp.environments.induction.terms import Term

__all__ = ["Items", "Mapping", "fit_mapping", "items", "mapped", "records"]

_SCALAR = r'^("|-?\d|true|false)'
_ID = ("t", "arg", "index")
_TOLD = {
    "t": pl.UInt32,
    "arg": pl.String,
    "index": pl.Int32,
    "action_type": pl.String,
    "field": pl.String,
    "value": pl.String,
}
_RECORD = {
    "episode_id": pl.String,
    "group": pl.String,
    "turn": pl.Int32,
    **dict.fromkeys(("fields", "ident", "field", "value"), pl.String),
}
NEAR = r"^(arg\.[^\[]*$|seen\[arg\.[^\[]*$)"


@dataclass(slots=True)
class Items:
    """Elements of the array arguments of rows and their operands in long form: `t`, `arg`, `index`, `name`, `value`."""

    keys: pl.DataFrame
    long: pl.DataFrame


@dataclass(frozen=True, slots=True)
class Mapping:
    """How the elements of an array argument come back in the answer."""

    arg: str
    term: Term


def _told_by(args: pl.DataFrame, rows: pl.DataFrame) -> pl.DataFrame:
    """Elements of array arguments: `t`, `action_type`, `arg`, `index`, `field`, `value`; only fields that all elements have."""
    inside = elements(args["value"]).rename({"doc": "value", "value": "item"})
    if inside.is_empty():
        return pl.DataFrame(schema=_TOLD)
    fields = members(inside["item"]).rename({"doc": "item", "key": "field"})
    found = (
        args.rename({"key": "arg"})
        .join(inside, on="value", how="inner", maintain_order="left")
        .drop("value")
        .join(fields, on="item", how="inner", maintain_order="left")
        .filter(pl.col("value").str.contains(_SCALAR))
        .join(rows.select("t", "action_type"), on="t", how="inner", maintain_order="left")
    )
    n = pl.struct("t", "index").n_unique()
    return found.with_columns(all=n.over("action_type", "arg"), have=n.over("action_type", "arg", "field")).filter(
        pl.col("all") == pl.col("have")
    ).select(*_ID, "action_type", "field", "value")  # fmt: skip


def records(rows: pl.DataFrame, args: pl.DataFrame, objects: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Elements with their key, and the records that have such a key.

    Args:
        rows: Prepared transitions.
        args: Their arguments.
        objects: Objects inside answers: `t`, `episode_id`, `group`, `turn`, `object`, `field`, `value`.

    Returns:
        Elements (`t`, `arg`, `index`, `fields`, `ident`, `item` long in `field`, `value`) and records (`episode_id`, `group`, `turn`,
        `fields`, `ident`, `field`, `value`). A field that a record lacks is taken from the arguments of the call that showed it.
    """
    told = _told_by(args, rows)
    if told.is_empty():
        return told.with_columns(fields=pl.lit(""), ident=pl.lit("")), pl.DataFrame(schema=_RECORD)
    sets = told.group_by(*_ID, maintain_order=True).agg(
        fields=pl.col("field").sort().str.join(","),
        ident=worded("{}={}", "field", "value").sort_by("field").str.join(","),
    )
    told = told.join(sets, on=list(_ID), how="left", maintain_order="left")
    # Only texts tell elements apart; amounts and counts do not.
    shapes = told.filter(pl.col("value").str.starts_with('"')).select("fields", "field").unique(maintain_order=True)
    shapes = shapes.with_columns(size=pl.len().over("fields"), wanted=pl.col("fields").str.split(",").list.len())
    shapes = shapes.filter(pl.col("size") == pl.col("wanted")).select("fields", "field", "size")
    own = objects.select("t", "object", "field", "value").join(shapes, on="field", how="inner", maintain_order="left")
    near = own.select("t", "object", "fields", "size").unique(maintain_order=True)
    called = (
        near.join(args.rename({"key": "field"}), on="t", how="inner", maintain_order="left")
        .join(shapes.select("fields", "field"), on=["fields", "field"], how="semi", maintain_order="left")
        .select("t", "object", "field", "value", "fields", "size")
    )
    full = pl.concat([own.select(called.columns), called]).unique(
        ["t", "object", "fields", "field"], keep="first", maintain_order=True
    )
    ident = (
        full.group_by("t", "object", "fields", "size", maintain_order=True)
        .agg(n=pl.len(), ident=worded("{}={}", "field", "value").sort_by("field").str.join(","))
        .filter(pl.col("n") == pl.col("size"))
    )
    found = ident.join(objects, on=["t", "object"], how="inner", maintain_order="left").select(
        "episode_id", "group", "turn", "fields", "ident", "field", "value"
    )
    return told, found


def items(told: pl.DataFrame, found: pl.DataFrame, rows: pl.DataFrame, long: pl.DataFrame, args: pl.DataFrame) -> Items:
    """Element operands that do not depend on what is learned.

    Args:
        told: Elements, from `records`.
        found: Records, from `records`.
        rows: Prepared transitions.
        long: Row operands.
        args: Arguments.
    """
    keys = told.select(*_ID, "fields", "ident").unique(maintain_order=True)
    if keys.is_empty():
        return Items(keys, pl.DataFrame(schema={**{c: _TOLD[c] for c in _ID}, "name": pl.String, "value": pl.String}))
    base = told.select(*_ID, name=pl.lit("item.") + pl.col("field"), value="value")
    by = ["episode_id", "fields", "ident", "field"]
    known = found.select(by).unique(maintain_order=True)
    wanted = keys.join(rows.select("t", "episode_id", "turn"), on="t", how="inner", maintain_order="left").join(
        known, on=by[:3], how="inner", maintain_order="left"
    )
    seen = wanted.sort("turn", maintain_order=True).join_asof(
        found.select(*by, "turn", "value").sort("turn", maintain_order=True), on="turn", by=by,
        strategy="backward", allow_exact_matches=False, check_sortedness=False,
    ).drop_nulls("value")  # fmt: skip
    latest = seen.select(*_ID, name=worded("seen[item].{}", "field"), value="value")
    arrays = long.filter(pl.col("name").str.starts_with("seen["), pl.col("value").str.starts_with("[{"))
    inside = elements(arrays["value"]).rename({"doc": "value", "value": "item"})
    fields = members(inside["item"]).rename({"doc": "item", "key": "field", "value": "x"})
    parts = arrays.join(inside, on="value", how="inner", maintain_order="left").join(
        fields, on="item", how="inner", maintain_order="left"
    )
    named = told.select("fields", "field").unique(maintain_order=True).with_columns(size=pl.len().over("fields"))
    ident = (
        parts.join(named, on="field", how="inner", maintain_order="left")
        .group_by("t", "name", "item", "fields", "size", maintain_order=True)
        .agg(n=pl.len(), ident=worded("{}={}", "field", "x").sort_by("field").str.join(","))
        .filter(pl.col("n") == pl.col("size"))
    )
    peers = (
        keys.join(
            ident.select("t", "fields", "ident", "name", "item"),
            on=["t", "fields", "ident"],
            how="inner",
            maintain_order="left",
        )
        .join(fields, on="item", how="inner", maintain_order="left")
        .select(*_ID, name=worded("peer[{}].{}", "name", "field"), value="x")
    )
    table = pl.concat([base, latest, peers])
    return Items(keys, pl.concat([table, picked(table, args)]).unique([*_ID, "name"], keep="last", maintain_order=True))


def view_items(part: Items, rows: pl.DataFrame, views: pl.DataFrame, args: pl.DataFrame) -> pl.DataFrame:
    """`kb[item].f`: records of other families, for the elements of some rows.

    Args:
        part: Elements.
        rows: `t`, `group`.
        views: `group`, `fields`, `ident`, `field`, `value` of the families that may be used.
        args: Arguments.
    """
    if part.keys.is_empty():
        return part.long
    own = part.keys.join(rows.select("t", own="group"), on="t", how="inner", maintain_order="left")
    found = (
        own.join(views, on=["fields", "ident"], how="inner", maintain_order="left")
        .filter(pl.col("own") != pl.col("group"))
        .select(*_ID, name=worded("kb[item].{}", "field"), value="value")
        .unique([*_ID, "name"], keep="first", maintain_order=True)
    )
    return pl.concat([found, picked(found, args)]).unique([*_ID, "name"], keep="first", maintain_order=True)


def _wide(long: pl.DataFrame, row_long: pl.DataFrame) -> pl.DataFrame:
    if long.is_empty():
        return long.select(_ID)
    wide = long.pivot(on="name", index=list(_ID), values="value", maintain_order=True)
    near = row_long.filter(pl.col("name").str.contains(NEAR), ~pl.col("value").str.contains(r"^[\[{]"))
    if near.is_empty():
        return wide
    return wide.join(
        near.pivot(on="name", index="t", values="value", maintain_order=True), on="t", how="left", maintain_order="left"
    )


def fit_mapping(long: pl.DataFrame, row_long: pl.DataFrame, rows: pl.DataFrame) -> list[Mapping]:
    """Learn, for one action, how elements come back: the first array of the answer with as many elements.

    Args:
        long: Element operands.
        row_long: Row operands.
        rows: `t`, `group`, `answer`, `failed` of the rows to learn from.
    """
    out = []
    good = rows.filter(~pl.col("failed"))
    for (arg,), part in (
        long.join(good.select("t"), on="t", how="semi", maintain_order="left")
        .partition_by("arg", as_dict=True, maintain_order=True)
        .items()
    ):
        wide = _wide(part, row_long)
        target = _returned(good, wide)
        frame = wide.join(target, on=["t", "index"], how="inner", maintain_order="left").join(
            good.select("t", "group"), on="t", how="left", maintain_order="left"
        )
        if frame.height < 4 or frame["group"].n_unique() < 2:
            continue
        names = [c for c in frame.columns if c not in (*_ID, "back", "group")]
        m = matrix(frame.select(names), names, frame["group"])
        term = explain(m, frame["back"], predicates(m))
        if term is not None:
            out.append(Mapping(str(arg), term))
    return out


def _returned(rows: pl.DataFrame, wide: pl.DataFrame) -> pl.DataFrame:
    """Elements of arrays in answers that keep the fields of the argument's elements: `t`, `index`, `back`."""
    top = (
        members(rows["answer"])
        .filter(pl.col("value").str.starts_with("[{"))
        .rename({"doc": "answer", "value": "array"})
    )
    inside = elements(top["array"]).rename({"doc": "array", "value": "back"})
    sizes = wide.group_by("t", maintain_order=True).agg(size=pl.len())
    own = [c for c in wide.columns if c.startswith("item.")]
    found = (
        rows.select("t", "answer")
        .join(top, on="answer", how="inner", maintain_order="left")
        .join(inside, on="array", how="inner", maintain_order="left")
        .with_columns(n=pl.len().over("t", "key"))
        .join(sizes, on="t", how="inner", maintain_order="left")
        .filter(pl.col("n") == pl.col("size"))
        .join(wide.select("t", "index", *own), on=["t", "index"], how="inner", maintain_order="left")
    )
    fields = members(found["back"]).rename({"doc": "back", "key": "field"})
    held = found.unpivot(on=own, index=["t", "key", "index", "back"], variable_name="field", value_name="mine").with_columns(
        field=pl.col("field").str.strip_prefix("item.")
    ).join(fields, on=["back", "field"], how="left", maintain_order="left")  # fmt: skip
    kept = held.group_by("t", "key", "index", "back", maintain_order=True).agg(
        same=(pl.col("mine") == pl.col("value")).fill_null(value=False).all()
    )
    return kept.filter("same").unique(["t", "index"], keep="first", maintain_order=True).select("t", "index", "back")


def mapped(mappings: list[Mapping], long: pl.DataFrame, row_long: pl.DataFrame) -> pl.DataFrame:
    """Operands that mappings give: `mapped.<arg>` and `sum(mapped.<arg>[].f)`; null where an element is not known."""
    out = [pl.DataFrame(schema={"t": pl.UInt32, "name": pl.String, "value": pl.String})]
    for mapping in mappings:
        part = long.filter(pl.col("arg") == mapping.arg)
        if part.is_empty():
            continue
        wide = _wide(part, row_long)
        missing = [n for n in set(mapping.term.reads()) if n not in wide.columns]
        wide = wide.with_columns(pl.lit(None, dtype=pl.String).alias(n) for n in sorted(missing))
        back = wide.select(*_ID, back=mapping.term.expr()).sort("t", "index", maintain_order=True)
        whole = back.group_by("t", maintain_order=True).agg("back", ok=pl.col("back").is_not_null().all()).filter("ok")
        out.append(
            whole.select("t", name=pl.lit(f"mapped.{mapping.arg}"), value=worded("[{}]", pl.col("back").list.join(",")))
        )
        fields = (
            members(back["back"])
            .rename({"doc": "back", "value": "x"})
            .with_columns(x=pl.col("x").cast(pl.Float64, strict=False))
            .drop_nulls("x")
        )
        sums = (
            back.join(whole.select("t"), on="t", how="semi", maintain_order="left")
            .join(fields, on="back", how="inner", maintain_order="left")
            .group_by("t", "key", maintain_order=True)
            .agg(total=pl.col("x").sum())
        )
        out.append(
            sums.select("t", name=worded("sum(mapped.{}[].{})", pl.lit(mapping.arg), "key"), value=number_text("total"))
        )
    return pl.concat(out)
