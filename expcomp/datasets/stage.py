"""First pass of a build: slices of a family become candidates on disk, in worker processes."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from expcomp.datasets.candidates import Candidates, Guard, candidates
from expcomp.datasets.contract import LEFT, Lookups
from expcomp.datasets.decontaminate.report import ROW_HITS
from expcomp.datasets.registry import KINDS
from expcomp.io.parts import read_shared, read_value, row_groups, write_batches, write_shared, write_value
from expcomp.io.sinks import write_part

if TYPE_CHECKING:
    from collections.abc import Iterator

    from expcomp.datasets.contract import Kind
    from expcomp.datasets.options import DatasetOptions

SLICE = 48 << 20
"""Bytes of a family that a job reads: several row groups of a compile."""

# What one byte read becomes at the most, roughly: turns repeat the history of their conversation.
_SWELL = {"turn": 12}
SHARED = "shared"
_KEYS = {"attempts": "attempt_id", "tasks": "task_id", "places": "task_id"}
_CHUNK = 48 << 20
BUCKET = 96 << 20
MAX_BUCKETS = 128


@dataclass(frozen=True)
class Shared:
    """What all jobs of a build need, stored once and read once by each worker."""

    look: Lookups
    places: pl.DataFrame
    guard: Guard
    options: DatasetOptions


@dataclass(frozen=True)
class StageJob:
    """A slice of a family."""

    kind: str
    number: int
    family: str
    start: int
    rows: int
    bytes: int
    buckets: int
    folder: str


@dataclass(frozen=True)
class Staged:
    """What a job left in the folder of the parts: `.keys`, `.left` and `.hits`; the keys name the payload files."""

    kind: str
    number: int


def plan_stage(kind: Kind, path: Path, folder: Path, number: int) -> list[StageJob]:
    """Slices of a family's file at the borders of its row groups, moved so that none splits a value of `kind.whole`.

    A family without rows is one slice without rows, so that its tables have their columns.

    Args:
        kind: What is to be made.
        path: Parquet file of its family.
        folder: Of the parts.
        number: Of the first job.
    """
    groups = row_groups(path)
    total = sum(size for _, size in groups)
    buckets = max(1, min(MAX_BUCKETS, total * _SWELL.get(kind.name, 1) // BUCKET))
    cuts, start, held, size = [], 0, 0, 0
    for rows, of in groups:
        held, size = held + rows, size + of
        if size >= SLICE:
            cuts.append((start, held, size))
            start, held, size = start + held, 0, 0
    if held or not cuts:
        cuts.append((start, held, size))
    if kind.whole is not None and len(cuts) > 1:
        cuts = _whole(cuts, pl.scan_parquet(path, glob=False).select(kind.whole).collect()[kind.whole])
    return [
        StageJob(kind.name, number + i, os.fspath(path), at, rows, of, buckets, os.fspath(folder))
        for i, (at, rows, of) in enumerate(cuts)
        if rows or len(cuts) == 1
    ]


def _whole(cuts: list[tuple[int, int, int]], values: pl.Series) -> list[tuple[int, int, int]]:
    """The cuts with each border moved on to where the next value begins."""
    begins = (values.ne_missing(values.shift(1))).arg_true()
    borders = [0]
    for start, _, _ in cuts[1:]:
        at = begins.search_sorted(start)
        borders.append(int(begins[at]) if at < begins.len() else values.len())
    ends = [*borders[1:], values.len()]
    return [(a, b - a, size) for a, b, (_, _, size) in zip(borders, ends, cuts, strict=True)]


def share(shared: Shared, folder: Path) -> None:
    """Store what the jobs share: tables by their names, sorted, to be mapped; all workers then hold one copy of them."""
    tables = {"attempts": shared.look.attempts, "tasks": shared.look.tasks, "places": shared.places}
    for name, table in tables.items():
        write_shared(table.sort(_KEYS[name], maintain_order=True), folder / f"{SHARED}.{name}")
    bare = Lookups(shared.look.attempts.clear(), shared.look.tasks.clear(), shared.look.extra)
    write_value(replace(shared, look=bare, places=shared.places.clear()), folder / SHARED)


@lru_cache(maxsize=1)
def _shared(folder: str) -> Shared:
    shared: Shared = read_value(Path(folder) / SHARED)
    attempts, tasks, places = (
        read_shared(Path(folder) / f"{SHARED}.{name}").with_columns(pl.col(key).set_sorted())
        for name, key in _KEYS.items()
    )
    return replace(shared, look=Lookups(attempts, tasks, shared.look.extra), places=places)


def run_stage(job: StageJob) -> Staged:
    """Make the candidates of a slice and store them."""
    shared, kind, folder = _shared(job.folder), KINDS[job.kind], Path(job.folder)
    rows = pl.scan_parquet(job.family, glob=False).slice(job.start, job.rows).collect(engine="in-memory")
    keys: list[pl.DataFrame] = []
    left, hits = [pl.DataFrame(schema=dict(LEFT))], [pl.DataFrame(schema=ROW_HITS)]
    for piece in _pieces(kind, rows, job):
        made = candidates(kind, piece, shared.look, shared.places, shared.guard, shared.options)
        left.append(made.left)
        hits.append(made.hits)
        if made.rows.height:
            name = f"{job.kind}-{job.number:05}-{len(keys):03}.arrow"
            stored = _store(made, folder / name, job.buckets, shared.options)
        else:
            name = ""
            stored = made.keys.with_columns(pl.lit(0, pl.UInt32).alias(n) for n in ("_batch", "_row"))
        keys.append(stored.with_columns(_part=pl.lit(name)))
    stem = folder / f"{job.kind}-{job.number:05}"
    write_part(pl.concat(keys), Path(f"{stem}.keys"))
    write_part(pl.concat(left), Path(f"{stem}.left"))
    write_part(pl.concat(hits), Path(f"{stem}.hits"))
    return Staged(job.kind, job.number)


def _pieces(kind: Kind, rows: pl.DataFrame, job: StageJob) -> Iterator[pl.DataFrame]:
    """The slice in pieces that stay small when they swell; families of steps are not cut again."""
    swell = _SWELL.get(kind.name, 1)
    if kind.whole is not None or job.bytes * swell <= 2 * _CHUNK:
        yield rows
        return
    size = max(1, rows.height * _CHUNK // (job.bytes * swell))
    for start in range(0, rows.height, size):
        yield rows.slice(start, size)


def _store(made: Candidates, path: Path, buckets: int, options: DatasetOptions) -> pl.DataFrame:
    """Write the rows by split and bucket of their order, a batch each; returns the keys with batch and place in it."""
    share = pl.col("split").replace_strict(dict(options.splits), default=1.0, return_dtype=pl.Float64)
    # The first 32 bits of the order suffice; times a share of the buckets they stay below 64.
    bucket = pl.col("_order") // 2**32 * (share * buckets).ceil().cast(pl.UInt64) // 2**32
    keys = made.keys.with_columns(_batch=bucket, _row=pl.int_range(pl.len(), dtype=pl.UInt32))
    keys = keys.sort("split", "_batch", "_row")
    rows = made.rows.drop("group", "split")[keys["_row"]]
    # The batch a row lies in is the number of its run: buckets without rows have no batch.
    keys = keys.with_columns(_batch=pl.struct("split", "_batch").rle_id())
    write_batches(rows, keys["_batch"].rle().struct.field("len").to_list(), path)
    return keys.with_columns(_row=pl.int_range(pl.len(), dtype=pl.UInt32).over("_batch"))
