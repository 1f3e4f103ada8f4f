"""What somebody may have meant by a name that is not known."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


def nearest(name: str, known: Iterable[str]) -> str:
    """`; did you mean 'harbor'?` for the end of an error about `name`, or nothing when no known name is near."""
    plain = {k.replace("-", "_").lower(): k for k in known}
    found = get_close_matches(name.replace("-", "_").lower(), plain, n=1, cutoff=0.75)
    return f"; did you mean '{plain[found[0]]}'?" if found else ""
