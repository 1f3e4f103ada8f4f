"""Transitions made ready: canonical JSON, outcomes, facts, operands. Nothing is learned here but what keys an entity."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from expcomp.environments.induction import facts as seen
from expcomp.environments.induction.aggregates import aggregates, picked
from expcomp.environments.induction.effects import operations
from expcomp.environments.induction.experience import prepare
from expcomp.environments.induction.items import Items, items, records
from expcomp.environments.induction.operands import arguments, call_operands, fact_operands, state_operands
from expcomp.environments.induction.outcome import outcomes

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Prepared", "operands", "remembered", "wide"]


@dataclass(slots=True)
class Prepared:
    """Transitions and all that is known before each call.

    Attributes:
        rows: Prepared transitions with outcome.
        args: Their arguments in long form.
        operands: Operands in long form: `t`, `name`, `value`.
        asked: Entities that the calls name.
        facts: What episodes have shown.
        classes: Entity classes.
        writers: Actions that change entities.
        places: Where operands stand in a given state.
        ops: Changes of given states.
        items: Elements of array arguments.
        records: Records that elements can be joined with.
    """

    rows: pl.DataFrame
    args: pl.DataFrame
    operands: pl.DataFrame
    asked: pl.DataFrame
    facts: pl.DataFrame
    classes: list[str]
    writers: list[str]
    places: pl.DataFrame
    ops: pl.DataFrame
    items: Items
    records: pl.DataFrame


def operands(transitions: pl.DataFrame, *, classes: Sequence[str] | None = None) -> Prepared:
    """Prepare transitions (columns of EXPERIENCE).

    Args:
        transitions: One row a call.
        classes: Entity classes found before; None finds them.
    """
    rows = outcomes(prepare(transitions))
    args = arguments(rows)
    found = list(classes) if classes is not None else seen.entity_classes(rows, args)
    asked = seen.requests(args, found)
    facts = seen.observed(rows, asked, found)
    state = state_operands(rows, args)
    parts = [call_operands(args), state.drop("where"), fact_operands(rows, asked, facts, found), _remembered(rows)]
    table = pl.concat(parts).unique(["t", "name"], keep="last", maintain_order=True)
    table = pl.concat([table, picked(table.filter(pl.col("name").str.starts_with("seen[")), args)])
    table = pl.concat([table, aggregates(table)]).unique(["t", "name"], keep="last", maintain_order=True)
    told, shown = records(rows, args, seen.objects(rows))
    return Prepared(
        rows=rows,
        args=args,
        operands=table,
        asked=asked,
        facts=facts,
        classes=found,
        writers=seen.writers(rows, asked, facts),
        places=state.select("t", "name", "where"),
        ops=operations(rows, state),
        items=items(told, shown, rows, table, args),
        records=shown,
    )


def remembered(transitions: pl.DataFrame, *, classes: Sequence[str]) -> Prepared:
    """Only what memory and first views are made of: rows, facts and records; no operands."""
    rows = outcomes(prepare(transitions))
    args = arguments(rows)
    asked = seen.requests(args, classes)
    none = pl.DataFrame(schema={"t": pl.UInt32, "name": pl.String, "value": pl.String})
    _, shown = records(rows, args, seen.objects(rows))
    empty = rows.clear()
    return Prepared(
        rows=rows,
        args=args,
        operands=none,
        asked=asked,
        facts=seen.observed(rows, asked, classes),
        classes=list(classes),
        writers=[],
        places=none,
        ops=empty,
        items=Items(empty, empty),
        records=shown,
    )


def _remembered(rows: pl.DataFrame) -> pl.DataFrame:
    """The last answer of the same call in the episode."""
    real = rows.filter(~pl.col("counterfactual")).select("episode_id", "action_type", "args", "turn", value="answer")
    by = ["episode_id", "action_type", "args"]
    found = rows.select("t", *by, "turn").sort("turn", maintain_order=True).join_asof(
        real.sort("turn", maintain_order=True), on="turn", by=by, strategy="backward",
        allow_exact_matches=False, check_sortedness=False,
    )  # fmt: skip
    return (
        found.drop_nulls("value")
        .select("t", name=pl.lit("memory.answer"), value="value")
        .sort("t", maintain_order=True)
    )


def wide(long: pl.DataFrame, rows: pl.DataFrame) -> pl.DataFrame:
    """Operands as columns, one row a call in the order of `rows`."""
    table = long.pivot(on="name", index="t", values="value", maintain_order=True)
    return rows.select("t").join(table, on="t", how="left", maintain_order="left")
