"""Write a set of generated text files into a folder and remove those that are no longer generated."""

from __future__ import annotations

from typing import TYPE_CHECKING

from expcomp.errors import OutputError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

ENDINGS = (".schema.json", ".arrow.txt", ".md")


def write_schemas(folder: Path, documents: Mapping[str, str]) -> list[str]:
    """Write `documents` (name to text); returns the names, sorted.

    Raises:
        OutputError: The folder cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for old in folder.iterdir():
            if old.name.endswith(ENDINGS) and old.name not in documents:
                old.unlink()
        for name, text in documents.items():
            (folder / name).write_text(text, encoding="utf-8")
    except OSError as error:
        msg = f"{folder} cannot be written: {error.strerror}"
        raise OutputError(msg) from error
    return sorted(documents)
