from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from expcomp.errors import UsageError
from expcomp.io import processes
from expcomp.io.processes import (
    KEEP_OUTPUT,
    PinnedExecutableError,
    ProcessResult,
    check_environment,
    open_executable,
    run_process,
)

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="Linux only")
PYTHON = Path(sys.executable)
# What a script does to leave its caller behind: a new session, and a parent that is gone.
DAEMON = """
import os, signal, sys, time
def daemon():
    if os.fork():
        return False
    os.setsid()
    if os.fork():
        os._exit(0)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    return True
def ready(name):
    open(name, "w").close()
def wait(name):
    while not os.path.exists(name):
        time.sleep(0.005)
"""


def marked(mark: str) -> list[int]:
    """Processes, dead ones too, that were started with a mark in their environment."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if mark.encode() in (entry / "environ").read_bytes():
                    found.append(int(entry.name))
            except OSError:
                continue
    return found


class Runner:
    def __init__(self, folder: Path) -> None:
        self.folder, self.mark = folder, secrets.token_hex(8)

    def script(self, code: str) -> list[str]:
        (self.folder / "trainer.py").write_text(DAEMON + textwrap.dedent(code))
        return ["-I", "-S", "trainer.py"]

    def __call__(self, code: str, **options: object) -> ProcessResult:
        given: dict[str, object] = {
            "cwd": self.folder,
            "environment": {"MARK": self.mark},
            "max_output": 1 << 20,
            "timeout": 60,
        }
        with open_executable(PYTHON) as executable:
            found = run_process(executable, self.script(code), **given | options)  # type: ignore[arg-type]
            executable.verify()
        if found.reason == "lost":  # the system ends the command, a moment later
            until(lambda: marked(self.mark) == [])
        assert marked(self.mark) == []
        return found

    def is_there(self, name: str) -> Callable[[], bool]:
        return (self.folder / name).exists


@pytest.fixture
def run(tmp_path: Path) -> Runner:
    return Runner(tmp_path)


def test_a_command_reads_its_input_and_its_output_is_counted(run: Runner) -> None:
    found = run("print(sys.stdin.read()); print('b', file=sys.stderr)", stdin=b"request")
    assert (found.reason, found.code, found.output_bytes, found.words) == (None, 0, 10, "")
    assert sorted(found.tail.split()) == [b"b", b"request"]
    assert (found.left_running, found.escaped, found.survived) == (0, 0, 0)


def test_nothing_of_the_environment_is_inherited(run: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PRIVATE_VALUE", "1")
    found = run("print(sorted(os.environ), os.getcwd(), os.getsid(0) == os.getpid())")
    assert b"PRIVATE_VALUE" not in found.tail
    assert str(run.folder).encode() in found.tail
    assert found.tail.endswith(b" True\n")


def test_an_input_of_any_size_may_be_left_unread(run: Runner) -> None:
    assert run("os.close(0)", stdin=b"x" * 1_000_000).reason is None


@pytest.mark.parametrize(
    ("code", "reason", "number"), [("sys.exit(3)", "exit_code", 3), ("os.kill(os.getpid(), 9)", "signal", -9)]
)
def test_a_command_that_fails(run: Runner, code: str, reason: str, number: int) -> None:
    found = run(code)
    assert (found.reason, found.code) == (reason, number)
    assert str(number) in found.words


def test_a_daemon_in_its_own_session_does_not_outlive_a_success(run: Runner) -> None:
    found = run(
        """
        if daemon():
            ready("up")
            while True:
                open("weights", "a").write("x")
                time.sleep(0.01)
        wait("up")
        wait("weights")
        """
    )
    assert found.reason is None
    assert found.left_running >= 1
    assert found.escaped >= 1
    assert found.survived == 0


def test_children_of_the_group_do_not_outlive_a_success(run: Runner) -> None:
    found = run(
        """
        for _ in range(5):
            if not os.fork():
                signal.signal(signal.SIGTERM, signal.SIG_IGN)
                time.sleep(600)
        """
    )
    assert (found.reason, found.escaped) == (None, 0)
    assert found.left_running == 5


def test_a_zombie_that_nobody_reaps_is_no_process_left(run: Runner) -> None:
    found = run(
        """
        if not os.fork():
            if not os.fork():
                os._exit(0)
            ready("up")
            time.sleep(600)
        wait("up")
        """
    )
    assert (found.reason, found.survived) == (None, 0)


def test_a_process_that_forks_to_get_away_is_caught(run: Runner) -> None:
    found = run(
        """
        if daemon():
            ready("up")
            end = time.monotonic() + 60
            while time.monotonic() < end:
                if os.fork():
                    os._exit(0)
                time.sleep(0.002)
        wait("up")
        """
    )
    assert (found.reason, found.survived) == (None, 0)


def test_time_is_up_for_one_that_ignores_being_asked(run: Runner) -> None:
    found = run(
        """
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        daemon() or os.fork()
        time.sleep(600)
        """,
        timeout=1,
    )
    assert (found.reason, found.code) == ("timeout", -signal.SIGKILL)
    assert found.words == "its time was up"


def test_time_is_up_for_one_that_stopped_itself(run: Runner) -> None:
    assert run("os.kill(os.getpid(), signal.SIGSTOP)", timeout=1).reason == "timeout"


def test_one_that_is_asked_may_end_well_and_is_stopped_all_the_same(run: Runner) -> None:
    found = run(
        """
        signal.signal(signal.SIGTERM, lambda *_: (ready("asked"), os._exit(0)))
        ready("up")
        time.sleep(600)
        """,
        cancelled=run.is_there("up"),
        grace=30,
    )
    assert (found.reason, found.code) == ("cancelled", 0)
    assert run.is_there("asked")()


def test_cancelling_ends_everything(run: Runner) -> None:
    found = run(
        """
        if daemon():
            ready("up")
        time.sleep(600)
        """,
        cancelled=run.is_there("up"),
    )
    assert found.reason == "cancelled"
    assert found.escaped >= 1


def test_cancelled_before_the_start_starts_nothing(run: Runner) -> None:
    assert run("ready('up')", cancelled=lambda: True) == ProcessResult("cancelled")
    assert not run.is_there("up")()


@pytest.mark.parametrize("code", ["while True: os.write(1, b'x' * 65536)", "os.write(2, b'x' * 3000); ready('end')"])
def test_a_flood_of_output_is_a_failure_and_its_end_is_kept(run: Runner, code: str) -> None:
    found = run(code, max_output=2_000)
    assert found.reason == "output_limit"
    assert found.output_bytes > 2_000
    assert 0 < len(found.tail) <= KEEP_OUTPUT
    assert "output" in found.words


def test_output_up_to_the_limit_is_fine(run: Runner) -> None:
    assert run("os.write(1, b'x' * 2000)", max_output=2_000).output_bytes == 2_000


def test_a_limit_of_the_system(run: Runner) -> None:
    found = run(
        "f = open('weights', 'wb')\nfor _ in range(10): f.write(b'x' * 1_000); f.flush()", limits={"FSIZE": 1_000}
    )
    assert found.reason in ("exit_code", "signal")
    assert (run.folder / "weights").stat().st_size <= 1_000


def test_a_command_that_kills_its_supervisor_is_lost_and_says_so(run: Runner) -> None:
    found = run("os.kill(os.getppid(), 9); time.sleep(600)")
    assert found.reason == "lost"
    assert "may be left" in found.words


def test_a_command_that_stops_its_supervisor_is_lost_in_the_end(run: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "CONFIRM", 0.1)
    monkeypatch.setattr(processes, "_SLACK", 0.1)
    code = "os.kill(os.getppid(), signal.SIGSTOP); ready('up'); time.sleep(600)"
    assert run(code, cancelled=run.is_there("up")).reason == "lost"
    assert run(code, timeout=2).reason == "lost"


def test_a_command_that_forges_its_end(run: Runner) -> None:
    found = run(
        """
        with open(f"/proc/{os.getppid()}/fd/1", "wb", buffering=0) as told:
            told.write(b'{"ended": {"reason": null, "code": 0}}\\n')
        sys.exit(3)
        """
    )
    assert (found.reason, found.code) == ("exit_code", 3)


def test_a_working_directory_that_is_not_there(run: Runner) -> None:
    found = run("", cwd=run.folder / "nowhere")
    assert found.reason == "not_started"
    assert "No such file" in found.words


def test_nothing_outlives_a_caller_that_is_killed(run: Runner) -> None:
    args = run.script("daemon()\nready('up')\nwhile True: time.sleep(1)")
    code = f"""
from pathlib import Path
from expcomp.io.processes import open_executable, run_process
with open_executable(Path({sys.executable!r})) as executable:
    run_process(executable, {args!r}, cwd=Path({str(run.folder)!r}), environment={{"MARK": {run.mark!r}}}, max_output=1)
"""
    caller = subprocess.Popen([sys.executable, "-c", code])
    try:
        until(run.is_there("up"))
        assert marked(run.mark)
    finally:
        caller.kill()
        caller.wait()
    until(lambda: marked(run.mark) == [])


def until(condition: Callable[[], bool]) -> None:
    for _ in range(3_000):
        if condition():
            return
        time.sleep(0.02)
    raise AssertionError


def executable(path: Path, data: bytes, mode: int = 0o755) -> Path:
    path.write_bytes(data)
    path.chmod(mode)
    return path


def refused(path: Path, digest: str | None = None) -> str:
    with pytest.raises(PinnedExecutableError) as error, open_executable(path, digest):
        pass
    return str(error.value)


def test_an_executable_that_cannot_be_used_is_refused_by_name(tmp_path: Path) -> None:
    assert "absolute" in refused(Path("python"))
    assert "No such file" in refused(tmp_path / "none")
    assert "no executable file" in refused(tmp_path)
    assert "no executable file" in refused(executable(tmp_path / "plain", b"x", 0o644))
    assert "interpreter" in refused(executable(tmp_path / "script", b"#!/bin/sh\n"))
    os.mkfifo(tmp_path / "fifo", 0o755)
    assert "no executable file" in refused(tmp_path / "fifo")
    assert "expected the pinned sha256:0" in refused(PYTHON, "sha256:0")


def test_what_runs_is_the_file_that_was_hashed(tmp_path: Path) -> None:
    shell = executable(tmp_path / "shell", Path("/bin/sh").resolve().read_bytes())
    with open_executable(shell) as held:
        executable(tmp_path / "other", b"not a program").rename(shell)
        found = run_process(held, ["-c", "echo fine"], cwd=tmp_path, environment={}, max_output=100, timeout=60)
        assert (found.reason, found.tail) == (None, b"fine\n")
        with pytest.raises(PinnedExecutableError, match="shell: the executable was changed"):
            held.verify()


def test_an_executable_that_is_changed_and_changed_back_was_changed(tmp_path: Path) -> None:
    data = Path("/bin/sh").resolve().read_bytes()
    shell = executable(tmp_path / "shell", data)
    with open_executable(shell) as held:
        shell.write_bytes(b"something else")
        shell.write_bytes(data)
        with pytest.raises(PinnedExecutableError):
            held.verify()


@pytest.mark.parametrize(
    "name",
    "LD_PRELOAD LD_LIBRARY_PATH PYTHONPATH PYTHONHOME PERL5LIB NODE_OPTIONS BASH_ENV DYLD_INSERT_LIBRARIES".split(),
)
def test_a_loader_variable_is_refused_unless_allowed_by_name(name: str) -> None:
    with pytest.raises(UsageError, match=name):
        check_environment({name: "x"})
    check_environment({name: "x"}, loader=[name])


@pytest.mark.parametrize("given", [{"A-B": "x"}, {"": "x"}, {"1A": "x"}, {"A\n": "x"}, {"A": "x\x00"}])
def test_a_variable_that_is_none_is_refused(given: dict[str, str]) -> None:
    with pytest.raises(UsageError):
        check_environment(given)


def test_common_variables_are_fine() -> None:
    check_environment(dict.fromkeys("PATH HOME PYTHONHASHSEED PYTHONUNBUFFERED OMP_NUM_THREADS LANG".split(), "x"))


def test_an_argument_or_limit_that_cannot_be_used_is_refused(tmp_path: Path) -> None:
    with open_executable(PYTHON) as held:
        with pytest.raises(UsageError, match="NUL"):
            run_process(held, ["a\x00"], cwd=tmp_path, environment={}, max_output=1)
        with pytest.raises(UsageError, match="expected one of AS"):
            run_process(held, [], cwd=tmp_path, environment={}, max_output=1, limits={"RSS": 1})
