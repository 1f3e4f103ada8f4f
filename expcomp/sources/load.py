"""From paths to a TraceSet, and from units to frames."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from expcomp.errors import SourceError
from expcomp.sources._contract import Batch, Frames, ReadOptions, Unit
from expcomp.sources.finish import settle_frames
from expcomp.sources.registry import SOURCES, discover
from expcomp.sources.surfaces import with_surfaces
from expcomp.sources.traceset import TraceSet
from expcomp.tables import vocab as v
from expcomp.tables.core import CORE, DIAGNOSTICS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from expcomp.sources._contract import Found

PathLike = str | Path


def find(paths: Sequence[PathLike], *, format: str | None = None) -> Found:  # noqa: A002
    """Units below the paths, in order.

    Raises:
        SourceError: A path that does not exist, or nothing that a format recognises.
    """
    given = [Path(p) for p in paths]
    missing = [str(p) for p in given if not p.exists()]
    if missing:
        msg = f"no such file or folder: {', '.join(missing)}"
        raise SourceError(msg)
    found = discover(given, format=format)
    if not found.units:
        looked = ", ".join(str(p) for p in given)
        msg = (
            f"nothing to read in {looked}: no format recognises what is there; "
            f"`expcomp formats` lists the {len(SOURCES)} formats, --format forces one"
        )
        raise SourceError(msg)
    return found


def read_units(units: Sequence[Unit], options: ReadOptions | None = None) -> Frames:
    """Frames of the common model, units of one format read together, formats in registry order, finished as one load."""
    options = options or ReadOptions()
    frames = settle_frames(parse_units(units, options), options)
    frames["diagnostics"] = pl.concat([frames["diagnostics"], _duplicate_tasks(frames["attempts"])])
    return frames


def parse_units(units: Sequence[Unit], options: ReadOptions) -> Frames:
    """What the readers make of the units; not finished: trials, links and copies are decided over the whole load."""
    parts, silent = [], Batch()
    for name, source in SOURCES.items():
        own = [u for u in units if u.format == name]
        if own:
            parts.append(source.read(own, options))
            if parts[-1]["attempts"].is_empty():
                silent.diagnose("no_attempt", f"{len(own)} units of format {name} gave no attempt")
    frames = {name: pl.concat([p[name] for p in parts]) if parts else table.empty() for name, table in CORE.items()}
    frames["steps"] = with_surfaces(frames["steps"])
    if silent.rows:
        frames["diagnostics"] = pl.concat([frames["diagnostics"], silent.frames()["diagnostics"]])
    return frames


def discovery_frame(found: Found) -> pl.DataFrame:
    """Diagnostics of the discovery."""
    return pl.DataFrame(found.diagnostics, schema=DIAGNOSTICS.schema)


def _duplicate_tasks(attempts: pl.DataFrame) -> pl.DataFrame:
    """One diagnostics line for each package that holds a task an earlier package of the load holds too."""
    own = (
        attempts.filter(pl.col("source_format") == "packages")
        .select("task_id", "package_id")
        .unique(maintain_order=True)
    )
    first = pl.col("package_id").first().over("task_id")
    twins = own.with_columns(first=first).filter(pl.col("package_id") != pl.col("first"))
    return twins.select(
        package_id="package_id",
        source_uri="package_id",
        source_pos=pl.lit(None, dtype=pl.Int64),
        byte_offset=pl.lit(None, dtype=pl.Int64),
        attempt_id=pl.lit(None, dtype=pl.String),
        field=pl.lit("task_id"),
        code=pl.lit("duplicate_task"),
        severity=pl.lit("warning", dtype=v.SEVERITY),
        detail=pl.format(
            "{}: holds task {}, as package {} does; rows of both are kept, statistics count both",
            "package_id",
            "task_id",
            "first",
        ),
    )


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


def read_traces(*paths: PathLike, format: str | None = None, options: ReadOptions | None = None) -> TraceSet:  # noqa: A002
    """Read everything below the paths into plain frames; the format is recognised by content unless it is named.

    Raises:
        SourceError: A path that does not exist, or nothing that a format recognises.
        UsageError: An unknown format name.
    """
    found = find(paths, format=format)
    frames = read_units(found.units, options)
    frames["diagnostics"] = pl.concat([discovery_frame(found), frames["diagnostics"]])
    return TraceSet(frames, packages=tuple(dict.fromkeys(u.package_id for u in found.units)))


def scan_traces(*paths: PathLike, format: str | None = None, options: ReadOptions | None = None) -> TraceSet:  # noqa: A002
    """`read_traces` as LazyFrames. The files are read at once: they are no columnar store that a plan could read later."""
    return read_traces(*paths, format=format, options=options).lazy()
