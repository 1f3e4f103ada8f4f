"""A file of lines that several processes add to, one at a time, and a sign that a writer is still alive."""

from __future__ import annotations

import fcntl
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from expcomp.errors import OutputError, SourceError

_OPEN = os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC


class SharedLines:
    """A file of lines that only grows. What is read and what is added is one step, under the lock of the file.

    Args:
        path: File; made when it is not there.

    Raises:
        OutputError: It cannot be opened, or is a link.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._at = 0
        self._thread = threading.Lock()
        try:
            self._handle = os.open(path, _OPEN | os.O_APPEND, 0o600)
        except OSError as error:
            raise OutputError(f"{path}: cannot be opened ({error.strerror})") from error

    @contextmanager
    def locked(self) -> Iterator[list[bytes]]:
        """Hold the file; gives the lines that came since the last time.

        A last line that a kill cut off is removed.

        Raises:
            OutputError: The file got shorter, or another one stands in its place.
        """
        with self._thread:
            fcntl.flock(self._handle, fcntl.LOCK_EX)
            try:
                yield self._new()
            finally:
                fcntl.flock(self._handle, fcntl.LOCK_UN)

    def append(self, line: bytes) -> None:
        """Add a line durably; only inside of `locked`.

        Raises:
            OutputError: It cannot be written.
        """
        data = line + b"\n"
        try:
            written = os.write(self._handle, data)
            if written != len(data):
                os.ftruncate(self._handle, self._at)
                raise OutputError(f"{self.path}: cannot be written (no space is left)")
            os.fsync(self._handle)
        except OSError as error:
            raise OutputError(f"{self.path}: cannot be written ({error.strerror})") from error
        self._at += len(data)

    def close(self) -> None:
        """Let it go."""
        os.close(self._handle)

    def _new(self) -> list[bytes]:
        size = os.fstat(self._handle).st_size
        if not stands_at(self._handle, self.path) or size < self._at:
            raise OutputError(f"{self.path}: was replaced or cut by somebody else")
        data = os.pread(self._handle, size - self._at, self._at)
        whole = whole_lines(data)
        if len(whole) < len(data):
            os.ftruncate(self._handle, self._at + len(whole))
        self._at += len(whole)
        return whole.splitlines()


class Presence:
    """A sign beside a file that a writer is alive; it goes with the process, however that ends.

    Args:
        path: The file that is written to.
        name: Of the writer; unique.

    Raises:
        OutputError: It cannot be made.
    """

    def __init__(self, path: Path, name: str) -> None:
        self._path = _sign(path, name)
        try:
            self._handle = os.open(self._path, _OPEN | os.O_EXCL, 0o600)
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise OutputError(f"{self._path}: cannot be made ({error.strerror})") from error

    def close(self) -> None:
        """Take it away."""
        self._path.unlink(missing_ok=True)
        os.close(self._handle)


def alive(path: Path, name: str) -> bool:
    """Whether the writer of this name is; what a dead one left is removed."""
    sign = _sign(path, name)
    try:
        handle = os.open(sign, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    else:
        sign.unlink(missing_ok=True)
        return False
    finally:
        os.close(handle)


def read_whole_lines(path: Path) -> bytes:
    """The file without a last line that is cut off.

    Raises:
        SourceError: It cannot be read.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise SourceError(f"{path}: cannot be read ({error.strerror})") from error
    return whole_lines(data)


def whole_lines(data: bytes) -> bytes:
    """The lines that end; what follows the last newline was cut off."""
    return data[: data.rfind(b"\n") + 1]


def stands_at(handle: int, path: Path) -> bool:
    """Whether an open file is still the one at its path."""
    held = os.fstat(handle)
    try:
        there = path.stat(follow_symlinks=False)
    except OSError:
        return False
    return (there.st_dev, there.st_ino) == (held.st_dev, held.st_ino)


def _sign(path: Path, name: str) -> Path:
    return path.with_name(f".{path.name}.{name}.writer")
