"""A thousand comparisons at once beside SciPy one by one. No time is asserted.

Run with `python -m pytest tests/benchmarks/test_compare.py -m benchmark -s`.
"""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import expcomp as xc
from tests.benchmarks.cost import Spent, alone, spent
from tests.benchmarks.page import Page
from tests.benchmarks.sizes import size

COMPARISONS, TASKS, TRIALS = size("COMPARISONS"), 200, 5
FEWER = 10  # times fewer comparisons, from which growth is counted
RESAMPLES = 10_000
ALONE = 10  # comparisons that SciPy makes; its figure is for as many as ours

pytestmark = pytest.mark.benchmark


def trials(comparisons: int, kind: str) -> pl.DataFrame:
    """Both arms alike: every trial of a task has the same chance."""
    rng = np.random.default_rng(7)
    n = comparisons * TASKS * TRIALS * 2
    i = pl.int_range(n, eager=True)
    chance = rng.beta(1, 1, comparisons * TASKS).repeat(TRIALS * 2)
    score = (rng.random(n) < chance) if kind == "passed" else rng.beta(2, 2, n)
    return pl.DataFrame(
        {
            "job": i // (TASKS * TRIALS * 2),
            "task": (i // (TRIALS * 2) % TASKS).cast(pl.String),
            "arm": (i % 2).replace_strict({0: "a", 1: "b"}),
            "attempt": i // 2 % TRIALS,
            kind: score,
        }
    )


def compared(comparisons: int, kind: str) -> tuple[Spent, pl.DataFrame]:
    frame, found = trials(comparisons, kind), []
    xc.compare_many(trials(1, kind), "a", "b", by="job")
    cost = spent(lambda: found.append(xc.compare_many(frame, "a", "b", by="job", resamples=RESAMPLES)))
    return cost, found[0]


def differences(frame: pl.DataFrame, kind: str) -> pl.DataFrame:
    """Of the means of each task: the least of a paired comparison."""
    means = frame.group_by("job", "task", "arm", maintain_order=True).agg(pl.col(kind).cast(pl.Float64).mean())
    wide = means.pivot("arm", index=["job", "task"], values=kind, maintain_order=True)
    return wide.select("job", difference=pl.col("b") - pl.col("a"))


def by_hand(comparisons: int, kind: str) -> tuple[float, float]:
    """CPU of the differences of all, and of SciPy's t-test and BCa bootstrap of some, for as many as all."""
    from scipy import stats

    frame, found = trials(comparisons, kind), []
    floor = spent(lambda: found.append(differences(frame, kind))).cpu
    jobs = [part["difference"].to_numpy() for part in found[0].partition_by("job", maintain_order=True)[:ALONE]]

    def run() -> None:
        for values in jobs:
            stats.ttest_1samp(values, 0.0)
            stats.bootstrap((values,), np.mean, n_resamples=RESAMPLES, method="BCa", rng=np.random.default_rng(0))

    return floor, floor + spent(run).cpu * comparisons / len(jobs)


@pytest.mark.parametrize("kind", ["passed", "score"])
def test_a_thousand_comparisons_of_200_tasks_and_5_trials(kind: str, page: Page) -> None:
    few, _ = alone(compared, max(1, COMPARISONS // FEWER), kind)
    ours, found = alone(compared, COMPARISONS, kind)
    floor, scipy = alone(by_hand, COMPARISONS, kind)
    page.add(
        f"compare_many, {kind}",
        f"{COMPARISONS:,} comparisons of {TASKS} tasks x {TRIALS} trials",
        ours.cpu,
        unit="s CPU",
        floor=("differences of task means", floor),
        peer=(f"SciPy, t and BCa (of {ALONE}, scaled)", scipy),
        memory_mib=ours.peak_mib,
        growth=ours.cpu / few.cpu * max(1, COMPARISONS // FEWER) / COMPARISONS,
    )
    assert found.height == COMPARISONS
    assert (found["n_units"] == TASKS).all()
    assert found["low"].null_count() == 0
    if COMPARISONS >= 1_000:
        assert 0.005 < (found["low"] > 0).mean() < 0.05
