"""What only all attempts of a load together say of each: doubles, trials, links, copies. Read from a few narrow columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from expcomp.io.wording import worded
from expcomp.sources._told import NAMED, lines
from expcomp.sources.copies import COUNTED, copies_of, without_copies
from expcomp.sources.trials import doubtful_trials, numbered, trial_keys, trusted
from expcomp.tables import vocab as v

if TYPE_CHECKING:
    from expcomp.sources._contract import ReadOptions

KEYS = (
    "attempt_id",
    "package_id",
    "native_attempt_id",
    "task_id",
    "run_id",
    "arm",
    "trial",
    "trial_source",
    "relation",
    "parent_attempt_id",
    "root_attempt_id",
    "started_at",
    "ended_at",
    "source_format",
    "source_uri",
    "source_pos",
    *COUNTED,
)
"""Columns of attempts that are read."""

CHANGED = ("task_id", "arm", "trial", "trial_source", "relation", "parent_attempt_id", "root_attempt_id", *COUNTED)
"""Those of them that may come out changed."""

_DEEPEST = 32


@dataclass(frozen=True, slots=True)
class Decided:
    """What became of the attempts.

    Attributes:
        keys: `attempt_id`, `kept` (false for a copy of an attempt that is loaded already) and `CHANGED`; one row an attempt that came in,
            in that order.
        diagnostics: Lines that were added.
        copied: Steps (attempt_id, step_index) that repeat a model call of an earlier attempt.
    """

    keys: pl.DataFrame
    diagnostics: pl.DataFrame
    copied: pl.DataFrame

    @property
    def dropped(self) -> pl.Series:
        """Ids of attempts of which a copy was left out."""
        return self.keys.filter(~pl.col("kept"))["attempt_id"]


def decide(
    keys: pl.DataFrame, calls: pl.DataFrame, options: ReadOptions, doubtful: pl.DataFrame | None = None
) -> Decided:
    """Decide over the attempts of a load.

    Args:
        keys: `KEYS` of all attempts, in the order of the load.
        calls: `copies.CALLS` of all steps of the formats in `copies.RESUMED`.
        options: What the user supplies.
        doubtful: What `doubtful_trials` says of a load of which these are a part, with `tell`, whether this part reports it;
            by default it is found in the attempts.
    """
    told: list[pl.DataFrame] = []
    kept = keys["attempt_id"].is_first_distinct().alias("kept")
    attempts = _once(keys, kept, told)
    if doubtful is None:
        doubtful = doubtful_trials([trial_keys(attempts, options)]).with_columns(tell=pl.lit(value=True))
    attempts = trusted(attempts, doubtful, told)
    attempts = _supplied(attempts, options)
    attempts = linked(attempts, told)
    attempts = numbered(attempts, told)
    told.append(_duplicate_tasks(attempts))
    copied = copies_of(attempts, calls)
    attempts = without_copies(attempts, calls, copied, told).select("attempt_id", *CHANGED)
    if attempts.height < keys.height:
        # A copy that is left out has the keys of the one that stays.
        attempts = keys.select("attempt_id").join(attempts, on="attempt_id", how="left", maintain_order="left")
    return Decided(attempts.with_columns(kept), pl.concat(told), copied)


def _once(attempts: pl.DataFrame, kept: pl.Series, told: list[pl.DataFrame]) -> pl.DataFrame:
    if kept.all():
        return attempts
    detail = worded("attempt {} is in this load already; this copy was left out", "native_attempt_id")
    twins = attempts.filter(~kept)
    told.append(lines(twins, "duplicate_attempt", detail.fill_null("is in this load already; left out")))
    return attempts.filter(kept)


def _supplied(attempts: pl.DataFrame, options: ReadOptions) -> pl.DataFrame:
    """Arm, task and trial that the user supplies, where the file has none; an arm that is given is the arm of all."""
    own = ~pl.col("source_format").is_in(NAMED)
    if options.arm is not None:
        attempts = attempts.with_columns(arm=pl.when(own).then(pl.lit(options.arm)).otherwise("arm"))
    if options.task_id is not None:
        task = pl.when(own & pl.col("task_id").is_null()).then(pl.lit(options.task_id)).otherwise("task_id")
        attempts = attempts.with_columns(task_id=task)
    if options.trial is not None and str(options.trial).isdecimal():
        given = own & pl.col("trial").is_null()
        attempts = attempts.with_columns(
            trial=pl.when(given).then(pl.lit(int(options.trial), dtype=pl.Int32)).otherwise("trial"),
            trial_source=pl.when(given).then(pl.lit("native", dtype=v.TRIAL_SOURCE)).otherwise("trial_source"),
        )
    return attempts


def linked(attempts: pl.DataFrame, told: list[pl.DataFrame]) -> pl.DataFrame:
    """Parents that are not in the load are none; the root of a chain is the last parent that is."""
    known = pl.col("attempt_id").implode()
    lost = attempts.filter(pl.col("parent_attempt_id").is_not_null() & ~pl.col("parent_attempt_id").is_in(known))
    if lost.height:
        detail = pl.lit("the attempt that started this one is not in the load; it stands alone")
        told.append(lines(lost, "parent_not_loaded", detail, field="parent_attempt_id", severity="info"))
        gone = pl.col("parent_attempt_id").is_in(known)
        attempts = attempts.with_columns(parent_attempt_id=pl.when(gone).then("parent_attempt_id"))
    above = attempts.select("attempt_id", up=pl.coalesce("parent_attempt_id", "attempt_id"))
    root = above["up"]
    for _ in range(_DEEPEST):
        higher = root.replace(above["attempt_id"], above["up"])
        if higher.equals(root):
            break
        root = higher
    return attempts.with_columns(root.alias("root_attempt_id"))


def _duplicate_tasks(attempts: pl.DataFrame) -> pl.DataFrame:
    """One diagnostics line for each package that holds a task an earlier package of the load holds too."""
    own = (
        attempts.filter(pl.col("source_format") == "packages")
        .select("task_id", "package_id")
        .unique(maintain_order=True)
    )
    first = pl.col("package_id").first().over("task_id")
    twins = own.with_columns(
        first=first,
        source_uri="package_id",
        source_pos=pl.lit(None, dtype=pl.Int64),
        attempt_id=pl.lit(None, dtype=pl.String),
    ).filter(pl.col("package_id") != pl.col("first"))
    detail = worded(
        "{}: holds task {}, as package {} does; rows of both are kept, statistics count both",
        "package_id",
        "task_id",
        "first",
    )
    return lines(twins, "duplicate_task", detail, field="task_id")
