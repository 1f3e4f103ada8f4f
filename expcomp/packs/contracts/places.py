"""Where a file that a contract names may stand below a folder, and which paths are refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

from expcomp.evidence.refs import is_hidden, normalise, problem
from expcomp.io.deliverables import Place, first_of

if TYPE_CHECKING:
    from pathlib import Path

OUTPUT = "output/"


def candidates(path: str) -> list[str]:
    """Relative paths at which a file may stand, in the order they are tried."""
    inner = path.removeprefix(OUTPUT)
    return list(dict.fromkeys((path, inner, OUTPUT + path, "artifacts/" + path, "artifacts/" + inner)))


def find(root: Path, path: str) -> Place:
    """The file a contract means. `outside`: the path leaves the folder; `hidden`: it names a hidden reference; neither is looked at."""
    if problem(path) is not None:
        return Place("outside")
    if is_hidden(path.lower()):
        return Place("hidden")
    return first_of(root, candidates(normalise(path) or path))
