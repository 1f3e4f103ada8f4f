"""What Ray costs beside the local run: processor time a byte at one worker, start-up apart, of read, compile and dataset.

Run with `python -m pytest tests/benchmarks/test_engine.py -m benchmark -s` where `ray` is installed. EXPCOMP_BENCH_ENGINE names two
numbers of steps. The cost a byte is the slope between them, so what is paid once a run drops out; start-up is what the line says at no
bytes. Two figures for Ray: of the processes that do the work (the command and the workers), and of all, Ray's own with them. Ray's own
spend a share of each second that passes, and on a busy machine more seconds pass. No time is asserted; digests are.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.benchmarks.page import Page
from tests.benchmarks.sizes import sizes
from tests.benchmarks.test_scale import STEPS, TARGETS, many_files
from tests.helpers import RUN_CLI, environment, published, tree

SIZES = sizes("ENGINE")
ENGINES = {"local": ("--workers", "1"), "ray": ("--engine", "ray", "--workers", "1")}
VERBS = ("read", "compile", "dataset")

pytestmark = [
    pytest.mark.benchmark,
    pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="not installed: ray"),
]


def engine_cost(folder: Path, page: Page) -> dict[str, dict[str, float]]:
    """By verb: CPU seconds for each further GB of traces (local, work, all) and of the start (local_start, ray_start)."""
    spent: dict[tuple[str, str], list[tuple[int, float]]] = {}
    for steps in SIZES:
        source = folder / "in"
        many_files(source, steps // STEPS, 200)
        size = sum(f.stat().st_size for f in source.iterdir())
        outs = {}
        for verb in VERBS:
            for engine, options in ENGINES.items():
                out = outs[verb, engine] = folder / f"{verb}-{engine}"
                given = (outs["compile", "local"], "--to", TARGETS) if verb == "dataset" else (source,)
                work, every = seconds(*RUN_CLI, verb, *given, "--out", out, *options, "--quiet")
                spent.setdefault((verb, engine), []).append((size, every))
                spent.setdefault((verb, f"{engine} work"), []).append((size, work))
                print(
                    f"{verb}, {engine}, {steps:,} steps, {size / 1e6:.0f} MB: {work:.1f} s CPU, all {every:.1f}",
                    flush=True,
                )
            digests = published if verb == "compile" else tree
            local, ray = (digests(outs[verb, engine]) for engine in ENGINES)
            for found in (local, ray):
                found.pop("update.state", None)
            assert local == ray
        for made in (source, *outs.values()):
            shutil.rmtree(made)
    return {verb: _told(verb, spent, page) for verb in VERBS}


def _told(verb: str, spent: dict[tuple[str, str], list[tuple[int, float]]], page: Page) -> dict[str, float]:
    local_start, local = _line(spent[verb, "local"])
    _, work = _line(spent[verb, "ray work"])
    ray_start, every = _line(spent[verb, "ray"])
    about = f"one worker, {SIZES[0]:,} to {SIZES[1]:,} steps; start {ray_start:.0f} s, local {local_start:.0f} s"
    for who, each in (("work", work), ("with Ray's own processes", every)):
        page.add(f"engine ray, {verb}, {who}", about, each, unit="s CPU a GB", peer=("local", local))
    load = os.getloadavg()[1]
    of_all = f"with its own processes {every:.0f} ({every / local:.2f} x)"
    print(
        f"{verb}, s CPU a GB: local {local:.0f}, ray {work:.0f} ({work / local:.2f} x), {of_all}; {about}; load {load:.0f}"
    )
    return {"local": local, "work": work, "all": every, "local_start": local_start, "ray_start": ray_start}


def _line(points: list[tuple[int, float]]) -> tuple[float, float]:
    """Seconds at no bytes, and for each GB."""
    (small, first), (large, second) = points
    each = (second - first) / (large - small)
    return first - each * small, each * 1e9


def seconds(*command: str | Path) -> tuple[float, float]:
    """CPU seconds of a command with its workers, and with all processes below it."""
    # Ray gives workers little of a busy machine, and so its own processes the time to spend more.
    environ = environment({"RAY_worker_niceness": "0"})
    child = subprocess.Popen([*map(str, command)], stdout=subprocess.DEVNULL, env=environ)
    spent: dict[int, float] = {}
    work = {child.pid}
    while child.poll() is None:
        for pid, above, used, title in _processes():
            if pid in spent or pid == child.pid or above in spent:
                spent[pid] = used
            if title.startswith("ray::Map"):
                work.add(pid)
        time.sleep(0.1)
    assert child.returncode == 0
    return sum(used for pid, used in spent.items() if pid in work), sum(spent.values())


def _processes() -> Iterator[tuple[int, int, float, str]]:
    """pid, parent, CPU seconds and title of what runs, in the order of pids: parents are before their children."""
    for pid in sorted(int(p.name) for p in Path("/proc").iterdir() if p.name.isdigit()):
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            title = Path(f"/proc/{pid}/cmdline").read_text()
        except OSError:
            continue
        yield pid, int(fields[1]), (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK"), title


def test_what_ray_costs_beside_the_local_run(tmp_path: Path, page: Page) -> None:
    print()
    assert engine_cost(tmp_path, page).keys() == set(VERBS)
