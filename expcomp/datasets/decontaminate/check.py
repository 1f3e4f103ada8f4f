"""Files of rows against held-out tasks: what is found, and the files without it."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, groupby
from pathlib import Path
from typing import Any

import polars as pl

from expcomp.datasets.decontaminate.chain import check_levels, task_hits
from expcomp.datasets.decontaminate.heldout import held_out
from expcomp.datasets.decontaminate.index import Index
from expcomp.datasets.decontaminate.report import ROW_HITS, manifest_entry, row_report, task_report
from expcomp.datasets.options import Policy
from expcomp.io.digest import sha256_file
from expcomp.io.documents import write_json
from expcomp.io.engine import Engine, engine_of
from expcomp.io.heldout_files import task_file
from expcomp.io.memory import DATASET, processes_within, processors
from expcomp.io.pool import HERE, Workers, workers
from expcomp.io.progress import Progress
from expcomp.io.publish import publish
from expcomp.io.row_files import IDS, Cut, Shard, check_out, copy_without, cuts, large, read_cut, replacing, row_shards
from expcomp.io.sinks import write_parquet
from expcomp.io.staging import subfolder

PRELOAD = ("expcomp.datasets.decontaminate.check", "pyarrow.parquet")

_INVENTORY = {"benchmark": "dataset", "task": "native_id", "content_digest": "task_digest"}
_HITS = ROW_HITS | {"row": pl.UInt32()}
_ROWS = {"kind": pl.String(), **IDS}
_POSITIONS = {"kind": pl.String(), "row": pl.UInt32(), "verdict": pl.String()}


@dataclass(frozen=True)
class Checked:
    """What was found in rows.

    Attributes:
        tasks: By held-out task (`DECONTAMINATION_TASKS`).
        rows: By row (`DECONTAMINATION_ROWS`).
        manifest: Thresholds and counts.
        n_rows: Rows that were looked at.
        shards: Their files.
        positions: kind, row (0-based position in its file), verdict.
    """

    tasks: pl.DataFrame
    rows: pl.DataFrame
    manifest: dict[str, Any]
    n_rows: int
    shards: tuple[Shard, ...]
    positions: pl.DataFrame

    @property
    def n_dropped(self) -> int:
        """Rows that hold a held-out task."""
        return self.rows.filter(pl.col("verdict") == "drop").height


@dataclass(frozen=True, slots=True)
class ScanJob:
    """A piece of a file of rows and what is looked for in it: a pickled index, equal bytes in every job; None looks at names only."""

    kind: str
    cut: Cut
    index: bytes | None


@dataclass(frozen=True, slots=True)
class Scanned:
    """Ids of the rows of a piece (kind and `IDS`), and what they hold (`ROW_HITS` and row); rows from 0, row_id as it is there, or null."""

    rows: pl.DataFrame
    hits: pl.DataFrame


@dataclass(frozen=True, slots=True)
class CopyJob:
    """A file to be copied without the rows at some positions."""

    source: Path
    out: Path
    gone: pl.Series


def run_scan(job: ScanJob) -> Scanned:
    """Look at the rows of a piece."""
    ids, texts = read_cut(job.cut)
    rows = ids.with_columns(kind=pl.lit(job.kind)).select(*_ROWS)
    if job.index is None:
        return Scanned(rows, pl.DataFrame(schema=_HITS))
    found = _index(job.index).scan(texts).join(rows, on="row", how="left", maintain_order="left")
    found = found.with_columns(level=pl.lit("ngram"))
    return Scanned(rows, found.select(pl.col(n).cast(t) for n, t in _HITS.items()))


@lru_cache(maxsize=1)
def _index(pickled: bytes) -> Index:
    index: Index = pickle.loads(pickled)  # noqa: S301 - of the process that made the job
    return index


def run_copy(job: CopyJob) -> int:
    """Copy a file; returns the number of rows that are left."""
    return copy_without(job.source, job.out, job.gone)


def scan_jobs(shards: list[Shard], index: Index | None) -> list[ScanJob]:
    """Jobs that look at every row of the files."""
    pickled = None if index is None else pickle.dumps(index, protocol=5)
    return [ScanJob(shard.kind, cut, pickled) for shard in shards for cut in cuts(shard.files[0])]


@contextmanager
def scanners(
    path: Path, *, processes: int | None = None, memory: int | None = None, engine: Engine | str | None = None
) -> Iterator[Workers]:
    """Workers for `check_rows` and `write_clean` of a path; the caller's process where its files are small.

    Args:
        path: Of the rows.
        processes: At once; by default the processors.
        memory: Bytes for all processes together: how many run at once.
        engine: `local`, `ray`, or an `Engine`.

    Raises:
        UsageError: No such engine, or a memory in which nothing can be read.
    """
    processes = processes_within(memory, processes, DATASET)
    count = (processes or processors()) if large(path) else 1
    with workers(count, preload=PRELOAD, engine=engine_of(engine, processes), seen=[path]) as pool:
        yield pool


def check_rows(
    path: Path, held: pl.DataFrame, policy: Policy, *, pool: Workers = HERE, progress: Progress | None = None
) -> Checked:
    """Look for held-out tasks in a dataset folder, a compile output or a file of rows.

    Args:
        path: Of the rows.
        held: Held-out tasks (`held_out`).
        policy: Levels and thresholds.
        pool: Where the files are read.
        progress: Where progress is shown.

    Raises:
        SourceError: The rows cannot be read.
        ConfigError: The policy names a level that there is not.
    """
    check_levels(policy)
    index = Index.build(held, policy) if "ngram" in policy.levels else None
    known = _tasks(path)
    shards = row_shards(path)
    jobs = scan_jobs(shards, index)
    with (progress or Progress()).stage("scan", len(jobs)) as tick:
        scanned = _placed(jobs, pool.map(run_scan, jobs, tick))
    every = pl.concat([pl.DataFrame(schema=_ROWS), *(s.rows for s in scanned)])
    hits = [pl.DataFrame(schema=_HITS), *(s.hits for s in scanned)]
    named = task_hits(_named(every, known), held, policy)
    by_task = every.join(named, on="task_id", how="inner", maintain_order="left").with_columns(verdict=pl.lit("drop"))
    hits.append(
        by_task.select(
            pl.col(n).cast(t) if n in by_task.columns else pl.lit(None, t).alias(n) for n, t in _HITS.items()
        )
    )
    found = pl.concat(hits)
    entry = manifest_entry(policy, index) | {"rows": every.height}
    positions = found.select(*_POSITIONS).unique(maintain_order=True)
    return Checked(
        task_report(held, named, found), row_report(held, found), entry, every.height, tuple(shards), positions
    )


def _placed(jobs: list[ScanJob], scanned: list[Scanned]) -> list[Scanned]:
    """The same with the rows of each file numbered from its begin; a row without an id goes by its place there."""
    out = []
    for _, pieces in groupby(zip(jobs, scanned, strict=True), key=lambda p: p[0].cut.path):
        own = [s for _, s in pieces]
        starts = accumulate((s.rows.height for s in own), initial=0)
        for piece, start in zip(own, starts, strict=False):
            place = (pl.col("row") + start).cast(pl.UInt32)
            named = (place, pl.coalesce("row_id", place.cast(pl.String)))
            out.append(Scanned(piece.rows.with_columns(named), piece.hits.with_columns(named)))
    return out


def _tasks(path: Path) -> pl.DataFrame | None:
    """The tasks of a folder of ours, in the columns of the table `tasks`."""
    if not path.is_dir():
        return None
    file = task_file(path)
    frame = pl.read_parquet(file, glob=False)
    if file.name == "inventory.parquet":
        frame = frame.rename(_INVENTORY, strict=False)
    return frame.select(
        c for c in ("task_id", "dataset", "native_id", "instruction", "target", "task_digest") if c in frame.columns
    ).unique("task_id", keep="first", maintain_order=True)


def _named(rows: pl.DataFrame, known: pl.DataFrame | None) -> pl.DataFrame:
    """The tasks of the rows; of those that no table describes the names are all there is."""
    ours = rows.select("task_id", "dataset").drop_nulls("task_id").unique("task_id", keep="first", maintain_order=True)
    if known is None:
        return ours.with_columns(native_id="task_id")
    described = known.join(ours, on="task_id", how="semi", maintain_order="left")
    others = ours.join(known, on="task_id", how="anti", maintain_order="left").with_columns(native_id="task_id")
    return pl.concat([described, others], how="diagonal")


def write_report(rows: pl.DataFrame, out: Path, *, force: bool = False) -> None:
    """Write the report by row as Parquet, in one step."""
    with replacing(out, force=force) as beside:
        write_parquet(rows, beside, {})


def write_clean(path: Path, checked: Checked, out: Path, *, force: bool = False, pool: Workers = HERE) -> int:
    """Write the rows that pass, in the format they came in, in one step; returns their number.

    Of a dataset folder the files of rows are written, with a manifest of their own: card and side tables speak of all rows.

    Raises:
        UsageError: `out` is where the rows are.
        OutputError: `out` cannot be written.
    """
    check_out(path, out)
    if path.is_file():
        with replacing(out, force=force) as beside:
            return copy_without(path, beside, _gone(checked, checked.shards[0]))
    with publish(out, force=force) as staging:
        jobs = []
        for shard in checked.shards:
            gone = _gone(checked, shard)
            for file in shard.files:
                there = subfolder((staging / file.relative_to(path)).parent) / file.name
                jobs.append(CopyJob(file.absolute(), there, gone))
        kept = dict(zip((j.out for j in jobs), pool.map(run_copy, jobs, lambda n: None), strict=True))
        files = [
            {"path": there.relative_to(staging).as_posix(), "rows": n, "sha256": sha256_file(there)}
            for there, n in kept.items()
        ]
        left = sum(kept[staging / shard.files[0].relative_to(path)] for shard in checked.shards)
        dropped = {"rows": checked.n_rows, "rows_kept": left}
        write_json(staging / "manifest.json", {"decontamination": checked.manifest | dropped, "files": files})
    return left


def _gone(checked: Checked, shard: Shard) -> pl.Series:
    return checked.positions.filter((pl.col("kind") == shard.kind) & (pl.col("verdict") == "drop"))["row"]


__all__ = ["Checked", "check_rows", "held_out", "write_clean", "write_report"]
