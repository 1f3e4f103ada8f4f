"""Running a foreign command: pinned executable, explicit environment, bounded output and time, and no process left behind."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import math
import os
import re
import select
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from expcomp.errors import ExpcompError, SourceError, UsageError
from expcomp.io.digest import PREFIX

GRACE = 0.25
"""Seconds between SIGTERM and SIGKILL."""
CONFIRM = 10.0
"""Seconds after SIGKILL in which every process has to be gone."""
KEEP_OUTPUT = 64 << 10
_SLACK = 20.0  # seconds that a busy machine may take for all of this
_TICK_MS = 50
LIMITS = ("AS", "CPU", "FSIZE", "NOFILE", "NPROC")
"""Resource limits of setrlimit(2) that a command may be given."""

Reason = Literal[
    "cancelled", "exit_code", "lost", "not_started", "output_limit", "signal", "survived", "timeout",
]  # fmt: skip
_SUPERVISOR = Path(__file__).with_name("process_supervisor.py")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_LOADER = re.compile(
    r"(LD_|DYLD_|GCONV_|GLIBC_|MALLOC_).*|(PYTHON|PERL|RUBY|NODE_|LUA_)(PATH|HOME|STARTUP|INSPECT|BREAKPOINT|USERBASE"
    r"|EXECUTABLE|PLATLIBDIR|PYCACHEPREFIX|WARNINGS|LIB|OPT|5LIB|5OPT|5DB|OPTIONS|INIT|CPATH)"
    r"|BASH_ENV|ENV|SHELLOPTS|IFS|CLASSPATH|_?JAVA_(TOOL_)?OPTIONS|JDK_JAVA_OPTIONS"
)
_WORDS: dict[Reason, str] = {
    "cancelled": "it was cancelled",
    "exit_code": "it ended with exit code {code}",
    "lost": "its supervisor was killed, so that processes may be left",
    "not_started": "it could not be started ({detail})",
    "output_limit": "it wrote more than the limit of output ({output_bytes:,} bytes were read)",
    "signal": "it was ended by a signal ({code})",
    "survived": "{survived} of its processes could not be ended",
    "timeout": "its time was up",
}


class PinnedExecutableError(SourceError):
    """An executable that cannot be used, or is not the one that was pinned."""

    exit_code = 1


@dataclass(frozen=True, slots=True)
class Executable:
    """An open executable: what runs is this descriptor, so that its path may change meanwhile without effect.

    Attributes:
        path: As it was given: the command's first argument.
        digest: Of its bytes.
        handle: Descriptor.
        state: Device, inode, size and times, as when it was hashed.
    """

    path: Path
    digest: str
    handle: int
    state: tuple[int, ...]

    def verify(self) -> None:
        """Hash it again.

        Raises:
            PinnedExecutableError: It was changed since it was opened, though it may have been changed back.
        """
        if _state(self.handle) != self.state or _hash(self.handle) != self.digest:
            raise PinnedExecutableError(f"{self.path}: the executable was changed while it ran")


@dataclass(frozen=True, slots=True)
class ProcessResult:
    """How a command ended. No process of it is left, unless the reason is `survived` or `lost`.

    Attributes:
        reason: Why it failed, the first one if there are several; None when it ended with 0.
        code: Exit code, or the negative number of the signal; None when it was never started or not seen to end.
        output_bytes: Written to standard output and error together, as far as it was read.
        tail: The last of it, at most `KEEP_OUTPUT` bytes.
        left_running: Descendants that were there when the command itself ended or was stopped.
        escaped: Descendants that had left its process group.
        survived: Descendants that could not be ended.
        detail: Why it was not started.
    """

    reason: Reason | None
    code: int | None = None
    output_bytes: int = 0
    tail: bytes = b""
    left_running: int = 0
    escaped: int = 0
    survived: int = 0
    detail: str | None = None

    @property
    def words(self) -> str:
        """The reason in words; empty for a success."""
        fields = {f: getattr(self, f) for f in ("code", "detail", "output_bytes", "survived")}
        return "" if self.reason is None else _WORDS[self.reason].format(**fields)


@contextlib.contextmanager
def open_executable(path: Path, digest: str | None = None) -> Iterator[Executable]:
    """Open and hash an executable; links on the way to it are followed.

    Args:
        path: Absolute path.
        digest: What its bytes have to give.

    Raises:
        PinnedExecutableError: It is absent, no regular file, not executable, a script, or another one than was pinned.
    """
    if not path.is_absolute():
        raise PinnedExecutableError(f"{path}: an executable needs an absolute path")
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise PinnedExecutableError(f"{path}: cannot be opened ({error.strerror})") from error
    try:
        mode = os.fstat(handle).st_mode
        if not stat.S_ISREG(mode) or not mode & 0o111:
            raise PinnedExecutableError(f"{path}: is no executable file")
        if os.pread(handle, 2, 0) == b"#!":
            raise PinnedExecutableError(
                f"{path}: is a script, and its digest says nothing of its interpreter; give the interpreter, and the script as an input"
            )
        state, found = _state(handle), _hash(handle)
        if digest is not None and found != digest:
            raise PinnedExecutableError(f"{path}: found {found}, expected the pinned {digest}")
        yield Executable(path, found, handle, state)
    finally:
        os.close(handle)


def check_environment(environment: Mapping[str, str], *, loader: Sequence[str] = ()) -> None:
    """Hold the environment of a command to its rules.

    Args:
        environment: All that the command is given; nothing is inherited.
        loader: Variables that make a program load other code, allowed by name.

    Raises:
        UsageError: Naming the variable.
    """
    for name, value in environment.items():
        if not _NAME.match(name):
            raise UsageError(f"environment, {name!r}: expected a name of letters, digits and _")
        if "\x00" in value:
            raise UsageError(f"environment, {name}: the value holds a NUL")
        if _LOADER.fullmatch(name) and name not in loader:
            raise UsageError(
                f"environment, {name}: makes the command load code that no digest covers; allow it by name if it has to be"
            )


def run_process(
    executable: Executable,
    args: Sequence[str],
    *,
    cwd: Path,
    environment: Mapping[str, str],
    stdin: bytes = b"",
    max_output: int,
    timeout: float | None = None,
    cancelled: Callable[[], bool] = lambda: False,
    limits: Mapping[str, int] | None = None,
    loader: Sequence[str] = (),
    grace: float = GRACE,
) -> ProcessResult:
    """Run a command in its own session, directly and without a shell, and end every process that comes of it.

    A supervisor process adopts what the command leaves behind, also daemons in sessions of their own, and ends it when the command ends,
    fails, runs too long, writes too much, is cancelled, or when this process goes away.

    Args:
        executable: From `open_executable`; its path is the first argument.
        args: The further ones.
        cwd: Working directory.
        environment: All of it.
        stdin: Bytes on standard input, which then ends.
        max_output: Bytes of standard output and error together.
        timeout: Seconds; None for no limit.
        cancelled: Asked some times a second.
        limits: Resource limits (`LIMITS`).
        loader: Allowed loader variables.
        grace: Seconds between SIGTERM and SIGKILL.

    Raises:
        UsageError: An argument, variable or limit that cannot be used.
        ExpcompError: Not Linux, where alone no process can escape.
    """
    if sys.platform != "linux":
        msg = "running a command needs Linux: elsewhere nobody could tell that none of its processes is left"
        raise ExpcompError(msg)
    check_environment(environment, loader=loader)
    if bad := [a for a in args if "\x00" in a]:
        raise UsageError(f"argument {bad[0]!r} holds a NUL")
    if unknown := [n for n in limits or {} if n not in LIMITS]:
        raise UsageError(f"limit {unknown[0]}: expected one of {', '.join(LIMITS)}")
    order = {
        "argv": [os.fspath(executable.path), *args],
        "executable": executable.handle,
        "cwd": os.fspath(cwd),
        "environment": dict(environment),
        "stdin": base64.b64encode(stdin).decode(),
        "max_output": max_output,
        "keep_output": KEEP_OUTPUT,
        "timeout": timeout,
        "limits": dict(limits or {}),
        "grace": grace,
        "confirm": CONFIRM,
    }
    if cancelled():
        return ProcessResult("cancelled")
    return _result(_supervised(order, executable.handle, cancelled, timeout, grace))


def _supervised(
    order: Mapping[str, object], handle: int, cancelled: Callable[[], bool], timeout: float | None, grace: float
) -> bytes:
    """What the supervisor tells; it is given up when it takes much longer than it may."""
    process = subprocess.Popen(  # noqa: S603 - ourselves
        [sys.executable, "-I", "-S", os.fspath(_SUPERVISOR)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={},
        cwd="/",
        pass_fds=(handle,),
        start_new_session=True,  # Ctrl-C is for this process, which then tells it to stop
    )
    assert process.stdin is not None
    assert process.stdout is not None
    told = b""
    slack = grace + CONFIRM + _SLACK
    last = math.inf if timeout is None else time.monotonic() + timeout + slack
    ready = select.poll()
    ready.register(process.stdout, select.POLLIN)
    try:
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write(json.dumps(order).encode() + b"\n")
            process.stdin.flush()
        while time.monotonic() < last:
            if ready.poll(_TICK_MS):
                data = os.read(process.stdout.fileno(), 1 << 16)
                if not data:
                    break
                told += data
            elif not process.stdin.closed and cancelled():
                process.stdin.close()
                last = min(last, time.monotonic() + slack)
    finally:
        with contextlib.suppress(BrokenPipeError):
            process.stdin.close()
        try:
            process.wait(max(0.0, min(slack, last - time.monotonic())))
        except subprocess.TimeoutExpired:  # somebody stopped it; its death ends the command, too
            process.kill()
            process.wait()
        process.stdout.close()
    return told


def _result(told: bytes) -> ProcessResult:
    lines = [json.loads(line) for line in told.splitlines(keepends=True) if line.endswith(b"\n")]
    ended = next((line["ended"] for line in reversed(lines) if "ended" in line), None)
    if ended is None:
        for line in lines:
            with contextlib.suppress(OSError, KeyError):
                os.killpg(line["started"], signal.SIGKILL)
        return ProcessResult("lost")
    return ProcessResult(**ended | {"tail": base64.b64decode(ended.get("tail", ""))})


def _state(handle: int) -> tuple[int, ...]:
    of = os.fstat(handle)
    return of.st_dev, of.st_ino, of.st_size, of.st_mtime_ns, of.st_ctime_ns


def _hash(handle: int) -> str:
    digest, at = hashlib.sha256(), 0
    while chunk := os.pread(handle, 1 << 20, at):
        digest.update(chunk)
        at += len(chunk)
    return PREFIX + digest.hexdigest()
