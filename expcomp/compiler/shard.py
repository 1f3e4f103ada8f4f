"""The work on one shard: read, redact, build rows, write parts. Runs in a worker process; returns counts, never frames."""

from __future__ import annotations

import gc
import hashlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from expcomp.compiler.assemble import assemble
from expcomp.compiler.counts import COUNTS, Tally
from expcomp.compiler.layout import table_file
from expcomp.compiler.merge import contract
from expcomp.compiler.owners import CELL, Owners, owners, torn
from expcomp.compiler.plan import REST, bucket_cell, cell_of, home
from expcomp.compiler.stats import stat_cells
from expcomp.compiler.unchanged import same_cells
from expcomp.evidence.redact import redact_rows
from expcomp.io.digest import frames_digest
from expcomp.io.sinks import write_lines, write_part, write_row_groups
from expcomp.rows.context import Context
from expcomp.rows.registry import ROW_FAMILIES
from expcomp.sources.load import read_units, uncollected
from expcomp.sources.spread import gather
from expcomp.tables import models

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from expcomp.compiler.unchanged import Earlier
    from expcomp.config import CompileOptions
    from expcomp.evidence.redact import Hits
    from expcomp.sources._contract import ReadOptions, Unit
    from expcomp.sources.spread import GatherJob

LAYOUT = pl.Schema({"target": pl.String(), "cell": pl.String(), "rows": pl.Int64(), "bytes": pl.Int64()})
"""Rows of each cell in each file, cells in order; bytes are those of the lines, 0 for Parquet."""


@dataclass(frozen=True, slots=True)
class ShardJob:
    """What a worker is handed: units of whole cells, or a bucket of rows that were read before; and what was made of them earlier."""

    index: int
    units: tuple[Unit, ...]
    options: CompileOptions
    read: ReadOptions
    folder: str
    bucket: GatherJob | None = None
    earlier: Earlier | None = None


@dataclass(slots=True)
class ShardResult:
    """What a worker hands back: counts that add up over cells, and which parts it wrote.

    Attributes:
        index: Of the job.
        counts: As `counts.COUNTS`.
        layout: As `LAYOUT`.
        parts: Name of the part file for each file of the output that has rows.
        encoded: Row groups of those parts that are Parquet already.
        stats: What the file system said of each cell before it was read, "" where that is not to be relied on.
        fingerprints: Digest of what was read of each cell.
        borrowed: Digest of the rows of other cells that were looked up for a cell.
        same: Cells of which nothing new is read: no rows were made of them.
    """

    index: int
    counts: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=COUNTS))
    layout: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=LAYOUT))
    parts: dict[str, str] = field(default_factory=dict)
    encoded: dict[str, int] = field(default_factory=dict)
    stats: dict[str, str] = field(default_factory=dict)
    fingerprints: dict[str, str] = field(default_factory=dict)
    borrowed: dict[str, str] = field(default_factory=dict)
    same: list[str] = field(default_factory=list)


# Columns that are ids, digests or vocabulary of ours; everything else that is text may hold what people wrote.
_OURS = frozenset(
    "attempt_id package_id evidence_id sha256 digest source_digest task_digest root_attempt_id parent_attempt_id next_attempt_id code "
    "source_format trace_ref outputs_ref grade_ref source_ref ref refs score_issue invalid_reason".split()
)


def _has_text(dtype: Any) -> bool:
    if isinstance(dtype, pl.List):
        return _has_text(dtype.inner)
    if isinstance(dtype, pl.Struct):
        return any(_has_text(f.dtype) for f in dtype.fields)
    return isinstance(dtype, pl.String)


def redacted(frames: Mapping[str, pl.DataFrame], *, pii: bool) -> tuple[dict[str, pl.DataFrame], dict[str, list[Hits]]]:
    """Every text column of every table, redacted once; hits by table."""
    hits: dict[str, list[Hits]] = {}
    out = {}
    for name, frame in frames.items():
        columns = [n for n, t in frame.schema.items() if n not in _OURS and _has_text(t)] if frame.height else []
        out[name], hits[name] = redact_rows(frame, columns, pii=pii)
    return out, hits


def run_shard(job: ShardJob) -> ShardResult:
    """Compile the units of one shard into part files under the job's folder."""
    try:
        with uncollected():
            return _run(job)
    finally:
        gc.collect()


def _run(job: ShardJob) -> ShardResult:
    result = ShardResult(job.index, stats=stat_cells(job.units) if job.units else {})
    done = list(_compiled(job.units, job, result))
    if not done:
        return result
    result.counts = pl.concat([made.tally.frame() for made in done])
    cells = sorted(cell for made in done for cell in made.owners.cells)
    for target in done[0].frames:
        if target.endswith(".parquet"):
            for made in done:
                check(Path(target).stem, made.frames[target].drop(CELL), job.options.check)
        frame = _together([(made.owners.cells, made.frames[target]) for made in done], cells)
        write_target(result, Path(job.folder), target, frame, cells)
    for made in done:
        result.fingerprints |= made.fingerprints
    return result


def _together(pieces: Sequence[tuple[tuple[str, ...], pl.DataFrame]], cells: Sequence[str]) -> pl.DataFrame:
    """Frames of several cells each as one, in the order of all cells."""
    if len(pieces) == 1:
        return pieces[0][1]
    number = {cell: i for i, cell in enumerate(cells)}
    frames = [
        frame.with_columns(pl.col(CELL).replace_strict(list(range(len(own))), [number[c] for c in own]).cast(pl.UInt32))
        for own, frame in pieces
    ]
    return pl.concat(frames).sort(CELL, maintain_order=True)


def write_target(result: ShardResult, folder: Path, target: str, frame: pl.DataFrame, cells: Sequence[str]) -> None:
    """One file's rows, with the numbers of their cells and in their order, as a part; none when there are none."""
    if frame.is_empty():
        return
    result.layout = pl.concat([result.layout, laid_out(target, frame, cells)])
    path = folder / f"{target.replace('/', '.')}.{result.index:05d}"
    result.parts[target] = path.name
    if target.endswith(".jsonl"):
        write_lines(frame["line"], path)
        return
    frame = frame.drop(CELL)
    if len(cells) == 1 and home(cells[0]) == REST:
        # A chunk of its own: encoded here, it takes a tenth of the disk.
        result.encoded[target] = write_row_groups(frame, path, contract(Path(target).stem))
    else:
        write_part(frame, path)


def laid_out(target: str, frame: pl.DataFrame, cells: Sequence[str]) -> pl.DataFrame:
    """The layout of one file, from its rows or lines with the numbers of their cells."""
    size = (pl.col("line").str.len_bytes().cast(pl.Int64) + 1).sum() if "line" in frame.columns else pl.lit(0)
    rows = frame.group_by(CELL, maintain_order=True).agg(rows=pl.len().cast(pl.Int64), bytes=size.cast(pl.Int64))
    names = pl.Series("cell", cells, dtype=pl.String).gather(rows[CELL])
    return rows.select(pl.lit(target).alias("target"), names, "rows", "bytes")


@dataclass
class Made:
    """What became of some cells: frames by file of the output, in the order of cells."""

    owners: Owners
    tally: Tally
    frames: dict[str, pl.DataFrame]
    fingerprints: dict[str, str]


def _compiled(units: Sequence[Unit], job: ShardJob, result: ShardResult) -> Iterable[Made]:
    """The cells together, as far as they can be told apart; those that cannot, one by one; none of which nothing new is read."""
    if job.bucket is not None:
        got = gather(job.bucket)
        frames, hits = redacted(got.frames, pii=job.options.pii)
        borrowed, _ = redacted(got.borrowed, pii=job.options.pii)
        found = Owners((bucket_cell(job.bucket.number),), {})
        result.borrowed = {found.cells[0]: frames_digest(borrowed)}
        if job.earlier is None or job.earlier.borrowed == result.borrowed:
            result.same = _same(frames, hits, found, job)
        if not result.same:
            yield compiled(frames, hits, found, job.options, borrowed)
        return
    frames, hits = redacted(_read(units, job), pii=job.options.pii)
    found = Owners((REST,), {}) if cell_of(units[0]) == REST else owners(units, frames)
    alone = torn(found, frames)
    if not alone:
        result.same = _same(frames, hits, found, job)
        if not result.same:
            yield compiled(frames, hits, found, job.options)
            return
    del frames
    groups = [[u for u in units if cell_of(u) not in {*alone, *result.same}]]
    groups += [[u for u in units if cell_of(u) == cell] for cell in alone]
    for own in groups:
        if own:
            frames, hits = redacted(_read(own, job), pii=job.options.pii)
            yield compiled(frames, hits, owners(own, frames), job.options)


def _same(
    frames: Mapping[str, pl.DataFrame], hits: Mapping[str, list[Hits]], found: Owners, job: ShardJob
) -> list[str]:
    """Cells of which an earlier output holds what is read now."""
    if job.earlier is None:
        return []
    tally, owned = told(frames, hits, found)
    held = Path(job.folder) / f"earlier.{job.index:05d}"
    return same_cells(job.earlier, found.cells, owned, fingerprints(owned, found.cells), tally.frame(), held)


def _read(units: Sequence[Unit], job: ShardJob) -> dict[str, pl.DataFrame]:
    frames = read_units(units, job.read)
    if cell_of(units[0]) == REST:
        return frames
    # Which packages are read together is chance: that none of them holds an attempt is said of the load, when it is so.
    chance = (pl.col("code") == "no_attempt") & pl.col("package_id").is_null()
    return frames | {"diagnostics": frames["diagnostics"].filter(~chance)}


def compiled(
    frames: Mapping[str, pl.DataFrame],
    hits: Mapping[str, list[Hits]],
    found: Owners,
    options: CompileOptions,
    borrowed: Mapping[str, pl.DataFrame] | None = None,
) -> Made:
    """Rows of all families from redacted tables, counted by cell; `borrowed` rows of other cells are looked up only."""
    tally, owned = told(frames, hits, found)
    out = {table_file(n): f for n, f in owned.items()}
    prints = fingerprints(owned, found.cells)
    joined = {name: frame.drop(CELL) for name, frame in owned.items()}
    context = Context(joined | {name: pl.concat([joined[name], rows]) for name, rows in (borrowed or {}).items()})
    for name, row_family in ROW_FAMILIES.items():
        rows = assemble(row_family, context, options)
        owner = found.of(rows.keys)
        tally.family(name, rows, owner)
        accepted = found.sorted(rows.accepted.with_columns(_line=rows.lines), owner.filter(rows.ok))
        out[f"rows/{name}.parquet"] = accepted.drop("_line")
        out[f"rows/{name}.jsonl"] = accepted.select(CELL, line="_line")
        out[f"rejected/{name}.parquet"] = found.sorted(rows.rejected, owner.filter(~rows.ok))
    return Made(found, tally, out, prints)


def told(
    frames: Mapping[str, pl.DataFrame], hits: Mapping[str, list[Hits]], found: Owners
) -> tuple[Tally, dict[str, pl.DataFrame]]:
    """What is counted of the tables themselves, and the tables in the order of cells."""
    tally = Tally(found.cells)
    for name, own in hits.items():
        if own:
            tally.redactions(found.of(frames[name]), own)
    owned = {name: found.sorted(frame) for name, frame in frames.items()}
    tally.add("diagnostics", owned["diagnostics"], a=pl.col("code"))
    tally.add("attempts", owned["attempts"], a=pl.col("source_format"), b=pl.col("package_id"))
    return tally, owned


def check(table: str, frame: pl.DataFrame, how: str) -> None:
    """Hold a frame to its contract.

    By default every row is checked by the table's rules as expressions, whose verdict is pandera's at a fiftieth of the time, and
    pandera is asked when they object, for its report. `full` asks pandera in any case, `off` looks at names and dtypes only.

    Raises:
        TableError: It does not hold; with the rules and rows that fail.
    """
    models.check_schema(table, frame)
    if frame.height and (how == "full" or (how == "auto" and models.failures(table, frame))):
        models.validate(table, frame)


def fingerprints(frames: Mapping[str, pl.DataFrame], cells: Sequence[str]) -> dict[str, str]:
    """Digest over what was read of each cell: refs with the digests of their bytes, attempts with the digests of their files."""
    digests = [hashlib.sha256() for _ in cells]
    for name, columns in (
        ("evidence", ("package_id", "ref", "sha256")),
        ("attempts", ("package_id", "attempt_id", "source_digest")),
    ):
        text = frames[name].select(CELL, t=pl.concat_str(pl.col(c).fill_null("") for c in columns))
        joined = text.group_by(CELL, maintain_order=True).agg(pl.col("t").str.join("\n"))
        for cell, own in zip(joined[CELL].to_list(), joined["t"].to_list(), strict=True):
            digests[cell].update(own.encode())
    return {cell: d.hexdigest() for cell, d in zip(cells, digests, strict=True)}
