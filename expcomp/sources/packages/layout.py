"""Where packages lie: a package folder, a run folder of packages, or a folder that holds run folders."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from expcomp.errors import SourceError
from expcomp.io.files import read_fast
from expcomp.sources._contract import Unit
from expcomp.sources._json import load_json

if TYPE_CHECKING:
    from expcomp.sources._contract import Found

TASK_FILES = ("task/task_intake_spec.json", "task/task_packet.json", "task/raw_task_record.json")
_RAW = "raw_task_record.json"
_MOST = 1 << 30  # bytes of a task file
_MARKS = frozenset({"attempts", "rubric", "grading", "loops", "signals"})


def is_package(names: frozenset[str]) -> bool:
    """A folder with `attempts/` or `task/` beside at least one more of the folders that only packages have."""
    return (
        "attempts" in names
        and bool(names & {"task", "input", "package_manifest.json", "manifest.json", *(_MARKS - {"attempts"})})
    ) or ("task" in names and bool(names & _MARKS))


def subfolders(folder: Path) -> list[Path]:
    """Folders inside a folder, sorted by name; links and hidden ones are left out."""
    with os.scandir(folder) as entries:
        names = sorted(e.name for e in entries if not e.name.startswith(".") and e.is_dir(follow_symlinks=False))
    return [folder / name for name in names]


def entry_names(folder: Path) -> frozenset[str]:
    """Names of the entries of a folder."""
    with os.scandir(folder) as entries:
        return frozenset(e.name for e in entries)


def folder_size(folder: Path) -> int:
    """Bytes of the files right in a folder."""
    with os.scandir(folder) as entries:
        return sum(e.stat(follow_symlinks=False).st_size for e in entries if e.is_file(follow_symlinks=False))


def task_key(folder: Path) -> str | None:
    """Task id that a package declares, read with as little work as possible; None when no task file says it."""
    there = [] if (folder / "task").is_symlink() else [folder / ref for ref in TASK_FILES]
    there = [path for path in there if path.is_file() and not path.is_symlink()]
    # As the reader does: the first of the two specifications, then the raw record.
    specs = [path for path in there if path.name != _RAW]
    for path in [*specs[:1], *(path for path in there if path.name == _RAW)]:
        try:
            value, _ = load_json(read_fast(str(path), limit=_MOST))
        except SourceError:  # the reader will say so
            continue
        if isinstance(value, dict) and isinstance(value.get("task_id"), str) and value["task_id"]:
            return str(value["task_id"])
    return None


def package_units(path: Path, root: Path, found: Found, format_name: str) -> None:
    """Add one unit for each package below `path` (a package, or a run folder with `packages/`)."""
    del root
    folder = path / "packages" if not is_package(entry_names(path)) else path
    for package in [path] if folder is path else subfolders(folder):
        names = entry_names(package)
        if not names:
            found.diagnostics.append(_empty(package.name))
            continue
        found.units.append(
            Unit(format_name, package, package.name, size=1 << 19, group=task_key(package) or package.name)
        )


def _empty(name: str) -> dict[str, str]:
    return {
        "package_id": name,
        "source_uri": name,
        "code": "empty_package",
        "severity": "warning",
        "detail": f"{name}: package folder is empty; nothing to read",
    }


__all__ = ["entry_names", "folder_size", "is_package", "package_units", "subfolders", "task_key"]
