"""Effects: what a call changes in a given state, learned from states before and after."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

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
    from collections.abc import Sequence

    from expcomp.environments.induction.matrix import Matrix
    from expcomp.environments.induction.predicates import Tests

__all__ = ["Effect", "fit_effects", "next_states", "operations"]

_YES = "true"
_PLACE = re.compile(r"0|[1-9][0-9]*")
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
    named = found.join(places, on=["t", "where"], how="inner", maintain_order="left")
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


class Op(NamedTuple):
    """One change of a row, with the position of the row."""

    row: int
    name: str
    op: str
    key: str | None
    value: str | None


def fit_effects(m: Matrix, rows: pl.DataFrame, ops: pl.DataFrame, tests: Tests) -> list[Effect]:
    """Effects of one action.

    Args:
        m: Operands of the rows to learn from.
        rows: The same rows: `t`, `failed`.
        ops: `operations` of the action.
        tests: Predicates, truth and cost for the rows.
    """
    out: list[Effect] = []
    bad = rows["failed"].to_numpy()
    columns = [ops[c].to_list() for c in ("t", "name", "op", "key", "value")]
    for failed in (False, True):
        inside = np.flatnonzero(bad == failed)
        places = {t: i for i, t in enumerate(rows["t"].gather(inside).to_list())}
        own = [Op(places[t], *told) for t, *told in zip(*columns, strict=True) if t in places]
        if not own:
            continue
        part, own_tests = m.take(inside), tests.at(inside)
        units: dict[tuple[str, str, str | None], list[Op]] = {}
        for op in own:
            units.setdefault((op.name, op.op, op.key), []).append(op)
        fixed = {u for u in units if u[1] == "put" and u[2] is not None and _attribute(part, u[0], u[2])}
        seen: set[tuple[str, str]] = set()
        for unit, told in units.items():
            name, kind, key = unit
            if unit in fixed:
                out.append(_static(part, told, own_tests, name, str(key), failed=failed))
            elif (name, kind) not in seen:
                seen.add((name, kind))
                free = [o for o in own if (o.name, o.op) == (name, kind) and (o.name, o.op, o.key) not in fixed]
                out += [_dynamic(part, each, own_tests, name, kind, failed=failed) for each in _rounds(free)[:4]]
    return out


def _rounds(ops: Sequence[Op]) -> list[list[Op]]:
    """The first change of each row, the second, and so on."""
    times: dict[int, int] = {}
    out: list[list[Op]] = []
    for op in ops:
        nth = times[op.row] = times.get(op.row, -1) + 1
        out += [[]] if nth == len(out) else []
        out[nth].append(op)
    return out


def _attribute(m: Matrix, name: str, key: str) -> bool:
    """Whether the member is there before the call wherever its container is."""
    full = f"{name}.{key}"
    if name not in m.names or full not in m.names:
        return False
    there, held = (m.codes[:, m.names.index(n)] >= 0 for n in (name, full))
    return int((held & there).sum()) >= ATTRIBUTE * max(1, int(there.sum()))


def _static(m: Matrix, ops: Sequence[Op], tests: Tests, name: str, key: str, *, failed: bool) -> Effect:
    """A member that is always there: its next value is explained in all rows, those where it stays as it is included."""
    after = m.column(f"{name}.{key}").to_list()
    for op in ops:
        after[op.row] = op.value if op.value is not None else after[op.row]
    target = pl.Series(after, dtype=pl.String)
    return Effect(failed, name, "put", None, Const(dump(key)), explain(m, target, tests, label=key))


def _dynamic(m: Matrix, ops: Sequence[Op], tests: Tests, name: str, op: str, *, failed: bool) -> Effect:
    told = sorted(ops)
    inside = np.array([o.row for o in told], int)
    fired = np.zeros(len(m.at), bool)
    fired[inside] = True
    hits = np.column_stack([fired, ~fired])
    cases = decide(tests.truth, tests.cost, hits, np.ones_like(hits), [0.0, 0.0], m.groups)
    always = len(cases) == 1 and cases[0].term == 0 and cases[0].predicate == 0
    values = (Const(_YES), Const("false"))
    when = None if always else Cases(tuple((tests.predicates[c.predicate], values[c.term], c.n, c.hits) for c in cases))
    part, own = m.take(inside), tests.at(inside)
    # Elements of arrays are told by their place.
    keys = [o.key if o.key is None or _PLACE.fullmatch(o.key) else f'"{o.key}"' for o in told]
    key = explain(part, pl.Series(keys, dtype=pl.String), own) if op in ("put", "drop") else None
    value = explain(part, pl.Series([o.value for o in told], dtype=pl.String), own) if op != "drop" else None
    return Effect(failed, name, op, when, key, value)


def next_states(effects: list[Effect], frame: pl.DataFrame, rows: pl.DataFrame, places: pl.DataFrame) -> pl.DataFrame:
    """States after the calls of one action: `t`, `after` (canonical JSON; null: an effect has no value).

    Args:
        effects: Of the action.
        frame: Operands of the rows, by column.
        rows: `t`, `before`, `failed` (the outcome that was predicted).
        places: Where operands stand in the state.
    """
    planned: list[pl.LazyFrame] = []
    told = frame.join(rows.select("t", "failed"), on="t", how="inner", maintain_order="left").lazy()
    for place, effect in enumerate(effects):
        key = effect.key.expr() if effect.key is not None else pl.lit(None, dtype=pl.String)
        value = effect.value.expr() if effect.value is not None else pl.lit(None, dtype=pl.String)
        when = pl.lit(value=True) if effect.when is None else (effect.when.expr() == _YES).fill_null(value=False)
        planned.append(
            told.filter(pl.col("failed") == effect.failed, pl.col(effect.name).is_not_null(), when).select(
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
    near = places.lazy().filter(pl.col("name").is_in(list({e.name for e in effects})))
    ops = (
        pl.concat(planned)
        .join(near, on=["t", "name"], how="left", maintain_order="left")
        .sort("t", "place", maintain_order=True)
    )
    per = ops.group_by("t", maintain_order=True).agg(
        "where", "op", "key", "value", whole=pl.col("whole").all() & pl.col("where").is_not_null().all()
    )
    done = per.join(rows.lazy().select("t", "before"), on="t", how="inner", maintain_order="left").collect(
        engine="in-memory"
    )
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
