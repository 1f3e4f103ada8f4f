"""Parts become the published files: chunks are encoded, files are laid end to end; each function is a job for a worker."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from expcomp.compiler.old_rows import same_values
from expcomp.errors import InternalError
from expcomp.io.hashing import Written, written
from expcomp.io.parquet_join import Span, join_row_groups
from expcomp.io.publish import link, start_sync
from expcomp.io.sinks import join_ranges, lines_digest, parquet_height, read_part, write_row_groups
from expcomp.io.staging import PARTS, discard, move
from expcomp.tables import models
from expcomp.tables.digests import rules_digest, schema_digest
from expcomp.version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from expcomp.compiler.old_rows import OldRows


LARGE = 1 << 20
"""Bytes of a file from which on it is on its way to disk while others are written."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """A chunk that is to be encoded.

    Attributes:
        number: Of the chunk.
        pieces: Where its rows are in order: part ("" for those of the old file), first row, rows.
        before: First row (among the old ones) and row groups of as many rows that it had before; they stay when the rows are equal.
    """

    number: int
    pieces: tuple[tuple[str, int, int], ...]
    before: tuple[int, Span] | None = None


@dataclass(frozen=True, slots=True)
class EncodeJob:
    """Chunks of one file that are to be encoded.

    Attributes:
        target: File in the output.
        chunks: The chunks.
        folder: Where the parts are, and where the encoded chunks go.
        old: The old rows that are needed, if any; a first row counts from the first of them.
    """

    target: str
    chunks: tuple[Chunk, ...]
    folder: str
    old: OldRows | None = None


@dataclass(frozen=True, slots=True)
class FinishJob:
    """One file that is to be put together.

    Attributes:
        target: File in the output.
        out: Where it goes.
        rows: Rows that it is to have.
        spans: Row groups, in order, of a Parquet file.
        ranges: File, first byte and bytes of the pieces of a text file, in order.
        before: Row groups of the old file, in order.
        entry: What the manifest said of it.
    """

    target: str
    out: str
    rows: int
    spans: tuple[Span, ...] = ()
    ranges: tuple[tuple[Path, int, int], ...] = ()
    before: tuple[Span, ...] = ()
    entry: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class FileJob:
    """A Parquet file that one worker encodes and puts together.

    Attributes:
        target: File in the output.
        encode: What is to be encoded; None when nothing is.
        ready: Row groups of the other chunks.
        order: Numbers of all chunks.
        finish: The file, with those of its row groups that are there.
    """

    target: str
    encode: EncodeJob | None
    ready: Mapping[int, Span]
    order: tuple[int, ...]
    finish: FinishJob


@dataclass(frozen=True, slots=True)
class Done:
    """A file that is there: what the manifest says of it, and the number of row groups of each chunk."""

    entry: dict[str, Any]
    groups: tuple[int, ...]


def contract(table: str) -> dict[str, str]:
    """Key-value metadata of a table's files."""
    declared = models.table(table)
    digests = {"schema_digest": schema_digest(declared), "rules_digest": rules_digest(declared)}
    return {f"expcomp.{k}": v for k, v in digests.items()} | {"expcomp.table": table, "expcomp.version": __version__}


def encode(job: EncodeJob) -> list[tuple[int, Span]]:
    """Write each chunk as a file of its own; returns the row groups of each."""
    folder, table = Path(job.folder), Path(job.target).stem
    sources: dict[str, pl.DataFrame] = {}
    for name in sorted({name for chunk in job.chunks for name, _, _ in chunk.pieces}):
        sources[name] = read_part(folder / name) if name or job.old is None else _old(job, job.old, folder)
    meta = contract(table)
    return [(chunk.number, _encoded(job, folder, sources, chunk, meta)) for chunk in job.chunks]


def _old(job: EncodeJob, old: OldRows, folder: Path) -> pl.DataFrame:
    return old.read(folder / f"{job.target.replace('/', '.')}.old.{job.chunks[0].number}")


def _encoded(
    job: EncodeJob,
    folder: Path,
    sources: dict[str, pl.DataFrame],
    chunk: Chunk,
    meta: dict[str, str],
) -> Span:
    path = folder / f"{job.target.replace('/', '.')}.chunk.{chunk.number}"
    if chunk.before is not None and _as_before(chunk, chunk.before[0], sources):
        return chunk.before[1]
    frame = pl.concat([sources[name].slice(first, rows) for name, first, rows in chunk.pieces])
    return Span(path, 0, write_row_groups(frame, path, meta))


def _as_before(chunk: Chunk, start: int, sources: Mapping[str, pl.DataFrame]) -> bool:
    """Whether a chunk holds what stands from a row of the old ones on; what is taken from its own place there is not looked at."""
    for name, first, rows in chunk.pieces:
        if (name, first) != ("", start) and not same_values(
            sources[name].slice(first, rows), sources[""].slice(start, rows)
        ):
            return False
        start += rows
    return True


def make(job: EncodeJob | FileJob | FinishJob) -> list[tuple[int, Span]] | Done:
    """Do one of the jobs of a publication."""
    if isinstance(job, EncodeJob):
        return encode(job)
    if isinstance(job, FinishJob):
        return finish(job)
    spans = {**job.ready, **dict(encode(job.encode) if job.encode is not None else ())}
    return finish(replace(job.finish, spans=tuple(spans[number] for number in job.order)))


def finish(job: FinishJob) -> Done:
    """Put a file together.

    Raises:
        InternalError: It has other rows than it should have; nothing is published then.
    """
    out = Path(job.out)
    groups = tuple(span.last - span.first for span in job.spans)
    if job.entry is not None and job.spans and job.spans == job.before:
        if not out.exists():
            link(job.spans[0].path, out)
        return Done(job.entry, groups)
    entry: dict[str, Any] = {"path": job.target}
    if job.target.endswith(".jsonl"):
        made = join_ranges(job.ranges, out) if not out.exists() else _there(out)
    else:
        table = models.table(Path(job.target).stem)
        entry |= {"schema_digest": schema_digest(table), "rules_digest": rules_digest(table)}
        made = _parquet(job, out, table.empty()) if not out.exists() else _there(out)
    if made.rows != job.rows:
        msg = f"{job.target} has {made.rows} rows, of {job.rows}; nothing was published"
        raise InternalError(msg)
    if made.bytes >= LARGE:
        start_sync(out)
    discard(_own(job))
    return Done(entry | made._asdict(), groups)


def _there(out: Path) -> Written:
    """What a worker put together that was lost before it could say so: files appear whole, and their parts are gone by then."""
    return written(out, lines_digest(out)[0] if out.suffix == ".jsonl" else parquet_height(out))


def _parquet(job: FinishJob, out: Path, empty: pl.DataFrame) -> Written:
    if len(job.spans) > 1:
        return join_row_groups(job.spans, out)
    if job.spans:
        move(job.spans[0].path, out)
    else:
        write_row_groups(empty, out, contract(Path(job.target).stem))
    return written(out, job.rows)


def _own(job: FinishJob) -> Iterator[Path]:
    """The files that were made for this one: not those of the old output."""
    parts = Path(job.out).parents[job.target.count("/")] / PARTS
    yield from {path for path in (*(s.path for s in job.spans), *(r[0] for r in job.ranges)) if path.parent == parts}
