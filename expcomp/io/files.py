"""Reading input files: bounded, never through a link, one directory scan for each folder."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import NamedTuple

from expcomp.errors import SourceError

IGNORED = frozenset(
    "node_modules .venv venv __pycache__ .pytest_cache .mypy_cache .ruff_cache "
    ".git .hg .svn .tox .nox dist build .idea .ipynb_checkpoints".split()
)
"""Folders that hold tools' files, never evidence."""

_CHUNK = 1 << 15  # most files are smaller; a larger buffer would cost a memory map for each of them
_FLAGS = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0)


class UnreadableFileError(SourceError):
    """A file that is too large, no regular file, gone, or not permitted."""


class Entry(NamedTuple):
    """One entry of a walk: `is_symlink` marks a link, which is listed but never followed."""

    is_symlink: bool


_FILE, _LINK = Entry(is_symlink=False), Entry(is_symlink=True)


def walk(root: str | Path) -> dict[str, Entry]:
    """Regular files and links below a folder, by path relative to it, sorted; other kinds of entries are left out.

    Raises:
        OSError: The folder itself cannot be listed. Subfolders that cannot are left out.
    """
    found: dict[str, Entry] = {}
    pending = [(os.fspath(root), "")]
    while pending:
        folder, prefix = pending.pop()
        try:
            entries = os.scandir(folder)
        except OSError:
            if not prefix:
                raise
            continue
        with entries:
            for entry in entries:
                name = entry.name
                if entry.is_symlink():
                    found[prefix + name] = _LINK
                elif entry.is_file(follow_symlinks=False):
                    found[prefix + name] = _FILE
                elif name not in IGNORED and entry.is_dir(follow_symlinks=False):
                    pending.append((entry.path, f"{prefix}{name}/"))
    return dict(sorted(found.items()))


def listing(root: Path) -> list[str]:
    """Every file and link below a folder of ours, by path relative to it, sorted; nothing is left out."""
    cut = len(os.path.join(root, ""))  # noqa: PTH118
    return sorted(
        os.path.join(folder, name)[cut:].replace(os.sep, "/")  # noqa: PTH118 - objects for paths take six times as long
        for folder, below, names in os.walk(root)
        # A link to a folder is told among the folders, and nobody goes into it.
        for name in (*names, *(n for n in below if os.path.islink(os.path.join(folder, n))))  # noqa: PTH114, PTH118
    )


def read_fast(path: str, *, limit: int) -> bytes:
    """Bytes of a regular file whose parents are known to be no links; the last part is not followed if it is one.

    Raises:
        UnreadableFileError: Naming the cause.
    """
    try:
        handle = os.open(path, _FLAGS)
    except OSError as error:
        msg = f"cannot be opened ({error.strerror})"
        raise UnreadableFileError(msg) from error
    try:
        data = os.read(handle, _CHUNK)
        if len(data) == _CHUNK:
            data = _rest(handle, data, limit)
        elif not data and not stat.S_ISREG(os.fstat(handle).st_mode):
            msg = "is no regular file; not read"
            raise UnreadableFileError(msg)
    except OSError as error:
        msg = f"cannot be read ({error.strerror})"
        raise UnreadableFileError(msg) from error
    finally:
        os.close(handle)
    if len(data) > limit:
        msg = f"holds more than {limit:,} bytes; not read"
        raise UnreadableFileError(msg)
    return data


def _rest(handle: int, first: bytes, limit: int) -> bytes:
    size = os.fstat(handle).st_size
    if size > limit:
        msg = f"holds {size:,} bytes, more than the limit of {limit:,}; not read"
        raise UnreadableFileError(msg)
    parts, total = [first], len(first)
    while chunk := os.read(handle, max(_CHUNK, size - total + 1)):
        parts.append(chunk)
        total += len(chunk)
        if total > limit:
            break
    return b"".join(parts)


def read_bytes(root: str | Path, rel: str, *, limit: int) -> bytes:
    """Bytes of a file below a folder; refuses `..`, absolute paths and links anywhere on the way.

    Raises:
        UnreadableFileError: Naming the file and the cause.
    """
    parts = rel.split("/")
    if not rel or rel.startswith("/") or ".." in parts or "\x00" in rel:
        msg = f"{rel!r} is no path below the folder"
        raise UnreadableFileError(msg)
    path = os.fspath(root)
    for part in parts[:-1]:
        path = f"{path}/{part}"
        if os.path.islink(path):  # noqa: PTH114 - text paths, for speed
            msg = f"{rel}: {part} is a link; not followed"
            raise UnreadableFileError(msg)
    try:
        return read_fast(f"{path}/{parts[-1]}", limit=limit)
    except UnreadableFileError as error:
        msg = f"{rel}: {error}"
        raise UnreadableFileError(msg) from error
