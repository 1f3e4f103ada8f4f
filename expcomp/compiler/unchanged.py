"""Sources that were written to and say what they said: what is read of a cell against the tables of an earlier output."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from expcomp.compiler.layout import table_file
from expcomp.compiler.old_rows import same_values
from expcomp.compiler.owners import CELL
from expcomp.tables.core import CORE

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from expcomp.compiler.old_rows import OldOutput, OldRows

READ = ("attempts", "diagnostics", "redactions")
"""Kinds of counts that follow from what is read; the others follow from the tables."""


@dataclass(frozen=True, slots=True)
class Earlier:
    """What an earlier output holds of some cells.

    Attributes:
        prints: Digest of what was read of each cell.
        borrowed: Digest of the rows of other cells that were looked up for it.
        counts: As `counts.COUNTS`, of the kinds `READ`.
        tables: By table, which rows to read of its file.
        places: table, cell, row (among those that are read), rows.
    """

    prints: Mapping[str, str]
    borrowed: Mapping[str, str]
    counts: pl.DataFrame
    tables: Mapping[str, OldRows]
    places: pl.DataFrame


def earlier(old: OldOutput, cells: Iterable[str]) -> Earlier | None:
    """What an earlier output holds of cells; None when it knows none of them."""
    mine = pl.col("cell").is_in(list(cells))
    known = old.previous.cells.filter(mine)
    if known.is_empty():
        return None
    names = {table_file(name): name for name in CORE}
    found = old.places.filter(mine & pl.col("target").is_in(list(names)))
    tables: dict[str, OldRows] = {}
    places = [pl.DataFrame(schema=_PLACES)]
    for (target,), own in found.partition_by("target", as_dict=True, maintain_order=True).items():
        first, rows = own["row"].to_list(), own["rows"].to_list()
        held = old.files[str(target)].holding([(a, a + n) for a, n in zip(first, rows, strict=True)])
        if held is not None:
            name = names[str(target)]
            tables[name] = held.rows
            at = pl.Series("row", [held.place(a) for a in first], dtype=pl.Int64)
            places.append(own.select(pl.lit(name).alias("table"), "cell", at, "rows"))
    counts = old.previous.counts.filter(mine & pl.col("kind").is_in(READ))
    prints, borrowed = (dict(zip(known["cell"], known[c], strict=True)) for c in ("fingerprint", "borrowed"))
    return Earlier(prints, borrowed, counts, tables, pl.concat(places))


_PLACES = pl.Schema({"table": pl.String(), "cell": pl.String(), "row": pl.Int64(), "rows": pl.Int64()})


def same_cells(
    old: Earlier,
    cells: Sequence[str],
    tables: Mapping[str, pl.DataFrame],
    prints: Mapping[str, str],
    counts: pl.DataFrame,
    held: Path,
) -> list[str]:
    """Cells of which the same rows are read as before; all that is made of them is the same then.

    Args:
        old: The earlier output.
        cells: Names of the cells that `CELL` numbers.
        tables: What is read, with `CELL` and in its order.
        prints: Digests of it.
        counts: As `counts.COUNTS`, of the kinds `READ`.
        held: A place for files that are gone afterwards.
    """
    likely = [cell for cell in cells if old.prints.get(cell) == prints[cell]]
    if not likely:
        return []
    unlike = _unlike(old.counts, counts)
    likely = [cell for cell in likely if cell not in unlike]
    for name, frame in tables.items():
        found = frame.group_by(CELL, maintain_order=True).agg(rows=pl.len().cast(pl.Int64))
        now = dict(zip((cells[i] for i in found[CELL].to_list()), found["rows"].to_list(), strict=True))
        there = old.places.filter(pl.col("table") == name)
        before = {c: (a, n) for c, a, n in zip(*(there[k].to_list() for k in ("cell", "row", "rows")), strict=True)}
        likely = [cell for cell in likely if now.get(cell, 0) == before.get(cell, (0, 0))[1]]
        wanted = [cell for cell in likely if cell in now]
        if not wanted:
            continue
        rows = old.tables[name].read(held.with_name(f"{held.name}.{name}"))
        first = pl.concat([rows.slice(*before[cell]) for cell in wanted])
        number = {cell: i for i, cell in enumerate(cells)}
        again = frame.filter(pl.col(CELL).is_in([number[cell] for cell in wanted])).drop(CELL)
        alike = set(_alike(first, again, [(cell, now[cell]) for cell in wanted]))
        likely = [cell for cell in likely if cell not in now or cell in alike]
    return likely


def _unlike(old: pl.DataFrame, new: pl.DataFrame) -> set[str]:
    """Cells that are counted differently."""
    new = new.filter(pl.col("kind").is_in(READ)).select(old.columns)
    both = pl.concat([old.with_columns(_from=0), new.with_columns(_from=1)])
    single = both.filter(pl.col("_from").n_unique().over(old.columns) == 1)
    return set(single["cell"].to_list())


def _alike(old: pl.DataFrame, new: pl.DataFrame, cells: Sequence[tuple[str, int]]) -> list[str]:
    """Cells whose rows are equal, of frames that hold those of all of them in order."""
    if same_values(old, new):
        return [cell for cell, _ in cells]
    if len(cells) == 1:
        return []
    half = len(cells) // 2
    rows = sum(n for _, n in cells[:half])
    ahead = _alike(old.head(rows), new.head(rows), cells[:half])
    return ahead + _alike(old.slice(rows), new.slice(rows), cells[half:])
