"""`expcomp exposure`: what the training of a profile could see, against held-out tasks."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from expcomp.cli.options import Force, Json, Quiet, column_names
from expcomp.errors import UsageError

_Profile = Annotated[Path | None, typer.Option(help="Profile, with its training in metadata.training.")]
_Receipts = Annotated[
    list[Path] | None, typer.Option("--receipt", help="Receipt that the profile only names by digest. Repeatable.")
]
_Inventories = Annotated[
    list[Path] | None,
    typer.Option("--inventory", help="Inventory of a dataset whose receipt does not list its tasks. Repeatable."),
]


def register(app: typer.Typer) -> None:
    """Add the verb group."""
    group = typer.Typer(
        help="What the training of a profile could see, against held-out tasks.",
        no_args_is_help=True,
        rich_markup_mode=None,
    )
    group.command()(check)
    group.command()(index)
    app.add_typer(group, name="exposure")


def check(
    heldout: Annotated[
        list[Path],
        typer.Option(help="Held-out set: file, compile output, or dataset folder. Repeatable.", show_default=False),
    ],
    profile: _Profile = None,
    index: Annotated[Path | None, typer.Option(help="In place of a profile: what `exposure index` wrote.")] = None,
    level: Annotated[
        str, typer.Option(help="exact: contents; name: names, too; near: also stretches of text in the rows.")
    ] = "name",
    dataset: Annotated[
        list[Path] | None, typer.Option(help="near: dataset of a receipt, document or bundle. Repeatable.")
    ] = None,
    receipt: _Receipts = None,
    inventory: _Inventories = None,
    column: Annotated[
        list[str] | None, typer.Option(help="Column of held-out files, as prompt=problem. Repeatable.")
    ] = None,
    name_warning: Annotated[
        bool, typer.Option("--name-warning", help="An equal name with another content is a warning, no refusal.")
    ] = False,
    report: Annotated[
        Path | None,
        typer.Option(help="Write every hit as Parquet, for the owner of the held-out set only (mode 0600)."),
    ] = None,
    force: Force = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Look for held-out tasks in what a profile was trained on, its ancestors counted; exit 1 when some are there.

    What is printed holds counts only, so that an optimiser may read it.

    Example: expcomp exposure check --profile profile.json --heldout heldout.jsonl --report found.parquet
    """
    from expcomp.io.documents import json_document
    from expcomp.training.documents import to_wire
    from expcomp.training.exposure import ExposureIndex
    from expcomp.training.guard import LEVELS, GuardPolicy
    from expcomp.training.lineage import check_exposure

    if (profile is None) == (index is None):
        msg = "give either --profile or --index"
        raise UsageError(msg)
    if level not in LEVELS:
        msg = f"--level {level}: expected {', '.join(LEVELS)}"
        raise UsageError(msg)
    if (level == "near") != bool(dataset) or (level == "near" and profile is None):
        msg = (
            "--level near looks at the rows: it needs --profile, and --dataset for each dataset that it was trained on"
        )
        raise UsageError(msg)
    found = check_exposure(
        ExposureIndex.read(index) if index is not None else profile,  # type: ignore[arg-type]  # one of both
        heldout,
        level=level,  # type: ignore[arg-type]  # checked against LEVELS
        datasets=dataset or (),
        receipts=receipt or (),
        inventories=inventory or (),
        policy=GuardPolicy(name="warning" if name_warning else "error"),
        columns=column_names(column or []),
    )
    if report is not None:
        found.write_private(report, force=force)
    wire = to_wire(found.report)
    if as_json:
        print(json_document(wire), end="")
    elif not quiet:
        _show(wire)
    if found.hits.height:
        raise typer.Exit(1)


def index(
    out: Annotated[Path, typer.Option("--out", "-o", help="Parquet file to write.", show_default=False)],
    profile: _Profile = None,
    receipt: _Receipts = None,
    inventory: _Inventories = None,
    force: Force = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Write all tasks that a profile and its ancestors were trained on as one Parquet file.

    Example: expcomp exposure index --profile profile.json --out exposure.parquet
    """
    from expcomp.io.documents import json_document
    from expcomp.training.documents import read_document
    from expcomp.training.exposure import ExposureIndex, read_inventories
    from expcomp.training.profile import Profile
    from expcomp.training.receipts import read_store

    if profile is None:
        msg = "give --profile"
        raise UsageError(msg)
    seen = ExposureIndex.of_profile(
        read_document(Profile, profile),
        store=read_store(receipt or []),
        inventories=read_inventories(inventory or []),
    )
    seen.write(out, force=force)
    told = {
        "out": str(out),
        "receipts": seen.frame["receipt_digest"].n_unique(),
        "lines": seen.frame.height,
        "digest": seen.digest,
    }
    if as_json:
        print(json_document(told), end="")
    elif not quiet:
        print(f"Wrote {told['lines']:,} tasks of {told['receipts']:,} receipts to {out}.")


def _show(report: dict[str, Any]) -> None:
    from expcomp.io.counts import Count

    if not report["receipts"]:
        print("The profile declares no training; there is nothing to hold against the held-out tasks.")
        return
    print(
        f"{Count(report['tasksSeen']):task|tasks} of {Count(report['receipts']):training run|training runs} against "
        f"{Count(report['heldoutTasks']):held-out task|held-out tasks}: {report['verdict']}."
    )
    parts = (f"{kind} {'not looked at' if n is None else f'{n:,}'}" for kind, n in report["found"].items())
    print(f"Held-out tasks found: {report['heldoutFound']:,} ({', '.join(parts)}).")
