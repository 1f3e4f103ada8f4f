"""A ledger under load: batches, many runs, decisions beside DuckDB, many writers. No time is asserted.

Run with `python -m pytest tests/benchmarks/test_ledger.py -m benchmark -s`. EXPCOMP_BENCH_RUNS is the large number of runs,
EXPCOMP_BENCH_WRITERS and EXPCOMP_BENCH_EACH the processes that write at once and the runs each adds one by one. Each figure is
CPU time of the process over all its threads.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from expcomp.ledger.decide import decide
from expcomp.ledger.pack import read_pack
from expcomp.ledger.store import Ledger
from tests.benchmarks.cost import Spent, alone, best, spent
from tests.benchmarks.page import Page
from tests.benchmarks.sizes import size
from tests.faults.ledger_processes import lost
from tests.helpers import environment
from tests.ledger.attempts import many

RUNS, DECIDED, WRITERS, EACH = (size(name) for name in ("RUNS", "DECIDED", "WRITERS", "EACH"))
FEWER = 10  # times fewer runs, from which growth is counted
BATCH = 10_000
ROLES = {"control": "baseline", "new": "treatment"}

pytestmark = pytest.mark.benchmark


def delta(runs: pl.DataFrame, folder: Path) -> Spent:
    """The least of an add: the same rows into a Delta table."""
    from deltalake import write_deltalake

    return spent(lambda: write_deltalake(folder, runs.to_arrow(), mode="append"))


def grouped(runs: pl.DataFrame, query: str, times: int = 1) -> float:
    """CPU of a query of DuckDB over the runs.

    Raises:
        ImportError: It is not installed.
    """
    import duckdb

    database = duckdb.connect()
    database.register("runs", runs.to_arrow())
    return spent(lambda: database.sql(query).to_arrow_table(), times).cpu


MEANS = """
select filed_benchmark, filed_case, count(*), avg(score_norm) filter (is_baseline), avg(score_norm) filter (is_treatment)
from runs group by all order by all
"""
STANDS = """
select filed_benchmark, filed_case, arm_id, arg_max(run_key, (run_at, recorded_at, run_id)), max(score_norm), count(*)
from runs where archive_state is distinct from 'archived' group by all order by all
"""


Operations = dict[str, tuple[Spent, tuple[str, float] | None, tuple[str, float] | None]]


def ledger_of(runs: int, folder: Path) -> Operations:
    """What each operation costs on that many runs: ours, its floor, its peer."""
    from expcomp.ledger.aggregate import aggregate

    cases = max(1, runs // 100)
    batch, few = many(runs, cases=cases), many(BATCH, cases=500, seed=2)
    ledger = Ledger(folder / "ledger", create=True, roles=ROLES)
    found: Operations = {}

    def line(what: str, call: Callable[[], object], floor: float | None = None, sql: str = "") -> None:
        ours = spent(call)
        peer = best({"DuckDB, groups only": lambda: grouped(everything, sql)}) if sql else None
        found[what] = ours, None if floor is None else ("Delta table", floor), peer

    def add(what: str, frame: pl.DataFrame) -> None:
        line(what, lambda: ledger.add(frame))
        runs = ledger.runs.filter(pl.col("attempt_id").is_in(frame["attempt_id"].implode())).collect()
        assert runs.height == frame.height
        ours, _, peer = found[what]
        found[what] = ours, ("Delta table", delta(runs, folder / what).cpu), peer

    add("add", batch)
    everything = ledger.runs.collect()
    line("cases", ledger.cases.collect, sql=MEANS)
    line("estimate", lambda: ledger.estimate("mean_of_case_means"), sql=MEANS)
    line("aggregate", lambda: aggregate(everything, ledger.pack, "bench"), sql=STANDS)
    add("add one run", many(1, seed=1))
    add(f"add {BATCH:,} runs more", few)
    line("compact", ledger.compact)
    assert ledger.runs.select(pl.len()).collect().item() == runs + 1 + BATCH
    return found


def warm_ledger_of(runs: int, folder: Path) -> Operations:
    (folder / "warm").mkdir()
    ledger_of(200, folder / "warm")
    return ledger_of(runs, folder)


def test_a_million_runs(tmp_path: Path, page: Page) -> None:
    for n in (RUNS // FEWER, RUNS):
        (tmp_path / f"{n}").mkdir()
    small, large = (alone(warm_ledger_of, n, tmp_path / f"{n}") for n in (RUNS // FEWER, RUNS))
    for what, (ours, floor, peer) in large.items():
        grown = ours.cpu / small[what][0].cpu
        each = grown / FEWER if what in {"add", "cases", "estimate", "aggregate", "compact"} else grown
        page.add(
            f"ledger, {what}",
            f"{RUNS:,} runs",
            ours.cpu,
            unit="s CPU",
            floor=floor,
            peer=peer,
            memory_mib=ours.peak_mib,
            growth=each,
        )


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
    cases = DECIDED // each
    ledger = Ledger(tmp_path / "ledger", create=True, roles=ROLES)
    ledger.add(many(DECIDED, cases=cases))
    runs, pack = ledger.runs.collect(), read_pack("default")
    query = DUCKDB.format(facts=", ".join(f"{side}.{c} as {side}_{c}" for side in "bt" for c in FACTS))
    ours = spent(lambda: decide(runs, pack), 4)  # the first warms up
    few = runs.filter(pl.col("filed_case").rank("dense") <= cases // FEWER)
    page.add(
        "ledger, decide",
        f"{DECIDED:,} runs of {cases:,} cases",
        ours.cpu,
        unit="s CPU",
        peer=best({"DuckDB, groups and joins only": lambda: grouped(runs, query, 4)}),
        growth=ours.cpu / runs.height / (spent(lambda: decide(few, pack), 4).cpu / few.height),
    )
    duckdb = pytest.importorskip("duckdb")
    database = duckdb.connect()
    database.register("runs", runs.to_arrow())
    named = {"run_count": "run_count", "b_run_id": "baseline_run_id", "t_run_id": "treatment_run_id"}
    theirs = pl.DataFrame(database.sql(query).to_arrow_table()).select(*named).rename(named)
    assert decide(runs, pack).select(*named.values()).equals(theirs)


def test_many_writers_at_once(tmp_path: Path, page: Page) -> None:
    folder, stop = tmp_path / "ledger", tmp_path / "stop"
    ledger = Ledger(folder, create=True)
    program = [sys.executable, "-m", "tests.faults.ledger_processes"]
    reader = subprocess.Popen([*program, "read", str(folder), str(stop)], env=environment(), stdout=subprocess.PIPE)
    before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    writers = [
        subprocess.Popen(
            [*program, "write", str(folder), str(s), str(EACH)], env=environment(), stdout=subprocess.DEVNULL
        )
        for s in range(WRITERS)
    ]
    assert [w.wait() for w in writers] == [0] * WRITERS
    wall, after = time.perf_counter() - begun, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    stop.touch()
    looks, _ = reader.communicate()
    assert reader.returncode == 0
    assert lost(ledger, WRITERS, EACH).height == 0
    assert ledger.runs.select(pl.len()).collect().item() == WRITERS * EACH
    print(f"{WRITERS * EACH:,} adds, {int(looks):,} looks beside them: {wall:.1f} s, {cpu:.1f} s of CPU")
    about = f"{WRITERS} processes add {EACH} single runs each, one reads"
    page.add("ledger, add at once", about, cpu, unit="s CPU")
    page.add("ledger, read", f"{WRITERS * EACH:,} small files", 1000 * spent(ledger.runs.collect).cpu, unit="ms CPU")
    ledger.compact()
    page.add("ledger, read", "the same, compacted", 1000 * spent(ledger.runs.collect).cpu, unit="ms CPU")
