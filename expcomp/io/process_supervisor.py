"""Runs one command for `expcomp.io.processes` and ends every process that comes of it.

Started by its path, so it needs the standard library only. Standard input: one JSON line, the order; the end of the input is the sign to
stop, so that nothing outlives a caller that was killed. Standard output: a JSON line once the command runs, and one when all is over.
"""

from __future__ import annotations

import base64
import contextlib
import ctypes
import json
import os
import resource
import selectors
import signal
import subprocess
import sys
import time
from typing import Any

_SET_DEATH_SIGNAL, _SET_SUBREAPER = 1, 36  # prctl(2)
_CHUNK = 1 << 16
_TICK = 0.01
_LIBC = ctypes.CDLL(None, use_errno=True)


class Supervisor:
    """One command and all its descendants: orphans become children of this process, whatever session they opened."""

    def __init__(self, order: dict[str, Any]) -> None:
        self.order = order
        self.leader = 0
        self.status: int | None = None
        self.escaped: set[int] = set()
        self.total = 0
        self.tail = b""
        self.output = -1

    def run(self) -> dict[str, Any]:
        """Run the command to its end, or to the first reason to stop it; then end what is left of it."""
        order = self.order
        if _LIBC.prctl(_SET_SUBREAPER, 1, 0, 0, 0):
            return {"reason": "not_started", "detail": "this system has no child subreaper (prctl)"}
        try:
            self._start()
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            return {"reason": "not_started", "detail": getattr(error, "strerror", None) or str(error)}
        _say({"started": self.leader})
        reason = self._watch(None if order["timeout"] is None else time.monotonic() + order["timeout"])
        left = self._descendants().keys() - {self.leader}
        survived = self._sweep(order["grace"], order["confirm"])
        self._drain()
        if reason is None and self.total > order["max_output"]:
            reason = "output_limit"
        code = None if self.status is None else os.waitstatus_to_exitcode(self.status)
        if reason is None and code:
            reason = "signal" if code < 0 else "exit_code"
        return {
            "reason": "survived" if survived else reason,
            "code": code,
            "output_bytes": self.total,
            "tail": base64.b64encode(self.tail).decode(),
            "left_running": len(left),
            "escaped": len(self.escaped),
            "survived": survived,
        }

    def _start(self) -> None:
        order = self.order
        given = os.memfd_create(
            "request"
        )  # a pipe would fail or not by who is first: its writer, or a trainer that closes it
        os.write(given, base64.b64decode(order["stdin"]))
        stdin = os.open(f"/proc/self/fd/{given}", os.O_RDONLY | os.O_CLOEXEC)
        self.output, write = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(self.output, False)
        try:
            self._process = subprocess.Popen(  # noqa: S603 - what this module is for
                order["argv"],
                executable=f"/proc/self/fd/{order['executable']}",  # the open file that was hashed, not what its path names by now
                pass_fds=(order["executable"],),
                cwd=order["cwd"],
                env=order["environment"],
                stdin=stdin,
                stdout=write,
                stderr=write,
                start_new_session=True,
                preexec_fn=self._before_exec,  # noqa: PLW1509 - there is one thread
            )
        finally:
            for handle in (given, stdin, write):
                os.close(handle)
        self.leader = self._process.pid
        self._process.returncode = 0  # reaped here, not by subprocess

    def _before_exec(self) -> None:
        _LIBC.prctl(_SET_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
        for name, value in self.order["limits"].items():
            resource.setrlimit(getattr(resource, f"RLIMIT_{name}"), (value, value))

    def _watch(self, deadline: float | None) -> str | None:
        """Wait for the command; the reason to stop it, if there is one."""
        ended = os.pidfd_open(self.leader)
        with selectors.DefaultSelector() as selector:
            for handle in (0, self.output, ended):
                selector.register(handle, selectors.EVENT_READ)
            while True:
                wait = 1.0 if deadline is None else max(0.0, min(1.0, deadline - time.monotonic()))
                ready = {key.fd for key, _ in selector.select(wait)}
                if self.output in ready and not self._drain():
                    selector.unregister(self.output)
                self._reap()
                if self.status is not None:
                    return None
                if self.total > self.order["max_output"]:
                    return "output_limit"
                if 0 in ready and not os.read(0, _CHUNK):
                    return "cancelled"
                if deadline is not None and time.monotonic() >= deadline:
                    return "timeout"

    def _drain(self) -> bool:
        """Take what was written by now, at most some chunks; False once nobody can write any more."""
        for _ in range(16):
            try:
                data = os.read(self.output, _CHUNK)
            except BlockingIOError:
                return True
            if not data:
                return False
            self.total += len(data)
            self.tail = (self.tail + data)[-self.order["keep_output"] :]
        return True

    def _reap(self) -> None:
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if not pid:
                    return
                if pid == self.leader:
                    self.status = status

    def _sweep(self, grace: float, confirm: float) -> int:
        """SIGTERM, and after the grace SIGKILL, to every descendant until none is left; the number of those that stay.

        Dead ones are no descendants any more once they are reaped, so zombies need no rule of their own.
        """
        begun = time.monotonic()
        asked: set[int] = set()
        while True:
            self._reap()
            self._drain()
            alive = self._descendants()
            now = time.monotonic() - begun
            if not alive or now > grace + confirm:
                return len(alive)
            if now >= grace:
                self._send(alive, signal.SIGKILL)
            else:
                self._send({pid: start for pid, start in alive.items() if pid not in asked}, signal.SIGTERM)
            if (
                alive.keys() <= asked
            ):  # those that were told need time; new ones come of a process that forks to get away
                time.sleep(_TICK)
            asked |= alive.keys()

    @staticmethod
    def _send(alive: dict[int, int], number: signal.Signals) -> None:
        for pid, start in alive.items():
            with contextlib.suppress(OSError):
                handle = os.pidfd_open(pid)
                try:
                    if _stat(pid)[2] == start:  # the number may stand for another process by now; the handle does not
                        signal.pidfd_send_signal(handle, number)
                finally:
                    os.close(handle)

    def _descendants(self) -> dict[int, int]:
        """Every process below this one, with its start time."""
        table: dict[int, tuple[int, int, int]] = {}
        for name in os.listdir("/proc"):  # noqa: PTH208
            if name.isdigit():
                with contextlib.suppress(OSError):
                    table[int(name)] = _stat(int(name))
        found: set[int] = set()
        new = {os.getpid()}
        while new:
            new = {pid for pid, (parent, _, _) in table.items() if parent in new} - found
            found |= new
        self.escaped |= {pid for pid in found if table[pid][1] != self.leader}
        return {pid: table[pid][2] for pid in found}


def _stat(pid: int) -> tuple[int, int, int]:
    """Parent, process group and start time."""
    with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123
        fields = file.read().rpartition(b")")[2].split()  # the name before it may hold anything
    return int(fields[1]), int(fields[2]), int(fields[19])


def _say(value: dict[str, Any]) -> None:
    with contextlib.suppress(OSError):  # a caller that is gone needs no answer, but its processes have to end
        os.write(1, json.dumps(value).encode() + b"\n")


def main() -> None:
    """Take the order, run it, tell the result."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: None)  # no SIG_IGN: the command would inherit it
    order = b""
    while not order.endswith(b"\n"):
        data = os.read(0, _CHUNK)
        if not data:
            sys.exit(1)
        order += data
    _say({"ended": Supervisor(json.loads(order)).run()})


if __name__ == "__main__":
    main()
