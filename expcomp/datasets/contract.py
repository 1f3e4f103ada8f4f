"""What the parts of this room agree on: logical rows by kind, what a kind is built from, what it gives back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import polars as pl

from expcomp.datasets.options import DatasetOptions
from expcomp.tables.family import CHAT

# Every logical row carries these. `_` columns are measures for the selection; they reach no file.
SHARED: dict[str, pl.DataType] = {
    "row_id": pl.String(),
    "task_id": pl.String(),
    "evidence_ids": pl.List(pl.String()),
    "_hash": pl.String(),  # sha256 of the content without ids: equal rows are duplicates
    "_chars": pl.Int64(),  # characters of what carries loss (text, reasoning, names and arguments of calls)
}
_STATS: dict[str, pl.DataType] = {
    "pass_rate": pl.Float64(),
    "pass_rate_low": pl.Float64(),
    "pass_rate_high": pl.Float64(),
    "n_attempts": pl.Int64(),
    "n_openings": pl.Int64(),
}
LOGICAL: dict[str, dict[str, pl.DataType]] = {
    # Whole conversations; `trainable` of each message says whether it carries loss. Ends with an assistant turn.
    "conversation": {
        **SHARED,
        "attempt_id": pl.String(),
        "messages": CHAT,
        "tools": pl.String(),
        "_all_trainable": pl.Boolean(),  # no assistant turn without loss
        "_n_turns": pl.Int32(),
    },
    # One trainable assistant turn with its history; row_id is `<row_id of the conversation>#<position of the turn>`.
    "turn": {
        **SHARED,
        "attempt_id": pl.String(),
        "prompt": CHAT,
        "completion": CHAT,
        "tools": pl.String(),
    },
    "pair": {
        **SHARED,
        "chosen_attempt_id": pl.String(),
        "rejected_attempt_id": pl.String(),
        "pair_level": pl.String(),
        "prompt": CHAT,
        "chosen": CHAT,
        "rejected": CHAT,
        "tools": pl.String(),
        "margin": pl.Float64(),  # null for step pairs
        "_chosen_chars": pl.Int64(),
        "_rejected_chars": pl.Int64(),
    },
    "judged": {
        **SHARED,
        "attempt_id": pl.String(),
        "prompt": CHAT,
        "completion": CHAT,
        "label": pl.Boolean(),
        "tools": pl.String(),
    },
    "prompt": {
        **SHARED,
        "prompt": CHAT,
        "tools": pl.String(),
        "ground_truth": pl.String(),
        "verifier": pl.String(),
        "benchmark": pl.String(),
        **_STATS,
    },
    "process": {
        **SHARED,
        "attempt_id": pl.String(),
        "prompt": pl.String(),
        "completions": pl.List(pl.String()),
        "labels": pl.List(pl.Boolean()),
        "label_sources": pl.List(pl.String()),
    },
    "world": {
        **SHARED,
        "attempt_id": pl.String(),
        "messages": CHAT,  # system?, then user (action) and assistant (observation) in turn
        "tools": pl.String(),
    },
}
# What was left out: one line a candidate, with the first reason that applied and words for a human.
LEFT: dict[str, pl.DataType] = {
    "row_id": pl.String(),
    "task_id": pl.String(),
    "reason": pl.String(),
    "detail": pl.String(),
}

OPENINGS = "openings"


@dataclass(frozen=True)
class Lookups:
    """Key tables of the compile that kinds may join, whole: narrow, without long texts.

    Attributes:
        attempts: attempt_id, task_id, package_id, status, is_truncated, passed, score_norm, score_valid, grade_kind, arm,
            model, started_at.
        tasks: task_id, benchmark, task, content_digest, text_digest, instruction, target, cluster, workflow_family, split, verifier.
        extra: What a kind's `prepare` made, by kind; under OPENINGS attempt_id and opening, for kinds that are `opened`.
    """

    attempts: pl.DataFrame
    tasks: pl.DataFrame
    extra: Mapping[str, pl.DataFrame]


@dataclass(frozen=True)
class Made:
    """Logical rows of a slice and what was left out of it. Every candidate is in one of the two."""

    rows: pl.DataFrame
    left: pl.DataFrame


@dataclass(frozen=True)
class Kind:
    """How the rows of a kind are made.

    Attributes:
        name: Key of LOGICAL.
        family: Row family of the compile whose accepted rows are the candidates.
        build: Slice of that family to logical rows. Pure, order-preserving, runs in a worker.
        chats: Chat columns of the logical frame (their texts are searched for held-out tasks).
        whole: Column whose values a slice never splits (`attempt_id` for families of steps).
        prepare: Made once over the whole family before the slices (lazy scan in, small frame out), or None.
        opened: Whether `build` needs the first words of simulated users.
    """

    name: str
    family: str
    build: Callable[[pl.DataFrame, Lookups, DatasetOptions], Made]
    chats: tuple[str, ...] = ()
    whole: str | None = None
    prepare: Callable[[pl.LazyFrame, Lookups], pl.DataFrame] | None = None
    opened: bool = False
