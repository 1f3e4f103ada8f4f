"""`expcomp train`: one pinned dataset to one candidate profile, with a receipt that anyone can check."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from expcomp.cli.options import Json, Quiet

if TYPE_CHECKING:
    from expcomp.training.receipts import TrainingReceipt
    from expcomp.training.run.results import TrainingFailure, TrainingSuccess

_Receipts = Annotated[
    list[Path] | None, typer.Option("--receipt", help="Receipt that the profile only names by digest. Repeatable.")
]
_Job = Annotated[Path, typer.Argument(help="Job folder, as `train run` prints it.", show_default=False)]


def register(app: typer.Typer) -> None:
    """Add the verb group."""
    group = typer.Typer(
        help="One pinned dataset to one candidate profile, with a receipt that anyone can check.",
        no_args_is_help=True,
        rich_markup_mode=None,
    )
    for verb in (run, verify, resume, lineage):
        group.command()(verb)
    app.add_typer(group, name="train")


def run(
    spec: Annotated[Path, typer.Argument(help="TOML file that describes the run.", show_default=False)],
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Train: a new job folder with dataset, checkpoint, receipt and profile; exit 1 when a stage fails.

    No process of the trainer is left, however it ends. Nothing is decided about the candidate.

    Example: expcomp train run train.toml
    """
    from expcomp.training.run.machine import run_training
    from expcomp.training.run.spec import read_run

    parent, options = read_run(spec)
    _tell(run_training(parent, options), as_json=as_json, quiet=quiet)


def resume(
    job: _Job,
    spec: Annotated[
        Path | None, typer.Option(help="TOML file of the run, for its serving; without it nobody serves.")
    ] = None,
    timeout: Annotated[float | None, typer.Option(help="Seconds.", min=0)] = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Take up a job whose training succeeded, from its checkpoint on; nothing is trained again.

    Example: expcomp train resume runs/job-1f0c9d2ab3e4f567
    """
    from expcomp.training.run.machine import resume_training
    from expcomp.training.run.spec import read_ports

    ports = None if spec is None else read_ports(spec)
    _tell(resume_training(job, ports, timeout=timeout), as_json=as_json, quiet=quiet)


def verify(
    job: _Job,
    receipt_digest: Annotated[
        str | None, typer.Option(help="Digest that the receipt has to have, from somewhere else than the folder.")
    ] = None,
    receipt: _Receipts = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Recompute all that the receipt and the profile of a job say; exit 1 and the names of the files when something differs.

    Example: expcomp train verify runs/job-1f0c9d2ab3e4f567
    """
    from expcomp.io.documents import json_document
    from expcomp.training.run.verify import verify_job

    checks = verify_job(job, store=_store(receipt or []), receipt_digest=receipt_digest).to_dicts()
    bad = [c for c in checks if c["ok"] is False]
    if as_json:
        print(json_document({"job": str(job), "ok": not bad, "checks": checks}), end="")
    elif not quiet:
        for check in bad:
            print(f"{check['document']}: {check['check']}: found {check['found']}; expected {check['expected']}")
        done = sum(c["ok"] is True for c in checks)
        print(f"{job}: {done} of {done + len(bad)} checks hold.")
    if bad:
        raise typer.Exit(1)


def lineage(
    profile: Annotated[
        Path, typer.Argument(help="Profile, with its training in metadata.training.", show_default=False)
    ],
    receipt: _Receipts = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """The training runs behind a profile, nearest first; a chain that was tampered with is refused.

    Example: expcomp train lineage runs/job-1f0c9d2ab3e4f567/profile.json
    """
    from expcomp.io.documents import json_document
    from expcomp.training.documents import read_document
    from expcomp.training.profile import Profile
    from expcomp.training.receipts import receipt_frame

    training = read_document(Profile, profile).training
    receipts = [] if training is None else training.resolved(_store(receipt or []), str(profile))
    lines = receipt_frame(receipts).to_dicts()
    if as_json:
        print(json_document(lines), end="")
    elif not quiet:
        if not lines:
            print("The profile declares no training.")
        for line in lines:
            print(f"{line['depth']}  {line['model']}")
            print(f"   receipt {line['receipt_digest']}, trainer {line['trainer']}")
            print(f"   dataset {line['dataset_digest']}, {line['n_tasks']:,} tasks")


def _store(paths: list[Path]) -> dict[str, TrainingReceipt]:
    from expcomp.training.documents import document_digest, read_document
    from expcomp.training.receipts import TrainingReceipt

    receipts = [read_document(TrainingReceipt, p) for p in paths]
    return {document_digest(r): r for r in receipts}


def _tell(result: TrainingSuccess | TrainingFailure, *, as_json: bool, quiet: bool) -> None:
    from expcomp.io.documents import json_document
    from expcomp.training.documents import to_wire

    wire = to_wire(result)
    if as_json:
        print(json_document(wire), end="")
    elif not quiet:
        _show(wire)
    if not wire["succeeded"]:
        raise typer.Exit(1)


def _show(wire: dict[str, Any]) -> None:
    if wire["succeeded"]:
        print(f"Candidate {wire['profileDigest']}")
        print(f"  model    {wire['model']}{'' if wire['served'] else ' (nobody serves it yet)'}")
        print(f"  receipt  {wire['receiptDigest']}")
        print(f"  folder   {wire['outputDirectory']}")
        return
    print(f"Failed in {wire['stage']}: {wire['reason']}")
    if wire["outputDirectory"] is not None:
        print(f"  folder   {wire['outputDirectory']}")
    if wire["trainingMayExist"]:
        print("  Something of the training may still run.")
    if wire["servingMayExist"]:
        print("  Something may serve the checkpoint.")
    if wire["cleanupError"] is not None:
        print(f"  {wire['cleanupError']}")
    if wire["resumable"]:
        print(f"  Training succeeded: expcomp train resume {wire['outputDirectory']}")
