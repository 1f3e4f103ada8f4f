"""A report as HTML: a page of its own, or a part of a notebook."""

from __future__ import annotations

from base64 import b64encode
from typing import TYPE_CHECKING

from expcomp.io.counts import Count
from expcomp.reports.cells import html, keys, texts
from expcomp.reports.page import page
from expcomp.version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from expcomp.reports.model import Figure, Section, Table

ROWS = 2000
TALL = 30
_LONG = 48


def to_html(title: str, sections: Sequence[Section]) -> str:
    """The page: sortable tables, figures inside it, no network."""
    links = "\n".join(f'<a href="#section-{html(s.id)}">{html(s.title)}</a>' for s in sections)
    head = f"<header><h1>{html(title)}</h1><nav>{links}</nav></header>"
    foot = f"<footer><p>Made by expcomp {html(__version__)}. Intervals stand in brackets.</p></footer>"
    return page(title, "\n".join([head, "<main>", *(_section(s) for s in sections), "</main>", foot]))


def to_fragment(title: str, sections: Sequence[Section]) -> str:
    """The same without style and script, for a notebook."""
    return f"<div><h3>{html(title)}</h3>{''.join(_section(s) for s in sections)}</div>"


def _section(section: Section) -> str:
    return "\n".join(
        [
            f'<section id="section-{html(section.id)}">',
            f"<h2>{html(section.title)}</h2>",
            *_parts(section),
            "</section>",
        ]
    )


def _parts(section: Section) -> Iterator[str]:
    yield from (f"<p>{html(text)}</p>" for text in section.text)
    yield from (_table(table) for table in section.tables)
    yield from (_figure(figure) for figure in section.figures)


def _table(table: Table) -> str:
    shown = table.shown()
    kinds = ["" if c.kind == "text" else ' class="n"' for c in shown]
    head = "".join(
        f'<th scope="col" aria-sort="none"{kind}><button type="button">{html(c.title)}</button></th>'
        for c, kind in zip(shown, kinds, strict=True)
    )
    columns = [
        [
            f'<td{kind or _width(text)} data-v="{html(key)}">{html(text)}</td>'
            for text, key in zip(told[:ROWS], by[:ROWS], strict=True)
        ]
        for told, by, kind in zip(texts(table), keys(table), kinds, strict=True)
    ]
    rows = "\n".join(f"<tr>{''.join(cells)}</tr>" for cells in zip(*columns, strict=True))
    more = table.frame.height - ROWS
    notes = [f"{Count(more):more row stands|more rows stand} in the JSON document."] if more > 0 else []
    notes += [table.note] if table.note else []
    below = "".join(f'<p class="note">{html(n)}</p>' for n in notes)
    tall = " tall" if table.frame.height > TALL else ""
    return (
        f'<div class="scroll{tall}" tabindex="0"><table id="table-{html(table.id)}"><caption>{html(table.title)}</caption>'
        f"<thead><tr>{head}</tr></thead><tbody>\n{rows}\n</tbody></table></div>{below}"
    )


def _width(text: str) -> str:
    """Class of a cell: short texts stay on one line, long ones get room to wrap."""
    return ' class="l"' if len(text) > _LONG else ' class="s"'


def _figure(figure: Figure) -> str:
    data = b64encode(figure.svg).decode()
    return (
        f'<figure id="figure-{html(figure.id)}"><img alt="{html(figure.alt)}" src="data:image/svg+xml;base64,{data}">'
        f"<figcaption>{html(figure.title)}</figcaption></figure>"
    )
