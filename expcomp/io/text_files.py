"""Many small text files below one folder."""

from __future__ import annotations

from typing import TYPE_CHECKING

from expcomp.errors import OutputError, SourceError
from expcomp.io.publish import beside, sync_folder

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path


def write_texts(root: Path, files: Iterable[tuple[str, str]]) -> None:
    """Write (path below `root`, text) pairs, UTF-8; folders are made as needed."""
    made = set()
    for name, text in files:
        path = root / name
        if path.parent not in made:
            path.parent.mkdir(parents=True, exist_ok=True)
            made.add(path.parent)
        path.write_bytes(text.encode())


def replace_texts(folder: Path, files: Mapping[str, str]) -> None:
    """Write texts by name into a folder of the user, each file in one step, once all of them are on the disk.

    Raises:
        OutputError: They cannot be written.
    """
    with beside(folder / next(iter(files), "texts")) as staging:
        try:
            staging.mkdir()
            write_texts(staging, files.items())
            for name in files:
                (staging / name).replace(folder / name)
            sync_folder(folder)
        except OSError as error:
            msg = f"{folder} cannot be written: {error.strerror}"
            raise OutputError(msg) from error


def read_text_file(path: Path) -> str:
    """Read one of them.

    Raises:
        SourceError: It cannot be read.
    """
    try:
        return path.read_bytes().decode()
    except (OSError, ValueError) as error:
        msg = f"{path} cannot be read ({getattr(error, 'strerror', None) or error})"
        raise SourceError(msg) from error
