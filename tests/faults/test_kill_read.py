"""A read that is stopped while it writes leaves the old tables or the new ones, whole, or none; the next one cleans up."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

import expcomp as xc
from tests.faults.test_kill import moments, stopped
from tests.helpers import RUN_CLI, environment

TRIES = 4

pytestmark = [pytest.mark.slow, pytest.mark.skipif(os.name != "posix", reason="POSIX signals")]


@pytest.fixture(scope="module")
def sets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A chat set above the size from which worker processes read, and the tables of another one."""
    folder = tmp_path_factory.mktemp("sets")
    turns = [{"role": "user", "content": "q " * 400}, {"role": "assistant", "content": "a " * 400}]
    for name, rows in (("large", 14_000), ("small", 5)):
        with (folder / f"{name}.jsonl").open("w") as handle:
            for n in range(rows):
                handle.write(json.dumps({"id": n, "messages": turns}) + "\n")
    xc.read_traces(folder / "small.jsonl").write(folder / "old")
    return folder


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL], ids=["SIGINT", "SIGKILL"])
def test_a_stopped_read_leaves_the_old_or_the_new(sets: Path, tmp_path: Path, how: signal.Signals) -> None:
    place = tmp_path / "place"
    place.mkdir()
    words = [*RUN_CLI, "read", str(sets / "large.jsonl"), "--out", str(place / "out"), "--workers", "2", "--force"]
    start = time.perf_counter()
    subprocess.run([*words[:-3], "--workers", "2", "--force"], check=True, env=environment(), stdout=subprocess.DEVNULL)
    seconds = time.perf_counter() - start
    stopped_early = 0
    for after in moments(seconds, how.name, TRIES):
        shutil.rmtree(place / "out", ignore_errors=True)
        shutil.copytree(sets / "old", place / "out")
        code, said, left = stopped(words, how, after, tmp_path / "stderr.txt", grace=5.0)
        stopped_early += code != 0
        assert xc.scan_traces(place / "out").attempts.collect().height in (5, 14_000), said
        assert left == 0
        if code == 130:
            # A writer thread inside Polars may add that it was stopped, too, before anything of ours hears of it.
            ours = said.split("\nthread '")[0]
            assert ours == "expcomp: stopped; nothing was published\n"
    assert stopped_early > 0
    xc.read_traces(sets / "small.jsonl").write(place / "out", force=True)
    assert {p.name for p in place.iterdir()} == {"out"}
