"""Units through the workers: shards of whole cells; what has no known task is spread over buckets first."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from expcomp.compiler.plan import REST, bucket_cell, cell_of, plan_shards
from expcomp.compiler.shard import ShardJob, ShardResult, run_shard
from expcomp.compiler.stats import stat_cells
from expcomp.compiler.unchanged import Earlier, earlier
from expcomp.io.staging import scratch
from expcomp.sources.spread import bucket_count, gather_jobs, spread, spread_jobs

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from expcomp.compiler.old_rows import OldOutput
    from expcomp.config import CompileOptions
    from expcomp.io.pool import Workers
    from expcomp.io.progress import Progress
    from expcomp.sources._contract import ReadOptions, Unit

SPREAD = "spread"
"""Folder of the spread rows among the parts."""


@dataclass(frozen=True)
class Run:
    """How units are compiled.

    Attributes:
        options: What the compile was told.
        read: What the formats lack.
        parts: Folder for parts.
        progress: Where progress is shown.
        old: An earlier output.
    """

    options: CompileOptions
    read: ReadOptions
    parts: Path
    progress: Progress
    old: OldOutput | None = None

    def earlier(self, cells: Iterable[str]) -> Earlier | None:
        """What the earlier output holds of cells."""
        return None if self.old is None else earlier(self.old, cells)


def compile_units(pool: Workers, units: Sequence[Unit], run: Run) -> tuple[list[ShardResult], dict[str, str]]:
    """Compile units into parts; also what the file system said of their sources before they were read, by cell."""
    shards = plan_shards(units, pool.size)
    rest = [u for u in units if cell_of(u) == REST]
    stats: dict[str, str] = {}
    folder = os.fspath(run.parts)
    jobs = [
        ShardJob(i, own, run.options, run.read, folder, earlier=run.earlier({cell_of(u) for u in own}))
        for i, own in enumerate(shards)
    ]
    with scratch(run.parts / SPREAD) as spread_to:
        if bucket_count(rest) > 1:
            # Looked at before it is read, so that what is written meanwhile shows the next time.
            stats |= pool.map(stat_cells, [rest], lambda _: None)[0]
            jobs[-1:] = _spread(pool, rest, run, len(jobs) - 1, spread_to)
        sizes = [len(job.units) or 1 for job in jobs]
        with run.progress.stage("compile", sum(sizes)) as tick:
            results = pool.map(run_shard, jobs, lambda done: tick(sum(sizes[:done])))
    for result in results:
        stats |= result.stats
    return results, stats


def _spread(pool: Workers, rest: Sequence[Unit], run: Run, first: int, folder: Path) -> list[ShardJob]:
    work = spread_jobs(rest, os.fspath(folder), run.read)
    with run.progress.stage("read", len(work)) as tick:
        spreads = pool.map(spread, work, tick)
    return [
        ShardJob(
            first + i,
            (),
            run.options,
            run.read,
            os.fspath(run.parts),
            bucket,
            run.earlier([bucket_cell(bucket.number)]),
        )
        for i, bucket in enumerate(gather_jobs(work, spreads))
    ]
