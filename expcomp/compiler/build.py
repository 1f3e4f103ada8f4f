"""`compile_paths`: from files to a published output folder, shard by shard, in flat memory."""

from __future__ import annotations

import hashlib
import os
import time
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from expcomp.compiler.assemble import lines_of
from expcomp.compiler.gates import REASONS
from expcomp.compiler.merge import MergeJob, merge
from expcomp.compiler.plan import plan_shards
from expcomp.compiler.report import build_report
from expcomp.compiler.shard import ShardJob, ShardResult, fingerprint, run_shard, write_line_part, write_table_part
from expcomp.config import CompileOptions
from expcomp.errors import UsageError
from expcomp.io.documents import write_json
from expcomp.io.pool import Workers, workers
from expcomp.io.progress import Progress
from expcomp.io.publish import publish
from expcomp.io.sinks import write_part
from expcomp.rows.registry import ROW_FAMILIES
from expcomp.sources._contract import Found, ReadOptions
from expcomp.sources.load import discovery_frame, find
from expcomp.sources.rules import Rules
from expcomp.tables._spec import SCHEMA_VERSION
from expcomp.tables.core import CORE
from expcomp.tables.envelope import HASH_EXCLUDE
from expcomp.version import __version__

if TYPE_CHECKING:
    from collections.abc import Sequence

    from expcomp.compiler.compilation import Compilation
    from expcomp.sources._contract import Unit
    from expcomp.sources.load import PathLike

HASH_RULE = {"algorithm": "sha256", "prefix": "sha256:", "exclude": list(HASH_EXCLUDE)}


def compile_paths(
    paths: Sequence[PathLike],
    out: PathLike,
    *,
    options: CompileOptions | None = None,
    read: ReadOptions | None = None,
    format: str | None = None,  # noqa: A002
    force: bool = False,
    processes: int | None = None,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Compile files and folders into `out` and return the report.

    The output is written beside `out` and renamed when it is complete; the inputs are only read.

    Args:
        paths: Packages, run folders, trace files, job folders; formats are recognised by content.
        out: Folder to publish. It must not exist, unless `force`.
        options: What the compile may be told.
        read: What the formats lack (tool schemas, system prompt, arm, ...).
        format: Read everything as this format.
        force: Replace an earlier output, in one step.
        processes: Worker processes; by default the processors, 1 for small inputs.
        progress: Where progress is shown.

    Raises:
        SourceError: Nothing to read.
        OutputError: `out` exists or cannot be written.
        UsageError: `out` lies inside an input.
    """
    started, clock = datetime.now(UTC), time.perf_counter()
    options, read, progress = options or CompileOptions(), read or ReadOptions(), progress or Progress()
    target = Path(out)
    _apart(paths, target)
    cores = processes or len(os.sched_getaffinity(0))
    with publish(target, force=force) as staging:
        found = find(paths, format=format)
        shards = plan_shards(found.units)
        stages = {"discover": time.perf_counter() - clock}
        with workers(min(cores, len(shards))) as pool:
            parts = staging / ".parts"
            parts.mkdir()
            results = _run_shards(pool, shards, options, read, parts, progress)
            stages["rows"] = time.perf_counter() - clock
            files = _publish_files(pool, results, found, staging, parts, options.check, progress)
            stages["publish"] = time.perf_counter() - clock
        parts.rmdir()
        seen = [u.package_id for u in found.units] + [p for r in results for p in r.packages]
        packages = sorted(dict.fromkeys(seen))
        report = build_report(results, packages, Counter(d["code"] for d in found.diagnostics))
        manifest = _manifest(options, read, format, results, files)
        write_json(staging / "manifest.json", manifest)
        report["run"] = {
            "started_at": started.isoformat(timespec="seconds"),
            "seconds": round(time.perf_counter() - clock, 3),
            "seconds_until": {k: round(v, 3) for k, v in stages.items()},
            "processes": min(cores, len(shards)),
            "shards": len(shards),
        }
        write_json(staging / "report.json", report)
    return report


def _apart(paths: Sequence[PathLike], out: Path) -> None:
    """Refuse an output inside an input or around one: inputs are never written to."""
    target = out.absolute().resolve()
    for path in paths:
        source = Path(path).absolute().resolve()
        if target == source or target.is_relative_to(source) or source.is_relative_to(target):
            msg = f"output {out} and input {path} lie inside each other; choose an output folder apart from the input"
            raise UsageError(msg)


def _run_shards(
    pool: Workers,
    shards: Sequence[tuple[Unit, ...]],
    options: CompileOptions,
    read: ReadOptions,
    parts: Path,
    progress: Progress,
) -> list[ShardResult]:
    jobs = [ShardJob(i, units, options, read, os.fspath(parts)) for i, units in enumerate(shards)]
    sizes = [len(s) for s in shards]
    with progress.stage("compile", sum(sizes)) as tick:
        return pool.map(run_shard, jobs, lambda done: tick(sum(sizes[:done])))


def _publish_files(
    pool: Workers,
    results: Sequence[ShardResult],
    found: Found,
    staging: Path,
    parts: Path,
    check: str,
    progress: Progress,
) -> list[dict[str, Any]]:
    """Merge the parts of each file, the largest first, and list what was written."""
    discovered = discovery_frame(found)
    first = []
    if discovered.height:
        write_part(discovered, parts / "discovery.arrow")
        first = ["discovery.arrow"]
    for folder in ("tables", "rows", "rejected"):
        (staging / folder).mkdir()
    targets: dict[str, tuple[str, ...]] = {"diagnostics": ("diagnostics.parquet",)}
    targets |= {n: (f"tables/{n}.parquet",) for n in CORE if n != "diagnostics"}
    targets |= {n: (f"rows/{n}.parquet", f"rows/{n}.jsonl", f"rejected/{n}.parquet") for n in ROW_FAMILIES}
    jobs = []
    for table, files in targets.items():
        own = {target: tuple(r.parts[target] for r in results if target in r.parts) for target in files}
        if table == "diagnostics":
            own = {target: (*first, *names) for target, names in own.items()}
        jobs.append(MergeJob(table, own, os.fspath(staging), os.fspath(parts), check))
    # The largest first, so that no worker is left with a long job at the end.
    jobs.sort(key=lambda j: -sum((parts / p).stat().st_size for names in j.files.values() for p in names))
    with progress.stage("publish", len(jobs)) as tick:
        entries = [e for made in pool.map(merge, jobs, tick) for e in made]
    return sorted(entries, key=lambda e: str(e["path"]))


def write_compilation(compilation: Compilation, out: PathLike, *, force: bool = False) -> None:
    """Publish a compilation that is in memory, in the layout of `compile_paths`.

    Raises:
        OutputError: `out` exists or cannot be written.
    """
    with publish(Path(out), force=force) as staging:
        parts = staging / ".parts"
        parts.mkdir()
        result = ShardResult(0, fingerprint=fingerprint(compilation.tables))
        for name in CORE:
            write_table_part(
                result, parts, name if name == "diagnostics" else f"tables/{name}", compilation.tables[name]
            )
        for name in ROW_FAMILIES:
            accepted = compilation.rows[name]
            write_table_part(result, parts, f"rows/{name}", accepted)
            write_table_part(result, parts, f"rejected/{name}", compilation.rejected[name])
            write_line_part(result, parts, name, lines_of(accepted))
        files = _publish_files(Workers(None), [result], Found(), staging, parts, "off", Progress())
        parts.rmdir()
        write_json(staging / "manifest.json", _manifest(compilation.options, ReadOptions(), None, [result], files))
        write_json(staging / "report.json", dict(compilation.report))


def _manifest(
    options: CompileOptions,
    read: ReadOptions,
    format_name: str | None,
    results: Sequence[ShardResult],
    files: list[dict[str, Any]],
) -> dict[str, Any]:
    import polars as pl

    digest = hashlib.sha256("".join(r.fingerprint for r in results).encode()).hexdigest()
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
