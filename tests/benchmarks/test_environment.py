"""Reconstruction of environments: held-out scores of every recorded world, build costs, and growth with size.

Run with `python -m pytest tests/benchmarks/test_environment.py -m benchmark -s`; the recorded worlds need EXPCOMP_REFERENCE.
EXPCOMP_BENCH_TRANSITIONS names the sizes of the growth test, as `10000,1000000`. Prints costs and their growth; asserts scores and
counts, no time.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from expcomp.environments.build import MOST_REPLAYED
from expcomp.environments.folder import open_package, read_report
from expcomp.environments.induction.evaluate import cross_validate
from expcomp.environments.induction.reconstruct import MOST, reconstruct
from tests.benchmarks.cost import Cost, cost, growth, parsed
from tests.benchmarks.page import Page
from tests.benchmarks.shop import TURNS, write_shop
from tests.benchmarks.sizes import sizes
from tests.environments.induction.recorded import LAYOUTS, recorded
from tests.helpers import RUN_CLI

pytestmark = pytest.mark.benchmark
ROOT = Path(os.environ.get("EXPCOMP_REFERENCE", "missing")) / "environment"
WORLDS = {n: f for layout in LAYOUTS for n, f in recorded(ROOT, layout).items()} if ROOT.is_dir() else {}
FILES = sorted(ROOT.glob("*.json*.gz"))
SIZES = sizes("TRANSITIONS")


def build(source: Path, out: Path) -> Cost:
    """`expcomp env build` in a process of its own."""
    return cost(*RUN_CLI, "env", "build", source, "--env-id", "measured", "--out", out, codes=(0, 3))


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
def test_build(path: Path, tmp_path: Path, page: Page) -> None:
    ours = build(path, tmp_path / "world")
    package = open_package(tmp_path / "world")
    size = f"{path.name.partition('.')[0]}, {package['transitions'].height:,} transitions"
    floor = parsed(path)
    page.add("environment, build", size, ours.cpu, unit="s CPU", floor=floor, memory_mib=ours.sum_mib)
    assert package["rules"]["action_type"].n_unique() > 1


def test_growth(tmp_path: Path, page: Page, starts: Callable[[str], float]) -> None:
    costs: list[Cost] = []
    judged: list[Cost] = []
    rules: list[pl.DataFrame] = []
    shop, unseen = tmp_path / "shop.jsonl", tmp_path / "unseen.jsonl"
    for size in SIZES:
        write_shop(shop, size)
        write_shop(unseen, max(TURNS, size // 5), seed=1, first=size)
        world = tmp_path / f"world{size}"
        costs.append(build(shop, world))
        judged.append(cost(*RUN_CLI, "env", "evaluate", world, unseen, "--json"))
        package = open_package(world)
        report = read_report(package)
        rules.append(package["rules"].select("action_type", "outcome").unique(maintain_order=True).sort(pl.all()))
        # Every transition is in the package or held out, however many rules are learned from and are replayed.
        assert package["transitions"].height + report["evaluation"]["steps"] == size
        assert report["metrics"]["steps"] <= MOST_REPLAYED
    large = SIZES[-1]
    for verb, of, path, turns in (("build", costs, shop, large), ("evaluate", judged, unseen, large // 5)):
        page.add(
            f"environment, {verb}",
            f"{turns:,} generated transitions" + (f", learned from {min(large, MOST):,}" if verb == "build" else ""),
            of[-1].cpu,
            unit="s CPU",
            floor=parsed(path),
            memory_mib=of[-1].sum_mib,
            growth=growth((SIZES[0], of[0].cpu), (large, of[-1].cpu), starts(f"env {verb}")),
        )
    assert all(r.equals(rules[-1]) for r in rules)
