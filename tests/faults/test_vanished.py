"""Files that go away while they are read, and clocks that jump: told, never fatal, and an update believes no stale look."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import expcomp as xc
from expcomp.compiler import build
from expcomp.compiler.verify import verify
from expcomp.io.stat_digest import FRESH_NS, now_ns, stat_digest
from tests.faults.conftest import Faults, contents
from tests.faults.states import CONTENT
from tests.faults.verbs import VERBS
from tests.helpers import STEPS, package, put

DAY = 86_400
CHAT = '{{"messages": [{{"role": "user", "content": "{0}"}}, {{"role": "assistant", "content": "ok"}}], "task_id": "{0}"}}\n'


def test_what_goes_away_after_it_was_found_is_told_and_the_rest_is_compiled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "in"
    for name in ("folder", "trace", "whole"):
        package(source, name, task_id=f"task_{name}", steps=STEPS[:2], loops=False)
    for name in ("gone", "stays"):
        put(source / f"chats/{name}.jsonl", CHAT.format(name))
    found = build.find

    def go_away(*args: Any, **more: Any) -> Any:
        here = found(*args, **more)
        shutil.rmtree(source / "folder")
        (source / "trace/attempts/baseline/agent_trace.json").unlink()
        (source / "chats/gone.jsonl").unlink()
        return here

    monkeypatch.setattr(build, "find", go_away)
    xc.compile_paths([source], tmp_path / "out", processes=1)
    assert verify(tmp_path / "out").ok
    attempts = (
        pl.read_parquet(tmp_path / "out/tables/attempts.parquet").group_by("package_id", maintain_order=True).len()
    )
    counts = dict(attempts.rows())
    assert counts["whole"] == 2
    assert counts["chats/stays.jsonl"] == 1
    assert not {"folder", "chats/gone.jsonl"} & set(counts)
    told = pl.read_parquet(tmp_path / "out/diagnostics.parquet")
    where = "\n".join(
        told.select(pl.concat_str(pl.all().cast(pl.String), separator=" ", ignore_nulls=True)).to_series()
    )
    for name in ("folder", "agent_trace.json", "gone.jsonl"):
        assert name in where, f"nothing is said of {name}"


def test_an_input_that_went_away_altogether_is_an_error_that_names_it(faults: Faults, tmp_path: Path) -> None:
    compiled = tmp_path / "compiled"
    shutil.copytree(faults.given / "compiled", compiled)
    (compiled / "rows/training_example.parquet").unlink()
    (compiled / "rows/training_example.jsonl").unlink()
    for line in (
        "read absent.jsonl --out out",
        "compile absent --out out --workers 1",
        "dataset absent --to trl-sft --out out --workers 1",
        f"dataset {compiled} --to trl-sft --out out --workers 1",
        "ledger add book absent.jsonl",
        "trainset pack absent.json --out out",
    ):
        done = faults.run(line, tmp_path)
        assert done.code == 3, line + done.err
        assert "absent" in done.err or "training_example" in done.err
        assert {p.name for p in tmp_path.iterdir()} <= {"compiled"}, line


def same_size(path: Path) -> None:
    known = path.stat()
    path.write_bytes(path.read_bytes().replace(b"Count", b"Tally"))
    os.utime(path, ns=(known.st_atime_ns, known.st_mtime_ns))


@pytest.mark.parametrize(
    "change",
    [
        same_size,
        lambda path: os.utime(path, (0, 0)),
        lambda path: os.utime(path, (time.time() + 99 * 365 * DAY,) * 2),
    ],
    ids=["same size, time put back", "1970", "in the future"],
)
def test_no_time_of_a_file_hides_a_change(tmp_path: Path, change: Callable[[Path], None]) -> None:
    path = put(tmp_path / "a.json", "Count the gauges.")
    later = now_ns() + 2 * FRESH_NS
    before = stat_digest([path], later)
    change(path)
    assert before
    assert stat_digest([path], later) != before


@pytest.mark.parametrize("behind", [0, FRESH_NS // 2, DAY * 10**9])
def test_a_clock_that_was_put_back_makes_no_file_old(tmp_path: Path, behind: int) -> None:
    path = put(tmp_path / "a.json", "Count the gauges.")
    written = path.stat().st_ctime_ns
    assert stat_digest([path], written - behind) == ""


@pytest.mark.parametrize("clock", [-DAY, DAY])
def test_an_update_under_a_wrong_clock_is_a_full_run(faults: Faults, tmp_path: Path, clock: int) -> None:
    verb = next(v for v in VERBS if v.name == "compile (update)")
    place = faults.place(verb, tmp_path)
    same_size(place / "src/pkg_0/task/task_intake_spec.json")
    assert faults.run(verb.words, place, clock=clock).code == 0
    assert faults.run("compile src --out full --workers 1", place).code == 0
    assert contents(verb, place) == [CONTENT["compile"].of(place / "full")]
