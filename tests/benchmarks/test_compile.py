"""A compile of packages beside its floor (open, hash and parse every file), by size and by processes, and updates. No time is asserted.

Run with `python -m pytest tests/benchmarks/test_compile.py -m benchmark -s`. With EXPCOMP_TOOLS set to a folder that holds make_packages.py
the input is made by it, else by the test helper. EXPCOMP_BENCH_PACKAGES and EXPCOMP_BENCH_STEPS set the size of the small input.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from expcomp.io.stat_digest import FRESH_NS
from tests.benchmarks.cost import Cost, cost, growth, parsed, program
from tests.benchmarks.page import Page
from tests.benchmarks.sizes import size
from tests.helpers import RUN_CLI, package

PACKAGES, STEPS = size("PACKAGES"), size("STEPS")
MORE = 10  # times as many in the large input
TOOLS = os.environ.get("EXPCOMP_TOOLS")

pytestmark = pytest.mark.benchmark

HASH = """
import hashlib, os, sys
for where, _, names in os.walk(sys.argv[1]):
    for name in names:
        with open(os.path.join(where, name), "rb") as handle:
            hashlib.file_digest(handle, "sha256")
"""


class Input(NamedTuple):
    """Packages, and what their full compile cost."""

    folder: Path
    out: Path
    files: int
    mb: float
    ours: Cost


def made(folder: Path, count: int) -> Path:
    if TOOLS:
        tool = Path(TOOLS) / "make_packages.py"
        subprocess.run(
            [sys.executable, tool, "--out", folder, "--packages", str(count), "--steps", str(STEPS)],
            check=True,
            stdout=subprocess.DEVNULL,
            timeout=600,
        )
        return folder
    for i in range(count):
        package(folder, f"pkg_{i:05}", task_id=f"task_{i:05}", step_count=STEPS)
    return folder


def full(source: Path, out: Path, *more: str) -> Cost:
    settle()
    return cost(*RUN_CLI, "compile", source, "--out", out, "--quiet", *more)


def update(source: Path, out: Path, touch: Sequence[Path] = ()) -> Cost:
    for path in touch:
        os.utime(path)
    settle()
    return cost(*RUN_CLI, "compile", source, "--update", out, "--quiet")


def settle() -> None:
    """Files that are new are hashed again by the next update; these shall not be."""
    time.sleep(2 * FRESH_NS / 1e9)


def report(out: Path) -> dict[str, Any]:
    said: dict[str, Any] = json.loads((out / "report.json").read_text())
    return said


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Input, Input]:
    folder, found = tmp_path_factory.mktemp("benchmark"), []
    for name, count in (("small", PACKAGES), ("large", MORE * PACKAGES)):
        source, out = made(folder / name, count), folder / f"{name}-out"
        sizes = [p.stat().st_size for p in source.rglob("*") if p.is_file()]
        found.append(Input(source, out, len(sizes), sum(sizes) / 1e6, full(source, out)))
    return found[0], found[1]


def test_a_compile_against_the_floor(inputs: tuple[Input, Input], page: Page, starts: Callable[[str], float]) -> None:
    small, large = inputs
    page.add(
        "compile, packages",
        f"{MORE * PACKAGES:,} packages, {large.files:,} files, {large.mb:.1f} MB",
        large.ours.cpu,
        unit="s CPU",
        floor=parsed(large.folder),
        memory_mib=large.ours.sum_mib,
        growth=growth((small.files, small.ours.cpu), (large.files, large.ours.cpu), starts("compile")),
    )
    rows = [report(i.out)["total"]["generated"] for i in inputs]
    assert rows[1] > MORE / 2 * rows[0] > 0


def test_processes(inputs: tuple[Input, Input], tmp_path: Path, page: Page) -> None:
    large = inputs[1]
    one = full(large.folder, tmp_path / "one", "--workers", "1")
    what = f"the same, {os.cpu_count()} processes"
    page.add("compile, packages", what, large.ours.seconds, peer=("one process", one.seconds))
    assert report(tmp_path / "one")["total"] == report(large.out)["total"]


def test_verify(inputs: tuple[Input, Input], page: Page, starts: Callable[[str], float]) -> None:
    small, large = (cost(*RUN_CLI, "verify", i.out) for i in inputs)
    rows = [report(i.out)["total"]["generated"] for i in inputs]
    page.add(
        "verify",
        f"compile of {MORE * PACKAGES:,} packages, {rows[1]:,} rows",
        large.cpu,
        unit="s CPU",
        floor=("hash the files", program(HASH, inputs[1].out).cpu),
        memory_mib=large.sum_mib,
        growth=growth((rows[0], small.cpu), (rows[1], large.cpu), starts("verify")),
    )


def test_stages(inputs: tuple[Input, Input]) -> None:
    run = report(inputs[1].out)["run"]
    ends = list(run["seconds_until"].items())
    parts = {stage: end - before for (stage, end), before in zip(ends, [0.0, *(e for _, e in ends)], strict=False)}
    print(f"\n{run['shards']} shards: " + ", ".join(f"{stage} {part:.2f} s" for stage, part in parts.items()))
    assert sum(parts.values()) <= inputs[1].ours.seconds


def test_an_update(inputs: tuple[Input, Input], page: Page) -> None:
    large = inputs[1]
    folders = sorted(p.parent for p in large.folder.rglob("attempts") if p.is_dir())
    touched = max(1, len(folders) // 100)
    before = report(large.out)["total"]
    nothing = update(large.folder, large.out)
    one_percent = [min(f.rglob("*.json")) for f in folders[:: len(folders) // touched][:touched]]
    some = update(large.folder, large.out, one_percent)
    for what, of in ((f"{touched} of {len(folders)} packages touched", some), ("nothing touched", nothing)):
        page.add(
            "compile --update", what, of.cpu, unit="s CPU", peer=("full run", large.ours.cpu), memory_mib=of.sum_mib
        )
    assert report(large.out)["total"] == before
