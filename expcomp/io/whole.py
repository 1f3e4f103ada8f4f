"""Files that are there as a whole or not at all, also where the process that writes them is killed and another writes them again."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_ENDING = ".unfinished"


@contextmanager
def whole(path: Path) -> Iterator[Path]:
    """A place beside `path` that takes its place when the block ends well, and is gone otherwise."""
    beside = path.with_name(f".{path.name}.{secrets.token_hex(4)}{_ENDING}")
    try:
        yield beside
        beside.replace(path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise


def sweep(folder: Path) -> None:
    """Remove what writers that were killed left below a folder."""
    for above, _, names in os.walk(folder):
        for name in names:
            if name.endswith(_ENDING) and name.startswith("."):
                Path(above, name).unlink(missing_ok=True)
