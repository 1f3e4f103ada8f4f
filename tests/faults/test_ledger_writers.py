"""Many writers at once, and writers that die: every run is there once, no reader sees a torn state, nothing blocks.

Full numbers (8 processes, 200 runs each) run with `-m benchmark tests/benchmarks/test_ledger.py`; here they are small.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from expcomp.errors import OutputError
from expcomp.io.delta import DeltaFolder
from expcomp.io.delta_parts import Parts
from expcomp.ledger.store import Ledger
from tests.faults.ledger_processes import lost
from tests.helpers import environment
from tests.ledger.attempts import many

WRITERS = int(os.environ.get("EXPCOMP_LEDGER_WRITERS", "3"))
RUNS = int(os.environ.get("EXPCOMP_LEDGER_RUNS", "8"))
LIMIT = 120

pytestmark = [pytest.mark.slow, pytest.mark.skipif(os.name != "posix", reason="POSIX signals")]


def start(role: str, *words: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.faults.ledger_processes", role, *map(str, words)]
    return subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def ended(process: subprocess.Popen[str]) -> str:
    out, err = process.communicate(timeout=LIMIT)
    assert process.returncode == 0, err
    return out


def aged(ledger: Ledger) -> None:
    """All parts as if they were written two days ago."""
    for part in Path(ledger.path).glob("*.parquet"):
        os.utime(part, (time.time() - 172_800,) * 2)


@pytest.mark.stress
def test_writers_and_a_compaction_at_once_lose_nothing_and_no_reader_sees_half(tmp_path: Path) -> None:
    folder, stop = tmp_path / "ledger", tmp_path / "stop"
    ledger = Ledger(folder, create=True)
    reader = start("read", folder, stop)
    writers = [start("write", folder, seed, RUNS) for seed in range(WRITERS)]
    sweeper = start("compact", folder, 5)
    for process in [*writers, sweeper]:
        ended(process)
    stop.touch()
    assert int(ended(reader)) > 0
    assert lost(ledger, WRITERS, RUNS).height == 0
    assert ledger.runs.collect().height == WRITERS * RUNS


@pytest.mark.stress
def test_writers_of_the_same_runs_add_each_once(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger", create=True)
    for process in [start("write", ledger.path, 0, RUNS) for _ in range(WRITERS)]:
        ended(process)
    assert lost(ledger, 1, RUNS).height == 0


@pytest.mark.stress
def test_writers_that_correct_the_same_attempts_leave_the_newest_of_each(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger", create=True)
    ledger.add(many(RUNS, cases=20))
    for process in [*(start("correct", ledger.path, h, RUNS) for h in (3, 1, 2)), start("compact", ledger.path, 4)]:
        ended(process)
    found = ledger.runs.collect()
    assert found["score"].to_list() == [0.03] * RUNS
    assert lost(ledger, 1, RUNS).height == 0


def test_threads_of_one_process_share_a_ledger(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger", create=True)
    batch = many(24)
    with ThreadPoolExecutor(4) as pool:
        reports = list(pool.map(lambda i: ledger.add(batch[i : i + 2]), range(23)))
    assert sum(r.count("inserted") for r in reports) == 24
    assert ledger.runs.collect()["run_key"].n_unique() == ledger.runs.collect().height == 24


@pytest.mark.stress
def test_ledgers_made_at_once_are_one(tmp_path: Path) -> None:
    gate = threading.Barrier(4)

    def make(i: int) -> None:
        gate.wait()
        Ledger(tmp_path / "ledger", create=True).add(many(4)[i : i + 1])

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(make, range(4)))
    assert Ledger(tmp_path / "ledger").runs.collect().height == 4


@pytest.mark.parametrize("wait", [0.03, *(pytest.param(w, marks=pytest.mark.stress) for w in (0.0, 0.11))])
def test_a_killed_writer_blocks_no_one_and_leaves_whole_runs(tmp_path: Path, wait: float) -> None:
    ledger = Ledger(tmp_path / "ledger", create=True)
    process = start("write", ledger.path, 0, 200)
    assert process.stdout is not None
    assert process.stdout.readline() == "writing\n"
    time.sleep(wait)
    process.send_signal(signal.SIGKILL)
    process.wait(timeout=LIMIT)
    process.communicate()
    left = ledger.runs.collect()
    assert left.height >= 1
    assert left["run_key"].is_duplicated().sum() == 0
    begun = time.monotonic()
    told = ledger.add(many(200, cases=20))
    assert time.monotonic() - begun < 10
    assert (told.count("identical"), told.count("inserted")) == (left.height, 200 - left.height)
    aged(ledger)
    ledger.compact(keep_hours=0)
    assert ledger.runs.collect().height == 200
    parts = {p.name for p in Path(ledger.path).glob("*.parquet")}
    assert parts == set(ledger._snapshot().files["path"])  # what the killed writer left is gone


def test_a_writer_killed_between_part_and_commit_leaves_a_part_that_no_one_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Killed(BaseException):
        pass

    def die(*_: object) -> None:
        raise Killed

    ledger = Ledger(tmp_path / "ledger", create=True)
    monkeypatch.setattr(DeltaFolder, "_committed", die)
    with pytest.raises(Killed):
        ledger.add(many(5))
    monkeypatch.undo()
    assert len(list(Path(ledger.path).glob("*.parquet"))) == 1
    assert (ledger.version, ledger.runs.collect().height) == (0, 0)
    assert ledger.add(many(5)).count("inserted") == 5
    ledger.compact(keep_hours=0)
    assert len(list(Path(ledger.path).glob("*.parquet"))) == 2  # it may be a writer's that is about to commit
    aged(ledger)
    ledger.compact(keep_hours=0)
    assert len(list(Path(ledger.path).glob("*.parquet"))) == 1


def test_a_half_written_commit_file_beside_the_log_is_ignored(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger", create=True)
    ledger.add(many(3))
    (Path(ledger.path) / "_delta_log" / f"{2:020}.json#1").write_bytes(b'{"commitInfo":{"time')
    assert Ledger(ledger.path).add(many(5)).count("inserted") == 2


def test_a_writer_that_others_always_beat_gives_up_and_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = Ledger(tmp_path / "ledger", create=True)
    rival = Ledger(tmp_path / "ledger")
    written = Parts.write

    def beaten(self: Parts, *args: object, **options: object) -> object:
        parts = written(self, *args, **options)
        if self is ledger._table._parts:
            monkeypatch.setattr(Parts, "write", written)
            rival.add(many(3), conflict="keep_both")
            monkeypatch.setattr(Parts, "write", beaten)
        return parts

    monkeypatch.setattr(Parts, "write", beaten)
    told = ledger.add(many(3))
    assert told.counts == {"identical": 3, "refused": 0}
    monkeypatch.undo()

    def refuse(*_: object) -> bool:
        return False

    monkeypatch.setattr(DeltaFolder, "_committed", refuse)
    with pytest.raises(OutputError, match="quicker"):
        ledger._table.transact(
            lambda seen: __import__("expcomp.io.delta", fromlist=["Change"]).Change(seen.scan().collect()),
            stats=(),
            patience=0.05,
        )
    assert rival.runs.collect().height == 3
