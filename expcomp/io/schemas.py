"""Write a set of generated text files into a folder and remove those that are no longer generated."""

from __future__ import annotations

from typing import TYPE_CHECKING

from expcomp.errors import OutputError
from expcomp.io.text_files import replace_texts

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

ENDINGS = (".schema.json", ".arrow.txt", ".md")


def write_schemas(folder: Path, documents: Mapping[str, str]) -> list[str]:
    """Write `documents` (name to text), each file in one step; returns the names, sorted.

    Raises:
        OutputError: The folder cannot be written.
    """
    try:
        replace_texts(folder, documents)
        for old in folder.iterdir():
            if old.name.endswith(ENDINGS) and old.name not in documents:
                old.unlink()
    except OSError as error:
        msg = f"{folder} cannot be written: {error.strerror}"
        raise OutputError(msg) from error
    return sorted(documents)
