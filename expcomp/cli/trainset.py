"""`expcomp trainset`: training datasets as documents and bundles: their checks, identity, form and partitions."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from expcomp.cli import trainset_write
from expcomp.cli.options import Force, Json, Quiet
from expcomp.cli.trainset_options import Dataset, Digest, MaxBytes, MaxRows, limits_of, show_described

if TYPE_CHECKING:
    import polars as pl

SHOWN = 20


def register(app: typer.Typer) -> None:
    """Add the verb group."""
    group = typer.Typer(
        help="Training datasets as documents and bundles: their checks, identity, form and partitions.",
        no_args_is_help=True,
        rich_markup_mode=None,
    )
    for verb in (validate, identity, trainset_write.pack, trainset_write.split):
        group.command()(verb)
    app.add_typer(group, name="trainset")


def validate(
    dataset: Dataset,
    digest: Digest = None,
    errors_only: Annotated[
        bool, typer.Option("--errors-only", help="Leave out warnings, which refuse no dataset.")
    ] = False,
    report: Annotated[Path | None, typer.Option(help="Write all findings as Parquet (training_findings).")] = None,
    max_bytes: MaxBytes = None,
    max_rows: MaxRows = None,
    force: Force = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Run every check of a training dataset; exit 1 when one finds something, 3 when there are no rows to look at.

    Example: expcomp trainset validate rows.json --report findings.parquet
    """
    import polars as pl

    from expcomp.io.documents import json_document
    from expcomp.io.row_files import replace_parquet
    from expcomp.training.checks import unreadable
    from expcomp.training.dataset import check_dataset

    checked = check_dataset(dataset, expected_digest=digest, limits=limits_of(max_bytes, max_rows))
    found = checked.findings
    if errors_only:
        found = found.filter(pl.col("severity") == "error")
    if report is not None:
        replace_parquet(found, report, force=force)
    if as_json:
        of = checked.dataset
        told = {
            "dataset": str(dataset),
            "accepted": of is not None,
            "digest": None if of is None else of.digest,
            "rows": None if of is None else of.rows.height,
            "counts": dict(found["code"].value_counts().sort("code").rows()),
            "findings": found.to_dicts(),
        }
        print(json_document(told), end="")
    elif not quiet:
        _show_findings(found, dataset, None if checked.dataset is None else checked.dataset.rows.height)
    if unreadable(found):
        raise typer.Exit(3)
    if found.height:
        raise typer.Exit(1)


def identity(
    dataset: Dataset,
    digest: Digest = None,
    inventory: Annotated[
        Path | None,
        typer.Option(help="Write the tasks as Parquet, for a document with more than an identity lists (4,096)."),
    ] = None,
    max_bytes: MaxBytes = None,
    max_rows: MaxRows = None,
    force: Force = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Digests of a dataset, and the identity that a receipt carries; exit 1 when a check refuses it.

    Two datasets with one document digest hold the same rows in the same order, whatever their form and shards.

    Example: expcomp trainset identity rows.json --json
    """
    from expcomp.io.documents import json_document
    from expcomp.training.bundle import write_inventory
    from expcomp.training.dataset import read_dataset
    from expcomp.training.documents import to_wire
    from expcomp.training.identity import INLINE
    from expcomp.training.packing import describe

    made = read_dataset(dataset, expected_digest=digest, limits=limits_of(max_bytes, max_rows))
    file = None if inventory is None else write_inventory(made.rows, inventory, force=force)
    of = describe(made)
    known = file is not None or made.inventory_file is not None or of.task_count <= INLINE
    told = of.to_dict() | {"identity": to_wire(made.identity(file)) if known else None}
    if as_json:
        print(json_document(told), end="")
    elif not quiet:
        show_described(told)
        if not known:
            print(f"A receipt lists {INLINE:,} tasks at the most; give --inventory FILE to name them by a file.")


def _show_findings(found: pl.DataFrame, dataset: Path, rows: int | None) -> None:
    for one in found.head(SHOWN).to_dicts():
        row = "" if one["row"] is None else f", row {one['row']}"
        path = f", {one['path']}" if one["path"] else ""
        mark = "" if one["severity"] == "error" else " (warning)"
        print(f"{one['document']}{row}{path}: {one['code']}{mark}: found {one['found']}; expected {one['expected']}")
    if found.height > SHOWN:
        print(f"and {found.height - SHOWN:,} more; all are in --json and --report.")
    print(f"{dataset}: refused." if rows is None else f"{dataset}: {rows:,} rows pass every check that refuses.")
