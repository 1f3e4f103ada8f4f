"""Addresses of objects in stores (`s3://bucket/runs`), told from places on this machine."""

from __future__ import annotations

import re
from pathlib import Path

from expcomp.errors import UsageError

_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/(/?)")


def is_address(path: str | Path) -> bool:
    """Whether a path is an address and no place on this machine."""
    found = _ADDRESS.match(path) if isinstance(path, str) else None
    return found is not None and bool(found[1])


def no_address(path: Path, instead: str) -> None:
    """Refuse an address where only a place on this machine will do; as a `Path` it has lost a slash.

    Raises:
        UsageError: It is one; with what to do instead.
    """
    if _ADDRESS.match(str(path)) is not None and not Path(path.parts[0]).exists():
        msg = f"{str(path).replace(':/', '://', 1)} is an address; {instead}"
        raise UsageError(msg)


def home_told(path: str | Path) -> str | None:
    """What is wrong with a path that begins with `~`; None of others."""
    text = str(path)
    if text != "~" and not text.startswith("~/"):
        return None
    return f"{text}: the shell makes a home folder of ~, a path does not; give it in full, as Path.home() / ..."
