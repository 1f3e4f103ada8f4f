"""`verify_dataset`: recompute every digest and count of a dataset folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl

from expcomp.compiler.verify import Verification
from expcomp.datasets.identity import dataset_digest, task_set_digest
from expcomp.errors import ExpcompError, SourceError
from expcomp.io.digest import sha256_file
from expcomp.io.documents import read_json
from expcomp.io.files import listing
from expcomp.io.sinks import lines_digest, parquet_height


def is_dataset(folder: Path) -> bool:
    """Whether a folder is a dataset of ours."""
    path = folder / "manifest.json"
    value = read_json(path) if path.is_file() else None
    return isinstance(value, dict) and "configs" in value


def verify_dataset(folder: str | Path) -> Verification:
    """Check a dataset folder against its manifest: files, digests, rows, the digests of dataset and task set, the books.

    Raises:
        SourceError: The folder has no readable manifest of a dataset.
    """
    root = Path(folder)
    manifest = read_json(root / "manifest.json")
    try:
        entries = [*manifest["tables"], *manifest["documents"], *(f for c in manifest["configs"] for f in c["files"])]
        listed = {str(e["path"]): e for e in entries}
    except (KeyError, TypeError) as error:
        msg = f"{folder}: manifest.json has no usable 'tables', 'documents' and 'configs' ({error!r})"
        raise SourceError(msg) from error
    found = Verification()
    there = set(listing(root))
    found.problems += [f"{n}: listed in manifest.json, but not there" for n in sorted(set(listed) - there)]
    found.problems += [f"{n}: not listed in manifest.json" for n in sorted(there - set(listed) - {"manifest.json"})]
    for name in sorted(set(listed) & there):
        _file(root, name, listed[name], found)
    if manifest.get("digest") != dataset_digest(manifest):
        found.problems.append("manifest.json: its digest is not that of its content")
    _tasks(root, manifest, found)
    for config in manifest["configs"]:
        _books(config, found)
    return found


def _file(root: Path, name: str, entry: dict[str, Any], found: Verification) -> None:
    path = root / name
    found.files += 1
    if entry.get("sha256") != sha256_file(path):
        found.problems.append(f"{name}: its bytes are not those that were written")
        return
    if "rows" not in entry:
        return
    try:
        rows = lines_digest(path)[0] if name.endswith(".jsonl") else parquet_height(path)
    except pl.exceptions.PolarsError as error:
        found.problems.append(f"{name}: cannot be read ({error})")
        return
    found.rows += rows
    if rows != entry.get("rows"):
        found.problems.append(f"{name}: {rows:,} rows, manifest.json says {entry.get('rows'):,}")


def _tasks(root: Path, manifest: dict[str, Any], found: Verification) -> None:
    path = root / "inventory.parquet"
    if not path.is_file():
        return
    try:
        known = pl.read_parquet(path, glob=False).filter(pl.col("content_digest").is_not_null())
        fine = task_set_digest(known) == manifest.get("task_set_digest")
    except (pl.exceptions.PolarsError, ExpcompError) as error:
        found.problems.append(f"inventory.parquet: cannot be read ({error})")
        return
    if not fine:
        found.problems.append("inventory.parquet: its tasks are not those of task_set_digest")


def _books(config: dict[str, Any], found: Verification) -> None:
    """Candidates = rows + left out; rows of the files of each form = rows."""
    name, rows = config["config"], config["rows"]
    if config["candidates"] != rows + sum(config["left"].values()):
        found.problems.append(f"manifest.json: {name} does not account for all of its candidates")
    for ending in (".parquet", ".jsonl"):
        counts = [f["rows"] for f in config["files"] if f["path"].endswith(ending)]
        if counts and sum(counts) != rows:
            found.problems.append(f"manifest.json: {name} has {rows:,} rows, its {ending} files {sum(counts):,}")
