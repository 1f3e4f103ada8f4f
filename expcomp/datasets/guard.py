"""Held-out sets as what the rows of a build are held against."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from expcomp.datasets.decontaminate.chain import TASK_HITS, task_hits
from expcomp.datasets.decontaminate.heldout import held_out
from expcomp.datasets.decontaminate.index import Index
from expcomp.datasets.options import Policy
from expcomp.io.wording import worded

_BANNED = {"task_id": pl.String(), "detail": pl.String()}


@dataclass(frozen=True)
class Checked:
    """A compile's tasks against held-out ones.

    Attributes:
        held: The held-out tasks; None when none were given.
        hits: task_id, level, heldout: tasks that are held-out ones by content, name or text.
        banned: task_id, detail: the same, a line a task, in words.
        index: For the texts of rows.
    """

    held: pl.DataFrame | None
    hits: pl.DataFrame
    banned: pl.DataFrame
    index: Index | None


def guard_of(
    tasks: pl.DataFrame, against: Sequence[Any], policy: Policy, *, columns: Mapping[str, str] | None = None
) -> Checked:
    """Read the held-out sets and look for their tasks among those of a compile.

    Raises:
        SourceError: A held-out set cannot be read, or has nothing to compare.
    """
    if not against:
        return Checked(None, pl.DataFrame(schema=TASK_HITS), pl.DataFrame(schema=_BANNED), None)
    held = held_out(against, columns=columns)
    hits = task_hits(tasks, held, policy)
    names = held.select(
        heldout=pl.int_range(pl.len(), dtype=pl.UInt32),
        _name=pl.concat_str("benchmark", "task", separator="/", ignore_nulls=True),
    )
    # Words for a human; the levels are in the report. A task without a name is told by its place in the set.
    name = pl.when(pl.col("_name") != "").then("_name").otherwise(worded("task {}", pl.col("heldout") + 1))
    banned = (
        hits.join(names, on="heldout", how="left", maintain_order="left")
        .unique("task_id", keep="first", maintain_order=True)
        .select("task_id", detail=worded("{} with held-out {}", "level", name))
    )
    return Checked(held, hits, banned, Index.build(held, policy) if "ngram" in policy.levels else None)
