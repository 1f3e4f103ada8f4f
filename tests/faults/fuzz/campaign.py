"""A fuzzing campaign over every source and `verify`.

`python -m tests.faults.fuzz.campaign --out FOLDER [--seconds N] [--most N] [--only NAME ...] [--seed N]` goes round the targets,
a few batches at a time, until the time or the executions are used up. `FOLDER/record.json` holds executions, batches, CPU seconds, the
memory at its peak and every break; a second run with the same folder goes on from there. A batch runs in a child process, so
that a crash of native code is a finding as well.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import multiprocessing
import random
import resource
import time
from pathlib import Path
from typing import Any

from tests.faults.fuzz import harness, verifying
from tests.faults.fuzz.mutate import Files, mutate
from tests.faults.fuzz.seeds import encoded, formats, seeds

BATCH = 1500
ROUNDS = 4  # batches of one child process


def targets() -> list[str]:
    """The formats, all of them mixed and told apart by content, and verify."""
    return [*formats(), "by_content", "verify"]


def inputs(target: str, seed: int) -> list[Files]:
    """The mutated inputs of a batch; the same seed gives the same bytes."""
    rng = random.Random(f"{target}:{seed}")
    if target == "verify":
        return [verifying.mutated(rng) for _ in range(verifying.BATCH)]
    pool = [list(seeds(name)) for name in ([target] if target != "by_content" else formats())]
    pool = [p for p in pool if p]
    every = [files for own in pool for files in own]
    return [mutate(rng.choice(rng.choice(pool)), every, rng) for _ in range(BATCH)]


def check(target: str) -> Any:
    """The property of a target."""
    if target == "verify":
        return verifying.problem
    return lambda batch: harness.problem(batch, None if target == "by_content" else target)


def batch(target: str, seed: int) -> tuple[int, list[harness.Broken]]:
    """Executions and breaks of one batch."""
    given = inputs(target, seed)
    return len(given), harness.search(given, check(target))


def _child(target: str, first: int, pipe: Any, until: float) -> None:
    for seed in range(first, first + ROUNDS):
        before = time.process_time()
        done, broken = batch(target, seed)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        pipe.send((seed, done, time.process_time() - before, peak, broken))
        if time.monotonic() > until:
            break
    pipe.close()


def run(out: Path, *, seconds: float, most: int, only: list[str], start: int = 0) -> dict[str, Any]:
    """Go round until the time is up or every target has its executions; returns the record."""
    out.mkdir(parents=True, exist_ok=True)
    record = json.loads((out / "record.json").read_text()) if (out / "record.json").is_file() else {}
    until = time.monotonic() + seconds
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
            while True:
                last, done, cpu, peak, broken = here.recv()
                mine["batches"] += 1
                mine["executions"] += done
                mine["cpu_seconds"] = round(mine["cpu_seconds"] + cpu, 2)
                mine["peak_mib"] = max(mine["peak_mib"], peak)
                for one in broken:
                    _keep(out, target, mine, one)
                (out / "record.json").write_text(json.dumps(record, indent=1))
        except EOFError:
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


def main() -> None:
    """The command line."""
    ask = argparse.ArgumentParser()
    ask.add_argument("--out", type=Path, required=True)
    ask.add_argument("--seconds", type=float, default=600)
    ask.add_argument("--most", type=int, default=1_000_000)
    ask.add_argument("--seed", type=int, default=0)
    ask.add_argument("--only", nargs="*", default=targets())
    said = ask.parse_args()
    record = run(said.out, seconds=said.seconds, most=said.most, only=said.only, start=said.seed)
    for name, mine in sorted(record.items()):
        print(name, {k: v for k, v in mine.items() if k != "breaks"}, mine["breaks"])


if __name__ == "__main__":
    main()
