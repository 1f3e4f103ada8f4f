"""Actions and their arguments, as they were called; a declared schema wins, and differences are told."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from expcomp.environments.flatten import dump, elements
from expcomp.io.wording import worded
from expcomp.tables.environment import ACTION_ARGS, ACTION_SCHEMA

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["action_schema", "declared"]

MAX_ENUM, ENUM_SUPPORT, EXAMPLES = 12, 5, 3
_DECLARED = {
    "action": pl.String,
    "arg": pl.String,
    "type": pl.String,
    "required": pl.Boolean,
    "enum_json": pl.String,
    "about": pl.String,
}
_TYPES = frozenset("string integer number boolean object array".split())


def declared(tools: Sequence[Mapping[str, Any]]) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Actions (`action`, `about`) and arguments of tool definitions, `{name, description, parameters}` or wrapped in `function`."""
    actions, args = [], []
    for tool in tools:
        spec = tool.get("function", tool)
        actions.append((spec["name"], spec.get("description")))
        parameters = spec.get("parameters") or {}
        needed = set(parameters.get("required") or ())
        for name, value in (parameters.get("properties") or {}).items():
            kind = value.get("type") if value.get("type") in _TYPES else "any"
            enum = dump(value["enum"]) if value.get("enum") else None
            args.append((spec["name"], name, kind, name in needed, enum, value.get("description")))
    return (
        pl.DataFrame(actions, schema={"action": pl.String, "about": pl.String}, orient="row"),
        pl.DataFrame(args, schema=_DECLARED, orient="row"),
    )


def action_schema(
    rows: pl.DataFrame, args: pl.DataFrame, tools: Sequence[Mapping[str, Any]] = ()
) -> tuple[pl.DataFrame, pl.DataFrame, list[str]]:
    """`ACTION_SCHEMA`, `ACTION_ARGS`, and where declaration and calls differ, in words.

    The type is the least that holds all values (integer < number < any). An argument is required when every successful call gives it, and
    has an enum when at most 12 values were each seen 5 times on average and in two families.

    Args:
        rows: Prepared transitions.
        args: Their arguments: `t`, `key`, `value`.
        tools: Tool definitions.
    """
    told, stated = declared(tools)
    seen = rows.select(action="action_type").unique(maintain_order=True)
    actions = (
        pl.concat([seen, told.select("action")])
        .unique(maintain_order=True)
        .join(told, on="action", how="left", maintain_order="left")
        .join(told.select("action", is_declared=True), on="action", how="left", maintain_order="left")
        .select("action", description="about", declared=pl.col("is_declared").fill_null(value=False))
        .sort("action")
    )
    measured = _measured(rows, args)
    both = measured.join(
        stated, on=["action", "arg"], how="full", coalesce=True, maintain_order="left_right", suffix="_said"
    )
    table = both.select(
        "action",
        "arg",
        type=pl.coalesce("type_said", "type"),
        required=pl.coalesce("required_said", "required"),
        enum_json=pl.when(pl.col("type_said").is_null()).then("enum_json").otherwise("enum_json_said"),
        description="about",
        **{c: c for c in ("n_seen", "n_missing", "n_null", "min", "max", "max_len", "examples_json")},
    ).sort("action", "arg")
    good = rows.group_by(action="action_type", maintain_order=True).agg(good=(~pl.col("failed")).sum())
    both = both.join(good, on="action", how="left", maintain_order="left").join(
        _undeclared_values(rows, args, tools), on=["action", "arg"], how="left", maintain_order="left"
    )
    words = _differences(both.sort("action", "arg"), told["action"])
    return actions.cast(ACTION_SCHEMA.schema), table.cast(ACTION_ARGS.schema), words


def _differences(both: pl.DataFrame, actions: pl.Series) -> list[str]:
    """Where calls do not hold to what is declared, in words."""
    kind, said = pl.col("type"), pl.col("type_said")
    left_out = pl.col("good") - pl.col("n_good").fill_null(0)
    found = (
        (
            (kind != said) & ~((kind == "integer") & (said == "number")) & (said != "any"),
            worded("{}.{}: declared {}, called with {}", "action", "arg", "type_said", "type"),
        ),
        (
            said.is_null() & pl.col("action").is_in(actions.implode()),
            worded("{}.{}: not declared, {} calls give it", "action", "arg", "n_seen"),
        ),
        (
            pl.col("required_said") & (left_out > 0),
            worded("{}.{}: declared as required, {} of {} successful calls leave it out", "action", "arg", left_out, "good"),
        ),
        (
            pl.col("n_other").is_not_null(),
            worded("{}.{}: {} calls give a value that is not declared, as {}", "action", "arg", "n_other", "other"),
        ),
    )  # fmt: skip
    parts = [both.filter(holds.fill_null(value=False)).select(told=text) for holds, text in found]
    return pl.concat(parts)["told"].to_list()


def _undeclared_values(rows: pl.DataFrame, args: pl.DataFrame, tools: Sequence[Mapping[str, Any]]) -> pl.DataFrame:
    """`action`, `arg`, `n_other`, `other`: calls whose value is none of those that are declared, and the first of these values."""
    _, stated = declared(tools)
    listed = stated.drop_nulls("enum_json").select("action", "arg", doc="enum_json")
    legal = elements(listed["doc"])
    known = listed.join(legal, on="doc", how="inner", maintain_order="left").select("action", "arg", "value")
    given = args.join(rows.select("t", action="action_type"), on="t", how="inner", maintain_order="left").select(
        "action", "value", arg="key"
    )
    return (
        given.filter(pl.col("value") != "null")
        .join(listed, on=["action", "arg"], how="semi", maintain_order="left")
        .join(known, on=["action", "arg", "value"], how="anti", maintain_order="left")
        .group_by("action", "arg", maintain_order=True)
        .agg(n_other=pl.len(), other=pl.col("value").first())
    )


def _measured(rows: pl.DataFrame, args: pl.DataFrame) -> pl.DataFrame:
    value, first = pl.col("value"), pl.col("value").str.slice(0, 1)
    number = value.cast(pl.Float64, strict=False)
    kind = (
        pl.when(first == '"').then(pl.lit("string"))
        .when(first == "{").then(pl.lit("object"))
        .when(first == "[").then(pl.lit("array"))
        .when(value.is_in(["true", "false"])).then(pl.lit("boolean"))
        .when(value == "null").then(None)
        .when(value.str.contains(r"^-?\d+$")).then(pl.lit("integer"))
        .otherwise(pl.lit("number"))
    )  # fmt: skip
    frame = args.join(
        rows.select("t", "group", "failed", action="action_type"), on="t", how="inner", maintain_order="left"
    ).with_columns(kind=kind, number=number, length=value.str.len_chars().cast(pl.Int32))
    calls = rows.group_by(action="action_type", maintain_order=True).agg(calls=pl.len(), good=(~pl.col("failed")).sum())
    kinds = pl.col("kind").drop_nulls().unique().sort()
    per = frame.group_by("action", arg="key", maintain_order=True).agg(
        kinds=kinds,
        n_seen=pl.len(),
        n_good=(~pl.col("failed")).sum(),
        n_null=(value == "null").sum(),
        min=number.min(),
        max=number.max(),
        max_len=pl.col("length").max(),
        examples=value.unique(maintain_order=True).head(EXAMPLES),
        values=value.unique().sort().head(MAX_ENUM + 1),
        families=pl.struct("value", "group").n_unique(),
    )
    one = pl.col("kinds").list.len() == 1
    numbers = pl.col("kinds").list.set_difference(["integer", "number"]).list.len() == 0
    n = pl.col("values").list.len()
    listed = (n <= MAX_ENUM) & (pl.col("n_seen") >= ENUM_SUPPORT * n) & (pl.col("families") >= 2 * n)
    closed = listed & (pl.col("kinds").list.first() == "string") & one
    return per.join(calls, on="action", how="left", maintain_order="left").select(
        "action",
        "arg",
        type=pl.when(one).then(pl.col("kinds").list.first()).when(numbers & (pl.col("kinds").list.len() > 0)).then(
            pl.lit("number")
        ).otherwise(pl.lit("any")),
        required=(pl.col("n_good") == pl.col("good")) & (pl.col("n_null") == 0) & (pl.col("good") > 0),
        enum_json=pl.when(closed).then(worded("[{}]", pl.col("values").list.join(","))),
        n_good="n_good",
        n_seen=pl.col("n_seen").cast(pl.Int64),
        n_missing=(pl.col("calls") - pl.col("n_seen")).cast(pl.Int64),
        n_null=pl.col("n_null").cast(pl.Int64),
        min="min",
        max="max",
        max_len="max_len",
        examples_json=worded("[{}]", pl.col("examples").list.join(",")),
    )  # fmt: skip
