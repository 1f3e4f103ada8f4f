"""Invariants: conditions on the state that held in everything that was observed, and that could have failed.

Tried are, over fields of entities and over labels that calls change within an episode:

    bound       a number is never below 0, and was 0 in at least two families
    order       of two numbers of one entity the first is never above the second, and was equal in at least two families
    membership  a text is one of a few, each seen in at least two families, on average 5 times

All need 30 observations of 2 families without an exception. They warn and never refuse: what was not seen may still be.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING

import polars as pl

from expcomp.environments.frames import frame
from expcomp.environments.induction.known import attributed
from expcomp.environments.records import lines

if TYPE_CHECKING:
    from collections.abc import Iterator

    from expcomp.environments.induction.prepared import Prepared

__all__ = ["CARRIED", "CITED", "FAMILIES", "SUPPORT", "invariants"]

SUPPORT, FAMILIES, MOST_VALUES, EACH, DISTINCT = 30, 2, 12, 5, 3
CITED = 3
"""Transitions that an invariant or a note cites: the first ones that show it."""
CARRIED = pl.Schema({"owner_kind": pl.String, "owner_id": pl.String, "t": pl.UInt32})
"""Which transitions carry an invariant or a note."""

_NAME = r"^[A-Za-z_]\w*$"
_NUMBER = r"^-?\d+(\.\d+)?([eE][-+]?\d+)?$"
_FIELD = ("cls", "field")
_ENTITY = ("episode_id", "cls", "key")


def invariants(p: Prepared, declared: pl.Series) -> tuple[dict[str, pl.DataFrame], pl.DataFrame]:
    """Tables `invariants` and `conditions`, and what carries them: `owner_kind`, `owner_id`, `t`.

    Args:
        p: Prepared transitions.
        declared: State paths of the schema; what no rule reads or writes cannot be checked.
    """
    member = pl.lit("world.") + pl.when(pl.col("cls") == "").then("field").otherwise("cls")
    facts = attributed(p.facts).filter(
        member.is_in(declared.implode()), pl.col("field").str.contains(_NAME), pl.col("cls").str.contains(r"^\w*$")
    )
    moved = (
        facts.group_by(*_ENTITY, "field", maintain_order=True)
        .agg(n=pl.col("value").n_unique())
        .filter(pl.col("n") > 1)
        .select(_FIELD)
        .unique(maintain_order=True)
    )
    varied = facts.join(moved, on=list(_FIELD), how="semi", maintain_order="left")
    found = [*_bounds(varied), *_orders(facts, moved), *_memberships(varied)]
    records, conditions, cited = [], [], []
    for words, condition, support, shown in found:
        name = "inv_" + hashlib.sha256(condition.encode()).hexdigest()[:24]
        records.append({"invariant_id": name, "description": words, "severity": "warning", "n_support": support})
        conditions.append(
            {"owner_id": name, "group": 0, "ordinal": 0, "left_kind": "expr", "left": condition, "op": "eq", "right_kind": "literal",
             "right": "true"}
        )  # fmt: skip
        cited += [("invariant", name, t) for t in shown]
    tables = {"invariants": frame("invariants", records), "conditions": frame("conditions", conditions)}
    return tables, pl.DataFrame(cited, schema=CARRIED, orient="row")


Found = tuple[str, str, int, list[int]]


def _numbers(facts: pl.DataFrame) -> pl.DataFrame:
    return facts.filter(pl.col("value").str.contains(_NUMBER)).with_columns(number=pl.col("value").cast(pl.Float64))


def _whole(facts: pl.DataFrame) -> pl.DataFrame:
    """Numbers of the fields that never hold anything else."""
    odd = facts.filter(~pl.col("value").str.contains(_NUMBER)).select(_FIELD)
    return _numbers(facts).join(odd, on=list(_FIELD), how="anti", maintain_order="left")


def _families(at: pl.Expr) -> pl.Expr:
    return pl.col("group").filter(at).n_unique()


def _first(at: pl.Expr) -> pl.Expr:
    return pl.col("t").filter(at).unique().sort().head(CITED)


def _bounds(facts: pl.DataFrame) -> Iterator[Found]:
    zero = pl.col("number") == 0
    found = (
        _whole(facts)
        .group_by(_FIELD, maintain_order=True)
        .agg(
            n=pl.len(), low=pl.col("number").min(), distinct=pl.col("number").n_unique(), families=_families(zero), t=_first(zero)
        )
        .filter(
            pl.col("n") >= SUPPORT, pl.col("low") == 0, pl.col("distinct") >= DISTINCT, pl.col("families") >= FAMILIES
        )
        .sort(_FIELD)
    )  # fmt: skip
    for cls, field, n, families, t in lines(found, "cls", "field", "n", "families", "t"):
        words = f"{_words(cls, field)} is never below 0: in {n} observations, 0 in {families} families"
        yield words, _holds(cls, f"{_place(cls, field)} >= 0", f"{_place(cls, field)} < 0"), n, t


def _orders(facts: pl.DataFrame, moved: pl.DataFrame) -> Iterator[Found]:
    by = ["t", "turn", "group", *_ENTITY]
    one = _whole(facts).filter(pl.col("cls") != "").unique([*by, "field"], keep="last", maintain_order=True)
    one = one.join(
        moved.with_columns(moves=pl.lit(value=True)), on=list(_FIELD), how="left", maintain_order="left"
    ).select(*by, "field", "number", pl.col("moves").fill_null(value=False))
    pairs = one.join(one, on=by, how="inner", suffix="_2", maintain_order="left").filter(
        pl.col("field") != pl.col("field_2"), pl.col("moves") | pl.col("moves_2")
    )
    same = pl.col("number") == pl.col("number_2")
    names = ("cls", "field", "field_2")
    found = (
        pairs.group_by(names, maintain_order=True)
        .agg(
            n=pl.len(),
            holds=(pl.col("number") <= pl.col("number_2")).all(),
            below=(~same).any(),
            families=_families(same & (pl.col("number") != 0)),
            t=_first(same & (pl.col("number") != 0)),
        )
        .filter(pl.col("n") >= SUPPORT, "holds", "below", pl.col("families") >= FAMILIES)
        .sort(names)
    )
    for cls, low, high, n, families, t in lines(found, *names, "n", "families", "t"):
        a, b = _place(cls, low), _place(cls, high)
        words = f"{_words(cls, low)} is never above {high}: in {n} observations, equal in {families} families"
        yield words, _holds(cls, f"{a} <= {b}", f"{a} > {b}"), n, t


def _memberships(facts: pl.DataFrame) -> Iterator[Found]:
    texts = pl.col("value").str.starts_with('"')
    per = facts.group_by(*_FIELD, "value", maintain_order=True).agg(
        n=pl.len(), families=pl.col("group").n_unique(), t=pl.col("t").min()
    )
    found = (
        per.group_by(_FIELD, maintain_order=True)
        .agg(
            pl.col("value").sort(), texts=texts.all(), total=pl.col("n").sum(), distinct=pl.len(), least=pl.col("families").min(),
            t=pl.col("t").sort().head(CITED),
        )
        .filter(
            "texts", pl.col("distinct").is_between(2, MOST_VALUES), pl.col("total") >= SUPPORT,
            pl.col("total") >= EACH * pl.col("distinct"), pl.col("least") >= FAMILIES,
        )
        .sort(_FIELD)
    )  # fmt: skip
    for cls, field, values, n, t in lines(found, "cls", "field", "value", "total", "t"):
        among = f"[{', '.join(values)}]"
        words = f"{_words(cls, field)} is one of {', '.join(json.loads(v) for v in values)}: in {n} observations"
        yield words, _holds(cls, f"{_place(cls, field)} in {among}", f"{_place(cls, field)} not in {among}"), n, t


def _words(cls: str, field: str) -> str:
    return field if cls == "" else f"{field} of {cls}"


def _place(cls: str, field: str) -> str:
    return f"world.{field}" if cls == "" else f"x.{field}"


def _holds(cls: str, holds: str, fails: str) -> str:
    """A condition that is true where nothing is known; of entities it holds for every one."""
    if cls == "":
        return f"default({holds}, true)"
    return f"default(len([x for x in world.{cls}[] if default({fails}, false)]) == 0, true)"
