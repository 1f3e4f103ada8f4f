"""What the file system says of a file or folder, as a digest: it changes with every write, without a byte being read."""

from __future__ import annotations

import os
import stat
import time
from array import array
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

FRESH_NS = 100_000_000
"""A file that was written so shortly before it is looked at may be written again without its times showing it."""


def now_ns() -> int:
    """The time against which `stat_digest` judges whether a file is fresh."""
    return time.time_ns()


def stat_digest(paths: Iterable[Path], now: int) -> str:
    """Digest over names, sizes, times and inode numbers of files and of everything below folders; links are not followed.

    Empty, and so equal to none, when something cannot be looked at or was written less than `FRESH_NS` before `now`.
    """
    digest = sha256()
    limit = now - FRESH_NS
    try:
        for path in paths:
            known = os.lstat(path)
            numbers = array("q", (known.st_size, known.st_mtime_ns, known.st_ctime_ns, known.st_ino))
            names = [path.name]
            if stat.S_ISDIR(known.st_mode):
                numbers = array("q")
                _below(os.fspath(path), numbers, names)
            if max(numbers[2::4], default=0) > limit:
                return ""
            digest.update(f"{len(names)}\0{len(numbers)}\0".encode())
            digest.update("\0".join(names).encode("utf-8", "surrogateescape"))
            digest.update(numbers.tobytes())
    except OSError:
        return ""
    return digest.hexdigest()


def on_disk(path: Path) -> Path:
    """The path, or, of a path inside an archive, the archive."""
    return next((p for p in (path, *path.parents) if p.exists()), path)


def files_beside(paths: Iterable[Path]) -> list[Path]:
    """All files in the folders in which the paths lie, in order."""
    found = []
    for folder in dict.fromkeys(path.parent for path in paths):
        try:
            with os.scandir(folder) as entries:
                found += sorted(folder / e.name for e in entries if e.is_file(follow_symlinks=False))
        except OSError:
            continue
    return found


def _below(top: str, numbers: array[int], names: list[str]) -> None:
    pending = [""]
    while pending:
        folder = pending.pop()
        names.append(folder)
        # Names are looked up in the open folder: a path would be walked again from the root for each of them.
        handle = os.open(top + folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            for name in sorted(os.listdir(handle)):  # noqa: PTH208 - of an open folder
                known = os.stat(name, dir_fd=handle, follow_symlinks=False)
                if stat.S_ISDIR(known.st_mode):
                    pending.append(f"{folder}/{name}")
                    continue
                numbers.extend((known.st_size, known.st_mtime_ns, known.st_ctime_ns, known.st_ino))
                names.append(name)
        finally:
            os.close(handle)
