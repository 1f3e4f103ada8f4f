"""A build of datasets that is stopped at any moment leaves the old output or the new one, whole, or none; the next run works."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import NamedTuple

import pytest

from expcomp.datasets.build import write_datasets
from expcomp.datasets.verify import verify_dataset
from tests.datasets import inputs
from tests.faults.test_kill import GRACE, moments, stopped
from tests.helpers import RUN_CLI, environment, package, tree

TRIES = int(os.environ.get("EXPCOMP_KILL_TRIES", "6"))
TARGETS = "trl,world-model"

pytestmark = [pytest.mark.slow, pytest.mark.skipif(os.name != "posix", reason="POSIX signals")]


class Prepared(NamedTuple):
    """The compile, an old output, the new output, and the seconds that a run takes."""

    source: Path
    old: Path
    new: Path
    seconds: float


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    folder = tmp_path_factory.mktemp("kill")
    package(folder / "other", "pkg_old", task_id="task_old")
    source = inputs.compiled(inputs.source(folder / "in", range(30)), folder / "out")
    write_datasets(inputs.compiled(folder / "other", folder / "small"), ["trl"], folder / "old", processes=1)
    start = time.perf_counter()
    subprocess.run(
        command(source, folder / "new"), check=True, env=environment(), timeout=120, stdout=subprocess.DEVNULL
    )
    seconds = time.perf_counter() - start
    assert verify_dataset(folder / "old").ok
    assert verify_dataset(folder / "new").ok
    return Prepared(source, folder / "old", folder / "new", seconds)


def command(source: Path, out: Path, *more: str) -> list[str]:
    words = ["dataset", os.fspath(source), "--to", TARGETS, "--out", os.fspath(out), "--workers", "2", *more]
    return [*RUN_CLI, *words]


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL], ids=["SIGINT", "SIGKILL"])
@pytest.mark.parametrize("force", [True, False], ids=["over an old output", "nothing there"])
def test_a_stopped_build_leaves_the_old_or_the_new_or_nothing(
    prepared: Prepared, tmp_path: Path, how: signal.Signals, force: bool
) -> None:
    place = tmp_path / "place"
    place.mkdir()
    compiled = tree(prepared.source)
    words = command(prepared.source, place / "out", *(["--force"] if force else []))
    stopped_early = 0
    for after in moments(prepared.seconds, f"dataset{how.name}{force}", TRIES):
        if force:
            shutil.rmtree(place / "out", ignore_errors=True)
            shutil.copytree(prepared.old, place / "out")
        code, said, left = stopped(words, how, after, tmp_path / "stderr.txt", GRACE)
        stopped_early += code != 0
        where = f"{how.name} after {after:.3f} s of {prepared.seconds:.3f} s, exit {code}, stderr: {said[-500:]}"
        assert left == 0, f"processes left: {where}"
        if (place / "out").exists():
            assert tree(place / "out") in (tree(prepared.old), tree(prepared.new)), where
        else:
            assert not force, f"the old output is gone: {where}"
        if how == signal.SIGINT:
            assert {p.name for p in place.iterdir()} <= {"out"}, f"left behind: {where}"
            assert code in (0, 130, -signal.SIGINT), where
        if not force:
            shutil.rmtree(place / "out", ignore_errors=True)
    assert stopped_early > 0, "every run had ended before it was stopped; the test saw nothing"
    assert tree(prepared.source) == compiled
    # The next run succeeds, and sweeps what killed runs left behind.
    write_datasets(prepared.source, TARGETS.split(","), place / "out", force=True, processes=1)
    assert [p.name for p in place.iterdir()] == ["out"]
    assert tree(place / "out") == tree(prepared.new)


def test_an_interrupted_build_says_so_in_one_line(prepared: Prepared, tmp_path: Path) -> None:
    for share in (0.6, 0.5, 0.4):
        code, said, _ = stopped(
            command(prepared.source, tmp_path / "out", "--force"),
            signal.SIGINT,
            prepared.seconds * share,
            tmp_path / "stderr.txt",
        )
        if code:
            break
    assert (code, said) == (130, "expcomp: stopped; nothing was published\n")


def test_two_builds_at_once_on_one_output_leave_one_whole_output(prepared: Prepared, tmp_path: Path) -> None:
    shutil.copytree(prepared.old, tmp_path / "out")
    words = command(prepared.source, tmp_path / "out", "--force")
    runs = [
        subprocess.Popen(words, env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for _ in range(2)
    ]
    assert 0 in [run.wait(120) for run in runs]
    assert tree(tmp_path / "out") == tree(prepared.new)
    assert [p.name for p in tmp_path.iterdir()] == ["out"]
