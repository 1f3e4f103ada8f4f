"""Units, evidence rows and task rows: what sources of attempts have in common."""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from expcomp.io.digest import PREFIX, sha256_hex
from expcomp.sources._archive import ArchivePath
from expcomp.sources._bytes import Place, UnreadableError, read_bytes
from expcomp.sources._contract import Batch, Found, Unit
from expcomp.sources._values import writable

if TYPE_CHECKING:
    from expcomp.sources._json import Problem


def relative(path: Path, root: Path) -> str:
    """Path below the load root with forward slashes; the bare name when it is not below."""
    whole, above = str(path), str(root)
    if whole[len(above) : len(above) + 1] == "/" and whole.startswith(above):
        return whole[len(above) + 1 :]
    return writable(path.relative_to(root).as_posix() if path.is_relative_to(root) else path.name)


def place(path: Path | ArchivePath) -> Place:
    """The text of a path on disk; a path inside an archive stays what it is."""
    return str(path) if isinstance(path, Path) else path


def below(folder: Place, name: str) -> Place:
    """An entry of a folder."""
    return f"{folder}/{name}" if isinstance(folder, str) else folder / name


def is_file(path: Place) -> bool:
    """Whether it is a regular file, or a link to one."""
    return path.is_file() if isinstance(path, ArchivePath) else os.path.isfile(path)  # noqa: PTH113 - a third of the cost


def entries(folder: Place) -> list[tuple[str, str]]:
    """Names in a folder, sorted, each with what it is: file, folder, link, other. Asks the folder once, not every entry."""
    if isinstance(folder, ArchivePath):
        return [(p.name, "link" if p.is_symlink() else "folder" if p.is_dir() else "file") for p in folder.iterdir()]
    with os.scandir(folder) as found:
        return sorted([(e.name, _kind(e)) for e in found])


def _kind(entry: os.DirEntry[str]) -> str:
    if entry.is_file(follow_symlinks=False):
        return "file"
    return "folder" if entry.is_dir(follow_symlinks=False) else "link" if entry.is_symlink() else "other"


def names_in(folder: Place) -> frozenset[str]:
    """Names of the entries of a folder."""
    if isinstance(folder, ArchivePath):
        return frozenset(p.name for p in folder.iterdir())
    return frozenset(os.listdir(folder))  # noqa: PTH208 - names, not a path object for each


def file_unit(source: str, path: Path, root: Path, found: Found, group: str | None = None) -> None:
    """Add a unit for one file."""
    found.units.append(Unit(source, path, relative(path, root), path.stat().st_size, group))


def open_unit(batch: Batch, unit: Unit, limit: int) -> tuple[bytes, str] | None:
    """Decompressed bytes of a file unit and the digest of the file; None, with a diagnostic, if there are none."""
    try:
        data, raw = read_bytes(unit.path, limit)
    except UnreadableError as error:
        batch.diagnose(
            error.code, error.detail, package_id=unit.package_id, source_uri=unit.package_id, severity="error"
        )
        return None
    digest = PREFIX + sha256_hex(raw)
    add_evidence(batch, unit.package_id, unit.path.name, "trace", size=len(raw), digest=digest)
    return data, digest


def add_evidence(batch: Batch, package_id: str, ref: str, kind: str, *, size: int, digest: str) -> None:
    """Add a file that rows may cite."""
    batch.add(
        "evidence",
        evidence_id=_evidence_id(ref),
        package_id=package_id,
        ref=ref,
        kind=kind,
        visibility="visible",
        bytes=size,
        sha256=digest,
        exists=True,
    )


@lru_cache(maxsize=4096)
def _evidence_id(ref: str) -> str:
    """The same in every package: most refs come again in each."""
    return "evidence_" + sha256_hex(ref.encode("utf-8", "backslashreplace"))[:16]


def report(batch: Batch, unit: Unit, problems: list[Problem], source_uri: str | None = None) -> None:
    """Turn what a JSON reader complained of into diagnostics."""
    for problem in problems:
        batch.diagnose(
            problem.code,
            problem.detail,
            package_id=unit.package_id,
            source_uri=source_uri or unit.package_id,
            source_pos=problem.pos,
            byte_offset=problem.byte_offset,
            severity=problem.severity,
        )


def add_tasks(batch: Batch, tasks: list[dict[str, Any]], attempts: list[dict[str, Any]]) -> None:
    """Add one row for each task, filled from all that is said of it; ids whose content differs are told apart (R11).

    Two attempts share a task only if the digests of their task are equal or unknown: where they differ, `@` and eight
    digits of the digest are added to the id, in the tasks and in the attempts.
    """
    digests: dict[str, set[str]] = {}
    for task in tasks:
        if task.get("task_digest"):
            digests.setdefault(task["task_id"], set()).add(task["task_digest"])
    changed = {task_id for task_id, seen in digests.items() if len(seen) > 1}
    for row in attempts:
        if row.get("task_id") in changed and row.get("_task_digest"):
            row["task_id"] = _variant(row["task_id"], row["_task_digest"])
    merged: dict[str, dict[str, Any]] = {}
    for task in tasks:
        task_id = task["task_id"]
        if task_id in changed and task.get("task_digest"):
            task_id = _variant(task_id, task["task_digest"])
        row = merged.setdefault(task_id, {})
        for key, value in (task | {"task_id": task_id}).items():
            if row.get(key) is None:
                row[key] = value
    for row in merged.values():
        batch.add("tasks", **row)
    for task_id in sorted(changed):
        detail = f"{len(digests[task_id])} contents under the task id {task_id}; told apart by a digest in the id"
        batch.diagnose("task_changed", detail, field="task_id")


def _variant(task_id: str, digest: str) -> str:
    return f"{task_id}@{digest.removeprefix(PREFIX)[:8]}"
