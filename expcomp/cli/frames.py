"""Frames on the terminal and for scripts: a table, JSON rows, Markdown or CSV."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from expcomp.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    import polars as pl

Md = Annotated[bool, typer.Option("--md", help="Print the rows as a Markdown table, cells escaped.")]
Csv = Annotated[
    bool, typer.Option("--csv", help="Print the rows as CSV; a text that a spreadsheet would run gets a ' before it.")
]
Limit = Annotated[int | None, typer.Option("--limit", "-n", min=0, help="Rows to print; default: 40 on a terminal.")]

SCREEN = 40


def form_of(*, as_json: bool, md: bool, csv: bool, quiet: bool) -> str:
    """How to print: `json`, `md`, `csv`, `quiet` or `table`.

    Raises:
        UsageError: More than one is asked for.
    """
    asked = [name for name, on in (("json", as_json), ("md", md), ("csv", csv), ("quiet", quiet)) if on]
    if len(asked) > 1:
        msg = f"--{asked[0]} and --{asked[1]} exclude each other"
        raise UsageError(msg)
    return asked[0] if asked else "table"


def emit(frame: pl.DataFrame, form: str, shown: Mapping[str, str], *, limit: int | None = None, what: str) -> None:
    """Print a frame.

    Args:
        frame: What to print; JSON, Markdown and CSV hold all its columns.
        form: What `form_of` gave.
        shown: Columns of the table on a terminal, with their titles.
        limit: Rows; by default all, on a terminal `SCREEN`.
        what: What the rows are, for the line below the table.
    """
    from expcomp.io.documents import json_document
    from expcomp.io.text_tables import csv_table, markdown_table

    count = SCREEN if limit is None and form == "table" else limit
    part = frame if count is None else frame.head(count)
    if form == "json":
        print(json_document([plain(row) for row in part.to_dicts()]), end="")
    elif form == "md":
        print(markdown_table(part), end="")
    elif form == "csv":
        print(csv_table(part), end="")
    elif form == "table":
        _table(part.select(list(shown)), shown)
        rest = f"; --limit {frame.height} shows all" if part.height < frame.height else ""
        print(f"{part.height:,} of {frame.height:,} {what}{rest}")


def plain(value: Any) -> Any:
    """A value as JSON has it: times in ISO 8601."""
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    if isinstance(value, list):
        return [plain(v) for v in value]
    return value.isoformat() if hasattr(value, "isoformat") else value


def _table(frame: pl.DataFrame, titles: Mapping[str, str]) -> None:
    import polars as pl
    from rich.console import Console

    from expcomp.cli.terminal import table
    from expcomp.io.text_tables import cells

    texts = cells(frame.with_columns(pl.selectors.float().round(4)))
    columns = [(titles[name], dtype.is_numeric()) for name, dtype in frame.schema.items()]
    table(Console(), columns, [["-" if v is None else v for v in row] for row in texts.rows()])
