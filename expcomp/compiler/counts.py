"""What is counted of each cell: one long frame, so that cells can be taken out and put in, and their sums make the report."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from expcomp.compiler.owners import CELL
from expcomp.tables.envelope import QUALITY_PARTS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from expcomp.compiler.assemble import FamilyRows
    from expcomp.compiler.owners import Owners
    from expcomp.evidence.redact import Hits

BINS = 10
"""Equal bins of a score over 0..1; the bin of this number counts the nulls."""

COUNTS = pl.Schema(
    {"cell": pl.String(), "kind": pl.String(), "a": pl.String(), "b": pl.String(), "c": pl.String(), "n": pl.Int64()}
)
"""Kinds, with what a, b and c say: attempts (format, package), diagnostics (code), redactions (rule), package (id, verdict), family
(name, verdict), reason (family, reason), score (family, part, bin), round (family, number, what)."""


class Tally:
    """Counts of one shard."""

    def __init__(self, cells: Sequence[str]) -> None:
        self._cells = pl.Series("cell", list(cells), dtype=pl.String)
        self._parts: list[pl.DataFrame] = []

    def add(self, kind: str, frame: pl.DataFrame, *, n: pl.Expr | None = None, **what: pl.Expr | str) -> None:
        """Count the rows of a frame, or sum `n`, by cell and by what `a`, `b` and `c` say."""
        if not frame.height:
            return
        keys = {k: (pl.lit(v) if isinstance(v, str) else v).cast(pl.String) for k, v in what.items()}
        counted = frame.select(CELL, n=(pl.lit(1) if n is None else n).cast(pl.Int64), **keys)
        summed = counted.group_by(CELL, *keys, maintain_order=True).agg(pl.col("n").sum()).filter(pl.col("n") > 0)
        missing = [pl.lit("").alias(k) for k in "abc" if k not in keys]
        self._parts.append(summed.select(CELL, pl.lit(kind).alias("kind"), "n", *keys, *missing))

    def redactions(self, owner: pl.Series, hits: Sequence[Hits]) -> None:
        """Count tokens by rule."""
        for hit in hits:
            self.add(
                "redactions", pl.DataFrame({CELL: owner.gather(hit.rows), "t": hit.tokens}), n=pl.col("t"), a=hit.rule
            )

    def family(self, name: str, rows: FamilyRows, owners: Owners) -> None:
        """Count the rows of a family: verdicts, reasons, scores, rounds."""
        for frame, verdict in ((rows.accepted, "accepted"), (rows.rejected, "rejected")):
            if not frame.height:
                continue
            owned = frame.select("package_id").with_columns(owners.of(frame))
            self.add("package", owned, a=pl.col("package_id"), b=verdict)
            self.add("family", owned, a=name, b=verdict)
        if rows.rejected.height:
            reasons = rows.rejected.select("reject_reasons").with_columns(owners.of(rows.rejected))
            reasons = reasons.explode("reject_reasons", empty_as_null=False, keep_nulls=False)
            self.add("reason", reasons, a=name, b=pl.col("reject_reasons"))
        if rows.accepted.height:
            self._scores(name, rows.accepted, owners.of(rows.accepted))
        for number, (flags, repaired) in enumerate(rows.flags, 1):
            self._round(name, number, owners.of(rows.keys), flags, repaired)

    def _scores(self, name: str, accepted: pl.DataFrame, owner: pl.Series) -> None:
        quality = accepted["quality"].struct.unnest()
        parts = [part for part in QUALITY_PARTS if quality.schema[part] == pl.Float64]
        # Parts that are null throughout are left out of the report; a bin of nulls alone says nothing.
        binned = (pl.col(parts) * BINS).cast(pl.Int64).clip(0, BINS - 1).fill_null(BINS)
        long = quality.select(binned).with_columns(owner).unpivot(index=CELL, variable_name="part", value_name="bin")
        self.add("score", long, a=name, b=pl.col("part"), c=pl.col("bin"))

    def _round(
        self, name: str, number: int, owner: pl.Series, flags: Mapping[str, pl.Series], repaired: pl.Series
    ) -> None:
        frame = pl.DataFrame({CELL: owner, **{f"reason:{k}": v for k, v in flags.items()}})
        frame = frame.with_columns(
            rows=pl.lit(1, dtype=pl.Int64),
            rejected=pl.any_horizontal(*(f"reason:{k}" for k in flags)) if flags else pl.lit(value=False),
        )
        if repaired.len():
            frame = frame.with_columns(repaired.alias("repair:drop_unresolved_ref"))
        long = frame.group_by(CELL, maintain_order=True).agg(pl.all().sum().cast(pl.Int64))
        long = long.unpivot(index=CELL, variable_name="what", value_name="m")
        self.add("round", long, n=pl.col("m"), a=name, b=str(number), c=pl.col("what"))

    def frame(self) -> pl.DataFrame:
        """All counts, by cell name."""
        if not self._parts:
            return pl.DataFrame(schema=COUNTS)
        found = pl.concat([part.select(CELL, "kind", "a", "b", "c", "n") for part in self._parts])
        found = found.group_by(CELL, "kind", "a", "b", "c", maintain_order=True).agg(pl.col("n").sum())
        named = found.select(self._cells.gather(found[CELL]), "kind", "a", "b", "c", "n")
        return named.pipe(_needed_rounds)


def _needed_rounds(counts: pl.DataFrame) -> pl.DataFrame:
    """Without the rounds that a cell took part in only because another cell of its shard had repairs."""
    rounds = counts.filter(pl.col("kind") == "round")
    if rounds.is_empty():
        return counts
    repaired = rounds.filter(pl.col("c").str.starts_with("repair:")).select(
        "cell", "a", b=(pl.col("b").cast(pl.Int64) + 1).cast(pl.String)
    )
    own = rounds.join(repaired.unique(maintain_order=True), on=["cell", "a", "b"], how="semi", maintain_order="left")
    return pl.concat([counts.filter((pl.col("kind") != "round") | (pl.col("b") == "1")), own])
