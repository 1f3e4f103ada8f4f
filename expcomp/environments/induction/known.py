"""Facts of the evidence: what each answer shows of entities and labels, and what was known before the call that a rule reads."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import polars as pl

from expcomp.io.wording import worded
from expcomp.tables.environment import FACT_ROLE, FACTS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from expcomp.environments.induction.prepared import Prepared

__all__ = ["attributed", "facts_table"]

_PLAIN = r'^[^.\[\]{}"/~][^.\[\]{}":]*$'
"""A key that needs no brackets in a state path."""


def attributed(facts: pl.DataFrame) -> pl.DataFrame:
    """Facts of which each value in an answer counts once: for the class or label that the most answers show the field of.

    An answer about one entity names others too, and all that it shows could be told of each of them.
    """
    often = facts.group_by("cls", "field", maintain_order=True).agg(_often=pl.len())
    return (
        facts.with_row_index("_place")
        .join(often, on=["cls", "field"], how="left", maintain_order="left")
        .sort(["_often", "cls", "_place"], descending=[True, True, False])
        .filter(pl.col("cls") == pl.col("cls").first().over("t", "turn", "field", "value"))
        .sort("_place")
        .drop("_often", "_place")
    )


def facts_table(p: Prepared, reads: Iterable[str]) -> pl.DataFrame:
    """Facts (`FACTS`) of prepared transitions, in order of transition and subject.

    An observation is what the answer shows; a precondition is the last that the episode has shown before the call of what a
    rule reads, or what a snapshot before the first call tells. All are observed, none is inferred.

    Args:
        p: Prepared transitions.
        reads: Operands that rules read.
    """
    turns = p.rows.select("t", "transition_id", now="turn")
    told = attributed(p.facts).join(turns, on="t", how="inner", maintain_order="left").select(
        "t", "transition_id", "value",
        role=pl.when(pl.col("turn") < pl.col("now")).then(pl.lit("precondition")).otherwise(pl.lit("observation")),
        subject=_subject(),
    )  # fmt: skip
    names = sorted(reads)
    fields = [m.group(1) for n in names if (m := re.fullmatch(r"seen\[arg\.[^\]]*\]\.(.+)", n))]
    wanted = pl.DataFrame({"field": fields}, schema={"field": pl.String}).unique(maintain_order=True)
    entity = p.asked.join(wanted, how="cross", maintain_order="left").select(
        "t", "cls", "key", "field", name=worded("seen[{}].{}", "via", "field")
    )
    labels = [n.removeprefix("last.") for n in names if n.startswith("last.")]
    label = p.rows.select("t", cls=pl.lit(""), key=pl.lit("")).join(
        pl.DataFrame({"field": labels}, schema={"field": pl.String}), how="cross", maintain_order="left"
    )
    asked = pl.concat([entity, label.with_columns(name=pl.lit("last.") + pl.col("field"))])
    known = (
        asked.filter(pl.col("name").is_in(names))
        .join(p.operands, on=["t", "name"], how="inner", maintain_order="left")
        .join(turns, on="t", how="inner", maintain_order="left")
        .select("t", "transition_id", "value", role=pl.lit("precondition"), subject=_subject())
    )
    return (
        pl.concat([told, known])
        # Of two values of one subject in one answer the later object counts.
        .unique(["t", "role", "subject"], keep="last", maintain_order=True)
        .with_columns(pl.col("role").cast(FACT_ROLE))
        .sort("t", "role", "subject", maintain_order=True)
        .select(
            evidence_id=pl.lit("evi_") + pl.col("transition_id"),
            role="role",
            subject="subject",
            predicate=pl.lit("eq"),
            value_json="value",
            status=pl.lit("observed"),
            confidence=pl.lit(None, dtype=pl.Float64),
        )
        .cast(FACTS.schema)
    )


def _subject() -> pl.Expr:
    """State path of a fact: `world.class.key.field`, or `world.label`; keys that dots cannot say stand in brackets."""
    key = pl.col("key").str.strip_prefix('"').str.strip_suffix('"')
    entity = pl.concat_str(pl.lit("world"), _step(pl.col("cls")), _step(key), _step(pl.col("field")))
    return pl.when(pl.col("cls") == "").then(pl.lit("world") + _step(pl.col("field"))).otherwise(entity)


def _step(name: pl.Expr) -> pl.Expr:
    text = name.str.replace_all("\\", "\\\\", literal=True).str.replace_all('"', '\\"', literal=True)
    bracket = pl.concat_str(pl.lit('["'), text, pl.lit('"]'))
    return pl.when(name.str.contains(_PLAIN)).then(pl.lit(".") + name).otherwise(bracket)
