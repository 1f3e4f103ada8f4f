"""What a report is made of: plain text, frames with a choice of columns, and figures. How it looks is said elsewhere."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from expcomp.errors import InternalError

if TYPE_CHECKING:
    from collections.abc import Callable

    import polars as pl
    from matplotlib.axes import Axes

KINDS = ("text", "count", "number", "share", "p")


@dataclass(frozen=True)
class Col:
    """One column that is shown.

    Attributes:
        name: Column of the frame.
        title: Heading.
        kind: `text`, `count`, `number`, `share` (0 to 1) or `p` (a p-value).
        low: Column with the lower end of its interval; shown in the same cell.
        high: Column with the upper end.
        signed: Write a plus sign.
    """

    name: str
    title: str
    kind: str = "text"
    low: str = ""
    high: str = ""
    signed: bool = False


@dataclass(frozen=True)
class Table:
    """A frame and what is shown of it; the JSON document has all of it.

    Attributes:
        id: Name in the documents.
        title: Caption.
        frame: Rows.
        columns: Columns that are shown, in order.
        note: Plain text below.
    """

    id: str
    title: str
    frame: pl.DataFrame
    columns: tuple[Col, ...]
    note: str = ""

    def __post_init__(self) -> None:
        names = {n for c in self.columns for n in (c.name, c.low, c.high) if n}
        lacks = sorted(names - set(self.frame.columns))
        if lacks or {c.kind for c in self.columns} - set(KINDS):
            msg = f"table {self.id} of the report shows {', '.join(lacks) or 'a kind of column'} that it has not"
            raise InternalError(msg)

    def shown(self) -> tuple[Col, ...]:
        """The columns of which at least one row has a value."""
        return tuple(c for c in self.columns if self.frame[c.name].null_count() < self.frame.height)


@dataclass(frozen=True)
class Figure:
    """A figure that is drawn when it is needed.

    Attributes:
        id: Name in the documents, and of its file.
        title: Caption.
        alt: What it shows, in words, for who does not see it.
        draw: Draws it.
    """

    id: str
    title: str
    alt: str
    draw: Callable[[], Axes] = field(repr=False)

    @cached_property
    def svg(self) -> bytes:
        """The figure as SVG."""
        from expcomp.figures.canvas import picture, unshown

        with unshown():
            return picture(self.draw(), "svg")


@dataclass(frozen=True)
class Section:
    """A heading with text, tables and figures below it.

    Attributes:
        id: Name in the documents.
        title: Heading.
        text: Paragraphs of plain text.
        tables: Tables.
        figures: Figures.
    """

    id: str
    title: str
    text: tuple[str, ...] = ()
    tables: tuple[Table, ...] = ()
    figures: tuple[Figure, ...] = ()
