"""Verbs on the contract: schema export, schema show."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from expcomp.cli.options import Json


def register(app: typer.Typer) -> None:
    """Add the verb group."""
    group = typer.Typer(help="The contract of every table and row family.", no_args_is_help=True, rich_markup_mode=None)
    group.command()(export)
    group.command()(show)
    app.add_typer(group, name="schema")


def export(
    folder: Annotated[Path, typer.Argument(help="Folder to write; files of an earlier export are replaced.")],
    as_json: Json = False,
) -> None:
    """Write a JSON Schema, an Arrow schema and a Markdown dictionary for each table and family.

    Example: expcomp schema export schemas/
    """
    from expcomp.io.documents import json_document
    from expcomp.io.schemas import write_schemas
    from expcomp.tables.export import documents

    written = write_schemas(folder, documents())
    print(json_document(written) if as_json else f"wrote {len(written)} files to {folder}")


def show(name: Annotated[str, typer.Argument(help="Table or family.")]) -> None:
    """Print the dictionary of one table.

    Example: expcomp schema show preference_pair
    """
    from expcomp.tables.export import markdown
    from expcomp.tables.models import table

    print(markdown(table(name)), end="")
