"""A process that has imported all of expcomp and run none of it: each command is a fork of it, ready at once and easy to kill.

`python -m tests.faults.warm` reads one request a line and answers it in one line. It runs no query itself, which is what makes its
forks sound, as those of the server of `expcomp.io.pool` are: the thread pool of Polars begins in the child.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import gc
import importlib
import json
import mmap
import multiprocessing.util
import os
import pkgutil
import random
import resource
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any

from tests.helpers import environment

GRACE = 60.0
"""Seconds at the most that processes get to notice that the run is gone: one that is still importing hears of it afterwards."""

_ONE_THREAD = dict.fromkeys(("POLARS_MAX_THREADS", "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"), "1")
_WRITES = frozenset(
    "os.rename os.remove os.mkdir os.rmdir os.link os.symlink os.truncate os.chmod os.utime sqlite3.connect ctypes.dlsym".split()
)
_FOR_WRITING = os.O_WRONLY | os.O_RDWR | getattr(os, "O_DIRECTORY", 0)
_ALSO = ("deltalake", "pyarrow.parquet", "pyarrow.dataset", "tests.faults.given", "matplotlib.figure", "sqlite3")


@dataclass(frozen=True)
class Ran:
    """How a command ended: exit code or minus the signal, its words, seconds, writes that began, processes left after `GRACE`."""

    code: int
    out: str
    err: str
    seconds: float
    cpu: float
    writes: int
    left: int


@dataclass(frozen=True)
class Started:
    """A command at work."""

    pid: int
    begun: float


class Warm:
    """The server, and what to ask of it."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.faults.warm"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment(_ONE_THREAD),
            text=True,
        )

    def close(self) -> None:
        self._process.communicate("", timeout=30)

    def start(self, words: Sequence[str], cwd: Path, **how: Any) -> Started:
        """Begin a command; see `_child` for what it may be told."""
        return Started(**self._ask(start=list(words), cwd=os.fspath(cwd), **how))

    def end(self, started: Started, kill_after: float | None = None, how: int = signal.SIGKILL) -> Ran:
        """Wait for a command; signal it some seconds after it began, unless it ended before."""
        return Ran(**self._ask(end=asdict(started), kill_after=kill_after, how=int(how)))

    def run(self, words: Sequence[str], cwd: Path, kill_after: float | None = None, **how: Any) -> Ran:
        return self.end(self.start(words, cwd, **how), kill_after)

    def _ask(self, **request: Any) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        return answer


def members(group: int) -> list[int]:
    """Processes of a group that are no zombies."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, _, own = path.read_text("utf-8", errors="replace").rsplit(")", 1)[1].split()[:3]
            if int(own) == group and state not in "ZX":
                found.append(int(path.parent.name))
    return found


def _serve(requests: IO[str], answers: IO[str]) -> None:
    import expcomp

    for found in pkgutil.walk_packages(expcomp.__path__, "expcomp."):
        if "engine_ray" not in found.name:
            with contextlib.suppress(ImportError):
                importlib.import_module(found.name)
    for name in _ALSO:
        importlib.import_module(name)
    _keep_command_line()
    gc.collect()
    gc.freeze()  # what was imported stays shared with the forks
    for line in requests:
        request = json.loads(line)
        answer = _started(request) if "start" in request else _ended(**request)
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def _keep_command_line() -> None:
    """Build the command line once, not in each fork."""
    import typer.main

    from expcomp.cli.main import app

    built = typer.main.get_command(app)
    typer.main.get_command = lambda _: built


_RUNNING: dict[int, tuple[int, int, mmap.mmap]] = {}
"""Of each child the pipes that its words come through, and the count of its writes: no file, since a limit of file sizes would hold."""


def _started(request: dict[str, Any]) -> dict[str, Any]:
    pipes = [os.pipe(), os.pipe()]
    for pipe in pipes:
        fcntl.fcntl(pipe[1], fcntl.F_SETPIPE_SZ, 1 << 20)
    count = mmap.mmap(-1, 8)
    begun = time.monotonic()
    pid = os.fork()
    if pid == 0:
        _child(pipes[0][1], pipes[1][1], count, request.pop("start"), **request)
    for pipe in pipes:
        os.close(pipe[1])
        os.set_blocking(pipe[0], False)
    _RUNNING[pid] = (pipes[0][0], pipes[1][0], count)
    return {"pid": pid, "begun": begun}


def _child(
    out: int,
    err: int,
    count: mmap.mmap,
    words: list[str],
    *,
    cwd: str,
    text: str = "",
    call: bool = False,
    kill_at: int | None = None,
    pause_at: int | None = None,
    watch: str | None = None,
    watched: int = 0,
    file_bytes: int | None = None,
    unprivileged: bool = False,
    clock: float = 0,
) -> None:
    """The command, in a process and session of its own; never returns.

    Args:
        out: Where its words go.
        err: Where those of errors go.
        count: Where the writes are counted.
        words: Of the command line; a `module:function` and arguments with `call`.
        cwd: Where it runs.
        text: What it reads from stdin.
        call: Run a function of the tests.
        kill_at: Kill before this write, counted from 0, of those that Python makes.
        pause_at: Stop itself (SIGSTOP) before this write.
        watch: Folder for copies of `cwd` as it is before some of the writes.
        watched: How many.
        file_bytes: No file may grow larger.
        unprivileged: What a folder's mode forbids is forbidden to root, too.
        clock: Seconds that `time.time` and `time.time_ns` are off.
    """
    code = 70
    try:
        os.setsid()
        os.chdir(cwd)
        given, fill = os.pipe()
        os.write(fill, text.encode())
        os.close(fill)
        for number, handle in enumerate((given, out, err)):
            os.dup2(handle, number)
        sys.stdin, sys.stdout, sys.stderr = (
            open(number, mode, encoding="utf-8", closefd=False)  # noqa: SIM115
            for number, mode in enumerate("rww")
        )
        signal.signal(signal.SIGINT, signal.default_int_handler)
        if unprivileged and os.geteuid() == 0:
            _without_override()
        if clock:
            now, now_ns = time.time, time.time_ns
            time.time, time.time_ns = lambda: now() + clock, lambda: now_ns() + int(clock * 1e9)
        if file_bytes is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (file_bytes, file_bytes))
        signals = {n: s for n, s in ((kill_at, signal.SIGKILL), (pause_at, signal.SIGSTOP)) if n is not None}
        _count_writes(count, signals, None if watch is None else Path(watch), watched)
        code = _command(words, call=call)
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        with contextlib.suppress(Exception):
            multiprocessing.util._exit_function()  # type: ignore[attr-defined]  # as the interpreter does at its end
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def _command(words: list[str], *, call: bool) -> int:
    from expcomp.cli.main import main

    sys.argv = ["expcomp", *words]
    try:
        if call:
            module, _, name = words[0].partition(":")
            getattr(importlib.import_module(module), name)(*words[1:])
        else:
            main()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 0 if end.code is None else 1
    return 0


def _count_writes(count: mmap.mmap, signals: dict[int, int], watch: Path | None, watched: int) -> None:
    """Count writes and act on some; of `watch`, keep copies of this folder as it is before `watched` of them, all equally likely."""
    seen, busy, place, draw = 0, False, Path.cwd(), random.Random(0)

    def hook(event: str, args: Any) -> None:
        nonlocal seen, busy
        if busy or not (event in _WRITES or (event == "open" and isinstance(args[2], int) and args[2] & _FOR_WRITING)):
            return
        busy = True
        if seen in signals:
            os.kill(os.getpid(), signals[seen])
        slot = seen if seen < watched else draw.randrange(seen + 1)
        if watch is not None and slot < watched:
            shutil.rmtree(watch / str(slot), ignore_errors=True)
            shutil.copytree(place, watch / str(slot), symlinks=True)
        seen += 1
        count[:] = seen.to_bytes(8, "little")
        busy = False

    sys.addaudithook(hook)


def _without_override() -> None:
    """Give up what lets root write where a mode forbids it (capability DAC_OVERRIDE, 1, and DAC_READ_SEARCH, 2)."""
    libc = ctypes.CDLL(None, use_errno=True)
    header, sets = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
    assert libc.capget(header, sets) == 0
    for at in (0, 1):
        sets[at] &= ~0b110
    assert libc.capset(header, sets) == 0


def _ended(end: dict[str, Any], kill_after: float | None, how: int) -> dict[str, Any]:
    pid, begun = end["pid"], end["begun"]
    status, usage = _waited(pid, None if kill_after is None else begun + kill_after, how)
    seconds = time.monotonic() - begun
    until = time.monotonic() + GRACE
    while (left := members(pid)) and time.monotonic() < until:
        time.sleep(0.02)
    for one in left:
        with contextlib.suppress(ProcessLookupError):
            os.kill(one, signal.SIGKILL)
    out, err, count = _RUNNING.pop(pid)
    writes, cpu = int.from_bytes(count[:], "little"), usage.ru_utime + usage.ru_stime
    return asdict(Ran(os.waitstatus_to_exitcode(status), _said(out), _said(err), seconds, cpu, writes, len(left)))


def _said(handle: int) -> str:
    parts = []
    with contextlib.suppress(BlockingIOError):
        while part := os.read(handle, 1 << 20):
            parts.append(part)
    os.close(handle)
    return b"".join(parts).decode(errors="replace")


def _waited(pid: int, until: float | None, how: int) -> tuple[int, Any]:
    if until is None:
        return os.wait4(pid, 0)[1:]
    handle = os.pidfd_open(pid)
    try:
        if not select.select([handle], [], [], max(0, until - time.monotonic()))[0]:
            with contextlib.suppress(ProcessLookupError):
                # Ctrl-C reaches the whole group.
                (os.killpg if how == signal.SIGINT else os.kill)(pid, how)
    finally:
        os.close(handle)
    return os.wait4(pid, 0)[1:]


if __name__ == "__main__":
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    _serve(sys.stdin, answers)
