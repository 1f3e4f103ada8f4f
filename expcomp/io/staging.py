"""Folders and files inside a folder that is being made (see `publish`)."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

PARTS = ".parts"
"""Folder of the parts in a folder that is being made."""


@contextmanager
def scratch(folder: Path) -> Iterator[Path]:
    """A new folder that is gone when the block ends well; else it goes with the folder it lies in."""
    folder.mkdir()
    yield folder
    shutil.rmtree(folder)


def subfolder(folder: Path) -> Path:
    """The folder, made with all above it unless it is there."""
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def discard(paths: Iterable[Path]) -> None:
    """Remove files, as far as they are there."""
    for path in paths:
        path.unlink(missing_ok=True)


def move(source: Path, target: Path) -> None:
    """Give a file another name on the same file system; what stood there is replaced."""
    source.replace(target)


def drop_empty(folder: Path) -> None:
    """Remove a folder, if it is there, that holds nothing."""
    if folder.is_dir():
        folder.rmdir()
