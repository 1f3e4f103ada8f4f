"""Operands: everything a rule may read before a call, as named values. Long form: `t`, `name`, `value` (canonical JSON).

`arg.x`                      argument, and the members of an object argument
`state`, `state.a.b`         the given state, and a node of it
`state.a[arg.x]`             entry of a map
`state.a[].f[arg.x]`         element of an array of objects with this value of a field; `state.a[][arg.x]` of an array of scalars
`state.a.*[arg.x]`           key of a map whose value the argument is
`state.a[arg.x].f`           its field
`seen[arg.x].f`              what the episode has shown last of the entity that the argument names
`seen[seen[arg.x].y].f`      one link further
`last.f`                     value the episode has shown last under a label
`memory.answer`              answer of the same call earlier in the episode
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from expcomp.environments.flatten import SEPARATOR, elements, members, nodes
from expcomp.io.wording import worded

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["arguments", "call_operands", "fact_operands", "state_operands"]

DEPTH, WIDTH, DEEPEST = 4, 30, 12
_SCALAR = r'^("|-?\d|true|false)'
_COLUMNS = ("t", "name", "value")


def arguments(rows: pl.DataFrame) -> pl.DataFrame:
    """Arguments of every call: `t`, `key`, `value`."""
    split = members(rows["args"]).rename({"doc": "args"})
    rows_ = rows.lazy().select("t", "args").join(split.lazy(), on="args", how="inner", maintain_order="left")
    return rows_.select("t", "key", "value").collect(engine="in-memory")


def call_operands(args: pl.DataFrame) -> pl.DataFrame:
    """Arguments, the members of object arguments, and of the objects in arrays of one."""
    top = args.select("t", name=pl.lit("arg.") + pl.col("key"), value="value")
    inner = members(top["value"]).rename({"doc": "value", "value": "inner"})
    below = top.join(inner, on="value", how="inner", maintain_order="left").select(
        "t", name=worded("{}.{}", "name", "key"), value="inner"
    )
    return pl.concat([top, below])


STATE = pl.Schema({"t": pl.UInt32, "name": pl.String, "value": pl.String, "where": pl.String})


def state_operands(rows: pl.DataFrame, args: pl.DataFrame) -> pl.DataFrame:
    """Nodes of the given states, and what the arguments and the scalars of the state pick out of its maps and arrays.

    `where` is the place of the node in the state. A state given at the first turn of an episode only is a snapshot: facts
    are read from it, operands are not.
    """
    rows = rows.filter((pl.col("before").count() > 1).over("episode_id") | (pl.len().over("episode_id") == 1))
    docs = rows["before"].drop_nulls()
    found = nodes(docs, depth=DEPTH, width=WIDTH)
    if found.is_empty():
        return pl.DataFrame(schema=STATE)
    of_row = rows.select("t", doc="before").drop_nulls()
    root = of_row.select("t", name=pl.lit("state"), value="doc", where=pl.lit(""))
    plain = _named(of_row, found)
    located = _located(of_row, found)
    opened = found.filter(pl.col("kind").is_in(["dict", "list"])).select("doc", "path", "where", "value")
    near = plain.filter(
        pl.col("value").str.contains(_SCALAR), pl.col("name").str.count_matches(".", literal=True) <= 2
    ).select("t", via="name", key="value")
    given = args.select("t", via=pl.lit("arg.") + pl.col("key"), key="value")
    keys = pl.concat([given, near, _listed(args)]).filter(pl.col("key").str.contains(_SCALAR))
    hit = (
        of_row.join(keys, on="t", how="inner", maintain_order="left")
        .join(_entries(pl.concat([opened, located])), on=["doc", "key"], how="inner", maintain_order="left")
        .select("t", name=worded("state.{}[{}]", "path", "via"), value="value", where="where")
    )
    fields = members(hit["value"]).rename({"doc": "value", "value": "inner"})
    deep = hit.join(fields, on="value", how="inner", maintain_order="left").select(
        "t",
        name=worded("{}.{}", "name", "key"),
        value="inner",
        where=pl.concat_str("where", "key", separator=SEPARATOR),
    )
    return pl.concat([root, plain, _named(of_row, located), hit, deep]).unique(
        ["t", "name"], keep="first", maintain_order=True
    )


def _named(of_row: pl.DataFrame, found: pl.DataFrame) -> pl.DataFrame:
    return of_row.join(found, on="doc", how="inner", maintain_order="left").select(
        "t", name=pl.lit("state.") + pl.col("path"), value="value", where="where"
    )


def _listed(args: pl.DataFrame) -> pl.DataFrame:
    """Single elements of array arguments of length one."""
    inside = elements(args["value"]).rename({"doc": "value", "value": "key_"})
    one = args.join(inside, on="value", how="inner", maintain_order="left").filter(pl.len().over("t", "key") == 1)
    return one.filter(pl.col("key_").str.contains(_SCALAR)).select("t", via=worded("arg.{}[0]", "key"), key="key_")


def _located(of_row: pl.DataFrame, found: pl.DataFrame) -> pl.DataFrame:
    """Nodes that a path text in the state names inside a tree of the same state: `doc`, `path`, `value`.

    A text such as `/home/anna` locates the node under the keys `home`, `anna` of a map beside it; wrappers of one object
    (`contents`) between two keys are passed.
    """
    texts = found.filter(pl.col("kind") == "str", pl.col("value").str.contains(r'^"/'))
    trees = found.filter(pl.col("kind") == "dict").select("doc", tree="path", at="where", node="value")
    parent = pl.col("path").str.replace(r"\.?[^.]+$", "")
    pairs = (
        texts.drop("where")
        .with_columns(parent=parent)
        .join(
            trees.with_columns(parent=pl.col("tree").str.replace(r"\.?[^.]+$", "")).rename({"at": "where"}),
            on=["doc", "parent"],
            how="inner",
            maintain_order="left",
        )
        .with_columns(
            todo=pl.col("value").str.strip_chars('"').str.split("/").list.eval(pl.element().filter(pl.element() != ""))
        )
    )
    done = []
    level = pairs.select("doc", "todo", "where", name=worded("{}@{}", "tree", "path"), node="node")
    for _ in range(DEEPEST):
        done.append(level.filter(pl.col("todo").list.len() == 0))
        level = level.filter(pl.col("todo").list.len() > 0).with_columns(key=pl.col("todo").list.first())
        if level.is_empty():
            break
        inner = members(level["node"]).rename({"doc": "node", "value": "next"})
        level = _unwrap(
            level.join(inner, on=["node", "key"], how="inner", maintain_order="left").select(
                "doc",
                "name",
                todo=pl.col("todo").list.slice(1),
                where=pl.concat_str("where", "key", separator=SEPARATOR),
                node="next",
            )
        ).select(level.drop("key").columns)
    return (
        pl.concat(done)
        .select("doc", path="name", where="where", value="node")
        .unique(["doc", "path"], keep="first", maintain_order=True)
    )


def _unwrap(level: pl.DataFrame) -> pl.DataFrame:
    """Replace a node that has one inner object beside scalars by that object."""
    inner = members(level["node"]).filter(pl.len().over("doc") > 1, pl.col("value").str.starts_with("{"))
    lone = inner.filter(pl.len().over("doc") == 1).select(node="doc", inside="key", below="value")
    return level.join(lone, on="node", how="left", maintain_order="left").select(
        *[c for c in level.columns if c not in ("node", "where")],
        where=pl.when(pl.col("inside").is_null()).then("where").otherwise(
            pl.concat_str("where", "inside", separator=SEPARATOR)
        ),
        node=pl.coalesce("below", "node"),
    )  # fmt: skip


def _entries(containers: pl.DataFrame) -> pl.DataFrame:
    """What can be picked out of containers: `doc`, `path`, `key` (canonical JSON), `value`, `where`."""
    inside = pl.concat_str("where", "key", separator=SEPARATOR)
    maps = members(containers["value"]).rename({"doc": "value", "value": "entry"})
    keyed = containers.join(maps, on="value", how="inner", maintain_order="left").select(
        "doc", "path", key="key", value="entry", where=inside
    )
    # The keys of JSON are texts; a number in a call names the same entry.
    texts = keyed.with_columns(key=worded('"{}"', "key"))
    numbers = keyed.filter(pl.col("key").str.contains(r"^-?\d+$"))
    reverse = keyed.filter(pl.col("value").str.contains(r'^"')).select(
        "doc", path=worded("{}.*", "path"), key="value", value=worded('"{}"', "key"), where="where"
    )
    lists = elements(containers["value"]).rename({"doc": "value", "value": "entry"})
    held = containers.join(lists, on="value", how="inner", maintain_order="left").with_columns(
        where=pl.concat_str("where", worded("[{}]", "index"), separator=SEPARATOR)
    )
    scalars = held.filter(pl.col("entry").str.contains(_SCALAR)).select(
        "doc", path=worded("{}[]", "path"), key="entry", value="entry", where="where"
    )
    fields = members(held["entry"]).rename({"doc": "entry", "key": "field"})
    by_field = (
        held.join(fields, on="entry", how="inner", maintain_order="left", suffix="_f")
        .filter(pl.col("value_f").str.contains(_SCALAR))
        .select("doc", path=worded("{}[].{}", "path", "field"), key="value_f", value="entry", where="where")
        .unique(["doc", "path", "key"], keep="last", maintain_order=True)
    )
    return pl.concat(
        [t.select("doc", "path", "key", "value", "where") for t in (texts, numbers, reverse, scalars, by_field)]
    )


def fact_operands(rows: pl.DataFrame, asked: pl.DataFrame, facts: pl.DataFrame, classes: Sequence[str]) -> pl.DataFrame:
    """`seen[...]`, one link further, `last.*` and `memory.answer`."""
    first = _latest(rows, asked, facts)
    links = first.filter(
        pl.col("field").is_in(classes), pl.col("value").str.contains(_SCALAR), pl.col("value") != pl.col("key")
    )
    further = links.select("t", via=worded("seen[{}].{}", "via", "field"), cls="field", key="value")
    second = _latest(rows, further, facts)
    seen = pl.concat([first, second]).select("t", name=worded("seen[{}].{}", "via", "field"), value="value")
    everywhere = rows.lazy().join(
        # A label named as a class would stand where the entities of that class do.
        facts.lazy()
        .filter(pl.col("cls") == "", ~pl.col("field").is_in(classes))
        .select("episode_id", "field")
        .unique(maintain_order=True),
        on="episode_id", how="inner", maintain_order="left",
    ).select("t", via=pl.lit("last"), cls=pl.lit(""), key=pl.lit(""), field="field")  # fmt: skip
    last = _asof(rows, everywhere, facts).select("t", name=pl.lit("last.") + pl.col("field"), value="value")
    return pl.concat([seen, last])


def _latest(rows: pl.DataFrame, asked: pl.DataFrame, facts: pl.DataFrame) -> pl.DataFrame:
    by = ["episode_id", "cls", "key"]
    known = facts.lazy().filter(pl.col("cls") != "").select(*by, "field").unique(maintain_order=True)
    wanted = (
        asked.lazy()
        .join(rows.lazy().select("t", "episode_id"), on="t", how="inner", maintain_order="left")
        .join(known, on=by, how="inner", maintain_order="left")
    )
    return _asof(rows, wanted.drop("episode_id"), facts)


def _asof(rows: pl.DataFrame, wanted: pl.LazyFrame, facts: pl.DataFrame) -> pl.DataFrame:
    """Latest fact before the turn for each wanted (t, via, cls, key, field)."""
    by = ["episode_id", "cls", "key", "field"]
    placed = rows.lazy().select("t", "episode_id", "turn")
    left = wanted.join(placed, on="t", how="inner", maintain_order="left").sort("turn", maintain_order=True)
    right = facts.lazy().select(*by, "turn", "value").sort("turn", maintain_order=True)
    found = left.join_asof(
        right, on="turn", by=by, strategy="backward", allow_exact_matches=False, check_sortedness=False
    )
    return found.drop_nulls("value").sort("t", maintain_order=True).collect(engine="in-memory")
