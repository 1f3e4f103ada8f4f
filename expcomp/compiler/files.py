"""From parts, and the files of an earlier output, to the files of a new one: what is unchanged is linked or copied, the rest encoded."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from expcomp.compiler.layout import OLD, chunked, placed, runs
from expcomp.compiler.merge import PARTS, Chunk, EncodeJob, FinishJob, OldRows, encode, finish
from expcomp.compiler.previous import CHUNKS
from expcomp.compiler.shard import LAYOUT
from expcomp.io.parquet_join import Span
from expcomp.io.publish import link
from expcomp.rows.registry import ROW_FAMILIES
from expcomp.tables.core import CORE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from expcomp.compiler.previous import Previous
    from expcomp.compiler.shard import ShardResult
    from expcomp.io.pool import Workers
    from expcomp.io.progress import Progress

JOB_ROWS = 32_768
"""Rows that one job encodes, about."""


@dataclass
class Written:
    """The files of an output.

    Attributes:
        entries: What the manifest says of each file, by path.
        layout: As `shard.LAYOUT`, of all cells.
        chunks: As `previous.CHUNKS`.
    """

    entries: list[dict[str, Any]]
    layout: pl.DataFrame
    chunks: pl.DataFrame


@dataclass
class _File:
    """One Parquet file: its chunks in order, each with row groups that are there or the pieces to encode."""

    target: str
    rows: int = 0
    ready: dict[int, Span] = field(default_factory=dict)
    todo: list[tuple[int, int, tuple[tuple[int, int, int], ...]]] = field(default_factory=list)
    order: list[int] = field(default_factory=list)


def targets() -> list[str]:
    """Every file of tables and rows."""
    tables = ["diagnostics.parquet", *(f"tables/{n}.parquet" for n in CORE if n != "diagnostics")]
    return [
        *tables,
        *(f.format(n) for n in ROW_FAMILIES for f in ("rows/{}.parquet", "rows/{}.jsonl", "rejected/{}.parquet")),
    ]


def write_files(
    pool: Workers,
    results: Sequence[ShardResult],
    staging: Path,
    progress: Progress,
    previous: Previous | None = None,
    kept: Sequence[str] = (),
) -> Written:
    """Write all files of an output.

    Args:
        pool: Where the work is done.
        results: What was compiled now; their parts are in the folder `merge.PARTS` of `staging`, and are gone afterwards.
        staging: The folder to write to.
        progress: Where progress is shown.
        previous: An earlier output.
        kept: Cells whose rows are taken from there.
    """
    for folder in ("tables", "rows", "rejected"):
        (staging / folder).mkdir()
    sources = [(r.index, r.layout) for r in results]
    new = placed([*sources, (len(results), pl.DataFrame(schema=LAYOUT))])
    old = pl.DataFrame(schema=new.schema)
    if previous is not None:
        # The places are those in the old files; only the rows of kept cells are taken from them.
        old = placed([(OLD, previous.layout)])
    layout = pl.concat([old.filter(pl.col("cell").is_in(list(kept))), new]).sort("target", "cell", maintain_order=True)
    layout, old = chunked(layout), chunked(old)
    work = _Work(results, staging, previous, old)
    by_target = {str(k[0]): f for k, f in layout.partition_by("target", as_dict=True, maintain_order=True).items()}
    same = work.unchanged(layout)
    entries = []
    finishing: list[FinishJob] = []
    files: list[_File] = []
    for target in targets():
        if target in same and previous is not None:
            link(previous.folder / target, staging / target)
            entries.append(previous.entries[target])
        elif target.endswith(".jsonl"):
            finishing.append(work.lines(target, by_target.get(target)))
        else:
            files.append(work.parquet(target, by_target.get(target)))
    jobs = [job for file in files for job in work.encoding(file)]
    sizes = [sum(rows for _, pieces in job.chunks for _, _, rows in pieces) for job in jobs]
    order = sorted(
        range(len(jobs)), key=lambda i: -sizes[i]
    )  # the largest first: no worker is left with a long one at the end
    with progress.stage("encode", len(jobs)) as tick:
        made = pool.map(encode, [jobs[i] for i in order], tick)
    ready: dict[str, dict[int, Span]] = defaultdict(dict)
    for i, encoded in zip(order, made, strict=True):
        ready[jobs[i].target] |= dict(encoded)
    work.drop_parts(".parquet")
    chunks = [previous.chunks.filter(pl.col("target").is_in(list(same)))] if previous is not None else []
    for file in files:
        spans = file.ready | ready[file.target]
        own = [spans[number] for number in file.order]
        finishing.append(FinishJob(file.target, str(staging / file.target), file.rows, tuple(own)))
        if own:
            rows = {"target": [file.target] * len(own), "chunk": file.order, "groups": [s.last - s.first for s in own]}
            chunks.append(pl.DataFrame(rows, schema=CHUNKS))
    finishing.sort(key=lambda job: -sum(s for _, _, s in job.ranges) - sum(s.path.stat().st_size for s in job.spans))
    with progress.stage("publish", len(finishing)) as tick:
        entries += pool.map(finish, finishing, tick)
    return Written(
        sorted(entries, key=lambda e: str(e["path"])),
        layout.select(list(LAYOUT)),
        pl.concat([pl.DataFrame(schema=CHUNKS), *chunks]),
    )


class _Work:
    """What is where, while the files of one output are written."""

    def __init__(
        self, results: Sequence[ShardResult], staging: Path, previous: Previous | None, old: pl.DataFrame
    ) -> None:
        self.results = {r.index: r for r in results}
        self.staging = staging
        self.parts = staging / PARTS
        self.previous = previous
        self.old = {str(k[0]): f for k, f in old.partition_by("target", as_dict=True, maintain_order=True).items()}
        self.groups: dict[str, list[tuple[int, int]]] = defaultdict(list)
        if previous is not None:
            known = previous.chunks
            for target, chunk, n in zip(*(known[c].to_list() for c in ("target", "chunk", "groups")), strict=True):
                self.groups[target].append((chunk, n))

    def unchanged(self, layout: pl.DataFrame) -> set[str]:
        """Files that are what they were: nothing new in them, and nothing gone."""
        if self.previous is None:
            return set()
        now = layout.group_by("target", maintain_order=True).agg(new=(pl.col("src") != OLD).any(), cells=pl.len())
        cells = {target: frame.height for target, frame in self.old.items()}
        seen = set(now["target"].to_list())
        same = {
            target
            for target, new, count in zip(*(now[c].to_list() for c in ("target", "new", "cells")), strict=True)
            if not new and count == cells[target]
        }
        return same | {target for target in targets() if target not in seen and target not in cells}

    def lines(self, target: str, layout: pl.DataFrame | None) -> FinishJob:
        """A text file is copied stretch by stretch."""
        if layout is None:
            return FinishJob(target, str(self.staging / target), 0)
        stretches = runs(layout.with_columns(chunk=pl.lit(0, dtype=pl.Int64)))
        ranges = tuple(
            (self._path(target, src), byte, size)
            for src, byte, size in zip(*(stretches[c].to_list() for c in ("src", "byte", "bytes")), strict=True)
        )
        return FinishJob(target, str(self.staging / target), int(layout["rows"].sum()), ranges=ranges)

    def _path(self, target: str, src: int) -> Path:
        if src == OLD and self.previous is not None:
            return self.previous.folder / target
        return self.parts / self.results[src].parts[target]

    def parquet(self, target: str, layout: pl.DataFrame | None) -> _File:
        """Chunks of a file: those that are whole in the old file or in a part stay as they are."""
        file = _File(target)
        if layout is None:
            return file
        file.rows = int(layout["rows"].sum())
        old = self.old.get(target)
        # In another number of chunks none is what it was; and a file of one chunk is written as it is encoded, never copied.
        alike = old is not None and old["width"][0] == layout["width"][0] and layout["chunk"].n_unique() > 1
        before = dict(_rows_by_chunk(old)) if old is not None else {}
        spans = self._old_spans(target)
        for (number,), pieces in runs(layout).partition_by("chunk", as_dict=True, maintain_order=True).items():
            found = list(zip(*(pieces[c].to_list() for c in ("src", "row", "rows")), strict=True))
            own = found[0][0]
            file.order.append(number)
            if len(found) == 1 and own == OLD and alike and before[number] == found[0][2]:
                file.ready[number] = spans[number]
            elif len(found) == 1 and own != OLD and target in self.results[own].encoded:
                file.ready[number] = Span(self._path(target, own), 0, self.results[own].encoded[target])
            else:
                file.todo.append((number, sum(rows for _, _, rows in found), tuple(found)))
        return file

    def _old_spans(self, target: str) -> dict[int, Span]:
        spans: dict[int, Span] = {}
        first = 0
        for chunk, count in self.groups[target]:
            assert self.previous is not None
            spans[chunk] = Span(self.previous.folder / target, first, first + count)
            first += count
        return spans

    def encoding(self, file: _File) -> list[EncodeJob]:
        """Jobs for the chunks of a file that are to be encoded."""
        jobs: list[EncodeJob] = []
        current: list[tuple[int, tuple[tuple[int, int, int], ...]]] = []
        size = 0
        for number, rows, pieces in file.todo:
            if current and size + rows > JOB_ROWS:
                jobs.append(self._job(file.target, current))
                current, size = [], 0
            current.append((number, pieces))
            size += rows
        if current:
            jobs.append(self._job(file.target, current))
        return jobs

    def _job(self, target: str, todo: Sequence[tuple[int, tuple[tuple[int, int, int], ...]]]) -> EncodeJob:
        """A job, with the old row groups that it needs and the places of the old rows in them."""
        wanted = [(row, row + rows) for _, pieces in todo for src, row, rows in pieces if src == OLD]
        old, shifts = self._old_groups(target, wanted)
        chunks: list[Chunk] = []
        for number, pieces in todo:
            placed_ = tuple(
                ("", row - _shift(shifts, row), rows) if src == OLD else (self.results[src].parts[target], row, rows)
                for src, row, rows in pieces
            )
            chunks.append((number, placed_))
        return EncodeJob(target, tuple(chunks), str(self.parts), old)

    def _old_groups(
        self, target: str, wanted: Sequence[tuple[int, int]]
    ) -> tuple[OldRows | None, list[tuple[int, int]]]:
        """The old chunks that hold some rows; and from which row on how many rows before it are left out."""
        if not wanted:
            return None, []
        spans: list[Span] = []
        stretches: list[tuple[int, int]] = []
        shifts: list[tuple[int, int]] = []
        start = left_out = 0
        known = self._old_spans(target)
        for chunk, rows in _rows_by_chunk(self.old[target]):
            if any(a < start + rows and b > start for a, b in wanted):
                spans.append(known[chunk])
                if stretches and sum(stretches[-1]) == start:
                    stretches[-1] = (stretches[-1][0], stretches[-1][1] + rows)
                else:
                    stretches.append((start, rows))
                shifts.append((start, left_out))
            else:
                left_out += rows
            start += rows
        return OldRows(tuple(spans), tuple(stretches)), shifts

    def drop_parts(self, kind: str) -> None:
        """Remove the parts of Parquet files: their rows are encoded."""
        for result in self.results.values():
            for target, name in result.parts.items():
                if target.endswith(kind) and target not in result.encoded:
                    (self.parts / name).unlink(missing_ok=True)


def _rows_by_chunk(layout: pl.DataFrame) -> list[tuple[int, int]]:
    found = layout.group_by("chunk", maintain_order=True).agg(pl.col("rows").sum())
    return list(zip(found["chunk"].to_list(), found["rows"].to_list(), strict=True))


def _shift(shifts: Sequence[tuple[int, int]], row: int) -> int:
    return max(((start, left) for start, left in shifts if start <= row), default=(0, 0))[1]


def table_rows(layout: pl.DataFrame, *, without: str) -> dict[str, int]:
    """Rows of each table of the common model, without those of one cell."""
    own = layout.filter(
        (pl.col("target").str.starts_with("tables/") | (pl.col("target") == "diagnostics.parquet"))
        & (pl.col("cell") != without)
    )
    sums = own.group_by("target", maintain_order=True).agg(pl.col("rows").sum())
    names = sums["target"].str.split("/").list.last().str.strip_suffix(".parquet")
    return dict(zip(names.to_list(), sums["rows"].to_list(), strict=True))
