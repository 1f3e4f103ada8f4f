"""A report as one Markdown document (GitHub flavour)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from expcomp.io.counts import Count
from expcomp.reports.cells import markdown, texts

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from expcomp.reports.model import Section, Table

ROWS = 100


def to_markdown(title: str, sections: Sequence[Section], figures: str | None) -> str:
    """The document; with `figures`, a folder beside it, the figures are shown from there, else only named."""
    return "\n".join([f"# {markdown(title)}", "", *_lines(sections, figures)])


def _lines(sections: Sequence[Section], figures: str | None) -> Iterator[str]:
    for section in sections:
        yield from (f"## {markdown(section.title)}", "")
        for paragraph in section.text:
            yield from (markdown(paragraph), "")
        for table in section.tables:
            yield from _table(table)
        for figure in section.figures:
            told = markdown(figure.alt)
            yield from (f"![{told}]({figures}/{figure.id}.svg)" if figures else f"*Figure: {told}*", "")


def _table(table: Table) -> Iterator[str]:
    yield from (f"**{markdown(table.title)}**", "")
    shown = table.shown()
    yield f"| {' | '.join(markdown(c.title) for c in shown)} |"
    yield f"| {' | '.join('---' if c.kind == 'text' else '---:' for c in shown)} |"
    # Numbers hold no mark-up, and brackets of intervals are easier to read as they are.
    marked = [
        [markdown(t) if c.kind == "text" else t for t in column[:ROWS]]
        for c, column in zip(shown, texts(table), strict=True)
    ]
    yield from (f"| {' | '.join(row)} |" for row in zip(*marked, strict=True))
    yield ""
    if table.frame.height > ROWS:
        yield from (f"{Count(table.frame.height - ROWS):more row stands|more rows stand} in the JSON document.", "")
    if table.note:
        yield from (markdown(table.note), "")
