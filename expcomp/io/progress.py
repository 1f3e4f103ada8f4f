"""Progress of long work: a rich bar on stderr when that is a terminal, silence otherwise."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Progress:
    """Shows one bar a stage; does nothing unless it is asked to and stderr is a terminal."""

    def __init__(self, *, show: bool = False) -> None:
        self.show = show and sys.stderr.isatty()

    @contextmanager
    def stage(self, name: str, total: int) -> Iterator[Callable[[int], None]]:
        """A stage of `total` pieces; the yielded function takes the number of pieces done."""
        if not self.show:
            yield lambda _: None
            return
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as Bar

        columns = (TextColumn("{task.description:>8}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
            task = bar.add_task(name, total=total)
            yield lambda done: bar.update(task, completed=done)
