"""Lines and tables on a terminal of any width, in a pipe and in a log: nothing is cut off."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

GAP = 2
NARROW = 12
"""A text that stands in a narrower column is hard to read."""


def say(console: Console, text: str) -> None:
    """Print a line; folded on a terminal only, and what looks like markup is text."""
    console.print(text, markup=False, soft_wrap=not console.is_terminal)


def table(console: Console, columns: Sequence[tuple[str, bool]], rows: Sequence[Sequence[str]]) -> None:
    """Print rows below titles.

    A row is one line in a pipe or a file. A terminal folds texts, never numbers; where not even that has room a row is told in words.

    Args:
        console: Where.
        columns: Title, and whether numbers stand below it.
        rows: Cells.
    """
    from rich.table import Table
    from rich.text import Text

    widths = _widths(console.width if console.is_terminal else None, columns, rows)
    if widths is None:
        for first, *rest in rows:
            told = (f"{title} {cell}" for (title, _), cell in zip(columns[1:], rest, strict=True) if cell)
            say(console, f"{first}: {', '.join(told)}")
        return
    if not console.is_terminal:
        console.width = max(console.width, _sum(widths))
    made = Table(box=None, pad_edge=False)
    for (title, right), width in zip(columns, widths, strict=True):
        made.add_column(Text(title), justify="right" if right else "left", width=width, overflow="fold")
    for row in rows:
        made.add_row(*(Text(cell) for cell in row))
    console.print(made, width=_sum(widths))


def fits(console: Console, columns: Sequence[tuple[str, bool]], rows: Sequence[Sequence[str]]) -> bool:
    """Whether `table` has room for columns."""
    return not console.is_terminal or _widths(console.width, columns, rows) is not None


def _sum(widths: Sequence[int]) -> int:
    return sum(widths) + GAP * (len(widths) - 1)


def _widths(room: int | None, columns: Sequence[tuple[str, bool]], rows: Sequence[Sequence[str]]) -> list[int] | None:
    """Widths of the columns in the room there is; None when there is too little."""
    from rich.cells import cell_len

    wanted, least = [], []
    for number, (title, right) in enumerate(columns):
        cells = [cell_len(row[number]) for row in rows]
        words = [cell_len(word) for word in title.split()]
        longest = max(cells, default=0)
        wanted.append(max(longest, cell_len(title)))
        least.append(max([longest if right else min(longest, NARROW), *words]))
    if room is None:
        return wanted
    room -= GAP * (len(columns) - 1)
    spare, asked = room - sum(least), sum(wanted) - sum(least)
    if spare < 0:
        return None
    return wanted if spare >= asked else [m + (w - m) * spare // asked for m, w in zip(least, wanted, strict=True)]
