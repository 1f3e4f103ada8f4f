"""Values as text, and text as Markdown and HTML: whatever data says, it stays text."""

from __future__ import annotations

import re
from html import escape
from math import isfinite
from typing import TYPE_CHECKING, Any

from expcomp.figures.canvas import interval, number
from expcomp.io.visible import visible

if TYPE_CHECKING:
    from expcomp.reports.model import Col, Table

# An underline inside a word marks nothing.
_MARKS = re.compile(r"([\\`*\[\]|~$]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])|^#)")
_LIST = re.compile(r"^([-+]|\d+[.)])(?=\s|$)")
ABSENT = "–"


def texts(table: Table) -> list[list[str]]:
    """The shown cells of a table, column by column, as plain text."""
    return [_column(table, col) for col in table.shown()]


def keys(table: Table) -> list[list[str]]:
    """What the shown cells are sorted by: numbers in full, text as it is, nothing where there is no value."""
    return [[_key(v) for v in table.frame[c.name].to_list()] for c in table.shown()]


def _column(table: Table, col: Col) -> list[str]:
    values = table.frame[col.name].to_list()
    if not col.low:
        return [cell(v, col) for v in values]
    ends = (table.frame[c].to_list() for c in (col.low, col.high))
    return [_estimate(v, low, high, col) for v, low, high in zip(values, *ends, strict=True)]


def _estimate(value: Any, low: Any, high: Any, col: Col) -> str:
    if value is None:
        return ABSENT
    return interval(value, low, high, signed=col.signed) if low is not None else f"{cell(value, col)} [no interval]"


def cell(value: Any, col: Col) -> str:
    """One value as plain text on one line."""
    if value is None:
        return ABSENT
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ", ".join(plain(v) for v in value)
    if isinstance(value, int | float) and not isfinite(value):
        return str(value)
    if col.kind == "count" and isinstance(value, int | float):
        return f"{value:,.0f}"
    if col.kind == "p" and isinstance(value, int | float):
        return "< 0.0001" if value < 0.0001 else f"{value:.4f}"
    return number(value, signed=col.signed) if isinstance(value, int | float) else plain(value)


def _key(value: Any) -> str:
    if value is None:
        return ""
    return repr(float(value)) if isinstance(value, int | float) else plain(value)


def plain(value: Any) -> str:
    """Any value as text on one line, control characters visible."""
    return visible(" ".join(str(value).split()))


def markdown(text: str) -> str:
    """Plain text as Markdown that shows the same text, also at the start of a line and in a cell of a table."""
    flat = " ".join(visible(text).split())
    marked = _MARKS.sub(r"\\\1", flat.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;"))
    return _LIST.sub(lambda m: f"{m[1][:-1]}\\{m[1][-1]}", marked)


def html(text: str) -> str:
    """Plain text as HTML that shows the same text, also as the value of an attribute."""
    return escape(visible(text), quote=True)
