"""Whether other machines see the files of a run and run the same code: looked for where its jobs run."""

from __future__ import annotations

import socket
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from pathlib import Path

from expcomp.errors import UsageError
from expcomp.version import __version__

MOST = 64
"""Places that are looked for; of more every second, third, ... one."""

SHARED = "with the engine ray all inputs and the output lie in folders that every machine of the cluster sees under the same path"

_NAMES = 8


@dataclass(frozen=True, slots=True)
class Place:
    """A file, or a folder with some of the names in it, as the caller sees it."""

    path: Path
    names: tuple[str, ...] = ()


def places(paths: Iterable[Path]) -> tuple[Place, ...]:
    """What every machine has to see that works with these paths, the first in any case; of a path inside an archive, the archive."""
    found = list(dict.fromkeys(paths))
    return tuple(_place(path.absolute()) for path in found[:: max(1, -(-len(found) // MOST))])


@lru_cache(maxsize=1)
def software() -> str:
    """What decides on the bytes of an output beside the input: code and versions of this process."""
    import polars as pl  # not with the module: workers of Ray import that before they set the number of threads

    from expcomp.io.state_file import code_digest

    return f"expcomp {__version__} (code {code_digest(Path(__file__).parents[1])[:12]}), polars {pl.__version__}"


def same(wanted: str) -> None:
    """Hold this process to the software of the caller.

    Raises:
        UsageError: It is another.
    """
    if wanted != software():
        msg = f"the machine {socket.gethostname()} has {software()} and the caller {wanted}; install the same on all machines"
        raise UsageError(msg)


def look(wanted: tuple[Place, ...]) -> None:
    """Look for all of them, once in a process.

    Raises:
        UsageError: This machine does not see one, or sees another folder under its path.
    """
    gone = _unseen(wanted)
    if gone is not None:
        msg = f"the machine {socket.gethostname()} does not see {gone}; {SHARED}: mount the folder there, or use one that is"
        raise UsageError(msg)


@lru_cache(maxsize=4)
def _unseen(wanted: tuple[Place, ...]) -> Path | None:
    return next((p.path for p in wanted if not _seen(p)), None)


def _seen(place: Place) -> bool:
    if not place.names:
        return place.path.exists()
    # Names come and go while a run works; where all are others, the folder is another.
    return any((place.path / name).exists() for name in place.names)


def _place(path: Path) -> Place:
    there = next((p for p in (path, *path.parents) if p.exists()), path)
    return Place(there, tuple(c.name for c in islice(there.iterdir(), _NAMES)) if there.is_dir() else ())
