"""What is compiled together: cells of units whose rows depend on no other unit, and shards of cells as jobs for workers."""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from expcomp.sources._contract import Unit

SHARD_BYTES = 100 << 20
LEAST_FOR_TWO = 16 << 20
"""Below this one shard is quicker than two processes."""

REST = "~"
"""The cell of all units whose tasks are not known before they are read; `~` and more are its buckets."""

DISCOVERY = "!"
"""Where the diagnostics of the discovery stand: before all cells."""


def cell_of(unit: Unit) -> str:
    """The cell of a unit: a digest of its task key, `REST` where that is not known. Cells are in the order of their names."""
    # Other formats have groups too, of files that are read together; their tasks may be anywhere.
    if unit.format != "packages" or unit.group is None:
        return REST
    return task_cell(unit.group)


def bucket_cell(number: int) -> str:
    """The cell of a bucket of units whose tasks are not known before they are read."""
    return f"{REST}{number:05d}"


def home(cell: str) -> str:
    """The cell that the units of a cell have: of a bucket `REST`, else the cell itself."""
    return REST if cell.startswith(REST) else cell


def task_cell(task_key: str) -> str:
    """The cell of a task."""
    return sha256(task_key.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def cells(units: Sequence[Unit]) -> dict[str, list[Unit]]:
    """Units by cell, both in order."""
    found: dict[str, list[Unit]] = {}
    for unit in units:
        found.setdefault(cell_of(unit), []).append(unit)
    return {c: sorted(found[c], key=lambda u: (u.format, u.group or "", u.package_id)) for c in sorted(found)}


def plan_shards(units: Sequence[Unit], cores: int = 1) -> list[tuple[Unit, ...]]:
    """Cut units into shards of whole cells, in the order of cells. The cut never shows in the output.

    Units of one task key stay together. Units whose tasks are not known before they are read form one shard, the last.
    """
    by_cell = cells(units)
    rest = tuple(by_cell.pop(REST, ()))
    total = sum(u.size for own in by_cell.values() for u in own)
    wanted = max(1, -(-total // SHARD_BYTES))
    if total >= LEAST_FOR_TWO:
        # As many for each worker, so that none waits for the last shard of another.
        wanted = max(2, -(-wanted // cores) * cores)
    target = total / wanted
    shards: list[tuple[Unit, ...]] = []
    current: list[Unit] = []
    done = 0
    for own in by_cell.values():
        current += own
        done += sum(u.size for u in own)
        if done >= target * (len(shards) + 1) and len(shards) < wanted - 1:
            shards.append(tuple(current))
            current = []
    return [*shards, *([tuple(current)] if current else []), *([rest] if rest else [])]
