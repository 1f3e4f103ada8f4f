"""`expcomp exposure`: what the training of a profile could see, against held-out tasks."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from expcomp.cli.options import Force, Json, Quiet, column_names
from expcomp.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from expcomp.training.dataset import TrainingDataset
    from expcomp.training.exposure import ExposureIndex
    from expcomp.training.guard import Level
    from expcomp.training.profile import Profile
    from expcomp.training.receipts import TrainingReceipt

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
    from expcomp.datasets.decontaminate.heldout import held_out
    from expcomp.io.documents import json_document
    from expcomp.training.documents import to_wire
    from expcomp.training.exposure import ExposureIndex
    from expcomp.training.guard import LEVELS, GuardPolicy, guard

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
    datasets: Sequence[TrainingDataset] = ()
    digests: dict[str, str] = {}
    if index is not None:
        seen = ExposureIndex.read(index)
    else:
        of, receipts = _profile(profile, receipt or [])
        seen = _index(of, receipts, inventory or [])
        if level == "near":
            datasets, digests = _datasets(of, receipts, dataset or [])
    found = guard(
        seen,
        held_out(heldout, columns=column_names(column or [])),
        level=_level(level),
        datasets=datasets,
        dataset_digests=digests,
        policy=GuardPolicy(name="warning" if name_warning else "error"),
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

    if profile is None:
        msg = "give --profile"
        raise UsageError(msg)
    of, receipts = _profile(profile, receipt or [])
    seen = _index(of, receipts, inventory or [])
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


def _level(level: str) -> Level:
    return level  # type: ignore[return-value]  # checked against LEVELS


def _profile(path: Path | None, receipts: Sequence[Path]) -> tuple[Profile, dict[str, TrainingReceipt]]:
    from expcomp.training.documents import document_digest, read_document
    from expcomp.training.profile import Profile
    from expcomp.training.receipts import TrainingReceipt

    assert path is not None
    store = [read_document(TrainingReceipt, r) for r in receipts]
    return read_document(Profile, path), {document_digest(r): r for r in store}


def _index(profile: Profile, store: dict[str, TrainingReceipt], inventories: Sequence[Path]) -> ExposureIndex:
    from expcomp.training.exposure import ExposureIndex, read_inventories

    return ExposureIndex.of_profile(profile, store=store, inventories=read_inventories(inventories))


def _datasets(
    profile: Profile, store: dict[str, TrainingReceipt], paths: Sequence[Path]
) -> tuple[list[TrainingDataset], dict[str, str]]:
    from expcomp.training.lineage import lineage_datasets

    return lineage_datasets(profile, paths, store=store)


def _show(report: dict[str, Any]) -> None:
    if not report["receipts"]:
        print("The profile declares no training; there is nothing to hold against the held-out tasks.")
        return
    print(
        f"{report['tasksSeen']:,} tasks of {report['receipts']:,} training runs against {report['heldoutTasks']:,} held-out "
        f"tasks: {report['verdict']}."
    )
    parts = (f"{kind} {'not looked at' if n is None else f'{n:,}'}" for kind, n in report["found"].items())
    print(f"Held-out tasks found: {report['heldoutFound']:,} ({', '.join(parts)}).")
