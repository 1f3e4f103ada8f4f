"""Frames of trials for tests: scores by arm and task, written out plainly."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

Scores = Mapping[str, Sequence[Sequence[float | bool | None]]]


def trials(arms: Scores, *, column: str = "passed", **more: Any) -> pl.DataFrame:
    """One row a trial: `arms[arm][task]` are the trials of an arm at task number `task`; `more` are columns, one value a task."""
    rows = [
        {"task": f"t{t:03}", "arm": arm, "attempt": i, column: value, **{k: v[t] for k, v in more.items()}}
        for arm, tasks in arms.items()
        for t, values in enumerate(tasks)
        for i, value in enumerate(values)
    ]
    types = {
        "task": pl.String,
        "arm": pl.String,
        "attempt": pl.Int64,
        column: pl.Boolean if column == "passed" else pl.Float64,
    }
    return pl.DataFrame(rows, schema_overrides=types, infer_schema_length=None)


def singles(both: int, gained: int, lost: int, neither: int) -> pl.DataFrame:
    """Arms `a` and `b`, one trial of pass or fail a task: how many tasks both pass, only b, only a, neither."""
    a = [True] * both + [False] * gained + [True] * lost + [False] * neither
    b = [True] * both + [True] * gained + [False] * lost + [False] * neither
    return trials({"a": [[x] for x in a], "b": [[x] for x in b]})


def scores(differences: Sequence[float], *, base: float = 0.4) -> pl.DataFrame:
    """Arms `a` and `b` with a score a task, on 0 to 1: b is a plus the difference."""
    frame = trials({"a": [[base] for _ in differences], "b": [[base + d] for d in differences]}, column="score")
    return frame.with_columns(scale_known=pl.lit(value=True))


def noisy(tasks: int, n: int, lift: float, *, seed: int = 0) -> pl.DataFrame:
    """Arms `a` and `b`, n trials of pass or fail a task, b better by `lift` in expectation."""
    rng = np.random.default_rng(seed)
    chance = rng.uniform(0.1, 0.9 - max(lift, 0), tasks)
    return trials(
        {arm: (rng.random((tasks, n)) < (chance + more)[:, None]).tolist() for arm, more in (("a", 0.0), ("b", lift))}
    )
