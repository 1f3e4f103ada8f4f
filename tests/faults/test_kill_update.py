"""An update that is killed leaves the output as it was or the new one, whole; the next update succeeds."""

from __future__ import annotations

import os
import shutil
import signal
import time
from pathlib import Path
from subprocess import DEVNULL, run

import pytest

from expcomp.compiler.build import compile_paths
from expcomp.compiler.verify import verify
from expcomp.io.stat_digest import FRESH_NS
from tests.faults.test_kill import moments, stopped
from tests.helpers import RUN_CLI, STEPS, edit, environment, package, published

pytestmark = [pytest.mark.slow, pytest.mark.skipif(os.name != "posix", reason="POSIX signals")]


@pytest.mark.parametrize("tries", [pytest.param(2, id="some"), pytest.param(200, id="many", marks=pytest.mark.stress)])
def test_a_killed_update_leaves_the_old_or_the_new(tmp_path: Path, tries: int) -> None:
    source, old, place = tmp_path / "in", tmp_path / "old", tmp_path / "place"
    place.mkdir()
    for i in range(3):
        package(source, f"pkg_{i}", task_id=f"task_{i}", steps=STEPS[:2], loops=False)
    time.sleep(2 * FRESH_NS / 1e9)
    compile_paths([source], old, processes=1)

    def change(spec: dict[str, object]) -> None:
        spec["normalized_instruction"] = "Count the gauges again."

    edit(source / "pkg_1/task/task_intake_spec.json", change)
    time.sleep(2 * FRESH_NS / 1e9)
    out, before = place / "out", published(old)
    words = [*RUN_CLI, "compile", str(source), "--update", str(out), "--workers", "1"]
    shutil.copytree(old, out)
    start = time.perf_counter()
    run(words, check=True, env=environment(), timeout=300, stdout=DEVNULL)
    seconds = time.perf_counter() - start
    new = published(out)
    assert new != before
    assert verify(out).ok
    for after in moments(seconds, "update", tries):
        shutil.rmtree(out)
        shutil.copytree(old, out)
        stopped(words, signal.SIGKILL, after, tmp_path / "stderr.txt")
        assert published(out) in (before, new), f"killed after {after:.3f} s of {seconds:.3f} s"
    compile_paths([source], out, update=True, processes=1)
    assert published(out) == new
    assert [p.name for p in place.iterdir()] == ["out"]
