"""Millions of steps through read, compile and dataset: processor time a step, and the peak of memory of all processes. No time is asserted.

Run with `python -m pytest tests/benchmarks/test_scale.py -m benchmark -s`. EXPCOMP_BENCH_SCALE names the numbers of steps, as
`1000000,10000000`; ten million need two hours of two processors and 60 GB in EXPCOMP_BENCH_FOLDER. EXPCOMP_BENCH_MEMORY is the `--memory`
of all verbs, by default 4GB. Processor time is that of all processes; on a machine with other work it is the steadier figure.
"""

from __future__ import annotations

import json
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import orjson
import polars as pl
import pytest

from tests.benchmarks.cost import cost, growth, parsed
from tests.benchmarks.page import Page
from tests.benchmarks.sizes import sizes
from tests.helpers import RUN_CLI

SCALES = sizes("SCALE")
FOLDER = os.environ.get("EXPCOMP_BENCH_FOLDER")
MEMORY = os.environ.get("EXPCOMP_BENCH_MEMORY", "4GB")
TARGETS = "trl-sft,trl-dpo,trl-grpo,trl-kto"
STEPS, ATTEMPTS = 10, 4  # of an attempt, of a task
STRIDE = 7919  # between attempts at a task in the file, so that they lie far from each other
WORDS = "look at the file then run tests and fix error in parser of module where value is none because loop ends early".split()

pytestmark = pytest.mark.benchmark


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


def many_files(folder: Path, attempts: int, each: int = 5) -> None:
    """Files of so many attempts."""
    folder.mkdir()
    for start in range(0, attempts, each):
        own = (attempt(n * STRIDE % attempts) for n in range(start, min(start + each, attempts)))
        (folder / f"part-{start // each:06d}.jsonl").write_bytes(b"".join(own))


class Table:
    """What each verb cost at each size; growth is the cost of a step over that at the size before, the start taken out of both."""

    def __init__(self, page: Page, layout: str, starts: Callable[[str], float]) -> None:
        self.page, self.layout, self.starts, self.before = page, layout, starts, dict[str, tuple[int, float]]()

    def add(self, steps: int, verb: str, *args: str | Path, floor: tuple[str, float] | None = None) -> None:
        of = cost(*RUN_CLI, verb, *args, "--memory", MEMORY, "--quiet")
        each = of.cpu / steps * 1e6
        now, before = (steps, of.cpu), self.before.get(verb)
        grown = growth(before, now, self.starts(verb)) if before else None
        self.before[verb] = now
        least = floor and (floor[0], floor[1] / steps * 1e6)
        size = f"{steps:,} steps, {self.layout}"
        self.page.add(
            f"scale, {verb}", size, each, unit="µs CPU a step", floor=least, memory_mib=of.sum_mib, growth=grown
        )
        said = "" if grown is None else f", {grown:.2f} x the size before"
        print(f"{verb}, {size}: {of.cpu:.0f} s CPU, {each:.1f} µs a step{said}; peak {of.sum_mib:,.0f} MiB", flush=True)


@pytest.mark.parametrize("write", [one_file, many_files])
def test_millions_of_steps(
    tmp_path: Path, page: Page, starts: Callable[[str], float], write: Callable[[Path, int], None]
) -> None:
    home = Path(FOLDER) if FOLDER else tmp_path
    table = Table(page, write.__name__.replace("_", " "), starts)
    print()
    for steps in SCALES:
        attempts = steps // STEPS
        assert attempts % STRIDE, "the stride has to reach every attempt"
        source, read, made, data = (home / f"{write.__name__}-{n}" for n in ("in", "read", "out", "ds"))
        for folder in (source, read, made, data):
            shutil.rmtree(folder, ignore_errors=True)
        write(source, attempts)
        floor = parsed(source)
        table.add(steps, "read", source, "--out", read, floor=floor)
        tables = json.loads((read / "manifest.json").read_text())["tables"]
        assert tables["steps"]["rows"] == steps
        assert tables["attempts"]["rows"] == attempts
        shutil.rmtree(read)
        table.add(steps, "compile", source, "--out", made, floor=floor)
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
