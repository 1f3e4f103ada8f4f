"""From paths to a TraceSet, and from units to frames."""

from __future__ import annotations

import gc
import glob
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from expcomp.errors import SourceError, UsageError
from expcomp.io.addresses import is_address, no_address
from expcomp.io.counts import Count
from expcomp.io.engine import engine_of
from expcomp.io.memory import READ, processes_within
from expcomp.io.progress import Progress
from expcomp.io.remote import local_paths
from expcomp.sources._columns import frame_of
from expcomp.sources._contract import Batch, Frames, ReadOptions, Unit
from expcomp.sources.finish import settle_frames
from expcomp.sources.registry import LARGE_BYTES, SOURCES, discover
from expcomp.sources.surfaces import with_surfaces
from expcomp.sources.traceset import TraceSet
from expcomp.tables.core import CORE, DIAGNOSTICS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from expcomp.io.engine import Engine
    from expcomp.sources._contract import Found
    from expcomp.sources.stream import Plan

PathLike = str | Path


def find(
    paths: Sequence[PathLike],
    *,
    format: str | None = None,  # noqa: A002
    large: Callable[[], None] | None = None,
) -> Found:
    """Units below the paths, in order.

    Raises:
        SourceError: A path that does not exist, or nothing that a format recognises.
    """
    given = expand(paths)
    for path in given:
        no_address(path, "give it as text, to a verb or function that fetches")
    missing = [str(p) for p in given if not p.exists()]
    if missing:
        msg = f"no such file or folder: {', '.join(missing)}"
        raise SourceError(msg)
    found = discover(given, format=format, large=large)
    if not found.units:
        looked = ", ".join(str(p) for p in given)
        told = [d for d in found.diagnostics if d["severity"] == "error" or d["code"] == "pointer_file"]
        lost = [f"{d['source_uri']}: {d['detail']}" for d in told]
        if lost:
            raise SourceError(f"nothing could be read in {looked}: {'; '.join(lost[:3])}")
        msg = (
            f"nothing to read in {looked}: no format recognises what is there; "
            f"`expcomp formats` lists the {len(SOURCES)} formats, --format forces one"
        )
        raise SourceError(msg)
    return found


def read_units(units: Sequence[Unit], options: ReadOptions | None = None) -> Frames:
    """Frames of the common model, units of one format read together, formats in registry order, finished as one load."""
    options = options or ReadOptions()
    return settle_frames(parse_units(units, options), options)


@contextmanager
def uncollected() -> Iterator[None]:
    """No search for cycles inside: parsed documents are many and hold none, and to look again and again costs a third of the time."""
    watched = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if watched:
            gc.enable()


def parse_units(units: Sequence[Unit], options: ReadOptions) -> Frames:
    """What the readers make of the units; not finished: trials, links and copies are decided over the whole load."""
    parts, silent = [], Batch()
    for name, source in SOURCES.items():
        own = [u for u in units if u.format == name]
        if own:
            parts.append(source.read(own, options))
            if parts[-1]["attempts"].is_empty():
                silent.diagnose("no_attempt", f"{Count(len(own)):unit|units} of format {name} gave no attempt")
    frames = {name: pl.concat([p[name] for p in parts]) if parts else table.empty() for name, table in CORE.items()}
    frames["steps"] = with_surfaces(frames["steps"])
    if silent.rows:
        frames["diagnostics"] = pl.concat([frames["diagnostics"], silent.frames()["diagnostics"]])
    return frames


def discovery_frame(found: Found) -> pl.DataFrame:
    """Diagnostics of the discovery."""
    return frame_of(found.diagnostics, DIAGNOSTICS.schema)


def read_frames(
    paths: Sequence[PathLike],
    format: str | None = None,  # noqa: A002
    options: ReadOptions | None = None,
) -> Frames:
    """The frames of everything below the paths; where nothing is recognised they are empty and diagnostics say so."""
    found = discover([Path(p) for p in paths], format=format)
    frames = read_units(found.units, options)
    nothing = Batch()
    if not found.units:
        nothing.diagnose("no_attempt", "no format recognises anything here; no attempt")
    told = [discovery_frame(found), frames["diagnostics"], nothing.frames()["diagnostics"]]
    return frames | {"diagnostics": pl.concat(told)}


def find_plan(
    paths: Sequence[PathLike],
    *,
    format: str | None = None,  # noqa: A002
    options: ReadOptions | None = None,
    processes: int | None = None,
    progress: Progress | None = None,
    engine: Engine | str | None = None,
    memory: int | None = None,
) -> Plan:
    """What a load would read.

    Raises:
        SourceError: A path that does not exist, or nothing that a format recognises.
        UsageError: An unknown format name, no such engine, or a memory in which nothing can be read.
    """
    from expcomp.io.pool import prepare
    from expcomp.sources.stream import Plan

    processes = processes_within(memory, processes, READ)
    where = engine_of(engine, processes)
    found = find(paths, format=format, large=prepare if processes != 1 and not where.remote else None)
    told = discovery_frame(found)
    return Plan(tuple(found.units), options or ReadOptions(), told, processes, progress or Progress(), where)


def read_traces(
    *paths: PathLike,
    format: str | None = None,  # noqa: A002
    options: ReadOptions | None = None,
    processes: int | None = None,
    progress: Progress | None = None,
    engine: Engine | str | None = None,
    memory: int | None = None,
    cache: PathLike | None = None,
    **supply: Any,
) -> TraceSet:
    """Read everything below the paths into plain frames; formats are recognised by content unless one is named.

    Args:
        *paths: Trace files, folders of them, archives, job and package folders, folders that `TraceSet.write` wrote; `**` and other
            wildcards are expanded. Or addresses of such (s3://bucket/runs), which are fetched first.
        format: Read everything as this format.
        options: What the formats lack.
        processes: Worker processes; by default the processors, 1 for small input.
        progress: Where progress is shown.
        engine: Where files are read: `local`, `ray`, or an `Engine`; the tables are the same.
        memory: Bytes that worker processes may take together: decides how many run; the tables it returns are not counted.
        cache: Folder in which copies of addresses stay, so that the next load fetches only what changed.
        **supply: Fields of `ReadOptions`, in place of `options`: tools, system, arm, task_id, trial, score_scale, ...

    Raises:
        SourceError: A path that does not exist, or nothing that a format recognises.
        UsageError: No path, or what is none; an unknown format name; both `options` and its fields.
    """
    _one_by_one(paths)
    read = _options(options, supply)
    where = engine_of(engine, processes)
    with local_paths(paths, where, cache=None if cache is None else Path(cache), progress=progress) as given:
        plan = find_plan(
            given, format=format, options=read, processes=processes, progress=progress, engine=where, memory=memory
        )
        return TraceSet(plan.run().frames(), packages=tuple(dict.fromkeys(u.package_id for u in plan.units)))


def scan_traces(
    *paths: PathLike,
    format: str | None = None,  # noqa: A002
    options: ReadOptions | None = None,
    processes: int | None = None,
    progress: Progress | None = None,
    engine: Engine | str | None = None,
    memory: int | None = None,
    cache: PathLike | None = None,
    **supply: Any,
) -> TraceSet:
    """`read_traces` as LazyFrames.

    A folder that `TraceSet.write` wrote is scanned without reading. Other loads are read at the first query and kept, up to 256 MB. Of
    larger ones steps and messages are never held: every query over them reads the files again, batch by batch, and `TraceSet.write`
    streams them to disk in one pass, which is the thing to do first. What lies at addresses is fetched now, into `cache`, and stays there.

    Raises:
        SourceError: A path that does not exist, or nothing that a format recognises.
        UsageError: An unknown format name, both `options` and its fields, or addresses without `cache`.
    """
    from expcomp.sources.store import is_stored, scan
    from expcomp.sources.stream import LazyTables

    _one_by_one(paths)
    read = _options(options, supply)
    if cache is None and any(is_address(p) for p in paths):
        msg = "files are read when they are asked for, and what lies at an address has to stay till then: give cache=FOLDER"
        raise UsageError(msg)
    where = engine_of(engine, processes)
    with local_paths(paths, where, cache=None if cache is None else Path(cache), progress=progress) as here:
        given = expand(here)
    if len(given) == 1 and format is None and read == ReadOptions() and is_stored(given[0]):
        return scan(given[0])
    plan = find_plan(
        given, format=format, options=read, processes=processes, progress=progress, engine=where, memory=memory
    )
    packages = tuple(dict.fromkeys(u.package_id for u in plan.units))
    if sum(u.size for u in plan.units) <= LARGE_BYTES:
        return TraceSet(plan.run().frames(), packages=packages).lazy()
    return TraceSet(LazyTables(plan), packages=packages)


def _one_by_one(paths: Sequence[Any]) -> None:
    wrong = [type(p).__name__ for p in paths if not isinstance(p, str | os.PathLike)]
    if wrong or not paths:
        found = wrong[0] if wrong else "none"
        msg = f"expected paths one by one, as text or Path, found {found}; of a list give the elements: read_traces(*paths)"
        raise UsageError(msg)


def expand(paths: Sequence[PathLike]) -> list[Path]:
    """Paths with wildcards expanded, in the order of names; a path without wildcard, or that exists as it is, stays."""
    out: list[Path] = []
    for path in paths:
        text = str(path)
        if not any(mark in text for mark in "*?[") or Path(text).exists():
            out.append(Path(path))
            continue
        found = sorted(Path(p) for p in glob.glob(text, recursive=True))  # noqa: PTH207 - takes absolute patterns too
        if not found:
            msg = f"nothing matches {text}"
            raise SourceError(msg)
        # A folder covers what lies below it: `runs/**` would give every file once more.
        kept: list[Path] = []
        for one in found:
            if not any(one.is_relative_to(above) for above in kept if above.is_dir()):
                kept.append(one)
        out += kept
    return out


def _options(options: ReadOptions | None, supply: dict[str, Any]) -> ReadOptions:
    if not supply:
        return options or ReadOptions()
    if options is not None:
        msg = "give either options or its fields, not both"
        raise UsageError(msg)
    known = [f.name for f in fields(ReadOptions)]
    unknown = sorted(set(supply) - set(known))
    if unknown:
        msg = f"no option {', '.join(unknown)}; there are {', '.join(known)}"
        raise UsageError(msg)
    return ReadOptions(**supply)
