"""Millions of steps through read, compile and dataset: processor time a step, and the peak of memory of all processes. No time is asserted.

Run with `python -m pytest tests/benchmarks/test_scale.py -m benchmark -s`. EXPCOMP_BENCH_SCALE names the numbers of steps, by default
`100000,1000000`; 10000000 need two hours of two processors and 60 GB in EXPCOMP_BENCH_FOLDER. EXPCOMP_BENCH_MEMORY is the `--memory` of
all verbs, by default 4GB. Processor time is that of all processes; on a machine with other work it is the steadier figure.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import orjson
import polars as pl
import pytest

from tests.benchmarks.page import Page
from tests.helpers import RUN_CLI, environment

SCALES = [int(n) for n in os.environ.get("EXPCOMP_BENCH_SCALE", "100000,1000000").split(",")]
FOLDER = os.environ.get("EXPCOMP_BENCH_FOLDER")
MEMORY = os.environ.get("EXPCOMP_BENCH_MEMORY", "4GB")
TARGETS = "trl-sft,trl-dpo,trl-grpo,trl-kto"
STEPS, ATTEMPTS = 10, 4  # of an attempt, of a task
STRIDE = 7919  # between attempts at a task in the file, so that they lie far from each other
WORDS = "look at the file then run tests and fix error in parser of module where value is none because loop ends early".split()

pytestmark = pytest.mark.benchmark

# Runs a command and says what it cost, itself and all processes below it: CPU seconds, peak of the sum of PSS.
WATCH = """
import json, os, resource, subprocess, sys, time
def children(pid):
    try:
        with open(f"/proc/{pid}/task/{pid}/children") as f:
            below = [int(p) for p in f.read().split()]
    except OSError:
        return [pid]
    return [pid, *(q for p in below for q in children(p))]
def pss(pid):
    try:
        with open(f"/proc/{pid}/smaps_rollup") as f:
            return next(int(line.split()[1]) for line in f if line.startswith("Pss:"))
    except (OSError, StopIteration):
        return 0
def spent(pid):
    try:
        with open(f"/proc/{pid}/stat") as f:
            fields = f.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    except OSError:
        return 0
peak, cpu = 0, {}
start = time.perf_counter()
child = subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL)
while child.poll() is None:
    family = children(child.pid)
    peak = max(peak, sum(map(pss, family)))
    cpu |= {p: s for p in family if (s := spent(p))}
    time.sleep(0.5)
print(json.dumps({"code": child.returncode, "seconds": time.perf_counter() - start, "cpu": sum(cpu.values()), "peak_mib": peak / 1024}))
"""


@dataclass(frozen=True)
class Cost:
    seconds: float
    cpu: float
    peak_mib: float


def cost(*command: str | Path) -> Cost:
    done = subprocess.run(
        [sys.executable, "-c", WATCH, *map(str, command)], capture_output=True, text=True, check=True, env=environment()
    )
    said = json.loads(done.stdout)
    assert said.pop("code") == 0, done.stderr
    return Cost(**said)


def words(rng: random.Random, count: int) -> str:
    return " ".join(rng.choices(WORDS, k=count))


def attempt(number: int) -> bytes:
    """One conversation of ten steps: a person's turn, eight calls of a tool with their results, and an answer."""
    rng, task = random.Random(number), number // ATTEMPTS
    turns: list[dict[str, object]] = [
        {"role": "system", "content": "You fix software."},
        {"role": "user", "content": f"Task {task}: {words(random.Random(-task), 20)}"},
    ]
    for n in range(STEPS - 2):
        function = {"name": rng.choice(("read", "search", "run")), "arguments": json.dumps({"arg": words(rng, 3)})}
        calls = [{"id": f"c{n}", "type": "function", "function": function}]
        turns.append({"role": "assistant", "content": words(rng, 8), "tool_calls": calls})
        turns.append({"role": "tool", "tool_call_id": f"c{n}", "content": words(rng, 12)})
    turns.append({"role": "assistant", "content": f"Done {number}: {words(rng, 15)}"})
    good = rng.random() < 0.5
    about = {
        "id": f"a{number:09d}",
        "task_id": f"repo/{task:08d}",
        "model": "m-1",
        "resolved": good,
        "reward": float(good),
    }
    return orjson.dumps(about | {"messages": turns}) + b"\n"


def one_file(folder: Path, attempts: int) -> None:
    folder.mkdir()
    with (folder / "set.jsonl").open("wb") as handle:
        handle.writelines(attempt(n * STRIDE % attempts) for n in range(attempts))


def many_files(folder: Path, attempts: int) -> None:
    folder.mkdir()
    each = 200
    for start in range(0, attempts, each):
        own = (attempt(n * STRIDE % attempts) for n in range(start, min(start + each, attempts)))
        (folder / f"part-{start // each:06d}.jsonl").write_bytes(b"".join(own))


class Table:
    """What each verb cost at each size; growth is the cost of a step over that at the size before."""

    def __init__(self, page: Page, layout: str) -> None:
        self.page, self.layout, self.before = page, layout, dict[str, float]()

    def add(self, steps: int, verb: str, *args: str | Path) -> None:
        of = cost(*RUN_CLI, verb, *args, "--memory", MEMORY, "--quiet")
        each = of.cpu / steps * 1e6
        growth = each / self.before[verb] if verb in self.before else None
        self.before[verb] = each
        size = f"{steps:,} steps, {self.layout}"
        self.page.add(f"scale, {verb}", size, each, unit="µs CPU a step", memory_mib=of.peak_mib, growth=growth)
        said = "" if growth is None else f", {growth:.2f} x the size before"
        print(
            f"{verb}, {size}: {of.cpu:.0f} s CPU, {each:.1f} µs a step{said}; peak {of.peak_mib:,.0f} MiB", flush=True
        )


@pytest.mark.parametrize("write", [one_file, many_files])
def test_millions_of_steps(tmp_path: Path, page: Page, write: Callable[[Path, int], None]) -> None:
    home = Path(FOLDER) if FOLDER else tmp_path
    table = Table(page, write.__name__.replace("_", " "))
    print()
    for steps in SCALES:
        attempts = steps // STEPS
        assert attempts % STRIDE, "the stride has to reach every attempt"
        source, read, made, data = (home / f"{write.__name__}-{n}" for n in ("in", "read", "out", "ds"))
        for folder in (source, read, made, data):
            shutil.rmtree(folder, ignore_errors=True)
        write(source, attempts)
        table.add(steps, "read", source, "--out", read)
        tables = json.loads((read / "manifest.json").read_text())["tables"]
        assert tables["steps"]["rows"] == steps
        assert tables["attempts"]["rows"] == attempts
        shutil.rmtree(read)
        table.add(steps, "compile", source, "--out", made)
        shutil.rmtree(source)
        report = json.loads((made / "report.json").read_text())
        assert report["tables"]["steps"] == steps
        total = report["total"]
        assert total["generated"] == total["accepted"] + total["rejected"]
        groups = [pl.scan_parquet(made / where / "grpo_rollout_group.parquet") for where in ("rows", "rejected")]
        sizes = pl.concat(g.select(pl.col("attempt_ids").list.len()) for g in groups).collect().to_series()
        assert sizes.sum() == attempts
        assert sizes.max() == ATTEMPTS
        table.add(steps, "dataset", made, "--to", TARGETS, "--out", data)
        for config in json.loads((data / "manifest.json").read_text())["configs"]:
            assert config["rows"] + sum(config["left"].values()) == config["candidates"]
            assert config["rows"]
        shutil.rmtree(made)
        shutil.rmtree(data)
