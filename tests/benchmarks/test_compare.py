"""A thousand comparisons at once: measures the seconds, asserts that all are there."""

from __future__ import annotations

import time

import numpy as np
import polars as pl
import pytest

import expcomp as xc
from tests.benchmarks.page import Page

pytestmark = pytest.mark.benchmark


@pytest.mark.parametrize("kind", ["passed", "score"])
def test_a_thousand_comparisons_of_200_tasks_and_5_trials(kind: str, page: Page) -> None:
    comparisons, tasks, trials = 1_000, 200, 5
    rng = np.random.default_rng(7)
    n = comparisons * tasks * trials * 2
    i = pl.int_range(n, eager=True)
    chance = rng.beta(1, 1, comparisons * tasks).repeat(trials * 2)
    score = (rng.random(n) < chance) if kind == "passed" else rng.beta(2, 2, n)
    frame = pl.DataFrame(
        {
            "job": i // (tasks * trials * 2),
            "task": (i // (trials * 2) % tasks).cast(pl.String),
            "arm": (i % 2).replace_strict({0: "a", 1: "b"}),
            "attempt": i // 2 % trials,
            kind: score,
        }
    )
    cpu = time.process_time()
    found = xc.compare_many(frame, "a", "b", by="job")
    cpu = time.process_time() - cpu
    page.add(
        f"compare_many, {kind}", f"{comparisons:,} comparisons of {tasks} tasks x {trials} trials", cpu, unit="s CPU"
    )
    assert found.height == comparisons
    assert (found["n_units"] == tasks).all()
    assert found["low"].null_count() == 0
    assert 0.005 < (found["low"] > 0).mean() < 0.05
