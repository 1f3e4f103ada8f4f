"""Identity of a dataset: the tasks it was made from, and the manifest that names its files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl

from expcomp.errors import TableError
from expcomp.io.canon import digest, dumps

COLUMNS = ("benchmark", "task", "content_digest")
DIGEST = r"^sha256:[0-9a-f]{64}$"
_LONGEST = 512


@dataclass(frozen=True, slots=True)
class TaskIdentity:
    """One task: the pair of names that a benchmark gave it, and the digest of its content."""

    benchmark: str
    task: str
    content_digest: str

    @property
    def key(self) -> str:
        """Canonical form of the three parts: stable, and the order of an inventory."""
        return dumps([self.benchmark, self.task, self.content_digest]).decode()

    def to_dict(self) -> dict[str, str]:
        """The form that is digested."""
        return {"benchmark": self.benchmark, "task": self.task, "contentDigest": self.content_digest}


def inventory(frame: pl.DataFrame) -> pl.DataFrame:
    """Distinct task identities, in the order of the UTF-16 code units of their keys.

    Args:
        frame: Columns `benchmark`, `task`, `content_digest`; one line a task or one a row.

    Raises:
        TableError: A name is null, empty, too long or has outer space, or a digest is none.
    """
    tasks = frame.select(COLUMNS).unique(maintain_order=True)
    _check(tasks)
    keys = [i.key for i in _identities(tasks)]
    # Polars sorts by UTF-8 bytes, which differs beyond the basic plane.
    order = sorted(range(len(keys)), key=lambda i: keys[i].encode("utf-16-be"))
    return tasks[order]


def task_set_digest(frame: pl.DataFrame) -> str:
    """Digest of the canonical form of the sorted list of distinct task identities."""
    return digest([i.to_dict() for i in _identities(inventory(frame))])


def dataset_digest(manifest: Mapping[str, Any]) -> str:
    """Digest of the canonical manifest without its own `digest` and without `documents`, which name it."""
    return digest({k: v for k, v in manifest.items() if k not in ("digest", "documents")})


def _identities(tasks: pl.DataFrame) -> list[TaskIdentity]:
    return [TaskIdentity(*parts) for parts in zip(*(tasks[c].to_list() for c in COLUMNS), strict=True)]


def _check(tasks: pl.DataFrame) -> None:
    rules = {
        name: pl.col(name).is_not_null()
        & (pl.col(name).str.len_chars().is_between(1, _LONGEST))
        & ~pl.col(name).str.contains(r"^\s|\s$")
        for name in ("benchmark", "task")
    } | {"content_digest": pl.col("content_digest").str.contains(DIGEST)}
    for name, rule in rules.items():
        bad = tasks.filter(~rule.fill_null(value=False))
        if bad.height:
            shown = {c: bad[c][0] for c in COLUMNS}
            expected = f"1 to {_LONGEST} characters without outer space" if name != "content_digest" else "sha256:<hex>"
            raise TableError(f"{bad.height} task identities have no usable {name}, as in {shown}; expected {expected}")
