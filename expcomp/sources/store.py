"""TraceSets on disk: a folder of Parquet tables and a manifest, written in one step, scanned without reading."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from expcomp.errors import SourceError
from expcomp.io.digest import PREFIX, sha256_file
from expcomp.io.documents import read_json, write_json
from expcomp.io.publish import publish
from expcomp.io.sinks import write_parquet
from expcomp.sources.stream import LazyTables
from expcomp.sources.streamed import LARGE, Streamed
from expcomp.sources.traceset import TraceSet
from expcomp.tables._spec import SCHEMA_VERSION
from expcomp.tables.core import CORE

if TYPE_CHECKING:
    from collections.abc import Sequence

KIND = "expcomp.traces"
MANIFEST = "manifest.json"
ONE_FILE = 8
"""A table of more parts than this stays in parts, in a folder of its name."""


def write(ts: TraceSet, out: str | Path, *, force: bool = False) -> None:
    """Write a TraceSet as a folder: `<table>.parquet`, or `<table>/<part>.parquet` for large loads, and `manifest.json`.

    Equal input gives equal bytes. The folder appears in one step.

    Raises:
        OutputError: `out` exists or cannot be written.
    """
    with publish(Path(out), force=force) as staging:
        if isinstance(ts.tables, LazyTables):
            parts = staging / ".parts"
            parts.mkdir()
            loaded = ts.tables.plan.stream(parts)
            for name in CORE:
                _stream(loaded, name, staging)
            shutil.rmtree(parts)
        else:
            for name in CORE:
                frame = ts[name]
                if isinstance(frame, pl.LazyFrame):
                    frame.sink_parquet(
                        staging / f"{name}.parquet", compression="zstd", compression_level=3, metadata=_contract(name)
                    )
                else:
                    write_parquet(frame, staging / f"{name}.parquet", _contract(name))
        write_json(staging / MANIFEST, _manifest(staging, ts.packages))


def _contract(name: str) -> dict[str, str]:
    return {"expcomp.table": name, "expcomp.schema_version": SCHEMA_VERSION}


def _stream(loaded: Streamed, name: str, staging: Path) -> None:
    """A table of a streamed load: one file, or, of a large table, its parts as they are; read again only where something changes."""
    one = staging / f"{name}.parquet"
    parts = loaded.parts.get(name, ())
    if name in loaded.held or not parts:
        write_parquet(loaded.held.get(name, CORE[name].empty()), one, _contract(name))
    elif name not in LARGE or len(parts) <= ONE_FILE:
        _sink(pl.concat([loaded.finished(name, p) for p in parts]), one, name)
    else:
        folder = staging / name
        folder.mkdir()
        for part in parts:
            target = folder / part.path.name.removeprefix(f"{name}.")
            if loaded.unchanged(name, part):
                part.path.rename(target)
            else:
                _sink(loaded.finished(name, part), target, name)


def _sink(scan: pl.LazyFrame, path: Path, name: str) -> None:
    scan.sink_parquet(
        path,
        compression="zstd",
        compression_level=3,
        row_group_size=16_384,
        metadata=_contract(name),
        maintain_order=True,
    )


def _manifest(folder: Path, packages: Sequence[str]) -> dict[str, Any]:
    tables = {}
    for name in CORE:
        files = _files(folder, name)
        tables[name] = {
            "rows": int(pl.scan_parquet(files).select(pl.len()).collect().item()),
            "files": [
                {"path": f.relative_to(folder).as_posix(), "sha256": PREFIX + sha256_file(f).removeprefix(PREFIX)}
                for f in files
            ],
        }
    return {"kind": KIND, "schema_version": SCHEMA_VERSION, "tables": tables, "packages": list(packages)}


def _files(folder: Path, name: str) -> list[Path]:
    one = folder / f"{name}.parquet"
    return [one] if one.is_file() else sorted((folder / name).glob("*.parquet"))


def is_stored(folder: Path) -> bool:
    """Whether a folder was written by `write`."""
    path = folder / MANIFEST
    if not path.is_file() or path.is_symlink():
        return False
    try:
        manifest = read_json(path)
    except SourceError:
        return False
    return isinstance(manifest, dict) and manifest.get("kind") == KIND


def scan(folder: Path) -> TraceSet:
    """A written TraceSet as LazyFrames over its files; nothing is read yet.

    Raises:
        SourceError: A table is missing, or the folder was written by another version of the schema.
    """
    manifest = read_json(folder / MANIFEST)
    version = manifest.get("schema_version")
    if version != SCHEMA_VERSION:
        msg = f"{folder}: schema version {version}, expected {SCHEMA_VERSION}; read the traces again with this version"
        raise SourceError(msg)
    packages = manifest.get("packages", [])
    if not isinstance(packages, list) or not all(isinstance(p, str) for p in packages):
        msg = f"{folder}: 'packages' of {MANIFEST} is no list of names; read the traces again"
        raise SourceError(msg)
    tables = {}
    for name, table in CORE.items():
        files = _files(folder, name)
        if not files:
            msg = f"{folder}: table {name} is missing; the folder is incomplete, read the traces again"
            raise SourceError(msg)
        frame = pl.scan_parquet(files)
        found = frame.collect_schema()
        if dict(found) != dict(table.schema):
            off = [n for n in {*found, *table.schema} if found.get(n) != table.schema.get(n)]
            msg = f"{folder}: table {name} differs from its contract in {', '.join(sorted(off))}; read the traces again"
            raise SourceError(msg)
        tables[name] = frame
    return TraceSet(tables, packages=tuple(packages))
