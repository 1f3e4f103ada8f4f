"""`compile_paths`: from files to a published output folder, shard by shard, in flat memory."""

from __future__ import annotations

import hashlib
import time
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from expcomp.compiler.assemble import lines_of
from expcomp.compiler.changes import state_of, unchanged_cells
from expcomp.compiler.files import table_rows, write_files
from expcomp.compiler.gates import REASONS
from expcomp.compiler.layout import table_file
from expcomp.compiler.old_rows import old_output
from expcomp.compiler.owners import CELL, held_owners
from expcomp.compiler.plan import DISCOVERY, LEAST_FOR_TWO, REST, cell_of, home
from expcomp.compiler.previous import RUN, open_previous, run_key, seen_now, still_there, write_previous
from expcomp.compiler.report import build_report
from expcomp.compiler.running import Run, compile_units
from expcomp.compiler.shard import ShardResult, fingerprints, laid_out, write_target
from expcomp.config import CompileOptions
from expcomp.errors import OutputError, UsageError
from expcomp.io.addresses import is_address
from expcomp.io.counts import Count
from expcomp.io.documents import write_json
from expcomp.io.engine import engine_of
from expcomp.io.memory import COMPILE, processes_within, processors
from expcomp.io.pool import HERE, workers
from expcomp.io.progress import Progress
from expcomp.io.publish import publish
from expcomp.io.remote import local_paths
from expcomp.io.sinks import write_part
from expcomp.io.staging import PARTS, scratch
from expcomp.rows.registry import ROW_FAMILIES
from expcomp.sources._contract import Found, ReadOptions
from expcomp.sources.load import discovery_frame, find
from expcomp.sources.rules import Rules
from expcomp.tables._spec import SCHEMA_VERSION
from expcomp.tables.core import CORE
from expcomp.tables.envelope import HASH_EXCLUDE
from expcomp.version import __version__

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from expcomp.compiler.compilation import Compilation
    from expcomp.io.engine import Engine
    from expcomp.sources.load import PathLike

HASH_RULE = {"algorithm": "sha256", "prefix": "sha256:", "exclude": list(HASH_EXCLUDE)}


def compile_paths(
    paths: Sequence[PathLike] | PathLike,
    out: PathLike,
    *,
    options: CompileOptions | None = None,
    read: ReadOptions | None = None,
    format: str | None = None,  # noqa: A002
    force: bool = False,
    update: bool = False,
    processes: int | None = None,
    memory: int | None = None,
    progress: Progress | None = None,
    engine: Engine | str | None = None,
    cache: PathLike | None = None,
) -> dict[str, Any]:
    """Compile files and folders into `out` and return the report.

    The output is written beside `out` and renamed when it is complete; the inputs are only read.

    Args:
        paths: Packages, run folders, trace files, job folders, or addresses of such; formats are recognised by content.
        out: Folder to publish. It must not exist, unless `force` or `update`.
        options: What the compile may be told.
        read: What the formats lack (tool schemas, system prompt, arm, ...).
        format: Read everything as this format.
        force: Replace an earlier output, in one step.
        update: Replace an earlier output, and take from it the rows of sources that the file system shows to be unchanged; the files
            are those of a full run, byte for byte. Without one, or after a change of options, rules or version, all is compiled.
        processes: Worker processes; by default the processors, 1 for small inputs.
        memory: Bytes for all processes together: how many run at once.
        progress: Where progress is shown.
        engine: Where the work is done: `local`, `ray`, or an `Engine`; the files are the same.
        cache: Folder in which copies of addresses stay, so that the next run fetches only what changed, and `update` compiles only that.

    Raises:
        SourceError: Nothing to read.
        OutputError: `out` exists or cannot be written, or was replaced by another run meanwhile.
        UsageError: `out` lies inside an input.
    """
    started, clock = datetime.now(UTC), time.perf_counter()
    options, read, progress = options or CompileOptions(), read or ReadOptions(), progress or Progress()
    target, paths = Path(out), [paths] if isinstance(paths, str | Path) else paths
    _apart([*paths, *([] if cache is None else [cache])], target)
    processes = processes_within(memory, processes, COMPILE)
    where = engine_of(engine, processes)
    cores = processes or processors()
    local = local_paths(paths, where, beside=target, cache=None if cache is None else Path(cache), progress=progress)
    with publish(target, force=force or update) as staging, local as given:
        key = run_key(options, read, format)
        previous = open_previous(target, key) if update else None
        found = find(given, format=format)
        large = sum(u.size for u in found.units) >= LEAST_FOR_TWO
        stages = {"discover": time.perf_counter() - clock}
        places = [staging, *(u.path for u in found.units)]
        with scratch(staging / PARTS) as parts, workers(cores if large else 1, engine=where, seen=places) as pool:
            kept = unchanged_cells(pool, found.units, previous)
            whole = {home(cell) for cell in kept}
            stages["changes"] = time.perf_counter() - clock
            changed = [u for u in found.units if cell_of(u) not in whole]
            old = None if previous is None else old_output(previous)
            results, stats = compile_units(pool, changed, Run(options, read, parts, progress, old))
            unread, kept = len(kept), [*kept, *(cell for result in results for cell in result.same)]
            stages["rows"] = time.perf_counter() - clock
            state = state_of(results, stats, previous, kept)
            _tell_of_nothing(found, state["counts"])
            every = [*results, *_discovered(found, parts, len(results))]
            written = write_files(pool, every, staging, progress, old, kept)
            stages["publish"] = time.perf_counter() - clock
        counts = state["counts"]
        seen = counts.filter(pl.col("kind") == "attempts")["b"].to_list()
        packages = sorted({*(u.package_id for u in found.units), *seen})
        tables = table_rows(written.layout, without=DISCOVERY)
        report = build_report(counts, tables, packages, Counter(d["code"] for d in found.diagnostics))
        prints = dict(zip(*(state["cells"][c].to_list() for c in ("cell", "fingerprint")), strict=True))
        frames = state | {"layout": written.layout, "chunks": written.chunks}
        files = sorted([*written.entries, write_previous(staging, frames)], key=lambda e: str(e["path"]))
        write_json(staging / "manifest.json", _manifest(options, read, format, prints, files))
        report["run"] = {
            "started_at": started.isoformat(timespec="seconds"),
            "seconds": round(time.perf_counter() - clock, 3),
            "seconds_until": {k: round(v, 3) for k, v in stages.items()},
            "processes": pool.size,
            "shards": len(results),
            "cells": len(prints),
            "cells_read": len(prints) - unread,
            "cells_compiled": len(prints) - len(kept),
        }
        seen_run = report["run"] | {RUN: seen_now(staging, key, files, state["cells"])}
        write_json(staging / "report.json", report | {"run": seen_run})
        if previous is not None and not still_there(previous):
            msg = f"{out} was replaced while it was updated; nothing was published, run again"
            raise OutputError(msg)
    return report


def _tell_of_nothing(found: Found, counts: pl.DataFrame) -> None:
    """Say so when packages were found and none of them holds an attempt."""
    known = [u for u in found.units if cell_of(u) != REST]
    if known and counts.filter((pl.col("kind") == "attempts") & (pl.col("a") == known[0].format)).is_empty():
        detail = f"{Count(len(known)):unit|units} of format {known[0].format} gave no attempt"
        row = {"source_uri": None, "code": "no_attempt", "severity": "warning", "detail": detail}
        found.diagnostics.append(row)


def _apart(paths: Sequence[PathLike], out: Path) -> None:
    """Refuse an output inside an input or around one: inputs are never written to."""
    target = out.absolute().resolve()
    for path in paths:
        if is_address(path):
            continue
        source = Path(path).absolute().resolve()
        if target == source or target.is_relative_to(source) or source.is_relative_to(target):
            msg = f"output {out} and input {path} lie inside each other; choose an output folder apart from the input"
            raise UsageError(msg)


def _discovered(found: Found, parts: Path, index: int) -> list[ShardResult]:
    """What the discovery has to say, as a result of its own."""
    frame = discovery_frame(found)
    if frame.is_empty():
        return []
    target = table_file("diagnostics")
    write_part(frame, parts / "discovery")
    layout = laid_out(target, frame.with_columns(pl.lit(0, dtype=pl.UInt32).alias(CELL)), [DISCOVERY])
    return [ShardResult(index, layout=layout, parts={target: "discovery"})]


def write_compilation(compilation: Compilation, out: PathLike, *, force: bool = False) -> None:
    """Publish a compilation that is in memory, in the layout of `compile_paths`.

    Raises:
        OutputError: `out` exists or cannot be written.
    """
    with publish(Path(out), force=force) as staging:
        found = held_owners(compilation.tables)
        tables = {table_file(n): compilation.tables[n] for n in CORE}
        owned = {target: found.sorted(frame) for target, frame in tables.items()}
        for name in ROW_FAMILIES:
            accepted = found.sorted(compilation.rows[name])
            owned[f"rows/{name}.parquet"] = accepted
            owned[f"rows/{name}.jsonl"] = accepted.select(CELL, line=lines_of(accepted.drop(CELL)))
            owned[f"rejected/{name}.parquet"] = found.sorted(compilation.rejected[name])
        result = ShardResult(0)
        named = {name: owned[f"tables/{name}.parquet"] for name in ("evidence", "attempts")}
        result.fingerprints = fingerprints(named, found.cells)
        with scratch(staging / PARTS) as parts:
            for target, frame in owned.items():
                write_target(result, parts, target, frame, found.cells)
            written = write_files(HERE, [result], staging, Progress())
        manifest = _manifest(compilation.options, ReadOptions(), None, result.fingerprints, written.entries)
        write_json(staging / "manifest.json", manifest)
        write_json(staging / "report.json", dict(compilation.report))


def _manifest(
    options: CompileOptions,
    read: ReadOptions,
    format_name: str | None,
    prints: Mapping[str, str],
    files: list[dict[str, Any]],
) -> dict[str, Any]:
    digest = hashlib.sha256("".join(prints[cell] for cell in sorted(prints)).encode()).hexdigest()
    supplied = {
        n: getattr(read, n)
        for n in ("tools", "system", "arm", "task_id", "trial", "score_scale")
        if getattr(read, n) is not None
    }
    if read.rules != Rules():
        supplied["rules_changed"] = read.rules.changed()
    return {
        "expcomp": __version__,
        "polars": pl.__version__,
        "schema_version": SCHEMA_VERSION,
        "options": options.to_dict() | {"format": format_name} | supplied,
        "input_fingerprint": f"sha256:{digest}",
        "hash_rule": HASH_RULE,
        "reject_reasons": list(REASONS),
        "families": list(ROW_FAMILIES),
        "files": files,
    }
