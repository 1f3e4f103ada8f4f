"""A compile that is stopped at any moment leaves the old output or the new one, whole, or none; the next run works and cleans up."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import NamedTuple

import pytest

from expcomp.compiler.build import compile_paths
from expcomp.compiler.verify import verify
from tests.helpers import RUN_CLI, environment, package, published

TRIES = int(os.environ.get("EXPCOMP_KILL_TRIES", "10"))
SEED = int(os.environ.get("EXPCOMP_KILL_SEED", "7"))
PACKAGES = 34
"""Enough for two shards, so that worker processes are there to be orphaned."""

GRACE = 5.0
"""Seconds that workers get to notice that the run is gone."""

pytestmark = [pytest.mark.slow, pytest.mark.skipif(os.name != "posix", reason="POSIX signals")]


class Prepared(NamedTuple):
    """The input, an old output of another input, the new output, and the seconds that a run takes."""

    source: Path
    old: Path
    new: Path
    seconds: float


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    folder = tmp_path_factory.mktemp("kill")
    for i in range(PACKAGES):
        package(folder / "in", f"pkg_{i:02}", task_id=f"task_{i:02}")
    package(folder / "other", "pkg_old", task_id="task_old")
    compile_paths([folder / "other"], folder / "old", processes=1)
    start = time.perf_counter()
    subprocess.run(
        command(folder / "in", folder / "new"), check=True, env=environment(), timeout=120, stdout=subprocess.DEVNULL
    )
    seconds = time.perf_counter() - start
    assert verify(folder / "old").ok
    assert verify(folder / "new").ok
    return Prepared(folder / "in", folder / "old", folder / "new", seconds)


def command(source: Path, out: Path, *more: str) -> list[str]:
    return [*RUN_CLI, "compile", os.fspath(source), "--out", os.fspath(out), "--workers", "2", *more]


def stopped(words: list[str], how: signal.Signals, after: float, log: Path, grace: float = 0) -> tuple[int, str, int]:
    """Start, signal after some seconds (Ctrl-C reaches the group, a kill the process only); exit code, stderr, processes left."""
    with log.open("w", encoding="utf-8") as stderr:
        # No pipe: a worker that outlives the run would hold it open.
        process = subprocess.Popen(
            words, env=environment(), stdout=subprocess.DEVNULL, stderr=stderr, start_new_session=True
        )
        try:
            process.wait(after)
        except subprocess.TimeoutExpired:
            if how == signal.SIGINT:
                os.killpg(process.pid, how)
            else:
                process.send_signal(how)
        finally:
            left = _end(process, grace)
    return process.returncode, log.read_text("utf-8"), left


def _end(process: subprocess.Popen[bytes], grace: float) -> int:
    """Wait for the run and for the rest of its group; end what is left after a while, and say how many that were."""
    try:
        process.wait(30)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    until = time.monotonic() + grace
    while (left := members(process.pid)) and time.monotonic() < until:
        time.sleep(0.02)
    for pid in left:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return len(left)


def members(group: int) -> list[int]:
    """Processes of a group that are no zombies."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, _, own = path.read_text("utf-8", errors="replace").rsplit(")", 1)[1].split()[:3]
            if int(own) == group and state not in "ZX":
                found.append(int(path.parent.name))
    return found


def moments(longest: float, salt: str, count: int = TRIES) -> list[float]:
    """Random moments, one in each of `count` equal parts of the run."""
    rng = random.Random(f"{SEED}:{salt}")
    return [longest * (i + rng.random()) / count for i in range(count)]


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL], ids=["SIGINT", "SIGKILL"])
@pytest.mark.parametrize("force", [True, False], ids=["over an old output", "nothing there"])
def test_a_stopped_run_leaves_the_old_or_the_new_or_nothing(
    prepared: Prepared, tmp_path: Path, how: signal.Signals, force: bool
) -> None:
    place = tmp_path / "place"
    place.mkdir()
    words = command(prepared.source, place / "out", *(["--force"] if force else []))
    stopped_early = 0
    for after in moments(prepared.seconds, f"{how.name}{force}"):
        if force:
            shutil.rmtree(place / "out", ignore_errors=True)
            shutil.copytree(prepared.old, place / "out")
        code, said, _ = stopped(words, how, after, tmp_path / "stderr.txt")
        stopped_early += code != 0
        where = f"{how.name} after {after:.3f} s of {prepared.seconds:.3f} s, exit {code}, stderr: {said[-500:]}"
        if (place / "out").exists():
            assert published(place / "out") in (published(prepared.old), published(prepared.new)), where
        else:
            assert not force, f"the old output is gone: {where}"
        if how == signal.SIGINT:
            assert {p.name for p in place.iterdir()} <= {"out"}, f"left behind: {where}"
        if not force:
            shutil.rmtree(place / "out", ignore_errors=True)
    assert stopped_early > 0, "every run had ended before it was stopped; the test saw nothing"
    # The next run succeeds, and sweeps what killed runs left behind.
    compile_paths([prepared.source], place / "out", force=True, processes=1)
    assert [p.name for p in place.iterdir()] == ["out"]
    assert published(place / "out") == published(prepared.new)


def test_workers_end_with_the_run_that_is_killed(prepared: Prepared, tmp_path: Path) -> None:
    left = [
        stopped(command(prepared.source, tmp_path / "out"), signal.SIGKILL, m, tmp_path / "stderr.txt", GRACE)[2]
        for m in moments(prepared.seconds, "orphans", 3)
    ]
    assert left == [0, 0, 0], f"processes left {GRACE} s after the kill"


def test_workers_end_with_the_run_that_is_interrupted(prepared: Prepared, tmp_path: Path) -> None:
    left = [
        stopped(
            command(prepared.source, tmp_path / "out", "--force"), signal.SIGINT, m, tmp_path / "stderr.txt", GRACE
        )[2]
        for m in moments(prepared.seconds, "orphans", 3)
    ]
    assert left == [0, 0, 0], f"processes left {GRACE} s after the interrupt"


def test_without_force_a_run_never_touches_the_old_output(prepared: Prepared, tmp_path: Path) -> None:
    place = tmp_path / "place"
    place.mkdir()
    shutil.copytree(prepared.old, place / "out")
    for after in moments(prepared.seconds, "refused", 3):
        stopped(command(prepared.source, place / "out"), signal.SIGKILL, after, tmp_path / "stderr.txt")
    assert published(place / "out") == published(prepared.old)
    assert [p.name for p in place.iterdir()] == ["out"]


def test_an_interrupted_run_says_so_in_one_line(prepared: Prepared, tmp_path: Path) -> None:
    for share in (0.5, 0.4, 0.3):
        code, said, _ = stopped(
            command(prepared.source, tmp_path / "out", "--force"),
            signal.SIGINT,
            prepared.seconds * share,
            tmp_path / "stderr.txt",
        )
        if code:
            break
    assert (code, said) == (130, "expcomp: stopped; nothing was published\n")


def test_two_runs_at_once_on_one_output_leave_one_whole_output(prepared: Prepared, tmp_path: Path) -> None:
    shutil.copytree(prepared.old, tmp_path / "out")
    words = command(prepared.source, tmp_path / "out", "--force")
    runs = [
        subprocess.Popen(words, env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for _ in range(2)
    ]
    assert 0 in [run.wait(120) for run in runs]
    assert published(tmp_path / "out") == published(prepared.new)
    assert [p.name for p in tmp_path.iterdir()] == ["out"]
