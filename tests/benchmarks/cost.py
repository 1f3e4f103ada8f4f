"""What work costs: a command with all processes below it, or a function in a process of its own; shared by the benchmarks."""

from __future__ import annotations

import importlib.util
import json
import multiprocessing
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from tests.helpers import environment

T = TypeVar("T")

# Runs a command and says what it cost, itself and all processes below it: seconds, CPU seconds, peak of the sum of PSS, of the largest.
# CPU is the larger of two counts that both may miss some: what was seen while it ran, and what the system says of ended processes.
WATCH = """
import ctypes, glob, json, os, resource, subprocess, sys, time
TICK = os.sysconf("SC_CLK_TCK")
ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # processes that lose their parent become children of this one
def stat(pid):
    with open(f"/proc/{pid}/stat") as f:
        fields = f.read().rsplit(")", 1)[1].split()
    return int(fields[1]), (int(fields[11]) + int(fields[12])) / TICK
def pss(pid):
    with open(f"/proc/{pid}/smaps_rollup") as f:
        return next(int(line.split()[1]) for line in f if line.startswith("Pss:"))
cpu, family, total, largest = {}, set(), 0, 0
start = time.perf_counter()
child = subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL)
while child.poll() is None:
    look, parents = time.perf_counter(), {}
    for path in glob.glob("/proc/[0-9]*"):
        pid = int(path[6:])
        try:
            parents[pid], spent = stat(pid)
        except (OSError, IndexError):
            continue
        cpu[pid] = spent
    own, size = {child.pid}, 0
    while len(own) != size:
        size = len(own)
        own |= {p for p, above in parents.items() if above in own}
    family |= own
    held = []
    for pid in own:
        try:
            held.append(pss(pid))
        except (OSError, StopIteration):
            pass
    total, largest = max(total, sum(held)), max(largest, max(held, default=0))
    time.sleep(max(0.1, 10 * (time.perf_counter() - look)))  # looking costs, too
seconds = time.perf_counter() - start
late = time.monotonic() + 10
while time.monotonic() < late:
    try:
        if os.waitpid(-1, os.WNOHANG)[0] == 0:
            time.sleep(0.05)
    except ChildProcessError:
        break
used = resource.getrusage(resource.RUSAGE_CHILDREN)
total = max(total, used.ru_maxrss) if not total else total
print(json.dumps({"code": child.returncode, "seconds": seconds, "sum_mib": total / 1024, "largest_mib": largest / 1024,
    "cpu": max(used.ru_utime + used.ru_stime, sum(cpu[p] for p in family if p in cpu))}))
"""

# The least of any reader: every file below a path opened, each document or line of it hashed and parsed, other files hashed.
PARSE = """
import gzip, hashlib, os, sys
import orjson
def files(path):
    if os.path.isfile(path):
        yield path
    for where, _, names in os.walk(path):
        yield from (os.path.join(where, name) for name in names)
for path in files(sys.argv[1]):
    with (gzip.open if path.endswith(".gz") else open)(path, "rb") as handle:
        name = path.removesuffix(".gz")
        for data in handle if name.endswith(".jsonl") else [handle.read()]:
            hashlib.sha256(data).digest()
            if name.endswith((".json", ".jsonl")) and data.strip():
                orjson.loads(data)
"""


@dataclass(frozen=True)
class Cost:
    """Wall clock, CPU of all processes, and the peak of their memory: of the sum, and of the largest one."""

    seconds: float
    cpu: float
    sum_mib: float
    largest_mib: float


def cost(*command: str | Path, codes: Sequence[int] = (0,)) -> Cost:
    """What a command costs, start-up with it; it has to end with one of these codes."""
    done = subprocess.run(
        [sys.executable, "-c", WATCH, *map(str, command)], capture_output=True, text=True, check=True, env=environment()
    )
    said = json.loads(done.stdout)
    assert said.pop("code") in codes, done.stderr
    return Cost(**said)


def program(code: str, *args: str | Path, codes: Sequence[int] = (0,)) -> Cost:
    """What a Python program costs."""
    return cost(sys.executable, "-c", code, *args, codes=codes)


def parsed(path: Path) -> tuple[str, float]:
    """The floor of what reads traces, for a line of the page."""
    return "hash, parse", program(PARSE, path).cpu


def peer(module: str, code: str, *args: str | Path) -> float:
    """CPU of a program that needs a module.

    Raises:
        ImportError: The module is not installed.
    """
    if importlib.util.find_spec(module) is None:
        msg = f"{module} is not installed"
        raise ImportError(msg)
    return program(code, *args).cpu


def best(peers: dict[str, Callable[[], float]]) -> tuple[str, float] | None:
    """The cheapest of the peers that are installed and end well; each one's cost is printed."""
    found = {}
    for name, run in peers.items():
        try:
            found[name] = run()
        except (ImportError, AssertionError) as error:
            print(f"peer {name}: {error}")
    print("peers:", ", ".join(f"{name} {value:.2f}" for name, value in found.items()) or "none is installed")
    return min(found.items(), key=lambda item: item[1], default=None)


def growth(small: tuple[float, float], large: tuple[float, float], start: float = 0.0) -> float | None:
    """Cost of a unit at the large size over that at the small one, both as units and cost, the start taken out of both.

    None where the small one costs hardly more than the start.
    """
    (fewer, few), (more, many) = small, large
    return (many - start) / more / ((few - start) / fewer) if few > 1.2 * start else None


@dataclass(frozen=True)
class Spent:
    """CPU and wall clock of a call, and the peak of its process so far: what was made for it is in it."""

    cpu: float
    seconds: float
    peak_mib: float


def spent(call: Callable[[], Any], times: int = 1) -> Spent:
    """What a call costs in this process and its threads; the least of so many."""
    found = []
    for _ in range(times):
        seconds, cpu = time.perf_counter(), time.process_time()
        call()
        found.append((time.process_time() - cpu, time.perf_counter() - seconds))
    cpu, seconds = min(found)
    return Spent(cpu, seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


def alone(function: Callable[..., T], *args: object) -> T:
    """Call a function of a module in a new process, whose peak of memory is that of the work."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(function, *args).result()
