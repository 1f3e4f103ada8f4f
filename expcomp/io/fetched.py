"""The folder that holds copies of objects: for one run, or kept, with what the store said of each, so that the next run asks for less."""

from __future__ import annotations

import fcntl
import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from expcomp.errors import OutputError, SourceError
from expcomp.io.documents import read_json, write_json
from expcomp.io.fetch import Remote
from expcomp.io.staging import subfolder
from expcomp.io.stat_digest import FRESH_NS
from expcomp.io.whole import sweep, whole

INDEX = ".expcomp-fetched.json"
KIND = "expcomp.fetched"
OBJECTS = "objects"
"""Folder of the copies in a cache: all that is in it is ours, and goes when the store has it no more."""

_LOCK = ".expcomp-fetched.lock"


@dataclass(frozen=True)
class Copies:
    """Copies of objects below a folder.

    Attributes:
        folder: Of the copies.
        known: By place there what the store said of the object, and size and time of the copy.
        index: File that keeps this for the next run; None: nothing stays.
    """

    folder: Path
    known: dict[str, Any] = field(default_factory=dict)
    index: Path | None = None

    def changed(self, files: Sequence[Remote]) -> list[Remote]:
        """Objects whose copy is not what the store has now, as far as the store tells, or is not as it was written."""
        return [f for f in files if not f.state or self.known.get(f.place) != self._seen(f)]

    def keep(self, files: Sequence[Remote]) -> None:
        """Note the state of these copies for the next run, and remove all others."""
        if self.index is None:
            return
        sweep(self.folder)
        wanted = {f.place for f in files}
        for above, folders, names in os.walk(self.folder, topdown=False):
            for name in names:
                path = Path(above, name)
                if path.relative_to(self.folder).as_posix() not in wanted:
                    path.unlink()
            for name in folders:
                if not any(Path(above, name).iterdir()):
                    Path(above, name).rmdir()
        with whole(self.index) as beside:
            write_json(beside, {"kind": KIND, "objects": {f.place: self._seen(f) for f in files}})
        time.sleep(2 * FRESH_NS / 1e9)  # a file that was written just now is no ground for the next update

    def _seen(self, file: Remote) -> list[Any]:
        try:
            copy = os.lstat(self.folder / file.place)
        except OSError:
            return []
        return [file.address, file.state, copy.st_size, copy.st_mtime_ns]


@contextmanager
def for_one_run(beside: Path | None) -> Iterator[Copies]:
    """A folder that is gone when the block ends: beside an output, on the same disk, or with the temporary files."""
    if beside is not None:
        beside.absolute().parent.mkdir(parents=True, exist_ok=True)
    name = "expcomp-" if beside is None else f".{beside.absolute().name}.inputs-"
    with tempfile.TemporaryDirectory(prefix=name, dir=beside and beside.absolute().parent) as folder:
        yield Copies(Path(folder))


@contextmanager
def lasting(folder: Path) -> Iterator[Copies]:
    """A folder that stays; one run at a time.

    Raises:
        OutputError: It holds something else, another run uses it, or it cannot be written.
    """
    folder = folder.absolute()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        known = _known(folder)
        lock = os.open(folder / _LOCK, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError as error:
        msg = f"the cache {folder} cannot be used: {error.strerror}; choose another folder"
        raise OutputError(msg) from error
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            msg = f"the cache {folder} is in use by another run; wait for it, or give each its own"
            raise OutputError(msg) from error
        yield Copies(subfolder(folder / OBJECTS), known, folder / INDEX)
    finally:
        os.close(lock)


def _known(folder: Path) -> dict[str, Any]:
    names = {p.name for p in folder.iterdir()}
    if not names or names == {_LOCK}:
        return {}
    if not names & {INDEX, _LOCK}:
        msg = f"the cache {folder} holds something else than copies of expcomp; choose an empty folder"
        raise OutputError(msg)
    try:
        index = read_json(folder / INDEX)
    except SourceError:  # of a first run that was killed
        return {}
    objects = index.get("objects") if isinstance(index, dict) and index.get("kind") == KIND else None
    return objects if isinstance(objects, dict) else {}
