"""Identity of a task and of a dataset, as receipts carry them."""

from __future__ import annotations

from typing import Any, ClassVar

import polars as pl
from msgspec import UNSET, UnsetType

from expcomp.datasets.identity import COLUMNS, inventory, task_set_digest
from expcomp.errors import TableError
from expcomp.training.documents import Count, Document, Name, Positive, Rule, Sha256

INLINE = 4_096
"""Tasks that an identity lists itself; larger sets are named by an inventory file."""


class TaskIdentity(Document, frozen=True, kw_only=True):
    """One task: the pair of names that a benchmark gave it, and the digest of its content as the benchmark owns it."""

    benchmark: Name
    task: Name
    content_digest: Sha256


class InventoryFile(Document, frozen=True, kw_only=True):
    """A Parquet file of `training_tasks` that lists the tasks of a dataset."""

    digest: Sha256
    bytes: Positive


class DatasetIdentity(Document, frozen=True, kw_only=True):
    """What a training run could see.

    Attributes:
        digest: Of the bytes of a dataset document, or of the canonical manifest of a bundle.
        task_set_digest: Of the canonical sorted list of the distinct tasks.
        task_count: Their number; may be left out where `tasks` are listed.
        tasks: The distinct tasks, sorted by the UTF-16 code units of their keys; absent when `inventory` names them.
        inventory: The file that lists them.
    """

    digest: Sha256
    task_set_digest: Sha256
    task_count: Count | UnsetType = UNSET
    tasks: tuple[TaskIdentity, ...] | UnsetType = UNSET
    inventory: InventoryFile | UnsetType = UNSET

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "identity_bad_shape",
            "tasks",
            lambda d: (d.tasks is UNSET) != (d.inventory is UNSET) and (d.tasks is not UNSET or d.task_count is not UNSET),
            "either tasks, or inventory with taskCount",
        ),
        Rule(
            "identity_too_many_tasks",
            "tasks",
            lambda d: d.tasks is UNSET or len(d.tasks) <= INLINE,
            f"at most {INLINE} tasks; name more by an inventory",
            lambda d: len(d.tasks),
        ),
        Rule(
            "identity_task_count",
            "taskCount",
            lambda d: d.tasks is UNSET or d.task_count is UNSET or len(d.tasks) == d.task_count,
            "the number of tasks",
            lambda d: d.task_count,
            tampered=True,
        ),
        Rule(
            "identity_tasks_duplicate",
            "tasks",
            lambda d: d.tasks is UNSET or len({(t.benchmark, t.task, t.content_digest) for t in d.tasks}) == len(d.tasks),
            "each task once",
            lambda d: task_frame(d.tasks).filter(pl.struct(COLUMNS).is_duplicated())["task"][0],
        ),
        Rule(
            "identity_tasks_unsorted",
            "tasks",
            lambda d: d.tasks is UNSET or inventory(task_frame(d.tasks)).equals(task_frame(d.tasks)),
            "tasks in the order of the UTF-16 code units of their keys",
        ),
        Rule(
            "identity_task_set_digest",
            "taskSetDigest",
            lambda d: d.tasks is UNSET or task_set_digest(task_frame(d.tasks)) == d.task_set_digest,
            "the digest of the canonical list of tasks",
            lambda d: d.task_set_digest,
            tampered=True,
        ),
    )  # fmt: skip

    @property
    def size(self) -> int:
        """Number of distinct tasks."""
        return len(self.tasks) if self.tasks is not UNSET else int(self.task_count)  # type: ignore[arg-type]


def task_frame(tasks: tuple[TaskIdentity, ...]) -> pl.DataFrame:
    """Tasks as a frame: benchmark, task, content_digest."""
    return pl.DataFrame({c: [getattr(t, c) for t in tasks] for c in COLUMNS}, schema=dict.fromkeys(COLUMNS, pl.String))


def dataset_identity(
    tasks: pl.DataFrame, digest: str, *, inventory_file: InventoryFile | None = None
) -> DatasetIdentity:
    """Identity of a dataset.

    Args:
        tasks: benchmark, task, content_digest; one line a row or one a task.
        digest: Of the document or of the manifest.
        inventory_file: Names the tasks when there are more than `INLINE`.

    Raises:
        TableError: A task has no usable identity, or there are more tasks than `INLINE` and no file.
    """
    listed = inventory(tasks)
    names: dict[str, Any]
    if listed.height <= INLINE:
        columns = (listed[c].to_list() for c in COLUMNS)
        names = {"tasks": tuple(TaskIdentity(**dict(zip(COLUMNS, t, strict=True))) for t in zip(*columns, strict=True))}
    elif inventory_file is None:
        msg = f"{listed.height:,} tasks, and an identity lists {INLINE:,} at the most; name them by an inventory file (write_inventory)"
        raise TableError(msg)
    else:
        names = {"task_count": listed.height, "inventory": inventory_file}
    return DatasetIdentity(digest=digest, task_set_digest=task_set_digest(listed), **names)
