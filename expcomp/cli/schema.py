"""Verbs on the contract: schema export, schema show."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from expcomp.cli.options import Json, Quiet


def register(app: typer.Typer) -> None:
    """Add the verb group."""
    group = typer.Typer(help="The contract of every table and row family.", no_args_is_help=True, rich_markup_mode=None)
    group.command()(export)
    group.command()(show)
    app.add_typer(group, name="schema")


def export(
    folder: Annotated[Path, typer.Argument(help="Folder to write; files of an earlier export are replaced.")],
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Write a JSON Schema, an Arrow schema and a dictionary for each table and family, a JSON Schema for each document of training.

    Example: expcomp schema export schemas/
    """
    from expcomp.io.documents import json_document
    from expcomp.io.schemas import write_schemas

    written = write_schemas(folder, exported())
    if as_json:
        print(json_document(written), end="")
    elif not quiet:
        print(f"wrote {len(written)} files to {folder}")


def exported() -> dict[str, str]:
    """All files of the export, by name."""
    from expcomp.tables.export import documents
    from expcomp.training.schemas import schema_files, schema_titles

    return documents({"Documents of training": schema_titles()}) | schema_files()


def show(name: Annotated[str, typer.Argument(help="Table, family, or document of training.")]) -> None:
    """Print the dictionary of one table, or the JSON Schema of one document.

    Example: expcomp schema show preference_pair
    """
    from expcomp.tables.export import markdown
    from expcomp.tables.models import table
    from expcomp.training.schemas import DATASET, FILE, KINDS, schema_files

    document = name in KINDS or name == DATASET
    print(schema_files()[FILE.format(name)] if document else markdown(table(name)), end="")
