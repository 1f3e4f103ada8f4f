"""Inputs of reading verbs: places on this machine, or addresses that are fetched first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from expcomp.io.engine import Engine


@contextmanager
def inputs(
    paths: Sequence[str], engine: Engine, *, beside: Path | None, cache: Path | None = None, quiet: bool
) -> Iterator[list[str | Path]]:
    """The paths; or, of addresses, a copy beside the output until the block ends, fetched where the rest of the work is done."""
    from expcomp.io.progress import Progress
    from expcomp.io.remote import local_paths

    with local_paths(paths, engine, beside=beside, cache=cache, progress=Progress(show=not quiet)) as given:
        yield given
