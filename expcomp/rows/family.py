"""RowFamily: what a family declares plus the one function that builds its candidates."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from expcomp.rows.private import masked
from expcomp.tables.family import Family

if TYPE_CHECKING:
    from expcomp.rows.context import Context

KEYS: dict[str, pl.DataType] = {
    "package_id": pl.String(),
    "task_id": pl.String(),
    "attempt_id": pl.String(),
    "step_index": pl.Int32(),
}
EVIDENCE: dict[str, pl.DataType] = {
    "_evidence_ids": pl.List(pl.String()),
    "_evidence_ok": pl.List(pl.String()),
    "_n_refs": pl.UInt32(),
    "_n_there": pl.UInt32(),
    "_n_hidden": pl.UInt32(),
}
HELPERS: dict[str, pl.DataType] = {
    "_discriminator": pl.String(),
    "_label_strength": pl.Float64(),
    "_issue": pl.String(),
    "_passed": pl.Boolean(),
    "_margin": pl.Float64(),
    "_group_n": pl.Int64(),
    "_group_std": pl.Float64(),
    "_simulated": pl.Boolean(),
    "_duplicate": pl.Boolean(),
    "_contexts": pl.Int64(),
    "_unreadable": pl.Boolean(),
}
"""What gates look at beside the content; null where a family has nothing to say."""

Build = Callable[["Context"], pl.DataFrame]


@dataclass(frozen=True, slots=True)
class RowFamily:
    """One family: its declaration, the tables it needs, and `build`, which makes candidate rows from a context."""

    family: Family
    requires: tuple[str, ...]
    build: Build

    @property
    def name(self) -> str:
        """Family name."""
        return self.family.name

    @property
    def candidate_schema(self) -> dict[str, pl.DataType]:
        """Columns of a candidate frame, in order."""
        return KEYS | EVIDENCE | HELPERS | {n: c.dtype for n, c in self.family.columns.items()}

    def candidates(self, context: Context) -> pl.DataFrame:
        """Candidate rows in the exact candidate schema. `build` may give `_refs` (paths) in place of the evidence columns."""
        frame = self.build(context)
        if "_refs" in frame.columns:
            frame = context.cite(frame)
        if self.family.judged:
            frame = masked(frame, self.family.judged, context.private_phrases)
        have = frame.schema
        return frame.select(
            *(
                (pl.col(n) if have[n] == t else pl.col(n).cast(t)) if n in have else pl.lit(None, dtype=t).alias(n)
                for n, t in self.candidate_schema.items()
            )
        )


def refs(*columns: str) -> pl.Expr:
    """The `_refs` of a row: text and list columns together, nulls left out."""
    return pl.concat_list(*(pl.col(c) for c in columns)).list.drop_nulls().alias("_refs")
