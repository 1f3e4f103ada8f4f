"""Reconstruction of environments: held-out scores of every recorded world, build costs, and growth with size.

Run with `python -m pytest tests/benchmarks/test_environment.py -m benchmark -s`; the recorded worlds need EXPCOMP_REFERENCE.
EXPCOMP_BENCH_TRANSITIONS names the sizes of the growth test, as `10000,1000000`. Prints costs and their growth; asserts scores and
counts, no time.
"""

from __future__ import annotations

import os
import subprocess
import time
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import polars as pl
import pytest

from expcomp.environments.build import MOST_REPLAYED
from expcomp.environments.folder import open_package, read_report
from expcomp.environments.induction.evaluate import cross_validate
from expcomp.environments.induction.reconstruct import MOST, reconstruct
from tests.benchmarks.shop import write_shop
from tests.environments.induction.recorded import LAYOUTS, recorded
from tests.helpers import RUN_CLI

pytestmark = pytest.mark.benchmark
ROOT = Path(os.environ.get("EXPCOMP_REFERENCE", "missing")) / "environment"
WORLDS = {n: f for layout in LAYOUTS for n, f in recorded(ROOT, layout).items()} if ROOT.is_dir() else {}
FILES = sorted(ROOT.glob("*.json*.gz"))
SIZES = tuple(int(n) for n in os.environ.get("EXPCOMP_BENCH_TRANSITIONS", "10000,30000,100000").split(","))


class Cost(NamedTuple):
    """What a command took: seconds of CPU, and MB of memory at its peak."""

    cpu: float
    peak: float


def build(source: Path, out: Path) -> Cost:
    """`expcomp env build` in a process of its own."""
    command = (*RUN_CLI, "env", "build", str(source), "--env-id", "measured", "--out", str(out))
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as child:
        _, status, used = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    assert child.returncode in (0, 3)
    return Cost(used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)


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
def test_learning(name: str) -> None:
    begin = time.process_time()
    found = reconstruct(WORLDS[name])
    print(f"\n{name}: learned in {time.process_time() - begin:.1f} s of CPU, {found.tables['rules'].height} rules")
    assert found.tables["rules"]["action_type"].n_unique() > 1


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.name)
def test_build(path: Path, tmp_path: Path) -> None:
    cost = build(path, tmp_path / "world")
    package = open_package(tmp_path / "world")
    print(
        f"\n{path.name}: {cost.cpu:.1f} s of CPU, peak {cost.peak:.0f} MB, {package['transitions'].height} transitions"
    )
    assert package["rules"]["action_type"].n_unique() > 1


def test_growth(tmp_path: Path) -> None:
    costs: list[Cost] = []
    rules: list[pl.DataFrame] = []
    for size in SIZES:
        write_shop(tmp_path / "shop.jsonl", size)
        costs.append(build(tmp_path / "shop.jsonl", tmp_path / f"world{size}"))
        package = open_package(tmp_path / f"world{size}")
        report = read_report(package)
        rules.append(package["rules"].select("action_type", "outcome").unique(maintain_order=True).sort(pl.all()))
        learned = package["transitions"].height
        held = report["evaluation"]["steps"]
        print(
            f"\n{size:,} transitions: {costs[-1].cpu:.1f} s of CPU, peak {costs[-1].peak:,.0f} MB, "
            f"{1000 * costs[-1].cpu / size:.3f} s a thousand, learned from {min(learned, MOST):,}"
        )
        # Every transition is in the package or held out, however many rules are learned from and are replayed.
        assert learned + held == size
        assert report["metrics"]["steps"] <= MOST_REPLAYED
    for (small, large), (a, b) in zip(pairwise(SIZES), pairwise(costs), strict=True):
        print(f"{large / small:.1f} x transitions: {b.cpu / a.cpu:.1f} x CPU, {b.peak / a.peak:.1f} x peak")
    assert all(r.equals(rules[-1]) for r in rules)
