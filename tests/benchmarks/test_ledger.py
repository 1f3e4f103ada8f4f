"""A ledger under load: batches, a million runs, decisions beside DuckDB, many writers. Prints figures, asserts no time.

Run with `python -m pytest tests/benchmarks/test_ledger.py -m benchmark -s`. EXPCOMP_BENCH_RUNS is the large number of runs,
EXPCOMP_BENCH_WRITERS and EXPCOMP_BENCH_EACH the processes that write at once and the runs each adds one by one. Each figure is
CPU time of the process over all its threads, then wall time: on a machine others use, the first is the one to compare.
"""

from __future__ import annotations

import os
import re
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import polars as pl
import pytest

from expcomp.ledger.decide import decide
from expcomp.ledger.pack import read_pack
from expcomp.ledger.store import Ledger
from tests.benchmarks.page import Page
from tests.faults.ledger_processes import lost
from tests.helpers import environment
from tests.ledger.attempts import many

RUNS = int(os.environ.get("EXPCOMP_BENCH_RUNS", "1000000"))
WRITERS = int(os.environ.get("EXPCOMP_BENCH_WRITERS", "8"))
EACH = int(os.environ.get("EXPCOMP_BENCH_EACH", "200"))
DECIDED = int(os.environ.get("EXPCOMP_BENCH_DECIDED", "300000"))
ROLES = {"control": "baseline", "new": "treatment"}

pytestmark = pytest.mark.benchmark


@contextmanager
def timed(what: str) -> Iterator[list[float]]:
    begun, spent, told = time.perf_counter(), time.process_time(), [0.0]
    yield told
    told[0], wall = time.process_time() - spent, time.perf_counter() - begun
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(f"{what}: {told[0]:.2f} s of CPU, {wall:.2f} s, peak {peak:.2f} GB")


def test_ten_thousand_runs_in_one_batch(tmp_path: Path, page: Page) -> None:
    batch = many(10_000, cases=500)
    ledger = Ledger(tmp_path / "ledger", create=True)
    with timed("add 10,000 runs in one batch") as spent:
        ledger.add(batch)
    page.add("ledger add", "10,000 runs in one batch", spent[0], unit="s CPU")
    with timed("the same again"):
        assert ledger.add(batch).count("identical") == 10_000


# In a process of its own, so that the peak is that of the ledger.
LARGE = """
import sys
from expcomp.ledger.aggregate import aggregate
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
with timed("aggregate: the run that stands for each case"):
    assert aggregate(ledger.runs.collect(), ledger.pack, "bench").cases.height == max(1, RUNS // 100)
with timed("one run more"):
    ledger.add(many(1, seed=1))
with timed("10,000 runs more, of cases that are there"):
    ledger.add(many(10_000, cases=500, seed=2))
with timed("compact"):
    ledger.compact()
"""


def test_a_million_runs(tmp_path: Path, page: Page) -> None:
    command = [sys.executable, "-c", LARGE, os.fspath(tmp_path / "ledger")]
    begun = time.perf_counter()
    done = subprocess.run(command, check=True, env=environment(), capture_output=True, text=True)
    print(done.stdout)
    for what, cpu, peak in re.findall(r"^(.+): ([\d.]+) s of CPU, .* peak ([\d.]+) GB$", done.stdout, re.MULTILINE):
        page.add(f"ledger: {what}", f"{RUNS:,} runs", float(cpu), unit="s CPU", memory_mib=1000 * float(peak))
    page.add("ledger: all of it, start-up with it", f"{RUNS:,} runs", time.perf_counter() - begun)


# What `decide` starts from, and nothing after it: groups by case, the last run of each role, the facts of those runs.
DUCKDB = """
with cases as (
  select filed_benchmark, filed_case, count(*) as run_count,
    count(*) filter (archive_state is distinct from 'archived') as active_run_count,
    avg(score_norm) filter (is_baseline and countable_score is not null) as baseline_mean,
    avg(score_norm) filter (is_treatment and countable_score is not null) as treatment_mean,
    arg_max(run_key, (run_at, recorded_at, run_id)) filter (archive_state is distinct from 'archived') as latest,
    arg_max(run_key, (run_at, recorded_at, run_id)) filter (is_baseline and archive_state is distinct from 'archived') as b,
    arg_max(run_key, (run_at, recorded_at, run_id)) filter (is_treatment and archive_state is distinct from 'archived') as t
  from runs group by all
)
select c.*, {facts}, l.run_id as latest_run_id, t.official_score - b.official_score as delta
from cases c
left join runs b on b.filed_benchmark = c.filed_benchmark and b.filed_case = c.filed_case and b.run_key = c.b
left join runs t on t.filed_benchmark = c.filed_benchmark and t.filed_case = c.filed_case and t.run_key = c.t
left join runs l on l.filed_benchmark = c.filed_benchmark and l.filed_case = c.filed_case and l.run_key = c.latest
order by c.filed_benchmark, c.filed_case
"""
FACTS = (
    "run_id failure_scope official_score official_passed repair_priority repair_class failure_class next_action".split()
)


@pytest.mark.parametrize("each", [10, 100])
def test_decisions_beside_the_groups_and_joins_of_duckdb(tmp_path: Path, each: int, page: Page) -> None:
    duckdb = pytest.importorskip("duckdb")
    cases = DECIDED // each
    ledger = Ledger(tmp_path / "ledger", create=True, roles=ROLES)
    ledger.add(many(DECIDED, cases=cases))
    runs = ledger.runs.collect()
    database = duckdb.connect()
    database.register("runs", runs.to_arrow())
    query = DUCKDB.format(facts=", ".join(f"{side}.{c} as {side}_{c}" for side in "bt" for c in FACTS))
    pack, ours, theirs = read_pack("default"), [], []
    for _ in range(4):  # the first of each warms up
        with timed(f"decide {DECIDED:,} runs of {cases:,} cases") as spent:
            decided = decide(runs, pack)
        ours.append(spent[0])
        with timed("DuckDB, groups and joins only") as spent:
            grouped = pl.DataFrame(database.sql(query).to_arrow_table())
        theirs.append(spent[0])
    named = {"run_count": "run_count", "b_run_id": "baseline_run_id", "t_run_id": "treatment_run_id"}
    assert decided.select(*named.values()).equals(grouped.select(*named).rename(named))
    size = f"{DECIDED:,} runs of {cases:,} cases"
    page.add(
        "ledger: decide", size, min(ours[1:]), unit="s CPU", peer=("DuckDB, groups and joins only", min(theirs[1:]))
    )


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
