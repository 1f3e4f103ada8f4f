"""All statements of all packs as one frame: built kind by kind, guarded, in order, with a stable id."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from expcomp.io.digest import sha256_expr
from expcomp.packs.about import about
from expcomp.packs.guard import withheld
from expcomp.packs.kinds import KINDS, ORDER
from expcomp.packs.lessons import lessons
from expcomp.packs.practice import practice
from expcomp.tables.packs import PACK_STATEMENTS, SECTIONS

if TYPE_CHECKING:
    from expcomp.packs.facts import Facts

_SECTION = {name: place for place, name in enumerate(SECTIONS)}


def statements(facts: Facts, steps: pl.DataFrame, private: pl.DataFrame) -> tuple[pl.DataFrame, int]:
    """The table `pack_statements`, and how many statements were withheld because they speak of a private criterion.

    Args:
        facts: The facts.
        steps: What `failed_steps` gives.
        private: What `private_texts` gives.
    """
    made = pl.concat([*about(facts), *practice(facts), *lessons(facts, steps)])
    made = made.filter((pl.col("cites").list.len() > 0) & (pl.col("text") != ""))
    hidden = withheld(made, private, text="text", subject="subject")
    kept = (
        made.filter(~hidden)
        .with_columns(
            _section=pl.col("section").replace_strict(_SECTION, return_dtype=pl.Int64),
            _kind=pl.col("kind").replace_strict(ORDER, return_dtype=pl.Int64),
        )
        .sort("pack_id", "_section", "_kind", "rank", "subject", "text", nulls_last=True)
        .unique(["pack_id", "kind", "text"], keep="first", maintain_order=True)
    )
    digest = sha256_expr(pl.concat_str("pack_id", "kind", "text", separator="\x1f")).str.slice(0, 16)
    units = {name: kind.unit for name, kind in KINDS.items()}
    frame = kept.select(
        "pack_id",
        "section",
        "kind",
        "subject",
        "text",
        "support",
        "total",
        "attempt_ids",
        statement_id=pl.concat_str(pl.lit("statement_"), digest),
        position=pl.int_range(pl.len()).over("pack_id", "section"),
        unit=pl.when(pl.col("support").is_not_null()).then(
            pl.col("kind").replace_strict(units, return_dtype=pl.String)
        ),
        citations=citations("cites"),
    )
    return frame.select(list(PACK_STATEMENTS.columns)).cast(PACK_STATEMENTS.schema), int(hidden.sum())


def citations(column: str) -> pl.Expr:
    """Published citations: texts `evidence_id@package_id` as structs."""
    parts = pl.element().str.splitn("@", 2)
    return pl.col(column).list.eval(
        pl.struct(package_id=parts.struct.field("field_1"), evidence_id=parts.struct.field("field_0"))
    )
