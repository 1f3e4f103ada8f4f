"""Loads of which nobody knows the tasks before they are read: parsed in parts, spread over buckets by task, finished bucket by bucket.

Two plain functions, job to result: `spread` reads some units and stores their rows sorted by bucket; `gather` takes the rows of one
bucket from all of them and finishes them as `read_units` does. All attempts at a task are in one bucket, so trials are numbered and
tasks merged as over the whole load; a bucket fits in memory however large the load is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl

from expcomp.io.digest import xxh3_expr
from expcomp.io.sinks import read_part, write_part
from expcomp.io.sorted_parts import read_bucket, write_sorted
from expcomp.sources._contract import Frames, ReadOptions, Unit
from expcomp.sources._told import NAMED
from expcomp.sources.copies import home_folder
from expcomp.sources.deciding import linked
from expcomp.sources.finish import settle_frames
from expcomp.sources.load import parse_units, uncollected
from expcomp.sources.stored import STORED
from expcomp.sources.stream import batches, ordered
from expcomp.sources.swe.join import REPORTS, TRAJECTORIES
from expcomp.sources.trials import doubtful_trials, trial_keys
from expcomp.tables.core import CORE

SPREAD_BYTES = 64 << 20
"""Input of one job: it stores a file a table, of which every bucket reads its rows."""

BUCKET_BYTES = 32 << 20
"""Input of one bucket at the most, as far as tasks are of like size."""

MOST_BUCKETS = 1024

BY_FOLDER = frozenset({"claude_code", "codex"})
"""Formats of sessions that name no task: those of one folder continue and copy one another, and stay together."""

BORROWED = {"evidence": "package_id", "tasks": "task_id"}
"""Tables whose rows several buckets may need, with what the bucket that owns a row follows from."""


@dataclass(frozen=True, slots=True)
class SpreadJob:
    """Units to read, and how many buckets there are; `whole`: formats whose attempts have to be in one (see `kept_whole`)."""

    index: int
    units: tuple[Unit, ...]
    options: ReadOptions
    folder: str
    buckets: int
    whole: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Spread:
    """What a job stored: table -> file; a table without rows has none.

    Attributes:
        index: Of the job.
        files: Names below the folder.
        shared: File with the evidence of what other jobs read other parts of.
        trials: Trial numbers that the sources give, by file, as keys.
        bytes: Size of what was stored.
    """

    index: int
    files: Mapping[str, str]
    shared: str | None
    trials: pl.DataFrame
    bytes: int


@dataclass(frozen=True, slots=True)
class GatherJob:
    """One bucket.

    Attributes:
        number: Of the bucket.
        folder: Of the spread rows.
        buckets: How many there are.
        files: Table -> files of all jobs that have rows of it, in their order.
        shared: Files with the evidence of what was read in parts.
        doubtful: Of the whole load (see `trials.doubtful_trials`).
        options: As in the jobs.
    """

    number: int
    buckets: int
    folder: str
    files: Mapping[str, tuple[str, ...]]
    shared: tuple[str, ...]
    doubtful: pl.DataFrame
    options: ReadOptions


@dataclass(frozen=True, slots=True)
class Gathered:
    """Finished rows of a bucket.

    Attributes:
        frames: Rows that belong to the bucket.
        borrowed: Rows that belong to another one but are cited here, by table.
    """

    frames: Frames
    borrowed: Mapping[str, pl.DataFrame] = field(default_factory=dict)


def plan_spread(units: Sequence[Unit]) -> list[tuple[Unit, ...]]:
    """Units cut into jobs; the cut depends on the input only."""
    return batches(ordered(units), SPREAD_BYTES)


def spread_jobs(units: Sequence[Unit], folder: str, options: ReadOptions) -> list[SpreadJob]:
    """Jobs that read all units and store their rows below a folder."""
    buckets, whole = bucket_count(units), kept_whole(units)
    return [SpreadJob(i, own, options, folder, buckets, whole) for i, own in enumerate(plan_spread(units))]


def kept_whole(units: Sequence[Unit]) -> tuple[str, ...]:
    """Formats that cannot be spread: with SWE-bench reports among the units, those whose runs the reports judge as a whole."""
    return (REPORTS, *TRAJECTORIES) if any(u.format == REPORTS for u in units) else ()


def bucket_count(units: Sequence[Unit]) -> int:
    """Buckets for the units: a power of two, so that growth moves rows only when it doubles them; 1 for small input."""
    total, count = sum(u.size for u in units), 1
    while count * BUCKET_BYTES < total and count < MOST_BUCKETS:
        count *= 2
    return count


def spread(job: SpreadJob) -> Spread:
    """Read the units of a job and store their rows, sorted by bucket and in the order of the load within one. Runs in a worker."""
    with uncollected():
        parsed = [parse_units(units, job.options) for units in batches(job.units)]
    frames = {name: pl.concat([p.pop(name) for p in parsed]) for name in CORE}
    # Of what was cut any job, and so any bucket, may cite the evidence.
    cut = [u.package_id for u in job.units if u.span is not None]
    stored = any(u.format == STORED for u in job.units)
    of_cut = pl.lit(value=True) if stored and cut else pl.col("package_id").is_in(cut)
    shared, frames["evidence"] = frames["evidence"].filter(of_cut), frames["evidence"].filter(~of_cut)
    beside = Path(job.folder) / f"shared.{job.index:05d}.arrow"
    if shared.height:
        write_part(shared, beside)
    trials = trial_keys(frames["attempts"], job.options)
    files: dict[str, str] = {}
    size = 0
    for name, frame in _bucketed(frames, job).items():
        if frame.height:
            files[name] = f"{name}.{job.index:05d}.arrow"
            size += write_sorted(frame, "_bucket", job.buckets, Path(job.folder) / files[name])
    return Spread(job.index, files, beside.name if shared.height else None, trials, size)


def gather_jobs(jobs: Sequence[SpreadJob], spreads: Sequence[Spread]) -> list[GatherJob]:
    """One job a bucket, of the jobs of `spread_jobs` and what they gave."""
    if not jobs:
        return []
    folder, buckets, options = jobs[0].folder, jobs[0].buckets, jobs[0].options
    made = sorted(spreads, key=lambda s: s.index)
    names = dict.fromkeys(name for s in made for name in s.files)
    files = {name: tuple(s.files[name] for s in made if name in s.files) for name in names}
    shared = tuple(s.shared for s in made if s.shared is not None)
    doubtful = doubtful_trials([s.trials for s in made])
    return [GatherJob(n, buckets, folder, files, shared, doubtful, options) for n in range(buckets)]


def gather(job: GatherJob) -> Gathered:
    """The rows of a bucket, finished: trials, links, tasks. Runs in a worker."""
    frames = {name: _rows(job, name, name) for name in CORE}
    borrowed = {name: _rows(job, f"{name}+", name) for name in BORROWED}
    owner = _bucket("package_id", job.buckets) == job.number
    here = pl.col("package_id").is_in(frames["attempts"]["package_id"].unique().implode())
    for name in job.shared:
        shared = read_part(Path(job.folder) / name)
        frames["evidence"] = pl.concat([frames["evidence"], shared.filter(owner)])
        borrowed["evidence"] = pl.concat([borrowed["evidence"], shared.filter(~owner & here)])
    doubtful = job.doubtful.with_columns(tell=_bucket("source_uri", job.buckets) == job.number)
    settled = settle_frames(frames, job.options, doubtful)
    return Gathered(settled, {name: _merged(name, rows) for name, rows in borrowed.items() if rows.height})


def _rows(job: GatherJob, stored: str, name: str) -> pl.DataFrame:
    found = read_bucket((Path(job.folder) / f for f in job.files.get(stored, ())), job.number)
    return CORE[name].empty() if found is None else found


def _merged(name: str, rows: pl.DataFrame) -> pl.DataFrame:
    key = ["package_id", "ref"] if name == "evidence" else ["task_id"]
    return rows.unique(key, keep="first", maintain_order=True)


def _bucket(key: str | pl.Expr, buckets: int) -> pl.Expr:
    return (xxh3_expr(key) % buckets).cast(pl.UInt32)


def _bucketed(frames: Frames, job: SpreadJob) -> dict[str, pl.DataFrame]:
    """Every table with the column `_bucket`; what other buckets borrow under the name of the table and `+`."""
    attempts = _keyed(frames["attempts"], job)
    out = {"attempts": attempts}
    for name, frame in frames.items():
        if name != "attempts" and frame.height:
            out[name] = _with_attempts(name, frame, attempts, job.buckets)
    for name, key in BORROWED.items():
        if name in out:
            needed = attempts.select(key, _needs="_bucket").unique(maintain_order=True)
            lent = out[name].join(needed, on=key, how="inner", maintain_order="left")
            lent = lent.filter(pl.col("_needs") != pl.col("_bucket"))
            out[f"{name}+"] = lent.with_columns(_bucket="_needs").drop("_needs")
    return out


def _with_attempts(name: str, frame: pl.DataFrame, attempts: pl.DataFrame, buckets: int) -> pl.DataFrame:
    """Rows with the bucket of their attempt; without one of their package's first, or where the name of their package leads."""
    if name in BORROWED:
        return frame.with_columns(_bucket=_bucket(BORROWED[name], buckets))
    places = []
    # Lines about a file as a whole meet, whichever parts of it they are from.
    for key in ("attempt_id",) if name == "diagnostics" else ("attempt_id", "package_id"):
        if key in frame.columns:
            homes = attempts.select(key, pl.col("_bucket").alias(f"_by_{key}"))
            homes = homes.unique(key, keep="first", maintain_order=True)
            frame = frame.join(homes, on=key, how="left", maintain_order="left")
            places.append(f"_by_{key}")
    named = _bucket("package_id", buckets) if "package_id" in frame.columns else pl.lit(None, dtype=pl.UInt32)
    return frame.with_columns(_bucket=pl.coalesce(*places, named, pl.lit(0, dtype=pl.UInt32))).drop(places)


def _keyed(attempts: pl.DataFrame, job: SpreadJob) -> pl.DataFrame:
    """Attempts with their bucket: that of the task of the attempt they go back to, else of their folder or of that attempt itself."""
    source = pl.col("source_format")
    given = pl.when(~source.is_in(NAMED)).then(pl.lit(job.options.task_id, dtype=pl.String))
    home = pl.when(source.is_in(BY_FOLDER)).then(home_folder("package_id"))
    whole = pl.when(source.is_in(job.whole)).then(pl.lit(""))
    keyed = attempts.with_columns(_key=pl.coalesce(whole, "task_id", given, home, "attempt_id"))
    if attempts["parent_attempt_id"].null_count() < attempts.height:
        roots = linked(attempts, [])["root_attempt_id"]
        keys = keyed.select(_root="attempt_id", _of_root="_key").unique("_root", keep="first", maintain_order=True)
        keyed = (
            keyed.with_columns(roots.alias("_root"))
            .join(keys, on="_root", how="left", maintain_order="left")
            .with_columns(_key=pl.coalesce("_of_root", "_key"))
            .drop("_root", "_of_root")
        )
    return keyed.with_columns(_bucket=_bucket("_key", job.buckets)).drop("_key")
