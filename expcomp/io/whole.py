"""Files that are there as a whole or not at all, also where the process that writes them is killed and another writes them again."""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from expcomp.errors import ExpcompError

_ENDING = ".unfinished"
_SQLITE = frozenset({3, 8, 10, 13, 14})
"""Its codes for: not permitted, read-only, I/O error, disk full, cannot be opened."""

_AT_THE_END = "Invalid thrift: transport error"
"""What Polars says when the last bytes of a Parquet file cannot be written; the reason is lost."""

_WRAPPED = re.compile(r"([^:]+) \(os error \d+\)")


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


def disk_error(error: BaseException) -> str | None:
    """What the operating system said, in an error of its own or in one of Polars or SQLite that wraps it; None of all other errors."""
    if isinstance(error, OSError):
        return error.strerror or str(error)
    if isinstance(error, ExpcompError):
        return None
    if getattr(error, "sqlite_errorcode", 0) & 0xFF in _SQLITE:
        return str(error)
    found = _WRAPPED.search(str(error))
    if found is not None:
        return found[1].strip()
    return "no space left, or the file too large" if str(error).endswith(_AT_THE_END) else None
