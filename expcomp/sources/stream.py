"""Loads that need not fit in memory: units are read in batches, in worker processes, and each batch goes to disk or is let go."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import groupby
from pathlib import Path

import polars as pl
from polars.io.plugins import register_io_source

from expcomp.io.engine import LOCAL, Engine
from expcomp.io.memory import processors
from expcomp.io.pool import workers
from expcomp.io.progress import Progress
from expcomp.io.whole import whole
from expcomp.sources._contract import Frames, ReadOptions, Unit
from expcomp.sources.copies import CALLS, RESUMED
from expcomp.sources.finish import Settled, settle, settled_table, told_once
from expcomp.sources.load import parse_units, uncollected
from expcomp.sources.registry import LARGE_BYTES, SOURCES
from expcomp.sources.streamed import LARGE, Streamed, stream
from expcomp.sources.swe.join import join_reports
from expcomp.tables.core import CORE

BATCH_BYTES = 16 << 20
"""Input of one batch: large enough for frames, small enough that two of them are little memory."""

APART = frozenset({"claude_code", "codex"})
"""Formats whose units are read one by one although they may be linked: links and copies are found when the load is finished."""

REPEATED = ("tools", "system_prompt", "params")
"""Texts of attempts that are long and the same for many."""

HELD_BYTES = 256 << 20
"""A load up to this size is kept once it was read."""


@dataclass(frozen=True, slots=True)
class Job:
    """What a worker is handed: units to read, and where the tables go (None: back to the caller)."""

    index: int
    units: tuple[Unit, ...]
    options: ReadOptions
    folder: str | None = None
    keep: tuple[str, ...] = tuple(CORE)


@dataclass(slots=True)
class Parsed:
    """What a worker hands back: tables as Arrow IPC bytes, or the Parquet files it wrote; `calls` as for `decide`."""

    tables: dict[str, bytes] = field(default_factory=dict)
    parts: dict[str, Path] = field(default_factory=dict)
    calls: bytes | None = None


def batches(units: Sequence[Unit], most: int | None = None) -> list[tuple[Unit, ...]]:
    """Cut units into batches of about `most` bytes, by default `BATCH_BYTES`.

    The cut depends on the input only, so that the output does not depend on the machine.
    """
    out: list[tuple[Unit, ...]] = []
    current: list[Unit] = []
    size = 0
    for _, members in groupby(enumerate(units), key=_bond):
        own = [unit for _, unit in members]
        if current and size + sum(u.size for u in own) > (most or BATCH_BYTES):
            out.append(tuple(current))
            current, size = [], 0
        current += own
        size += sum(u.size for u in own)
    if current:
        out.append(tuple(current))
    return out


def _group(unit: Unit) -> str | None:
    return None if unit.format in APART else unit.group


def _bond(numbered: tuple[int, Unit]) -> tuple[str, object]:
    index, unit = numbered
    group = _group(unit)
    return (unit.format, index if group is None else group)


def ordered(units: Sequence[Unit]) -> list[Unit]:
    """Units of one format, and of one group, beside each other; formats in registry order, else in the order found."""
    rank = {name: i for i, name in enumerate(SOURCES)}
    first: dict[tuple[str, str | None], int] = {}
    for index, unit in enumerate(units):
        first.setdefault((unit.format, _group(unit)), index)
    place = {id(u): i if _group(u) is None else first[u.format, _group(u)] for i, u in enumerate(units)}
    return sorted(units, key=lambda u: (rank[u.format], place[id(u)]))


def parse(job: Job) -> Parsed:
    """Read the units of a batch. Runs in a worker."""
    with uncollected():
        return _parse(job)


def _parse(job: Job) -> Parsed:
    frames = parse_units(job.units, job.options)
    out = Parsed()
    resumed = frames["attempts"].filter(pl.col("source_format").is_in(RESUMED))["attempt_id"]
    if len(resumed):
        out.calls = _ipc(frames["steps"].filter(pl.col("attempt_id").is_in(resumed.implode())).select(CALLS))
    for name in job.keep:
        frame = frames[name]
        if frame.is_empty():
            continue
        if job.folder is not None:
            out.parts[name] = Path(job.folder) / f"{name}.{job.index:05d}.parquet"
            with whole(out.parts[name]) as beside:
                frame.write_parquet(beside, compression="zstd", compression_level=3)
        else:
            out.tables[name] = _ipc(frame, packed=name not in LARGE)
    return out


def _shared(frame: pl.DataFrame, columns: Sequence[str]) -> pl.DataFrame:
    """The same frame with equal texts stored once: a join takes texts over as views of the bytes on its right side."""
    for name in columns:
        texts = frame.select(name).drop_nulls().unique(maintain_order=True)
        if 0 < 2 * texts.height <= frame.height:
            pairs = texts.select(name, pl.col(name).alias("_once"))
            joined = frame.join(pairs, on=name, how="left", maintain_order="left")
            frame = joined.with_columns(pl.col("_once").alias(name)).drop("_once")
    return frame


def _ipc(frame: pl.DataFrame, *, packed: bool = True) -> bytes:
    buffer = io.BytesIO()
    frame.write_ipc(buffer, compression="lz4" if packed else "uncompressed")
    return buffer.getvalue()


def _frame(name: str, parsed: Sequence[Parsed]) -> pl.DataFrame:
    found = [pl.read_ipc(io.BytesIO(p.tables.pop(name))) for p in parsed if name in p.tables]
    if name == "attempts":
        found = [_shared(frame, REPEATED) for frame in found]
    return pl.concat(found) if found else CORE[name].empty()


@dataclass(frozen=True)
class Plan:
    """A load that has been found but not read.

    Attributes:
        units: What is to be read.
        options: How.
        discovered: Diagnostics of the discovery.
        processes: Workers; None takes the processors.
        progress: Where progress is shown.
        engine: Where the files are read.
    """

    units: tuple[Unit, ...]
    options: ReadOptions
    discovered: pl.DataFrame
    processes: int | None = None
    progress: Progress = field(default_factory=Progress)
    engine: Engine = LOCAL

    def run(self, *, keep: Sequence[str] = tuple(CORE)) -> Loaded:
        """Read everything into memory.

        Args:
            keep: Tables wanted; others are built and let go.
        """
        parsed = self._parsed(None, keep)
        calls = [pl.read_ipc(io.BytesIO(p.calls)) for p in parsed if p.calls]
        small = join_reports({name: _frame(name, parsed) for name in CORE if name not in LARGE})
        settled = settle(small["attempts"], small["tasks"], pl.concat([_no_calls(), *calls]), self.options)
        held = small | {name: _frame(name, parsed) for name in keep if name in LARGE}
        return Loaded(settled, held, self.discovered)

    def stream(self, folder: Path) -> Streamed:
        """Read everything into part files below an existing folder."""
        parsed = self._parsed(folder, tuple(CORE))
        calls = [pl.read_ipc(io.BytesIO(p.calls)) for p in parsed if p.calls]
        return stream([p.parts for p in parsed], pl.concat([_no_calls(), *calls]), self.discovered, self.options)

    def _parsed(self, folder: Path | None, keep: Sequence[str]) -> list[Parsed]:
        cut = batches(ordered(self.units))
        jobs = [
            Job(i, units, self.options, os.fspath(folder) if folder else None, tuple(keep))
            for i, units in enumerate(cut)
        ]
        cores = min(self.processes or processors(), len(jobs))
        if sum(u.size for u in self.units) <= LARGE_BYTES:
            cores = 1
        sizes = [len(units) for units in cut]
        seen = [*([folder] if folder else []), *(u.path for u in self.units)]
        with workers(cores, engine=self.engine, seen=seen) as pool, self.progress.stage("read", sum(sizes)) as tick:
            return pool.map(parse, jobs, lambda done: tick(sum(sizes[:done])))


def _no_calls() -> pl.DataFrame:
    return CORE["steps"].empty().select(CALLS)


@dataclass(frozen=True)
class Loaded:
    """A load that was read into memory: all tables, or the small ones and others that were asked for."""

    settled: Settled
    held: Mapping[str, pl.DataFrame]
    discovered: pl.DataFrame

    def frames(self) -> Frames:
        """All tables that are in memory, finished."""
        return {name: self.table(name) for name in CORE if name in self.held}

    def table(self, name: str) -> pl.DataFrame:
        """One table that is in memory, finished."""
        if name == "attempts":
            return self.settled.attempts
        if name == "tasks":
            return self.settled.tasks
        if name == "diagnostics":
            return told_once(pl.concat([self.discovered, self.held[name], self.settled.decided.diagnostics]))
        return self.finished(name, self.held[name].lazy()).collect()

    def finished(self, name: str, frame: pl.LazyFrame) -> pl.LazyFrame:
        """A table, or a part of it, as it is after the load was finished."""
        return settled_table(name, frame, self.settled.decided) if "attempt_id" in CORE[name].columns else frame


class LazyTables(Mapping[str, pl.LazyFrame]):
    """Tables of a load that is read when they are asked for.

    Up to `HELD_BYTES` everything is kept from the first query on. Of larger loads steps and messages never are: each query over them
    reads the files again, batch by batch.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self._keeps = sum(u.size for u in plan.units) <= HELD_BYTES

    @cached_property
    def held(self) -> Loaded:
        """The tables that are kept, and how the others are finished; takes one pass over the files."""
        return self.plan.run(keep=[name for name in CORE if self._keeps or name not in LARGE])

    def __getitem__(self, name: str) -> pl.LazyFrame:
        if name not in CORE:
            raise KeyError(name)
        if name in LARGE and not self._keeps:
            return register_io_source(partial(self._batches, name), schema=CORE[name].schema)
        return register_io_source(partial(self._held, name), schema=CORE[name].schema)

    def __iter__(self) -> Iterator[str]:
        return iter(CORE)

    def __len__(self) -> int:
        return len(CORE)

    def _held(
        self, name: str, columns: list[str] | None, predicate: pl.Expr | None, rows: int | None, size: int | None
    ) -> Iterator[pl.DataFrame]:
        del size
        yield _pushed(self.held.table(name), columns, predicate, rows)

    def _batches(
        self, name: str, columns: list[str] | None, predicate: pl.Expr | None, rows: int | None, size: int | None
    ) -> Iterator[pl.DataFrame]:
        del size
        left = rows
        for units in batches(ordered(self.plan.units)):
            parsed = parse_units(units, self.plan.options)[name]
            frame = self.held.finished(name, parsed.lazy()).collect()
            yield _pushed(frame, columns, predicate, left)
            if left is not None:
                left -= frame.height
                if left <= 0:
                    return


def _pushed(
    frame: pl.DataFrame, columns: list[str] | None, predicate: pl.Expr | None, rows: int | None
) -> pl.DataFrame:
    # The order Polars asks for: rows are counted before the filter.
    if rows is not None:
        frame = frame.head(rows)
    if predicate is not None:
        frame = frame.filter(predicate)
    return frame.select(columns) if columns is not None else frame
