"""A ledger under load: batches, a million runs, many writers. Prints figures, asserts no time.

Run with `python -m pytest tests/benchmarks/test_ledger.py -m benchmark -s`. EXPCOMP_BENCH_RUNS is the large number of runs,
EXPCOMP_BENCH_WRITERS and EXPCOMP_BENCH_EACH the processes that write at once and the runs each adds one by one.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import polars as pl
import pytest

from expcomp.ledger.store import Ledger
from tests.faults.ledger_processes import lost
from tests.helpers import environment
from tests.ledger.attempts import many

RUNS = int(os.environ.get("EXPCOMP_BENCH_RUNS", "1000000"))
WRITERS = int(os.environ.get("EXPCOMP_BENCH_WRITERS", "8"))
EACH = int(os.environ.get("EXPCOMP_BENCH_EACH", "200"))
ROLES = {"control": "baseline", "new": "treatment"}

pytestmark = pytest.mark.benchmark


@contextmanager
def timed(what: str) -> Iterator[None]:
    begun = time.perf_counter()
    yield
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(f"{what}: {time.perf_counter() - begun:.2f} s, peak {peak:.2f} GB")


def test_ten_thousand_runs_in_one_batch(tmp_path: Path) -> None:
    batch = many(10_000, cases=500)
    ledger = Ledger(tmp_path / "ledger", create=True)
    with timed("add 10,000 runs in one batch"):
        ledger.add(batch)
    with timed("the same again"):
        assert ledger.add(batch).count("identical") == 10_000


# In a process of its own, so that the peak is that of the ledger.
LARGE = """
import sys, time
from expcomp.ledger.store import Ledger
from tests.benchmarks.test_ledger import ROLES, RUNS, timed
from tests.ledger.attempts import many
batch = many(RUNS, cases=max(1, RUNS // 100))
ledger = Ledger(sys.argv[1], create=True, roles=ROLES)
with timed("the attempts themselves"):
    batch.estimated_size()
with timed(f"add {RUNS:,} runs"):
    assert ledger.add(batch).count("inserted") == RUNS
del batch
with timed("cases"):
    ledger.cases.collect()
with timed("decide"):
    assert ledger.decisions.collect().height == max(1, RUNS // 100)
with timed("estimate"):
    ledger.estimate("mean_of_case_means")
with timed("one run more"):
    ledger.add(many(1, seed=1))
with timed("10,000 runs more, of cases that are there"):
    ledger.add(many(10_000, cases=500, seed=2))
with timed("compact"):
    ledger.compact()
"""


def test_a_million_runs(tmp_path: Path) -> None:
    command = [sys.executable, "-c", LARGE, os.fspath(tmp_path / "ledger")]
    begun = time.perf_counter()
    subprocess.run(command, check=True, env=environment())
    print(f"all of it: {time.perf_counter() - begun:.1f} s")


def test_many_writers_at_once(tmp_path: Path) -> None:
    folder, stop = tmp_path / "ledger", tmp_path / "stop"
    ledger = Ledger(folder, create=True)
    program = [sys.executable, "-m", "tests.faults.ledger_processes"]
    reader = subprocess.Popen([*program, "read", str(folder), str(stop)], env=environment(), stdout=subprocess.PIPE)
    with timed(f"{WRITERS} processes adding {EACH} single runs each, read all the while"):
        writers = [
            subprocess.Popen(
                [*program, "write", str(folder), str(s), str(EACH)], env=environment(), stdout=subprocess.DEVNULL
            )
            for s in range(WRITERS)
        ]
        assert [w.wait() for w in writers] == [0] * WRITERS
    stop.touch()
    looks, _ = reader.communicate()
    assert reader.returncode == 0
    assert lost(ledger, WRITERS, EACH).height == 0
    assert ledger.runs.select(pl.len()).collect().item() == WRITERS * EACH
    with timed(f"read of {WRITERS * EACH:,} small files ({int(looks):,} looks before)"):
        ledger.runs.collect()
    with timed("compact"):
        ledger.compact()
    with timed("read again"):
        ledger.runs.collect()
