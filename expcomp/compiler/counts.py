"""What is counted of each cell: one long frame, so that cells can be taken out and put in, and their sums make the report."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import polars as pl

from expcomp.compiler.owners import CELL
from expcomp.tables.envelope import QUALITY

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from expcomp.compiler.assemble import FamilyRows
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
        self._later: defaultdict[str, list[pl.DataFrame]] = defaultdict(list)

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

    def family(self, name: str, rows: FamilyRows, owner: pl.Series) -> None:
        """Count the rows of a family: verdicts, reasons, scores, rounds; `owner` is the cell of each candidate."""
        # Few rows of many families: what is counted alike is counted once, for all of them together.
        family = pl.lit(name).alias("family")
        for frame, own, verdict in (
            (rows.accepted, owner.filter(rows.ok), "accepted"),
            (rows.rejected, owner.filter(~rows.ok), "rejected"),
        ):
            if frame.height:
                self._later["verdict"].append(frame.select(own, family, "package_id", pl.lit(verdict).alias("verdict")))
                kind = "score" if verdict == "accepted" else "reason"
                self._later[kind].append(frame.select(own, family, "quality" if kind == "score" else "reject_reasons"))
        for number, (flags, repaired) in enumerate(rows.flags, 1):
            self._round(name, number, owner, flags, repaired)

    def _families(self) -> None:
        """Count what was kept of all families."""
        kept = {kind: pl.concat(frames) for kind, frames in self._later.items()}
        self._later.clear()
        if "verdict" in kept:
            self.add("package", kept["verdict"], a=pl.col("package_id"), b=pl.col("verdict"))
            self.add("family", kept["verdict"], a=pl.col("family"), b=pl.col("verdict"))
        if "reason" in kept:
            reasons = kept["reason"].explode("reject_reasons", empty_as_null=False, keep_nulls=False)
            self.add("reason", reasons, a=pl.col("family"), b=pl.col("reject_reasons"))
        if "round" in kept:
            self.add("round", kept["round"], n=pl.col("m"), a=pl.col("family"), b=pl.col("number"), c=pl.col("what"))
        if "score" in kept:
            for part in (f.name for f in QUALITY.fields if f.dtype == pl.Float64):
                value = pl.col("quality").struct.field(part)
                # Parts that are null throughout are left out of the report; a bin of nulls alone says nothing.
                binned = (value * BINS).cast(pl.Int64).clip(0, BINS - 1).fill_null(BINS)
                self.add("score", kept["score"], a=pl.col("family"), b=part, c=binned)

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
        said = {"family": pl.lit(name), "number": pl.lit(str(number))}
        self._later["round"].append(long.with_columns(**said))

    def frame(self) -> pl.DataFrame:
        """All counts, by cell name."""
        self._families()
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
