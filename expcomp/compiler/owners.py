"""Which cell the rows of a shard belong to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from expcomp.compiler.plan import REST, cell_of, task_cell

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from expcomp.sources._contract import Unit

CELL = "_cell"
"""Column that numbers the cells of a shard, in their order."""

_NUMBER = pl.UInt32()


@dataclass(frozen=True)
class Owners:
    """The cells of a shard, and the keys by which its rows are told apart.

    Attributes:
        cells: Names of the cells, in order.
        keys: By key column, the cell of each key.
        other: Number of the cell of rows of which no key says it.
    """

    cells: tuple[str, ...]
    keys: Mapping[str, pl.DataFrame]
    other: int | None = None

    def of(self, frame: pl.DataFrame) -> pl.Series:
        """The cell number of each row; null where no key says it."""
        if len(self.cells) == 1:
            return pl.Series(CELL, [0], dtype=_NUMBER).new_from_index(0, frame.height)
        found = [
            frame.select(name).join(self.keys[name], on=name, how="left", maintain_order="left")[CELL]
            for name in self.keys
            if name in frame.columns
        ]
        first = found[0]
        for more in found[1:]:
            if not first.null_count():
                break
            first = first.zip_with(first.is_not_null(), more)
        return (first if self.other is None else first.fill_null(self.other)).alias(CELL)

    def sorted(self, frame: pl.DataFrame, numbers: pl.Series | None = None) -> pl.DataFrame:
        """The frame with its cells, in the order of cells; rows of one cell keep their order. `numbers` are `of` it, if known."""
        frame = frame.with_columns(self.of(frame) if numbers is None else numbers)
        return frame if frame[CELL].is_sorted() else frame.sort(CELL, maintain_order=True)


def owners(units: Sequence[Unit], frames: Mapping[str, pl.DataFrame]) -> Owners:
    """The owners of what was read from units of known cells."""
    home = {unit.package_id: cell_of(unit) for unit in units}
    cells = tuple(sorted(set(home.values())))
    number = {cell: i for i, cell in enumerate(cells)}
    packages = pl.DataFrame(
        {"package_id": list(home), CELL: [number[c] for c in home.values()]},
        schema={"package_id": pl.String, CELL: _NUMBER},
    )
    attempts = frames["attempts"].select("attempt_id", "package_id", "task_id")
    attempts = attempts.join(packages, on="package_id", how="left", maintain_order="left")
    declared = {unit.group: number[cell_of(unit)] for unit in units if unit.group is not None}
    by_name = pl.DataFrame(
        {"task_id": list(declared), CELL: list(declared.values())}, schema={"task_id": pl.String, CELL: _NUMBER}
    )
    tasks = pl.concat([attempts.select("task_id", CELL), by_name]).drop_nulls()
    return Owners(
        cells,
        {
            "package_id": packages,
            "attempt_id": attempts.select("attempt_id", CELL),
            "task_id": tasks.unique("task_id", keep="first", maintain_order=True),
        },
    )


def held_owners(frames: Mapping[str, pl.DataFrame]) -> Owners:
    """The owners of tables in memory, of which no units are known: the cells that a compile of their packages would have."""
    attempts = frames["attempts"].select("attempt_id", "package_id", "task_id", "source_format")
    tasks = attempts.filter((pl.col("source_format") == "packages") & pl.col("task_id").is_not_null())
    tasks = tasks.unique("package_id", keep="first", maintain_order=True)
    names = [task_cell(task) for task in tasks["task_id"].to_list()]
    cells = (*sorted(set(names)), REST)
    number = {cell: i for i, cell in enumerate(cells)}
    owned = tasks.select("package_id", "task_id", pl.Series(CELL, [number[n] for n in names], dtype=_NUMBER))
    packages = owned.select("package_id", CELL)
    mine = attempts.join(packages, on="package_id", how="inner", maintain_order="left").select("attempt_id", CELL)
    by_task = owned.select("task_id", CELL).unique("task_id", keep="first", maintain_order=True)
    return Owners(cells, {"package_id": packages, "attempt_id": mine, "task_id": by_task}, len(cells) - 1)


def torn(found: Owners, frames: Mapping[str, pl.DataFrame]) -> list[str]:
    """Cells whose rows cannot be told from, or depend on, those of others: they have to be compiled on their own.

    That is where a package's task is not the one that it seemed to declare, or where redaction makes two task ids one.
    """
    if len(found.cells) == 1:
        return []
    owned = {name: found.of(frame) for name, frame in frames.items()}
    if any(numbers.null_count() for name, numbers in owned.items() if name != "tasks"):
        return list(found.cells)
    attempts = frames["attempts"].select("task_id").with_columns(owned["attempts"])
    shared = attempts.drop_nulls("task_id").filter(pl.col(CELL).n_unique().over("task_id") > 1)[CELL]
    there = [owned[name] for name in ("attempts", "rubric_items", "feedback", "loops")]
    homeless = pl.concat(there).unique(maintain_order=True)
    homeless = homeless.filter(~homeless.is_in(owned["tasks"].drop_nulls().implode()))
    if owned["tasks"].null_count() and homeless.is_empty():
        return list(found.cells)
    return [found.cells[i] for i in sorted({*shared.to_list(), *homeless.to_list()})]
