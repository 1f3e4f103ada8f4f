"""From parts, and the files of an earlier output, to the files of a new one: what is unchanged is linked or copied, the rest encoded."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from expcomp.compiler.layout import OLD, chunked, placed, runs, table_file
from expcomp.compiler.merge import Chunk, Done, EncodeJob, FileJob, FinishJob, finish, make
from expcomp.compiler.previous import CHUNKS
from expcomp.compiler.shard import LAYOUT
from expcomp.io.parquet_join import Span
from expcomp.io.publish import link
from expcomp.io.sinks import same_ranges
from expcomp.io.staging import PARTS, discard, subfolder
from expcomp.rows.registry import ROW_FAMILIES
from expcomp.tables.core import CORE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from expcomp.compiler.old_rows import OldFile, OldOutput
    from expcomp.compiler.shard import ShardResult
    from expcomp.io.pool import Workers
    from expcomp.io.progress import Progress

JOB_ROWS = 32_768
"""Rows that one job encodes, about."""

ROW_WORK = 16_384
"""Bytes that are copied in the time that one row is encoded, about."""


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


_Piece = tuple[int, int, int]
"""Rows of a chunk: their source, the first row there, how many."""

_Todo = tuple[int, int, tuple[_Piece, ...]]
"""A chunk to encode: its number, its rows, and its pieces."""


@dataclass
class _File:
    """One Parquet file: its chunks in order, each with row groups that are there or the pieces to encode.

    Attributes:
        target: File in the output.
        rows: Rows that it is to have.
        before: The old file, when its chunks are cut alike.
        ready: Row groups of chunks that are there.
        todo: The other chunks.
        order: Numbers of all chunks.
    """

    target: str
    rows: int = 0
    before: OldFile | None = None
    ready: dict[int, Span] = field(default_factory=dict)
    todo: list[_Todo] = field(default_factory=list)
    order: list[int] = field(default_factory=list)


def targets() -> list[str]:
    """Every file of tables and rows."""
    tables = sorted(map(table_file, CORE), key=lambda t: t.startswith("tables/"))  # the diagnostics first
    return [
        *tables,
        *(f.format(n) for n in ROW_FAMILIES for f in ("rows/{}.parquet", "rows/{}.jsonl", "rejected/{}.parquet")),
    ]


def write_files(
    pool: Workers,
    results: Sequence[ShardResult],
    staging: Path,
    progress: Progress,
    old: OldOutput | None = None,
    kept: Sequence[str] = (),
) -> Written:
    """Write all files of an output.

    Args:
        pool: Where the work is done.
        results: What was compiled now; their parts are in the folder `PARTS` of `staging`, and are gone afterwards.
        staging: The folder to write to.
        progress: Where progress is shown.
        old: An earlier output.
        kept: Cells whose rows are taken from there.
    """
    for folder in ("tables", "rows", "rejected"):
        subfolder(staging / folder)
    sources = [(r.index, r.layout) for r in results]
    layout = placed([*sources, (len(results), pl.DataFrame(schema=LAYOUT))])
    if old is not None:
        # The places are those in the old files; only the rows of kept cells are taken from them.
        mine = old.places.filter(pl.col("cell").is_in(list(kept))).select(layout.columns)
        layout = pl.concat([mine, layout]).sort("target", "cell", maintain_order=True)
    layout = chunked(layout)
    by_target = {str(k[0]): f for k, f in layout.partition_by("target", as_dict=True, maintain_order=True).items()}
    work = _Work(results, staging, old)
    same = work.unchanged(by_target)
    pieces = _pieces(layout.filter(~pl.col("target").str.ends_with(".jsonl") & ~pl.col("target").is_in(list(same))))
    linked: list[dict[str, Any]] = []
    files: list[_File] = []
    jobs: list[EncodeJob | FileJob | FinishJob] = []
    for target in targets():
        if old is not None and target in same:
            link(old.previous.folder / target, staging / target)
            linked.append(old.previous.entries[target])
        elif target.endswith(".jsonl"):
            jobs.append(work.lines(target, by_target.get(target)))
        else:
            file = work.parquet(target, by_target.get(target), pieces[target])
            files.append(file)
            own = work.encoding(file)
            # What one worker encodes it also puts together; a large file is encoded by several first.
            jobs += own if len(own) > 1 else [work.whole(file, *own)]
    # The largest first: no worker is left with a long one at the end.
    jobs.sort(key=_size, reverse=True)
    with progress.stage("encode", len(jobs)) as tick:
        made = pool.map(make, jobs, tick)
    ready: dict[str, dict[int, Span]] = defaultdict(dict)
    done: dict[str, Done] = {}
    for job, result in zip(jobs, made, strict=True):
        if isinstance(result, Done):
            done[job.target] = result
        else:
            ready[job.target] |= dict(result)
    work.drop_encoded()
    ending = [work.finishing(file, ready[file.target]) for file in files if file.target in ready]
    ending.sort(key=lambda job: -sum(s.size for s in job.spans))
    with progress.stage("publish", len(ending)) as tick:
        done |= {job.target: made for job, made in zip(ending, pool.map(finish, ending, tick), strict=True)}
    entries = sorted([*linked, *(d.entry for d in done.values())], key=lambda e: str(e["path"]))
    return Written(entries, layout.select(list(LAYOUT)), _chunks(files, done, old, same))


def _pieces(layout: pl.DataFrame) -> dict[str, dict[int, list[_Piece]]]:
    """Of each file the chunks in order, with their pieces."""
    found: dict[str, dict[int, list[_Piece]]] = defaultdict(lambda: defaultdict(list))
    stretches = runs(layout)
    columns = (stretches[c].to_list() for c in ("target", "chunk", "src", "row", "rows"))
    for target, chunk, src, row, rows in zip(*columns, strict=True):
        found[target][chunk].append((src, row, rows))
    return found


def _size(job: EncodeJob | FileJob | FinishJob) -> int:
    """How much work a job is, about, in bytes to copy."""
    if isinstance(job, FinishJob):
        return sum(size for _, _, size in job.ranges)
    encode = job if isinstance(job, EncodeJob) else job.encode
    return 0 if encode is None else ROW_WORK * sum(rows for chunk in encode.chunks for _, _, rows in chunk.pieces)


def _chunks(files: Sequence[_File], done: Mapping[str, Done], old: OldOutput | None, same: set[str]) -> pl.DataFrame:
    """As `previous.CHUNKS`, of all files."""
    chunks = [pl.DataFrame(schema=CHUNKS)]
    if old is not None:
        chunks.append(old.previous.chunks.filter(pl.col("target").is_in(list(same))))
    for file in files:
        rows = {"target": file.target, "chunk": file.order, "groups": list(done[file.target].groups)}
        chunks.append(pl.DataFrame(rows, schema=CHUNKS))
    return pl.concat(chunks)


class _Work:
    """What is where, while the files of one output are written."""

    def __init__(self, results: Sequence[ShardResult], staging: Path, old: OldOutput | None) -> None:
        self.results = {r.index: r for r in results}
        self.staging = staging
        self.parts = staging / PARTS
        self.old = old
        places = None if old is None else old.places
        split = {} if places is None else places.partition_by("target", as_dict=True, maintain_order=True)
        self.before = {str(k[0]): frame for k, frame in split.items()}

    def unchanged(self, by_target: Mapping[str, pl.DataFrame]) -> set[str]:
        """Files that are what they were: nothing new in them, and nothing gone."""
        if self.old is None:
            return set()
        same = {target for target in targets() if target not in by_target and target not in self.before}
        for target, now in by_target.items():
            before = self.before.get(target)
            if before is not None and now.height == before.height:
                new = now.filter(pl.col("src") != OLD)
                if new.is_empty() or (target.endswith(".jsonl") and self._same_lines(target, new, before)):
                    same.add(target)
        return same

    def _same_lines(self, target: str, new: pl.DataFrame, before: pl.DataFrame) -> bool:
        """Whether new lines are those that the same cells had."""
        both = new.join(before, on=["cell", "rows", "bytes"], how="inner", maintain_order="left", suffix="_old")
        if both.height < new.height:
            return False
        pieces = zip(*(both[c].to_list() for c in ("src", "byte", "byte_old", "bytes")), strict=True)
        return same_ranges((self._path(target, src), a, self._path(target, OLD), b, size) for src, a, b, size in pieces)

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
        if src == OLD and self.old is not None:
            return self.old.previous.folder / target
        return self.parts / self.results[src].parts[target]

    def parquet(self, target: str, layout: pl.DataFrame | None, chunks: Mapping[int, list[_Piece]]) -> _File:
        """Chunks of a file: those that are whole in the old file or in a part stay as they are."""
        before = None if self.old is None else self.old.files.get(target)
        if layout is None:
            return _File(target)
        # In another number of chunks none is what it was.
        alike = before is not None and before.width == layout["width"][0]
        file = _File(target, int(layout["rows"].sum()), before if alike else None)
        # A file of one chunk is written as it is encoded, never copied.
        several = len(chunks) > 1
        for number, found in chunks.items():
            own = found[0][0]
            file.order.append(number)
            whole = len(found) == 1
            if whole and own == OLD and several and file.before and file.before.rows[number] == found[0][2]:
                file.ready[number] = file.before.spans[number]
            elif whole and own != OLD and target in self.results[own].encoded:
                file.ready[number] = Span(self._path(target, own), 0, self.results[own].encoded[target])
            else:
                file.todo.append((number, sum(rows for _, _, rows in found), tuple(found)))
        return file

    def encoding(self, file: _File) -> list[EncodeJob]:
        """Jobs for the chunks of a file that are to be encoded."""
        jobs: list[EncodeJob] = []
        current: list[_Todo] = []
        size = 0
        for todo in file.todo:
            if current and size + todo[1] > JOB_ROWS:
                jobs.append(self._job(file, current))
                current, size = [], 0
            current.append(todo)
            size += todo[1]
        if current:
            jobs.append(self._job(file, current))
        return jobs

    def _job(self, file: _File, todo: Sequence[_Todo]) -> EncodeJob:
        """A job, with the old row groups that it needs and the places of the old rows in them."""
        old = None if self.old is None else self.old.files.get(file.target)
        wanted = [(row, row + rows) for _, _, pieces in todo for src, row, rows in pieces if src == OLD]
        held = None if old is None else old.holding(wanted)
        chunks: list[Chunk] = []
        for number, rows, pieces in todo:
            found = tuple(
                ("", held.place(row), n) if src == OLD and held is not None else (self._part(file.target, src), row, n)
                for src, row, n in pieces
            )
            before = None
            if (
                held is not None
                and file.before
                and file.before.rows.get(number) == rows
                and any(s == OLD for s, _, _ in pieces)
            ):
                before = (held.place(file.before.first(number)), file.before.spans[number])
            chunks.append(Chunk(number, found, before))
        return EncodeJob(file.target, tuple(chunks), str(self.parts), None if held is None else held.rows)

    def _part(self, target: str, src: int) -> str:
        return self.results[src].parts[target]

    def whole(self, file: _File, encode: EncodeJob | None = None) -> FileJob:
        """A file as one job."""
        return FileJob(file.target, encode, file.ready, tuple(file.order), self.finishing(file, {}))

    def finishing(self, file: _File, encoded: Mapping[int, Span]) -> FinishJob:
        """A file whose chunks are encoded, as far as they are given."""
        spans = file.ready | dict(encoded)
        own = tuple(spans[number] for number in file.order if number in spans)
        out = str(self.staging / file.target)
        if file.before is None or self.old is None:
            return FinishJob(file.target, out, file.rows, own)
        before, entry = tuple(file.before.spans.values()), self.old.previous.entries[file.target]
        return FinishJob(file.target, out, file.rows, own, before=before, entry=entry)

    def drop_encoded(self) -> None:
        """Remove the parts of Parquet files whose rows are encoded by now."""
        discard(
            self.parts / name
            for result in self.results.values()
            for target, name in result.parts.items()
            if target.endswith(".parquet") and target not in result.encoded
        )


def table_rows(layout: pl.DataFrame, *, without: str) -> dict[str, int]:
    """Rows of each table of the common model, without those of one cell."""
    sums = layout.filter(pl.col("cell") != without).group_by("target", maintain_order=True).agg(pl.col("rows").sum())
    rows = dict(zip(sums["target"].to_list(), sums["rows"].to_list(), strict=True))
    return {name: rows[table_file(name)] for name in CORE if table_file(name) in rows}
