"""Inputs of reading verbs: places on this machine, or addresses that are fetched first."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from expcomp.io.engine import Engine


@contextmanager
def inputs(paths: Sequence[str], engine: Engine, *, beside: Path | None, quiet: bool) -> Iterator[list[str | Path]]:
    """The paths; or, of addresses, a copy beside the output until the block ends, fetched where the rest of the work is done."""
    from expcomp.io.remote import is_address, local_paths

    if not any(is_address(p) for p in paths):
        yield list(paths)
        return
    from expcomp.io.pool import workers
    from expcomp.io.progress import Progress

    count = engine.workers or len(os.sched_getaffinity(0))
    with workers(count, engine=engine) as pool:
        progress = Progress(show=not quiet)
        with local_paths(paths, pool, beside=beside, progress=progress) as given:
            yield given
