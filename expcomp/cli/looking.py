"""Verbs that look: rows, formats."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from expcomp.cli.options import Json
from expcomp.errors import UsageError


def register(app: typer.Typer) -> None:
    """Add the verbs."""
    app.command()(rows)
    app.command()(formats)


def rows(
    folder: Annotated[Path, typer.Argument(help="Output folder of a compile.")],
    family: Annotated[str | None, typer.Argument(help="Row family; without it the families are listed.")] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="Rows to show.")] = 3,
    offset: Annotated[int, typer.Option("--offset", min=0, help="Rows to pass over.")] = 0,
    package: Annotated[str | None, typer.Option(help="Rows of this package only.")] = None,
    rejected: Annotated[bool, typer.Option("--rejected", help="Show rejected rows, with their reasons.")] = False,
    width: Annotated[int, typer.Option(min=20, help="Characters of a text that are shown.")] = 400,
    as_json: Json = False,
) -> None:
    """Look at rows of a family in the terminal.

    Example: expcomp rows out preference_pair -n 1
    """
    import polars as pl

    from expcomp.compiler.compilation import open_compilation
    from expcomp.io.documents import json_document
    from expcomp.io.nearest import nearest

    compilation = open_compilation(folder)
    if family is None:
        if as_json:
            print(json_document(compilation.report["families"]), end="")
            return
        for name, f in compilation.report["families"].items():
            print(f"{name:28} {f['accepted']:>9,} accepted {f['rejected']:>9,} rejected")
        return
    where = compilation.rejected if rejected else compilation.rows
    if family not in list(where):
        msg = f"there is no family '{family}'; known are {', '.join(where)}{nearest(family, where)}"
        raise UsageError(msg)
    frame = where[family]
    if package is not None:
        frame = frame.filter(pl.col("package_id") == package)
    shown = [_plain(row) for row in frame.slice(offset, limit).to_dicts()]
    if as_json:
        print(json_document(shown), end="")
        return
    for row in shown:
        _show(row, width)
    print(f"{len(shown)} of {frame.height:,} {'rejected' if rejected else 'accepted'} rows of {family}")


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items() if v is not None}
    if isinstance(value, list):
        return [_plain(v) for v in value]
    return value.isoformat() if hasattr(value, "isoformat") else value


def _show(row: dict[str, Any], width: int) -> None:
    from rich.console import Console
    from rich.rule import Rule

    from expcomp.cli.terminal import say

    console = Console()
    console.print(Rule(str(row.get("row_id", "")), align="left"))
    for key, value in row.items():
        for line in _lines(key, value):
            text = line if len(line) <= width else f"{line[:width]} … ({len(line):,} characters)"
            say(console, text)


def _lines(key: str, value: Any) -> list[str]:
    if isinstance(value, list) and value and isinstance(value[0], dict) and "role" in value[0]:
        return [f"{key}:", *(f"  {m.get('role')}: {m.get('content') or ''} {_calls(m)}".rstrip() for m in value)]
    if isinstance(value, dict):
        return [
            f"{key}: " + ", ".join(f"{k} {v:.6g}" if isinstance(v, float) else f"{k} {v}" for k, v in value.items())
        ]
    return [f"{key}: {value}"]


def _calls(message: dict[str, Any]) -> str:
    return " ".join(f"{c.get('name')}({c.get('arguments')})" for c in message.get("tool_calls") or [])


def formats(as_json: Json = False) -> None:
    """List the formats that are read, with what each carries.

    Example: expcomp formats
    """
    from expcomp.io.documents import json_document
    from expcomp.sources.registry import SOURCES

    if as_json:
        print(json_document({s.name: {"summary": s.summary, **s.carries} for s in SOURCES.values()}), end="")
        return
    from expcomp.cli.show import show_formats

    show_formats({s.name: (s.summary, s.carries) for s in SOURCES.values()})
