"""An earlier output as a source of rows: its state, and whether it may be relied on."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from expcomp.compiler.counts import COUNTS
from expcomp.compiler.shard import LAYOUT
from expcomp.errors import SourceError
from expcomp.io.digest import sha256_file
from expcomp.io.documents import read_json
from expcomp.io.hashing import written
from expcomp.io.state_file import code_digest, file_stamp, read_state, write_state
from expcomp.version import __version__

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from expcomp.config import CompileOptions
    from expcomp.sources._contract import ReadOptions

STATE = "update.state"
"""File of an output that only the next update reads: the same in every run over the same input, and listed as the others are."""

RUN = "update"
"""Key of `run` in report.json, beside the clocks: what the file system said, which is another thing in every run."""

SOURCES = pl.Schema({"cell": pl.String(), "fingerprint": pl.String(), "borrowed": pl.String()})
"""Digests of what was read of each cell, and of the rows of others that were looked up for it ("" where there are none)."""

CELLS = pl.Schema({**SOURCES, "stat": pl.String()})
"""With what the file system said of its sources."""

CHUNKS = pl.Schema({"target": pl.String(), "chunk": pl.Int64(), "groups": pl.Int64()})
"""Row groups of each chunk of each Parquet file, in order."""

_FRAMES = {"cells": SOURCES, "counts": COUNTS, "layout": LAYOUT, "chunks": CHUNKS}


@dataclass(frozen=True)
class Previous:
    """An earlier output that holds what a full run with the same key would write for the same sources.

    Attributes:
        folder: Where it is.
        manifest: Digest of its manifest.
        entries: What the manifest says of each file.
        cells: As `CELLS`.
        counts: As `counts.COUNTS`.
        layout: As `shard.LAYOUT`.
        chunks: As `CHUNKS`.
    """

    folder: Path
    manifest: str
    entries: Mapping[str, dict[str, Any]]
    cells: pl.DataFrame
    counts: pl.DataFrame
    layout: pl.DataFrame
    chunks: pl.DataFrame


def run_key(options: CompileOptions, read: ReadOptions, format_name: str | None) -> str:
    """Digest of all that decides on the output beside the sources: options, rules, versions, and the code itself."""
    said = [
        __version__,
        pl.__version__,
        code_digest(Path(__file__).resolve().parents[1]),
        repr(options.to_dict()),
        repr(read),
        repr(format_name),
    ]
    return sha256("\x1f".join(said).encode("utf-8", "surrogatepass")).hexdigest()


def open_previous(folder: Path, key: str) -> Previous | None:
    """The earlier output in a folder; None when there is none, of another key, or not as it was written."""
    frames = read_state(folder / STATE)
    if frames is None or {n: f.schema for n, f in frames.items()} != _FRAMES:
        return None
    try:
        said = read_json(folder / "report.json")["run"][RUN]
        digest = sha256_file(folder / "manifest.json")
        entries = {str(e["path"]): e for e in read_json(folder / "manifest.json")["files"]}
        if (said["key"], said["manifest"]) != (key, digest) or not all(
            _unchanged(folder / name, said["files"].get(name), entry) for name, entry in entries.items()
        ):
            return None
        seen = {str(cell): str(stat) for cell, stat in said["sources"].items()}
    except (OSError, AttributeError, KeyError, TypeError, SourceError):
        return None
    stats = pl.Series("stat", [seen.get(cell, "") for cell in frames["cells"]["cell"].to_list()], dtype=pl.String)
    cells = frames.pop("cells").with_columns(stats)
    return Previous(folder, digest, entries, cells, **{n: frames[n] for n in _FRAMES if n != "cells"})


def still_there(previous: Previous) -> bool:
    """Whether the earlier output is still the one that was opened."""
    try:
        return sha256_file(previous.folder / "manifest.json") == previous.manifest
    except OSError:
        return False


def _unchanged(path: Path, stamp: Any, entry: Mapping[str, Any]) -> bool:
    return bool(file_stamp(path) == stamp) or sha256_file(path) == str(entry["sha256"])


def write_previous(folder: Path, frames: Mapping[str, pl.DataFrame]) -> dict[str, Any]:
    """Write the state of an output; returns what the manifest says of it."""
    path = folder / STATE
    write_state(path, {n: frames[n].select(list(schema)).sort(list(schema)) for n, schema in _FRAMES.items()})
    rows = sum(frames[n].height for n in _FRAMES)
    return {"path": STATE} | written(path, rows)._asdict()


def seen_now(folder: Path, key: str, files: Sequence[Mapping[str, Any]], cells: pl.DataFrame) -> dict[str, Any]:
    """What the next update asks beside the state: of this run, of the files of the output, and of the sources of each cell."""
    return {
        "key": key,
        "manifest": sha256_file(folder / "manifest.json"),
        "files": {str(e["path"]): file_stamp(folder / str(e["path"])) for e in files},
        "sources": dict(zip(cells["cell"].to_list(), cells["stat"].to_list(), strict=True)),
    }
