"""What an output holds, so that two can be compared, and which states a fault may leave."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from tests.helpers import published, tree

NOTHING = None
"""Of an output that is not there, or holds nothing yet."""


class Content(NamedTuple):
    """How to look at an output.

    Attributes:
        of: What it holds; None for nothing.
        may_be: Whether a fault may leave this content (third) of a verb that makes the second of the first.
        done: Whether a run that ended well left this content (second) where an undisturbed one leaves the first.
    """

    of: Callable[[Path], Any]
    may_be: Callable[[Any, Any, Any], bool] = lambda old, new, found: found in (old, new)
    done: Callable[[Any, Any], bool] = lambda new, found: bool(found == new)


def _files(path: Path) -> Any:
    if path.is_dir():
        return tree(path)
    return tree(path.parent)[path.name] if path.exists() else NOTHING


def _compiled(path: Path) -> Any:
    if not path.exists():
        return NOTHING
    return published(path) if (path / "report.json").exists() else tree(path)


def _each_old_or_new(old: Any, new: Any, found: Any) -> bool:
    old, new, found = old or {}, new or {}, found or {}
    return set(old) & set(new) <= set(found) and all(found[n] in (old.get(n), new.get(n)) for n in found)


def _schemas(path: Path) -> Any:
    return {n: d for n, d in tree(path).items() if not n.startswith(".")} if path.exists() else NOTHING


def _ledger(path: Path) -> Any:
    """Version, and the rows of the parts that it names; each is there and as long as the log says."""
    live: dict[str, tuple[int, int]] = {}
    commits = sorted((path / "_delta_log").glob("*[0-9].json"))
    for commit in commits:
        for line in commit.read_bytes().splitlines():
            action = json.loads(line)
            if "add" in action:
                add = action["add"]
                live[add["path"]] = (add["size"], json.loads(add["stats"])["numRecords"])
            elif "remove" in action:
                live.pop(action["remove"]["path"])
    for name, (size, _) in live.items():
        assert (path / name).stat().st_size == size, f"{name} is not what the log says"
    return (len(commits) - 1, sum(rows for _, rows in live.values())) if commits else NOTHING


def _book_or_empty(old: Any, new: Any, found: Any) -> bool:
    return found in (old, new) or (old is NOTHING and found == (0, 0))


def _session(path: Path) -> Any:
    """Revision, and the steps that were committed; what was refused is noted beside them."""
    file = path / "session.sqlite"
    if not file.exists():
        return NOTHING
    store = sqlite3.connect(file)
    try:
        if not store.execute("SELECT 1 FROM sqlite_master").fetchall():
            return NOTHING
        assert store.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        (revision,) = store.execute("SELECT revision FROM about").fetchone()
        return revision, [
            r[0] for r in store.execute("SELECT record FROM audit WHERE revision IS NOT NULL ORDER BY at")
        ]
    finally:
        store.close()


def _a_step_between(old: Any, new: Any, found: Any) -> bool:
    if found is NOTHING:
        return old is NOTHING
    least = 0 if old is NOTHING else old[0]
    return bool(least <= found[0] <= new[0] and found[0] == len(found[1]) and found[1] == new[1][: found[0]])


def _gone_on(new: Any, found: Any) -> bool:
    return bool(found[0] >= new[0] and len(found[1]) == found[0])


def _jobs(path: Path) -> Any:
    """Of each job its files, by name; those of one that never ended are what they are."""
    if not path.exists():
        return NOTHING
    found = {job.name: tree(job) for job in sorted(path.iterdir())}
    for job, files in found.items():
        for document in {"receipt.json", "profile.json"} & set(files):
            json.loads((path / job / document).read_bytes())
    return found


def _jobs_kept(old: Mapping[str, Any], new: Mapping[str, Any], found: Mapping[str, Any]) -> bool:
    """The old jobs are there as they were; a new one has a profile only when it has all."""
    if not all(found.get(job) == files for job, files in old.items()):
        return False
    all_names = set(next(iter(old.values())))
    return all(set(found[job]) >= all_names for job in set(found) - set(old) if "profile.json" in found[job])


CONTENT: Mapping[str, Content] = {
    "files": Content(_files),
    "compile": Content(_compiled),
    "each file": Content(_schemas, _each_old_or_new),
    "ledger": Content(_ledger, _book_or_empty),
    "session": Content(_session, _a_step_between, _gone_on),
    "jobs": Content(_jobs, _jobs_kept, lambda new, found: len(found) >= len(new)),
}
