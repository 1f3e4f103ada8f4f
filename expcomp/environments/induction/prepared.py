"""Transitions made ready: canonical JSON, outcomes, facts, operands. Nothing is learned here but what keys an entity."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
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


@dataclass
class Prepared:
    """Transitions and all that is known before each call. What not every use needs is made when it is first asked for.

    Attributes:
        rows: Prepared transitions with outcome.
        args: Their arguments in long form.
        operands: Operands in long form: `t`, `name`, `value`.
        asked: Entities that the calls name.
        facts: What episodes have shown.
        classes: Entity classes.
        own: Fields that entities show of themselves.
        places: Where operands stand in a given state.
    """

    rows: pl.DataFrame
    args: pl.DataFrame
    operands: pl.DataFrame
    asked: pl.DataFrame
    facts: pl.DataFrame
    classes: list[str]
    own: pl.DataFrame
    places: pl.DataFrame

    @cached_property
    def writers(self) -> list[str]:
        """Actions that change entities."""
        return seen.writers(self.rows, self.asked, self.facts)

    @cached_property
    def ops(self) -> pl.DataFrame:
        """Changes of given states."""
        return operations(self.rows, self.places)

    @cached_property
    def _elements(self) -> tuple[pl.DataFrame, pl.DataFrame]:
        return records(self.rows, self.args, seen.objects(self.rows))

    @cached_property
    def items(self) -> Items:
        """Elements of array arguments."""
        return items(*self._elements, self.rows, self.operands, self.args)

    @property
    def records(self) -> pl.DataFrame:
        """Records that elements can be joined with."""
        return self._elements[1]


def operands(
    transitions: pl.DataFrame, *, classes: Sequence[str] | None = None, own: pl.DataFrame | None = None
) -> Prepared:
    """Prepare transitions (columns of EXPERIENCE).

    Args:
        transitions: One row a call.
        classes: Entity classes found before; None finds them.
        own: Fields that entities show of themselves, found before; None finds them.
    """
    rows = outcomes(prepare(transitions))
    args = arguments(rows)
    found = list(classes) if classes is not None else seen.entity_classes(rows, args)
    asked = seen.requests(args, found)
    fields = seen.own_fields(rows, asked) if own is None else own
    facts = seen.observed(rows, asked, found, fields)
    state = state_operands(rows, args)
    parts = [call_operands(args), state.drop("where"), fact_operands(rows, asked, facts, found), _remembered(rows)]
    table = pl.concat(parts).unique(["t", "name"], keep="last", maintain_order=True)
    table = pl.concat([table, picked(table.filter(pl.col("name").str.starts_with("seen[")), args)])
    table = pl.concat([table, aggregates(table)]).unique(["t", "name"], keep="last", maintain_order=True)
    return Prepared(rows, args, table, asked, facts, found, fields, state.select("t", "name", "where"))


def remembered(transitions: pl.DataFrame, *, classes: Sequence[str], own: pl.DataFrame) -> Prepared:
    """Only what memory and first views are made of: rows, facts and records; no operands."""
    rows = outcomes(prepare(transitions))
    args = arguments(rows)
    asked = seen.requests(args, classes)
    none = pl.DataFrame(schema={"t": pl.UInt32, "name": pl.String, "value": pl.String})
    return Prepared(rows, args, none, asked, seen.observed(rows, asked, classes, own), list(classes), own, none)


def _remembered(rows: pl.DataFrame) -> pl.DataFrame:
    """The last answer of the same call in the episode."""
    table = rows.lazy()
    real = table.filter(~pl.col("counterfactual")).select("episode_id", "action_type", "args", "turn", value="answer")
    by = ["episode_id", "action_type", "args"]
    found = table.select("t", *by, "turn").sort("turn", maintain_order=True).join_asof(
        real.sort("turn", maintain_order=True), on="turn", by=by, strategy="backward",
        allow_exact_matches=False, check_sortedness=False,
    )  # fmt: skip
    return (
        found.drop_nulls("value")
        .select("t", name=pl.lit("memory.answer"), value="value")
        .sort("t", maintain_order=True)
        .collect(engine="in-memory")
    )


def wide(long: pl.DataFrame, rows: pl.DataFrame, names: Sequence[str] | None = None) -> pl.DataFrame:
    """Operands as columns, one row a call in the order of `rows`; of `names`, or of all in the order of their first value."""
    if names is not None and not names:
        return rows.select("t")
    table = long.pivot(on="name", on_columns=names, index="t", values="value", maintain_order=True)
    return rows.select("t").join(table, on="t", how="left", maintain_order="left")
