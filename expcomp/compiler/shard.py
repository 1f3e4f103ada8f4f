"""The work on one shard: read, redact, build rows, write parts. Runs in a worker process; returns counts, never frames."""

from __future__ import annotations

import gc
import hashlib
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from expcomp.compiler.assemble import assemble
from expcomp.evidence.redact import redact
from expcomp.io.sinks import write_lines, write_part
from expcomp.rows.context import Context
from expcomp.rows.registry import ROW_FAMILIES
from expcomp.sources.load import read_units
from expcomp.tables import models
from expcomp.tables.envelope import QUALITY_PARTS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from expcomp.compiler.assemble import FamilyRows
    from expcomp.config import CompileOptions
    from expcomp.sources._contract import ReadOptions, Unit

BINS = 10


@dataclass(frozen=True, slots=True)
class ShardJob:
    """What a worker is handed."""

    index: int
    units: tuple[Unit, ...]
    options: CompileOptions
    read: ReadOptions
    folder: str


@dataclass(slots=True)
class ShardResult:
    """What a worker hands back: counts that add up over shards, and which parts it wrote."""

    index: int
    generated: Counter[str] = field(default_factory=Counter)
    accepted: Counter[str] = field(default_factory=Counter)
    reasons: Counter[tuple[str, str]] = field(default_factory=Counter)
    by_package: Counter[tuple[str, str]] = field(default_factory=Counter)
    redactions: Counter[str] = field(default_factory=Counter)
    diagnostics: Counter[str] = field(default_factory=Counter)
    tables: Counter[str] = field(default_factory=Counter)
    attempts: Counter[str] = field(default_factory=Counter)
    scores: dict[tuple[str, str], list[int]] = field(default_factory=dict)
    rounds: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    packages: tuple[str, ...] = ()
    parts: dict[str, str] = field(default_factory=dict)
    fingerprint: str = ""


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


def redacted(frames: Mapping[str, pl.DataFrame], *, pii: bool) -> tuple[dict[str, pl.DataFrame], Counter[str]]:
    """Every text column of every table, redacted once; hits by rule."""
    counts: Counter[str] = Counter()
    out = {}
    for name, frame in frames.items():
        columns = [n for n, t in frame.schema.items() if n not in _OURS and _has_text(t)] if frame.height else []
        out[name], hits = redact(frame, columns, pii=pii)
        counts.update(hits)
    return out, counts


def run_shard(job: ShardJob) -> ShardResult:
    """Compile the units of one shard into part files under the job's folder."""
    # Parsed documents are many and hold no cycles: looking for some, again and again, costs a third of the time.
    watched = gc.isenabled()
    gc.disable()
    try:
        return _run(job)
    finally:
        if watched:
            gc.enable()
        gc.collect()


def _run(job: ShardJob) -> ShardResult:
    result = ShardResult(job.index)
    frames, result.redactions = redacted(read_units(job.units, job.read), pii=job.options.pii)
    folder = Path(job.folder)
    result.fingerprint = fingerprint(frames)
    result.diagnostics.update(frames["diagnostics"]["code"].to_list())
    result.attempts.update(frames["attempts"]["source_format"].to_list())
    result.packages = tuple(dict.fromkeys(frames["attempts"]["package_id"].to_list()))
    for name, frame in frames.items():
        result.tables[name] += frame.height
        write_table_part(result, folder, name if name == "diagnostics" else f"tables/{name}", frame)
    context = Context(frames)
    for name, row_family in ROW_FAMILIES.items():
        rows = assemble(row_family, context, job.options)
        count_rows(result, name, rows)
        for where, frame in (("rows", rows.accepted), ("rejected", rows.rejected)):
            write_table_part(result, folder, f"{where}/{name}", frame)
        write_line_part(result, folder, name, rows.lines)
    return result


def write_line_part(result: ShardResult, folder: Path, family: str, lines: pl.Series) -> None:
    """The JSON lines of a family's accepted rows as one part file; none when there are none."""
    if lines.len():
        path = folder / f"lines.{family}.{result.index:05d}.jsonl"
        write_lines(lines, path)
        result.parts[f"rows/{family}.jsonl"] = path.name


def write_table_part(result: ShardResult, folder: Path, key: str, frame: pl.DataFrame) -> None:
    """A frame as one part file; none when it is empty."""
    if frame.height:
        models.check_schema(Path(key).name, frame)
        path = folder / f"{key.replace('/', '.')}.{result.index:05d}.arrow"
        write_part(frame, path)
        result.parts[f"{key}.parquet"] = path.name


def count_rows(result: ShardResult, family: str, rows: FamilyRows) -> None:
    """Add the counts of one family's rows."""
    result.accepted[family] += rows.accepted.height
    result.generated[family] += rows.accepted.height + rows.rejected.height
    if rows.rounds:
        result.rounds[family] = rows.rounds
    for frame, verdict in ((rows.accepted, "accepted"), (rows.rejected, "rejected")):
        if frame.height:
            seen = frame["package_id"].value_counts(sort=False)
            for package, n in zip(seen["package_id"].to_list(), seen["count"].to_list(), strict=True):
                result.by_package[package, verdict] += n
    if rows.rejected.height:
        reasons = rows.rejected.select(pl.col("reject_reasons").explode()).to_series().value_counts(sort=False)
        for reason, n in zip(reasons["reject_reasons"].to_list(), reasons["count"].to_list(), strict=True):
            result.reasons[family, reason] += n
    if rows.accepted.height:
        quality = rows.accepted["quality"].struct.unnest()
        for part in QUALITY_PARTS:
            if quality.schema[part] == pl.Float64:
                result.scores[family, part] = _histogram(quality[part])


def _histogram(values: pl.Series) -> list[int]:
    """Counts in ten equal bins over 0..1, then the number of nulls."""
    bins = (values.drop_nulls() * BINS).cast(pl.Int64).clip(0, BINS - 1).value_counts(sort=False)
    counts = dict(zip(bins.to_series(0).to_list(), bins["count"].to_list(), strict=True))
    return [counts.get(i, 0) for i in range(BINS)] + [values.null_count()]


def fingerprint(frames: Mapping[str, pl.DataFrame]) -> str:
    """Digest over what was read: refs with the digests of their bytes, attempts with the digests of their files."""
    h = hashlib.sha256()
    for name, columns in (
        ("evidence", ("package_id", "ref", "sha256")),
        ("attempts", ("package_id", "attempt_id", "source_digest")),
    ):
        text = frames[name].select(pl.concat_str(pl.col(c).fill_null("") for c in columns))
        h.update("\n".join(text.to_series().to_list()).encode())
    return h.hexdigest()
