"""`write_datasets`: from a compile to a published folder of dataset configs, slice by slice, in flat memory."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from expcomp.datasets.candidates import Guard
from expcomp.datasets.compiled import Compiled, prepared
from expcomp.datasets.folder import Built, finish
from expcomp.datasets.guard import guard_of
from expcomp.datasets.needs import chosen
from expcomp.datasets.options import DatasetOptions
from expcomp.datasets.registry import KINDS
from expcomp.datasets.shards import plan_shards, ranked, run_shard
from expcomp.datasets.split import assign
from expcomp.datasets.stage import Shared, Staged, StageJob, plan_stage, run_stage, share
from expcomp.errors import SourceError, UsageError
from expcomp.io.engine import Engine, engine_of
from expcomp.io.memory import DATASET, processes_within, processors
from expcomp.io.nearest import nearest
from expcomp.io.pool import workers
from expcomp.io.progress import Progress
from expcomp.io.publish import publish
from expcomp.io.sinks import read_part
from expcomp.io.staging import PARTS, scratch, subfolder
from expcomp.tables.targets import GROUPS, TARGETS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from expcomp.tables.targets import Target

PathLike = str | os.PathLike[str]
PRELOAD = ("expcomp.datasets.stage", "expcomp.datasets.shards", "pyarrow.parquet")


def resolve_targets(names: Sequence[str]) -> list[Target]:
    """Targets by name; a trainer's name stands for all of its targets. In the order of their declaration.

    Raises:
        UsageError: A name that is neither, or none at all.
    """
    if not names:
        msg = f"no target is given; known are {', '.join(TARGETS)}, and {', '.join(GROUPS)} for all of a trainer"
        raise UsageError(msg)
    wanted: set[str] = set()
    for name in names:
        if name not in TARGETS and name not in GROUPS:
            near = nearest(name, [*TARGETS, *GROUPS])
            msg = f"there is no target '{name}'; known are {', '.join(TARGETS)}, and {', '.join(GROUPS)} for all of a trainer{near}"
            raise UsageError(msg)
        wanted |= set(GROUPS.get(name, (name,)))
    return [t for t in TARGETS.values() if t.name in wanted]


def write_datasets(
    source: PathLike,
    targets: Sequence[str] | str,
    out: PathLike,
    *,
    against: Sequence[Any] = (),
    columns: dict[str, str] | None = None,
    options: DatasetOptions | None = None,
    about: dict[str, str | None] | None = None,
    force: bool = False,
    processes: int | None = None,
    progress: Progress | None = None,
    engine: Engine | str | None = None,
    memory: int | None = None,
) -> dict[str, Any]:
    """Build datasets from the output folder of a compile and return their manifest.

    Args:
        source: Output folder of a compile; only read.
        targets: Names of targets, or of trainers for all of their targets.
        out: Folder to publish. It must not exist, unless `force`.
        against: Held-out sets: files, folders or frames (see `held_out`).
        columns: Names of columns in held-out files, where they are not found by themselves.
        options: What the dataset may be told.
        about: For the card: `name`, `license`, `url`, `date`.
        force: Replace an earlier output, in one step.
        processes: Worker processes; by default the processors, 1 for small inputs.
        progress: Where progress is shown.
        engine: Where rows are made and written: `local`, `ray`, or an `Engine`; the files are the same.
        memory: Bytes that all processes may take together: decides how many run; the files are the same.

    Raises:
        SourceError: The compile or a held-out set cannot be read.
        OutputError: `out` exists or cannot be written.
        UsageError: A target that does not exist, `out` inside the compile, or a memory in which nothing can be done.
    """
    options, progress = options or DatasetOptions(), progress or Progress()
    processes = processes_within(memory, processes, DATASET)
    where = engine_of(engine, processes)
    wanted = resolve_targets([targets] if isinstance(targets, str) else targets)
    compiled, target = Compiled.of(Path(source)), Path(out)
    _apart(Path(source), target)
    with publish(target, force=force) as staging, scratch(staging / PARTS) as parts:
        look = compiled.lookups(users=options.group == "user")
        places = assign(look.tasks, look.attempts, options)
        checked = guard_of(look.tasks, against, options.policy, columns=columns)
        kinds = {t.kind: KINDS[t.kind] for t in wanted}
        look = prepared(look, compiled, kinds)
        share(Shared(look, places, Guard(checked.index, checked.hits, checked.banned), options), parts)
        jobs: list[StageJob] = []
        for kind in kinds.values():
            path = compiled.path(kind.family)
            assert path is not None
            if not path.is_file():
                msg = f"{source}: rows/{kind.family}.parquet is missing; compile again"
                raise SourceError(msg)
            jobs += plan_stage(kind, path.absolute(), parts, len(jobs))
        cores = processes or processors()
        seen = (staging, Path(source))
        with workers(min(cores, max(1, len(jobs))), preload=PRELOAD, engine=where, seen=seen) as pool:
            with progress.stage("rows", len(jobs)) as tick:
                staged = pool.map(run_stage, jobs, tick)
            plan = _plan(wanted, staged, parts, staging, options)
            with progress.stage("write", len(plan.jobs)) as tick:
                done = pool.map(run_shard, plan.jobs, tick)
        return finish(
            Built(
                wanted,
                plan.keys,
                plan.left,
                done,
                _read(staged, parts, "hits"),
                look,
                places,
                checked,
                options,
                compiled.rejections(kinds),
            ),
            staging,
            compiled.fingerprint,
            about or {},
        )


@dataclass(frozen=True)
class _Plan:
    """Jobs of the second pass; selected keys and what was left out, by target."""

    jobs: list[Any]
    keys: dict[str, pl.DataFrame]
    left: dict[str, pl.DataFrame]


def _plan(wanted: Sequence[Target], staged: Sequence[Staged], parts: Path, out: Path, options: DatasetOptions) -> _Plan:
    plan = _Plan([], {}, {})
    for kind in dict.fromkeys(t.kind for t in wanted):
        own = [s for s in staged if s.kind == kind]
        keys = _read(own, parts, "keys")
        left = _read(own, parts, "left")
        for target in (t for t in wanted if t.kind == kind):
            kept, more = chosen(target, keys, options)
            plan.keys[target.name] = kept = ranked(kept)
            plan.left[target.name] = pl.concat([left, more])
            folder = out / "data" / target.config
            if kept.height:
                plan.jobs.extend(plan_shards(target, kept, parts, subfolder(folder)))
    # The largest first, so that no worker is left with a long job at the end.
    plan.jobs.sort(key=lambda j: -int(j.rows["_size"].sum()))
    return plan


def _read(staged: Sequence[Staged], parts: Path, what: str) -> pl.DataFrame:
    """What the jobs left, in their order."""
    return pl.concat(read_part(parts / f"{s.kind}-{s.number:05}.{what}") for s in staged)


def _apart(source: Path, out: Path) -> None:
    """Refuse an output inside the compile or around it: inputs are never written to."""
    a, b = source.absolute().resolve(), out.absolute().resolve()
    if a == b or b.is_relative_to(a) or a.is_relative_to(b):
        msg = f"output {out} and compile {source} lie inside each other; choose an output folder apart from it"
        raise UsageError(msg)
