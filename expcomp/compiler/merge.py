"""Parts become the published files: chunks are encoded, files are laid end to end; each function is a job for a worker."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from expcomp.errors import InternalError
from expcomp.io.digest import sha256_file
from expcomp.io.parquet_join import Span, join_row_groups
from expcomp.io.sinks import join_ranges, lines_digest, read_part, write_row_groups
from expcomp.tables import models
from expcomp.tables.digests import rules_digest, schema_digest
from expcomp.version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterator

FEW = 2
"""Stretches of an old file that are read one by one."""

Chunk = tuple[int, tuple[tuple[str, int, int], ...]]
"""Number of a chunk, and where its rows are in order: part ("" for those of the old file), first row, rows."""


@dataclass(frozen=True, slots=True)
class OldRows:
    """Rows of an old file: its row groups that hold them, and the same as stretches of rows (first row, rows)."""

    spans: tuple[Span, ...]
    stretches: tuple[tuple[int, int], ...]


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
    """

    target: str
    out: str
    rows: int
    spans: tuple[Span, ...] = ()
    ranges: tuple[tuple[Path, int, int], ...] = ()


def contract(table: str) -> dict[str, str]:
    """Key-value metadata of a table's files."""
    declared = models.table(table)
    digests = {"schema_digest": schema_digest(declared), "rules_digest": rules_digest(declared)}
    return {f"expcomp.{k}": v for k, v in digests.items()} | {"expcomp.table": table, "expcomp.version": __version__}


def encode(job: EncodeJob) -> list[tuple[int, Span]]:
    """Write each chunk as a file of its own; returns the row groups of each."""
    folder, table = Path(job.folder), Path(job.target).stem
    sources: dict[str, pl.DataFrame] = {}
    for name in sorted({name for _, pieces in job.chunks for name, _, _ in pieces}):
        sources[name] = read_part(folder / name) if name or job.old is None else _old(job, job.old, folder)
    meta = contract(table)
    return [(number, _encoded(job, folder, sources, number, pieces, meta)) for number, pieces in job.chunks]


def _old(job: EncodeJob, old: OldRows, folder: Path) -> pl.DataFrame:
    if len(old.stretches) <= FEW:
        scan = pl.scan_parquet(old.spans[0].path)
        return pl.concat([scan.slice(first, rows) for first, rows in old.stretches]).collect()
    # One scan with many slices would read the footer again for each of them.
    held = folder / f"{job.target.replace('/', '.')}.old.{job.chunks[0][0]}"
    join_row_groups(old.spans, held)
    frame = pl.read_parquet(held)
    held.unlink()
    return frame


def _encoded(
    job: EncodeJob,
    folder: Path,
    sources: dict[str, pl.DataFrame],
    number: int,
    pieces: tuple[tuple[str, int, int], ...],
    meta: dict[str, str],
) -> Span:
    path = folder / f"{job.target.replace('/', '.')}.chunk.{number}"
    frame = pl.concat([sources[name].slice(first, rows) for name, first, rows in pieces])
    return Span(path, 0, write_row_groups(frame, path, meta))


def finish(job: FinishJob) -> dict[str, Any]:
    """Put a file together; returns what the manifest says of it.

    Raises:
        InternalError: It has other rows than it should have; nothing is published then.
    """
    out = Path(job.out)
    entry: dict[str, Any] = {"path": job.target}
    if job.target.endswith(".jsonl"):
        rows, size, digest = join_ranges(job.ranges, out) if not out.exists() else _there(out)
    else:
        table = models.table(Path(job.target).stem)
        entry |= {"schema_digest": schema_digest(table), "rules_digest": rules_digest(table)}
        rows, size, digest = _parquet(job, out, table.empty()) if not out.exists() else _there(out)
    if rows != job.rows:
        msg = f"{job.target} has {rows} rows, of {job.rows}; nothing was published"
        raise InternalError(msg)
    for path in _own(job):
        path.unlink(missing_ok=True)
    return entry | {"rows": rows, "bytes": size, "sha256": digest}


def _there(out: Path) -> tuple[int, int, str]:
    """What a worker put together that was lost before it could say so: files appear whole, and their parts are gone by then."""
    size = out.stat().st_size
    if out.suffix == ".jsonl":
        rows, digest = lines_digest(out)
        return rows, size, digest
    return pl.scan_parquet(out).select(pl.len()).collect().item(), size, sha256_file(out)


def _parquet(job: FinishJob, out: Path, empty: pl.DataFrame) -> tuple[int, int, str]:
    if len(job.spans) > 1:
        return join_row_groups(job.spans, out)
    if job.spans:
        job.spans[0].path.rename(out)
    else:
        write_row_groups(empty, out, contract(Path(job.target).stem))
    return job.rows, out.stat().st_size, sha256_file(out)


def _own(job: FinishJob) -> Iterator[Path]:
    """The files that were made for this one: not those of the old output."""
    parts = Path(job.out).parents[job.target.count("/")] / PARTS
    yield from {path for path in (*(s.path for s in job.spans), *(r[0] for r in job.ranges)) if path.parent == parts}


PARTS = ".parts"
"""Folder of the parts in a folder that is being made."""
