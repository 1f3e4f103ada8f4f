"""Rows of an earlier output: where they stand in its files, and how they are read without the rest."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from expcomp.compiler.layout import OLD, chunked, placed
from expcomp.io.parquet_join import Span, read_stretches

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from expcomp.compiler.previous import Previous


@dataclass(frozen=True, slots=True)
class OldRows:
    """Rows of an old file: its row groups that hold them, and the same as stretches of rows (first row, rows)."""

    spans: tuple[Span, ...]
    stretches: tuple[tuple[int, int], ...]

    def read(self, held: Path) -> pl.DataFrame:
        """The rows; `held` is a place for a file that is gone afterwards."""
        return read_stretches(self.spans, self.stretches, held)


@dataclass(frozen=True, slots=True)
class Held:
    """Where rows of an old file stand among those that are read of it.

    Attributes:
        rows: What is read.
        shifts: From which row of the file on how many rows before it are left out.
    """

    rows: OldRows
    shifts: tuple[tuple[int, int], ...]

    def place(self, row: int) -> int:
        """The place of a row of the file."""
        return row - max(((start, left) for start, left in self.shifts if start <= row), default=(0, 0))[1]


@dataclass(frozen=True, slots=True)
class OldFile:
    """A Parquet file of an earlier output.

    Attributes:
        path: Where it is.
        rows: Rows of each chunk, in order.
        spans: Row groups of each chunk, in order.
        width: Share of the names of cells that a chunk takes.
    """

    path: Path
    rows: dict[int, int]
    spans: dict[int, Span]
    width: int

    def first(self, chunk: int) -> int:
        """First row of a chunk."""
        return sum(rows for number, rows in self.rows.items() if number < chunk)

    def holding(self, wanted: Sequence[tuple[int, int]]) -> Held | None:
        """The chunks that hold some rows, each given as the first and the one behind the last; None when none are wanted."""
        if not wanted:
            return None
        spans: list[Span] = []
        stretches: list[tuple[int, int]] = []
        shifts: list[tuple[int, int]] = []
        start = left_out = 0
        for chunk, rows in self.rows.items():
            if any(a < start + rows and b > start for a, b in wanted):
                spans.append(self.spans[chunk])
                if stretches and sum(stretches[-1]) == start:
                    stretches[-1] = (stretches[-1][0], stretches[-1][1] + rows)
                else:
                    stretches.append((start, rows))
                shifts.append((start, left_out))
            else:
                left_out += rows
            start += rows
        return Held(OldRows(tuple(spans), tuple(stretches)), tuple(shifts))


@dataclass(frozen=True)
class OldOutput:
    """Where everything stands in an earlier output.

    Attributes:
        previous: What it says of itself.
        places: As `layout.chunked`, of all its cells.
        files: Its Parquet files, by name.
    """

    previous: Previous
    places: pl.DataFrame
    files: dict[str, OldFile]


def old_output(previous: Previous) -> OldOutput:
    """Where everything stands in an earlier output."""
    places = chunked(placed([(OLD, previous.layout)]))
    spans: dict[str, dict[int, Span]] = defaultdict(dict)
    last: dict[str, int] = defaultdict(int)
    for target, chunk, count in zip(*(previous.chunks[c].to_list() for c in previous.chunks.columns), strict=True):
        spans[target][chunk] = Span(previous.folder / target, last[target], last[target] + count)
        last[target] += count
    sums = places.group_by("target", "chunk", maintain_order=True).agg(pl.col("rows").sum(), pl.col("width").first())
    files: dict[str, OldFile] = {}
    for target, chunk, rows, width in zip(*(sums[c].to_list() for c in sums.columns), strict=True):
        if target in spans:
            file = files.setdefault(target, OldFile(previous.folder / target, {}, spans[target], width))
            file.rows[chunk] = rows
    return OldOutput(previous, places, files)


def same_values(a: pl.DataFrame, b: pl.DataFrame) -> bool:
    """Whether two frames of one schema hold the same, so that what is written of them is the same too."""
    floats = pl.selectors.float()
    # 0 and -0 are equal, and written differently.
    return a.equals(b) and a.select(floats.pow(-1)).equals(b.select(floats.pow(-1)))
