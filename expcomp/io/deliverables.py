"""Files that an agent handed over: found below one folder without leaving it, read whole up to a limit."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING, NamedTuple

from expcomp.io.files import UnreadableFileError, read_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

LIMIT = 128 << 20
"""Larger files are not read."""


class Place(NamedTuple):
    """What stands at a path below a folder: `file`, `link` (also one on the way), `other` or `absent`; and where."""

    state: str
    path: str | None = None
    bytes: int | None = None


def look(root: str | Path, rel: str) -> Place:
    """What stands at a relative path; no link is followed below the folder."""
    path, parts = os.fspath(root), rel.split("/")
    for number, part in enumerate(parts, 1):
        path = f"{path}/{part}"
        try:
            entry = os.lstat(path)
        except (OSError, ValueError):
            return Place("absent")
        if stat.S_ISLNK(entry.st_mode):
            return Place("link", rel)
        if number == len(parts):
            return Place("file", rel, entry.st_size) if stat.S_ISREG(entry.st_mode) else Place("other", rel)
        if not stat.S_ISDIR(entry.st_mode):
            return Place("absent")
    return Place("absent")


def first_of(root: str | Path, candidates: Iterable[str]) -> Place:
    """The first candidate that is a file; else the first that is there at all; else `absent`."""
    found = Place("absent")
    for rel in candidates:
        place = look(root, rel)
        if place.state == "file":
            return place
        if found.state == "absent":
            found = place
    return found


def read_whole(root: str | Path, rel: str, *, limit: int = LIMIT) -> bytes:
    """Bytes of a file below a folder.

    Raises:
        UnreadableFileError: It is larger than the limit, a link, no regular file, or cannot be read.
    """
    return read_bytes(root, rel, limit=limit)


__all__ = ["LIMIT", "Place", "UnreadableFileError", "first_of", "look", "read_whole"]
