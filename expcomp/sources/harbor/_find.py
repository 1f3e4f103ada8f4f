"""Trials of a job: found by what their results say, with one look at each."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING

import orjson

from expcomp.sources._archive import ArchivePath
from expcomp.sources._bytes import UnreadableError, read_bytes, read_head
from expcomp.sources._contract import Found, Unit
from expcomp.sources._json import load_json
from expcomp.sources._look import Look
from expcomp.sources._units import below, entries, names_in, place, relative
from expcomp.sources._values import count, obj
from expcomp.sources.harbor._files import RESULT

if TYPE_CHECKING:
    from expcomp.sources._bytes import Place

TRIAL_KEY = "trial_name"
_JOB_KEY = "n_total_trials"
_JOB = frozenset({RESULT, "config.json", "lock.json", "job.log"})
_STARTED = frozenset({"config.json", "trial.log", "agent"})
_SEPARATOR = "__"
_NAME_LENGTH = 32


def size_of(path: Place) -> int | None:
    """Size of a regular file; None where there is none, or a link."""
    try:
        about = path.lstat() if isinstance(path, ArchivePath) else os.lstat(path)
    except OSError:
        return None
    return about.st_size if stat.S_ISREG(about.st_mode) else None


def keys_of(path: Place) -> tuple[frozenset[str], int]:
    """Keys of a JSON document and the size of its file; none, and 0, where no document is."""
    size = size_of(path)
    if size is None:
        return frozenset(), 0
    try:
        head = read_head(path)
    except UnreadableError:
        return frozenset(), size
    try:
        document = orjson.loads(head)
    except orjson.JSONDecodeError:
        document = None
    # What is no object, or does not fit in the head, takes a closer look.
    return frozenset(document) if isinstance(document, dict) else Look(Path(), head).keys, size


def is_trial_or_job(folder: Place, names: frozenset[str]) -> bool:
    """Whether the result of a folder says so, or the results of the folders in what is called like a job."""
    if RESULT in names:
        keys, _ = keys_of(below(folder, RESULT))
        if TRIAL_KEY in keys or _JOB_KEY in keys:
            return True
    return not names.isdisjoint(_JOB) and any(
        TRIAL_KEY in keys_of(below(below(folder, name), RESULT))[0] for name in sorted(names) if _SEPARATOR in name
    )


def trial_unit(path: Path, root: Path, size: int) -> Unit:
    """The unit of a trial folder whose result has this size."""
    size += size_of(below(below(place(path), "agent"), "trajectory.json")) or 0
    return Unit("harbor", path, relative(path, root), size, group(path.name.rpartition(_SEPARATOR)[0] or path.name))


def group(name: str) -> str:
    """Trials of a task, and its folder: trial folders carry the first characters of the task name only."""
    return f"harbor/{name[:_NAME_LENGTH]}"


def find_trials(path: Path, root: Path, found: Found) -> None:
    """Add the trials of a job, and what is missing of them."""
    here, folder = relative(path, root), place(path)
    trials = 0
    for name, kind in entries(folder):
        child = below(folder, name)
        if kind == "link":
            _tell(found, "symlink_refused", "a symbolic link inside a job is not followed", f"{here}/{name}")
        elif kind == "folder":
            keys, size = keys_of(below(child, RESULT))
            if TRIAL_KEY in keys:
                found.units.append(trial_unit(path / name, root, size))
                trials += 1
            else:
                trials += _not_a_trial(names_in(child), name, here, found)
    result = below(folder, RESULT)
    if size_of(result) is None:
        _tell(found, "job_without_result", "the job has no result.json; its trials are read", here, "info")
        return
    try:
        document, _ = load_json(read_bytes(result, 1 << 28)[0])
    except UnreadableError as error:
        _tell(found, error.code, error.detail, f"{here}/{RESULT}", "error")
        return
    total = count(obj(document).get(_JOB_KEY))
    if total is not None and total > trials:
        detail = f"the job counts {total} trials, {trials} have a result in their folder; the others are unknown"
        _tell(found, "missing_trial", detail, f"{here}/{RESULT}")
    elif not trials:
        _tell(found, "no_attempt", "the job holds no trial folder with a result", here)


def _not_a_trial(names: frozenset[str], name: str, here: str, found: Found) -> int:
    """Say what is wrong with a folder that should be a trial; gives the number of results in it."""
    if RESULT in names:
        detail = "expected a result.json that names its trial; the folder gives no attempt"
        _tell(found, "bad_result", detail, f"{here}/{name}/{RESULT}", "error")
        return 1
    if not names.isdisjoint(_STARTED) and _SEPARATOR in name:
        detail = "a trial folder without result.json (still running, or stopped); it gives no attempt"
        _tell(found, "trial_without_result", detail, f"{here}/{name}")
    return 0


def _tell(found: Found, code: str, detail: str, uri: str, severity: str = "warning") -> None:
    found.diagnostics.append(
        {"package_id": None, "source_uri": uri, "code": code, "severity": severity, "detail": detail}
    )
