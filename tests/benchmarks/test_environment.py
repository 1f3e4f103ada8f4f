"""Reconstruction of environments: held-out scores of every recorded world, build times, and growth with size.

Run with `python -m pytest tests/benchmarks/test_environment.py -m benchmark -s` and EXPCOMP_REFERENCE set. Prints; asserts scores and
linear growth, no time.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import polars as pl
import pytest

from expcomp.environments.induction.evaluate import cross_validate
from expcomp.environments.induction.reconstruct import reconstruct
from tests.environments.induction.recorded import LAYOUTS, recorded

pytestmark = pytest.mark.benchmark
ROOT = Path(os.environ.get("EXPCOMP_REFERENCE", "missing")) / "environment"
WORLDS = {n: f for layout in LAYOUTS for n, f in recorded(ROOT, layout).items()} if ROOT.is_dir() else {}


@pytest.mark.parametrize("name", WORLDS)
def test_scores(name: str) -> None:
    begin = time.process_time()
    found = cross_validate(WORLDS[name])
    print(f"\n{name}: {time.process_time() - begin:.1f} s of CPU")
    for by in (["counterfactual"], []):
        for row in found.summary(by).to_dicts():
            print({k: round(v, 4) if isinstance(v, float) else v for k, v in row.items()})
    assert not found.leaky


@pytest.mark.parametrize("name", WORLDS)
def test_build(name: str) -> None:
    begin = time.process_time()
    found = reconstruct(WORLDS[name])
    print(f"\n{name}: built in {time.process_time() - begin:.1f} s of CPU, {found.tables['rules'].height} rules")
    assert found.tables["rules"]["action_type"].n_unique() > 1


def grown(frame: pl.DataFrame, times: int) -> pl.DataFrame:
    """The same families again under other names."""
    parts = [
        frame.with_columns(pl.format("{}~{}", c, pl.lit(i)).alias(c) for c in ("transition_id", "episode_id", "group"))
        for i in range(times)
    ]
    return pl.concat(parts)


def test_growth() -> None:
    frame = next(iter(recorded(ROOT, "chats").values()))
    for times in (10, 40, int(os.environ.get("EXPCOMP_BENCH_TIMES", "160"))):
        begin = time.process_time()
        found = reconstruct(grown(frame, times))
        seconds = time.process_time() - begin
        print(f"\n{found.n_given} transitions: {seconds:.1f} s of CPU, rules from {found.n_learned}")
        assert found.n_given == frame.height * times
