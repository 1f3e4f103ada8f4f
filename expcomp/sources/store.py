"""TraceSets on disk: a folder of Parquet tables and a manifest, written in one step, scanned without reading."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from expcomp.errors import SourceError
from expcomp.io.digest import PREFIX, sha256_file
from expcomp.io.documents import read_json, write_json
from expcomp.io.parquet_check import read_checked
from expcomp.io.publish import publish
from expcomp.io.sinks import parquet_height, write_parquet
from expcomp.io.staging import PARTS, scratch
from expcomp.sources._bytes import open_plain
from expcomp.sources.stream import LazyTables
from expcomp.sources.streamed import LARGE, Streamed
from expcomp.sources.traceset import TraceSet
from expcomp.tables._spec import SCHEMA_VERSION
from expcomp.tables.core import CORE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from expcomp.sources._contract import Frames

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
            with scratch(staging / PARTS) as parts:
                loaded = ts.tables.plan.stream(parts)
                for name in CORE:
                    _stream(loaded, name, staging)
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
            "rows": parquet_height(files),
            "files": [{"path": f.relative_to(folder).as_posix(), "sha256": sha256_file(f)} for f in files],
        }
    return {"kind": KIND, "schema_version": SCHEMA_VERSION, "tables": tables, "packages": list(packages)}


def _files(folder: Path, name: str) -> list[Path]:
    one = folder / f"{name}.parquet"
    return [one] if one.is_file() else sorted((folder / name).glob("*.parquet"))


def is_stored(folder: Path) -> bool:
    """Whether a folder was written by `write`."""
    path = folder / MANIFEST
    try:
        if not path.is_file() or path.is_symlink():
            return False
        manifest = read_json(path)
    except (SourceError, OSError):  # what is wrong with the folder is told by who reads it
        return False
    return isinstance(manifest, dict) and manifest.get("kind") == KIND


def scan(folder: Path) -> TraceSet:
    """A written TraceSet as LazyFrames over its files; nothing is read yet, so damage shows when a query meets it.

    Raises:
        SourceError: A table is missing, or the folder was written by another version of the schema.
    """
    tables = {}
    packages = _checked(folder)["packages"]
    for name in CORE:
        frame = pl.scan_parquet(_found(folder, name), glob=False)
        _agree(folder, name, frame.collect_schema())
        tables[name] = frame
    return TraceSet(tables, packages=tuple(packages))


def load(folder: Path) -> Frames:
    """The tables of a written TraceSet, each file looked at before Polars sees it.

    Raises:
        SourceError: A table is missing, damaged or changed since it was written, or of another version of the schema.
    """
    check(folder)
    tables = {}
    for name in CORE:
        parts = []
        for file in _found(folder, name):
            try:
                with open_plain(file) as handle:
                    part = read_checked(handle)
            except (OSError, ValueError) as error:
                msg = f"{folder}: {file.name} cannot be read ({error}); read the traces again"
                raise SourceError(msg) from error
            _agree(folder, name, part.schema)
            parts.append(part)
        tables[name] = pl.concat(parts)
    return tables


def check(folder: Path) -> None:
    """Compare every file with the digest that the manifest holds of it.

    Raises:
        SourceError: A table is missing, damaged or changed since it was written, or of another version of the schema.
    """
    tables = _checked(folder).get("tables")
    for name in CORE:
        entry = tables.get(name) if isinstance(tables, dict) else None
        files = entry.get("files") if isinstance(entry, dict) else None
        listed = (
            [(f.get("path"), f.get("sha256")) for f in files if isinstance(f, dict)] if isinstance(files, list) else []
        )
        for file in _found(folder, name):
            try:
                with open_plain(file) as handle:
                    digest = PREFIX + hashlib.file_digest(handle, "sha256").hexdigest()  # type: ignore[arg-type]
            except OSError as error:
                msg = f"{folder}: {file.name} cannot be read ({error.strerror}); read the traces again"
                raise SourceError(msg) from error
            if (file.relative_to(folder).as_posix(), digest) not in listed:
                msg = f"{folder}: {file.name} is not the file that was written, by its digest in {MANIFEST}; read the traces again"
                raise SourceError(msg)


def _checked(folder: Path) -> dict[str, Any]:
    manifest = read_json(folder / MANIFEST)
    version = manifest.get("schema_version") if isinstance(manifest, dict) else None
    if version != SCHEMA_VERSION:
        msg = f"{folder}: schema version {version}, expected {SCHEMA_VERSION}; read the traces again with this version"
        raise SourceError(msg)
    packages = manifest.setdefault("packages", [])
    if not isinstance(packages, list) or not all(isinstance(p, str) for p in packages):
        msg = f"{folder}: 'packages' of {MANIFEST} is no list of names; read the traces again"
        raise SourceError(msg)
    return dict(manifest)


def _found(folder: Path, name: str) -> list[Path]:
    files = _files(folder, name)
    if not files:
        msg = f"{folder}: table {name} is missing; the folder is incomplete, read the traces again"
        raise SourceError(msg)
    return files


def _agree(folder: Path, name: str, found: pl.Schema) -> None:
    wanted = CORE[name].schema
    if dict(found) != dict(wanted):
        off = [n for n in {*found, *wanted} if found.get(n) != wanted.get(n)]
        msg = f"{folder}: table {name} differs from its contract in {', '.join(sorted(off))}; read the traces again"
        raise SourceError(msg)
