"""A fuzzing campaign over every source and `verify`.

`python -m tests.faults.fuzz.campaign --out FOLDER [--seconds N] [--most N] [--only NAME ...] [--seed N]` goes round the targets,
a few batches at a time, until the time or the executions are used up. `FOLDER/record.json` holds executions, batches, CPU seconds, the
memory at its peak and every break; a second run with the same folder goes on from there. A batch runs in a child process, so
that a crash of native code is a finding as well. `--table FOLDER ...` prints the sums of such records as the rows of a Markdown table.
"""

from __future__ import annotations

import argparse
import gc
import hashlib
import json
import multiprocessing
import os
import random
import re
import resource
import time
from functools import cache
from itertools import accumulate
from pathlib import Path
from typing import Any

from tests.faults.fuzz import harness, verifying
from tests.faults.fuzz.mutate import Files, damaged, mutate
from tests.faults.fuzz.seeds import encoded, formats, seeds, signed_tables, small
from tests.faults.fuzz.spans import cut, ids_of, retagged, tagged

BATCH = 4000
STORED_BATCH = 300  # a table is a file of its own there
ROUNDS = 40  # batches of one child process
HANGS = 1200.0  # seconds after which a batch that native code holds up is ended
TRACED = frozenset("mlflow langfuse langsmith openinference otel".split())
"""Formats whose files may hold parts of one attempt."""
SIGNED = 0.7  # of tables, how many agree with their manifest
SHARED = 80  # of every eighth batch, one input in so many has the ids of its seed
SEED_FLOOR = 300  # bytes that a file costs before the first is read


def targets() -> list[str]:
    """The formats, all of them mixed and told apart by content, and verify."""
    return [*formats(), "by_content", "verify"]


@cache
def pool(target: str) -> tuple[list[Files], list[float]]:
    """Seeds, and how often each is drawn: the smaller the more often, tables of Parquet seldom."""
    names = formats() if target == "by_content" else [target]
    every = [files for name in names for files in (*seeds(name), *small(name))]
    cost = (
        sum(SEED_FLOOR + len(data) * (9 if n.endswith(".parquet") else 1) for n, data in files.items())
        for files in every
    )
    return every, list(accumulate(1 / c for c in cost))


@cache
def traced(target: str) -> re.Pattern[bytes]:
    """The ids of all seeds."""
    found = {one for files in pool(target)[0] for data in files.values() for one in ids_of(data)}
    return re.compile(b"|".join(map(re.escape, sorted(found, reverse=True))))


def inputs(target: str, seed: int) -> list[Files]:
    """The mutated inputs of a batch; the same seed gives the same bytes."""
    rng = random.Random(f"{target}:{seed}")
    if target == "verify":
        return [verifying.mutated(rng) for _ in range(verifying.BATCH)]
    every, chances = pool(target)
    picked = rng.choices(every, cum_weights=chances, k=batch_of(target))
    # Ids as they are in the seeds: parts of one attempt in several files, and copies.
    same = SHARED if seed % 8 == 0 else len(picked)
    out = [_mutated(files, every, rng, b"%06x" % n if (n + 1) % same else None) for n, files in enumerate(picked)]
    if target in TRACED:
        # A part of another seed brings its ids along, and an input taken for a part of another is asked once more, alone.
        ids = traced(target)
        for n, files in enumerate(out):
            if (n + 1) % same:
                out[n] = {name: retagged(data, ids, b"%06x" % n) for name, data in files.items()}
    return [signed_tables(files) if rng.random() < SIGNED else files for files in out] if target == "stored" else out


def _mutated(seed: Files, every: list[Files], rng: random.Random, tag: bytes | None) -> Files:
    way = rng.random()
    changed = cut(seed, every, rng, tag) if way > 0.2 else None
    if changed is not None:
        return changed
    own = {name: tagged(data, tag) for name, data in seed.items()}
    return (mutate if way < 0.05 else damaged)(own, every, rng)


def batch_of(target: str) -> int:
    """Inputs that are read together."""
    return STORED_BATCH if target == "stored" else BATCH


def check(target: str, seed: int = 0) -> Any:
    """The property of a target; of most batches, files that stand alone lie in one folder, which takes less time."""
    if target == "verify":
        return verifying.problem
    flat = target != "by_content" and seed % 8 != 0
    return lambda batch: harness.problem(batch, None if target == "by_content" else target, flat=flat)


def batch(target: str, seed: int) -> tuple[int, list[harness.Broken]]:
    """Executions and breaks of one batch."""
    given = inputs(target, seed)
    return len(given), harness.search(given, check(target, seed))


def _child(target: str, first: int, pipe: Any, until: float) -> None:
    pool(target) if target != "verify" else verifying.published()
    gc.collect()
    gc.freeze()
    gc.disable()  # as a load of many files does
    for seed in range(first, first + ROUNDS):
        before = time.process_time()
        done, broken = batch(target, seed)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        gc.collect()
        pipe.send((seed, done, time.process_time() - before, peak, broken))
        if time.monotonic() > until:
            break
    pipe.close()


def run(out: Path, *, seconds: float, most: int, only: list[str], start: int = 0) -> dict[str, Any]:
    """Go round until the time is up or every target has its executions; returns the record."""
    out.mkdir(parents=True, exist_ok=True)
    record = json.loads((out / "record.json").read_text()) if (out / "record.json").is_file() else {}
    until = time.monotonic() + seconds
    os.environ["POLARS_MAX_THREADS"] = "1"  # of the children: small frames gain nothing by more
    context = multiprocessing.get_context("spawn")
    while time.monotonic() < until:
        left = [t for t in only if record.get(t, {}).get("executions", 0) < most]
        if not left:
            break
        target = min(left, key=lambda t: record.get(t, {}).get("executions", 0))
        mine = record.setdefault(
            target, {"executions": 0, "batches": 0, "cpu_seconds": 0.0, "peak_mib": 0, "breaks": {}}
        )
        here, there = context.Pipe(duplex=False)
        first = start + mine["batches"]
        child = context.Process(target=_child, args=(target, first, there, until))
        child.start()
        there.close()
        last = first - 1
        try:
            while here.poll(HANGS):
                last, done, cpu, peak, broken = here.recv()
                mine["batches"] += 1
                mine["executions"] += done
                mine["cpu_seconds"] = round(mine["cpu_seconds"] + cpu, 2)
                mine["peak_mib"] = max(mine["peak_mib"], peak)
                for one in broken:
                    _keep(out, target, mine, one)
                (out / "record.json").write_text(json.dumps(record, indent=1))
            child.kill()
        except EOFError:
            pass
        child.join()
        if child.exitcode:
            mine["batches"] += 1
            died = harness.Broken(f"died-{child.exitcode}", f"batch {last + 1}", {})
            _keep(out, target, mine, died)
            (out / "record.json").write_text(json.dumps(record, indent=1))
    return record


def _keep(out: Path, target: str, mine: dict[str, Any], one: harness.Broken) -> None:
    """A break is told apart by its property and the last lines of its trace."""
    mark = hashlib.sha256((one.what + "\n".join(one.detail.strip().splitlines()[-4:])[:400]).encode()).hexdigest()[:8]
    key = f"{one.what}-{mark}"
    mine["breaks"][key] = mine["breaks"].get(key, 0) + 1
    path = out / f"{target}-{key}.json"
    stored = {"detail": one.detail, "files": encoded(one.files)}
    if not path.is_file() or len(json.dumps(stored)) < path.stat().st_size:
        path.write_text(json.dumps(stored, indent=1))


def table(folders: list[Path]) -> str:
    """Rows of a Markdown table: target, executions, CPU milliseconds each where they were taken, peak MiB, reports; and their sum."""
    found = [json.loads((folder / "record.json").read_text("utf-8")) for folder in folders]
    rows = []
    done = told = 0
    for name in targets():
        mine = [record[name] for record in found if name in record]
        executions, reports = (sum(m["executions"] for m in mine), sum(n for m in mine for n in m["breaks"].values()))
        timed = [m for m in mine if m.get("cpu_seconds")]
        cost = 1000 * sum(m["cpu_seconds"] for m in timed) / max(1, sum(m["executions"] for m in timed))
        peak = max((m["peak_mib"] for m in mine), default=0)
        rows.append(f"| {name} | {executions:,} | {f'{cost:.2f}' if timed else '-'} | {peak or '-'} | {reports} |")
        done, told = done + executions, told + reports
    return "\n".join([*rows, f"| sum | {done:,} | | | {told} |"])


def main() -> None:
    """The command line."""
    ask = argparse.ArgumentParser()
    ask.add_argument("--table", type=Path, nargs="+")
    ask.add_argument("--out", type=Path)
    ask.add_argument("--seconds", type=float, default=600)
    ask.add_argument("--most", type=int, default=1_000_000)
    ask.add_argument("--seed", type=int, default=0)
    ask.add_argument("--only", nargs="*", default=targets())
    said = ask.parse_args()
    if said.table:
        print(table(said.table))
        return
    if said.out is None:
        ask.error("--out or --table is needed")
    record = run(said.out, seconds=said.seconds, most=said.most, only=said.only, start=said.seed)
    for name, mine in sorted(record.items()):
        print(name, {k: v for k, v in mine.items() if k != "breaks"}, mine["breaks"])


if __name__ == "__main__":
    main()
