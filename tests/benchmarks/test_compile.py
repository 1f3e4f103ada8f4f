"""Ratios of a compile, all from one run on one machine: against an own floor loop, by stage, by size, and in memory. No time is asserted.

Run with `pytest -m benchmark -s tests/benchmarks`. With EXPCOMP_TOOLS set to a folder that holds make_packages.py the input is made
by it, else by the test helper. EXPCOMP_BENCH_PACKAGES and EXPCOMP_BENCH_STEPS set the size of the small input.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import orjson
import pytest

from expcomp.io.stat_digest import FRESH_NS
from tests.benchmarks.page import Page
from tests.helpers import environment, package

PACKAGES = int(os.environ.get("EXPCOMP_BENCH_PACKAGES", "20"))
STEPS = int(os.environ.get("EXPCOMP_BENCH_STEPS", "40"))
TOOLS = os.environ.get("EXPCOMP_TOOLS")
TIMES = 3

pytestmark = pytest.mark.benchmark

# A wrapper around the compile that says what it cost: wall clock, and the peak memory of itself and of its workers.
WRAPPER = """
import glob, json, os, sys, threading, time
peaks = {}
def peak(pid):
    try:
        with open(f"/proc/{pid}/status") as f:
            return next((int(line.split()[1]) for line in f if line.startswith("VmHWM:")), 0)
    except OSError:
        return 0
def family():
    parents = {}
    for path in glob.glob("/proc/[0-9]*/stat"):
        try:
            with open(path) as f:
                parents[int(path.split("/")[2])] = int(f.read().rsplit(")", 1)[1].split()[1])
        except OSError:
            pass
    own, size = {os.getpid()}, 0
    while len(own) != size:
        size = len(own)
        own |= {p for p, above in parents.items() if above in own}
    return own
def watch():
    while not done.is_set():
        for pid in family():
            peaks[pid] = max(peaks.get(pid, 0), peak(pid))
        done.wait(0.1)
done = threading.Event()
thread = threading.Thread(target=watch)
thread.start()
start = time.perf_counter()
import expcomp
more = {sys.argv[4]: True}
report = expcomp.compile_paths([sys.argv[1]], sys.argv[2], processes=int(sys.argv[3]) or None, **more)
seconds = time.perf_counter() - start
done.set()
thread.join()
peaks[os.getpid()] = peak(os.getpid())
print(json.dumps({"seconds": seconds, "peak_kib": max(peaks.values()), "sum_kib": sum(peaks.values()), "report": report}))
"""


@dataclass(frozen=True)
class Cost:
    seconds: float
    peak_mib: float
    sum_mib: float
    rows: int
    stages: dict[str, float]
    shards: int


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


def floor(folder: Path) -> tuple[float, int, int]:
    """The least that any reader does: walk, read, SHA-256, parse. Seconds, files, bytes."""
    start, files, size = time.perf_counter(), 0, 0
    for where, _, names in os.walk(folder):
        for name in names:
            with open(os.path.join(where, name), "rb") as handle:  # noqa: PTH118, PTH123 - the floor takes the quick way
                data = handle.read()
            hashlib.sha256(data).digest()
            if name.endswith(".json"):
                orjson.loads(data)
            elif name.endswith(".jsonl"):
                for line in data.splitlines():
                    orjson.loads(line)
            files, size = files + 1, size + len(data)
    return time.perf_counter() - start, files, size


def cost(folder: Path, out: Path, processes: int = 0, *, how: str = "force", touch: Sequence[Path] = ()) -> Cost:
    """The best of a few runs, each in a process of its own and, where files are named, after they were touched."""
    best: Cost | None = None
    for _ in range(TIMES):
        for path in touch:
            os.utime(path)
        time.sleep(2 * FRESH_NS / 1e9)
        done = subprocess.run(
            [sys.executable, "-c", WRAPPER, folder, out, str(processes), how],
            capture_output=True,
            text=True,
            check=True,
            env=environment(),
            timeout=1800,
        )
        said = json.loads(done.stdout)
        run = said["report"]["run"]
        now = Cost(
            said["seconds"],
            said["peak_kib"] / 1024,
            said["sum_kib"] / 1024,
            said["report"]["total"]["generated"],
            run["seconds_until"],
            run["shards"],
        )
        best = now if best is None or now.seconds < best.seconds else best
    assert best is not None
    return best


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Cost, float, int, int]]:
    folder = tmp_path_factory.mktemp("benchmark")
    found = {}
    for name, count in (("1x", PACKAGES), ("10x", 10 * PACKAGES)):
        source = made(folder / name, count)
        floor(source)
        seconds, files, size = min(floor(source) for _ in range(TIMES))
        found[name] = (cost(source, folder / f"out_{name}"), seconds, files, size)
    found["10x, one process"] = (cost(folder / "10x", folder / "out_one", 1), *found["10x"][1:])
    return found


def test_a_compile_against_the_floor(measured: dict[str, tuple[Cost, float, int, int]], page: Page) -> None:
    print()
    small, large = measured["1x"], measured["10x"]
    growth = large[0].seconds / large[3] / (small[0].seconds / small[3])
    c, seconds, files, size = large
    said = f"{files:,} files, {size / 1e6:.0f} MB, all cores"
    page.add("compile", said, c.seconds, floor=seconds, memory_mib=c.sum_mib, growth=growth)
    for name, (c, seconds, files, size) in measured.items():
        read = f"{files:,} files, {size / 1e6:.1f} MB, {c.rows:,} rows, {c.shards} shards"
        print(f"{name:>17}: {read}: {c.seconds / seconds:.1f} x the floor of {seconds:.3f} s")
        assert c.rows > 0


def test_stages(measured: dict[str, tuple[Cost, float, int, int]]) -> None:
    print()
    for name, (c, *_) in measured.items():
        ends = list(c.stages.items())
        parts = {stage: end - before for (stage, end), before in zip(ends, [0.0, *(e for _, e in ends)], strict=False)}
        print(f"{name:>17}: " + ", ".join(f"{stage} {100 * part / c.seconds:.0f} %" for stage, part in parts.items()))
        assert sum(parts.values()) <= c.seconds


def test_growth(measured: dict[str, tuple[Cost, float, int, int]], page: Page) -> None:
    small, large = measured["1x"], measured["10x"]
    print(
        f"\ninput x {large[3] / small[3]:.1f}: floor x {large[1] / small[1]:.1f}, compile x {large[0].seconds / small[0].seconds:.1f}"
    )
    one = measured["10x, one process"][0]
    page.add("compile", "the same, one process", one.seconds, peer=("all cores", large[0].seconds))
    print(f"processes: one takes {one.seconds / large[0].seconds:.2f} x the time of all")
    assert large[0].rows > 5 * small[0].rows


def test_memory(measured: dict[str, tuple[Cost, float, int, int]]) -> None:
    print()
    for name, (c, *_, size) in measured.items():
        print(
            f"{name:>17}: largest process {c.peak_mib:.0f} MiB, all {c.sum_mib:.0f} MiB, {c.peak_mib * 2**20 / size:.1f} x the input"
        )
        assert c.peak_mib > 0


def test_an_update(tmp_path: Path, page: Page) -> None:
    source = made(tmp_path / "in", 10 * PACKAGES)
    folders = sorted(p.parent for p in source.rglob("attempts") if p.is_dir())
    every = len(folders)
    one_percent = [
        next(p for p in sorted(f.rglob("*.json"))) for f in folders[:: max(1, every // max(1, every // 100))]
    ]
    one_percent = one_percent[: max(1, every // 100)]
    start = cost(made(tmp_path / "one", 1), tmp_path / "start")
    full = cost(source, tmp_path / "out")
    nothing = cost(source, tmp_path / "out", how="update")
    update = cost(source, tmp_path / "out", how="update", touch=one_percent)
    print()
    for name, c in (("full", full), ("nothing changed", nothing), (f"{len(one_percent)} of {every} touched", update)):
        share = (c.seconds - start.seconds) / full.seconds
        print(
            f"{name:>20}: {c.seconds:.2f} s, without the start-up of {start.seconds:.2f} s {100 * share:.1f} % of a full run"
        )
    page.add(
        "compile --update",
        f"{len(one_percent)} of {every} packages touched",
        update.seconds,
        peer=("full run", full.seconds),
    )
    page.add("compile --update", "nothing touched", nothing.seconds, peer=("full run", full.seconds))
    page.add("compile", "one package: start-up", start.seconds)
    assert (update.rows, nothing.rows) == (full.rows, full.rows)
