"""Effects: what a call changes in a given state, learned from states before and after."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from expcomp.environments.flatten import dump
from expcomp.environments.induction.compose import Cases
from expcomp.environments.induction.contrast import decide
from expcomp.environments.induction.deltas import changed, deltas
from expcomp.environments.induction.explain import explain
from expcomp.environments.induction.matrix import kind_cost
from expcomp.environments.induction.terms import Const, Term

if TYPE_CHECKING:
    from expcomp.environments.induction.matrix import Matrix
    from expcomp.environments.induction.predicates import Tests

__all__ = ["Effect", "fit_effects", "next_states", "operations"]

_YES = "true"
ATTRIBUTE = 0.9


@dataclass(frozen=True, slots=True)
class Effect:
    """One change: when it happens, in which container, and what is written.

    Attributes:
        failed: Outcome of the calls it belongs to.
        name: Operand of the container.
        op: Operation of `deltas`.
        when: `true` where it happens; None: always.
        key: Member that is put or dropped.
        value: What is put, appended or removed.
    """

    failed: bool
    name: str
    op: str
    when: Term | None
    key: Term | None
    value: Term | None

    def reads(self) -> tuple[str, ...]:
        """Operands it reads, its container included."""
        terms = [t for t in (self.when, self.key, self.value) if t is not None]
        return (self.name, *(n for t in terms for n in t.reads()))


def operations(rows: pl.DataFrame, places: pl.DataFrame) -> pl.DataFrame:
    """Changes of every row, under the operand that reaches their container in most calls of the action.

    Returns:
        `t`, `action_type`, `failed`, `op`, `name`, `key`, `value`, `nth` (of equal kind in the row).
    """
    known = rows.filter(pl.col("before").is_not_null() & pl.col("after").is_not_null())
    found = known.select("t", "action_type", "failed", "before", "after").join(
        deltas(known.select("before", "after")), on=["before", "after"], how="inner", maintain_order="left"
    )
    found = found.drop("before", "after").with_row_index("o")
    named = found.filter(pl.col("where") != "").join(places, on=["t", "where"], how="inner", maintain_order="left")
    names = named["name"].unique(maintain_order=True)
    costs = pl.DataFrame({"name": names, "cost": [kind_cost(n) + 0.01 * n.count("[") for n in names]})
    counted = (
        named.join(costs, on="name", how="left", maintain_order="left")
        .with_columns(reach=pl.col("o").n_unique().over("action_type", "op", "name"))
        .sort(["o", "reach", "cost", "name"], descending=[False, True, False, False], maintain_order=True)
        .unique("o", keep="first", maintain_order=True)
    )
    return counted.with_columns(nth=pl.int_range(pl.len()).over("t", "op", "name", "key")).select(
        "t", "action_type", "failed", "op", "name", "key", "value", "nth"
    )


def fit_effects(m: Matrix, rows: pl.DataFrame, ops: pl.DataFrame, tests: Tests) -> list[Effect]:
    """Effects of one action.

    Args:
        m: Operands of the rows to learn from.
        rows: The same rows: `t`, `failed`.
        ops: `operations` of the action.
        tests: Predicates, truth and cost for the rows.
    """
    out: list[Effect] = []
    ops = ops.join(rows.select("t"), on="t", how="semi", maintain_order="left")
    for failed in (False, True):
        own = ops.filter(pl.col("failed") == failed)
        if own.is_empty():
            continue
        inside = np.flatnonzero(rows["failed"].to_numpy() == failed)
        part, t = m.take(inside), rows["t"].gather(inside)
        own_tests = tests.at(inside)
        seen: set[tuple[str, str]] = set()
        for (name, op, key), unit in own.partition_by("name", "op", "key", as_dict=True, maintain_order=True).items():
            if op == "put" and _attribute(part, str(name), str(key)):
                out.append(_static(part, t, unit, own_tests, str(name), str(key), failed=failed))
            elif (str(name), str(op)) not in seen:
                seen.add((str(name), str(op)))
                free = own.filter(pl.col("name") == name, pl.col("op") == op)
                fixed = [
                    k
                    for k in free["key"].unique(maintain_order=True)
                    if op == "put" and _attribute(part, str(name), str(k))
                ]
                free = free.filter(~pl.col("key").is_in(fixed).fill_null(value=False)).with_columns(
                    nth=pl.int_range(pl.len()).over("t")
                )
                out += [
                    _dynamic(part, t, each, own_tests, str(name), str(op), failed=failed)
                    for each in free.partition_by("nth", maintain_order=True)[:4]
                ]
    return out


def _attribute(m: Matrix, name: str, key: str) -> bool:
    """Whether the member is there before the call wherever its container is."""
    full = f"{name}.{key}"
    if name not in m.frame.columns or full not in m.frame.columns:
        return False
    there = m.frame[name].is_not_null()
    return int((m.frame[full].is_not_null() & there).sum()) >= ATTRIBUTE * max(1, int(there.sum()))


def _static(
    m: Matrix, t: pl.Series, unit: pl.DataFrame, tests: Tests,
    name: str, key: str, *, failed: bool,
) -> Effect:  # fmt: skip
    """A member that is always there: its next value is explained in all rows, those where it stays as it is included."""
    after = pl.DataFrame({"t": t}).join(
        unit.select("t", "value").unique("t", keep="last", maintain_order=True),
        on="t",
        how="left",
        maintain_order="left",
    )["value"]
    target = after.fill_null(m.frame[f"{name}.{key}"])
    return Effect(failed, name, "put", None, Const(dump(key)), explain(m, target, tests, label=key))


def _dynamic(
    m: Matrix, t: pl.Series, unit: pl.DataFrame, tests: Tests,
    name: str, op: str, *, failed: bool,
) -> Effect:  # fmt: skip
    placed = pl.DataFrame({"t": t}).join(
        unit.select("t", "key", "value", fired=True), on="t", how="left", maintain_order="left"
    )
    fired = placed["fired"].fill_null(value=False).to_numpy()
    hits = np.column_stack([fired, ~fired])
    cases = decide(tests.truth, tests.cost, hits, np.ones_like(hits), [0.0, 0.0], m.groups)
    always = len(cases) == 1 and cases[0].term == 0 and cases[0].predicate == 0
    values = (Const(_YES), Const("false"))
    when = None if always else Cases(tuple((tests.predicates[c.predicate], values[c.term], c.n, c.hits) for c in cases))
    inside = np.flatnonzero(fired)
    part, own = m.take(inside), tests.at(inside)
    number = pl.col("key").str.contains(r"^(0|[1-9]\d*)$")
    keys = placed.with_columns(key=pl.when(number).then("key").otherwise(pl.format('"{}"', "key")))["key"].gather(
        inside
    )
    key = explain(part, keys, own) if op in ("put", "drop") else None
    value = explain(part, placed["value"].gather(inside), own) if op != "drop" else None
    return Effect(failed, name, op, when, key, value)


def next_states(effects: list[Effect], frame: pl.DataFrame, rows: pl.DataFrame, places: pl.DataFrame) -> pl.DataFrame:
    """States after the calls of one action: `t`, `after` (canonical JSON; null: an effect has no value).

    Args:
        effects: Of the action.
        frame: Operands of the rows, by column.
        rows: `t`, `before`, `failed` (the outcome that was predicted).
        places: Where operands stand in the state.
    """
    planned = []
    for place, effect in enumerate(effects):
        key = effect.key.expr() if effect.key is not None else pl.lit(None, dtype=pl.String)
        value = effect.value.expr() if effect.value is not None else pl.lit(None, dtype=pl.String)
        when = pl.lit(value=True) if effect.when is None else (effect.when.expr() == _YES).fill_null(value=False)
        planned.append(
            frame.join(rows.select("t", "failed"), on="t", how="inner", maintain_order="left")
            .filter(pl.col("failed") == effect.failed, pl.col(effect.name).is_not_null(), when)
            .select(
                "t",
                place=place,
                name=pl.lit(effect.name),
                op=pl.lit(effect.op),
                key=key.str.strip_prefix('"').str.strip_suffix('"'),
                value=value,
                whole=pl.lit(value=True)
                & (key.is_not_null() if effect.op in ("put", "drop") else True)
                & (value.is_not_null() if effect.op != "drop" else True),
            )
        )
    plain = rows.select("t", after="before")
    if not planned:
        return plain
    ops = (
        pl.concat(planned)
        .join(places, on=["t", "name"], how="left", maintain_order="left")
        .sort("t", "place", maintain_order=True)
    )
    per = ops.group_by("t", maintain_order=True).agg(
        "where", "op", "key", "value", whole=pl.col("whole").all() & pl.col("where").is_not_null().all()
    )
    done = per.join(rows.select("t", "before"), on="t", how="inner", maintain_order="left")
    after = [
        changed(before, list(zip(where, op, key, value, strict=True))) if whole else None
        for before, where, op, key, value, whole in zip(
            done["before"], done["where"], done["op"], done["key"], done["value"], done["whole"], strict=True
        )
    ]
    moved = done.select("t").with_columns(moved=pl.Series(after, dtype=pl.String), touched=pl.lit(value=True))
    return plain.join(moved, on="t", how="left", maintain_order="left").select(
        "t", after=pl.when(pl.col("touched").fill_null(value=False)).then("moved").otherwise("after")
    )
