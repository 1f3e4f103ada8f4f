"""`expcomp train`: one pinned dataset to one candidate profile, with a receipt that anyone can check."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from expcomp.cli.options import Force, Json, Quiet, pairs
from expcomp.errors import UsageError

if TYPE_CHECKING:
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
    for verb in (prepare, run, verify, resume, lineage, score):
        group.command()(verb)
    app.add_typer(group, name="train")


def prepare(
    dataset: Annotated[Path, typer.Argument(help="Folder that `expcomp dataset` wrote.", show_default=False)],
    out: Annotated[
        Path, typer.Option("--out", "-o", help="Document (a name in .json) or bundle to write.", show_default=False)
    ],
    config: Annotated[str, typer.Option(help="Rows to train on: sft or dpo.")] = "sft",
    train: Annotated[str, typer.Option(help="Split to train on.")] = "train",
    validation: Annotated[
        str | None, typer.Option(help="Split that the trainer may look at; default: none, and the others are held out.")
    ] = None,
    heldout: Annotated[
        Path | None, typer.Option(help="Write the tasks of all other splits as Parquet: the held-out set of the run.")
    ] = None,
    spec: Annotated[
        Path | None,
        typer.Option(help="Write the TOML file of a run of the packaged trainer; with --model and --profile."),
    ] = None,
    model: Annotated[Path | None, typer.Option(help="--spec: folder of the model to start from.")] = None,
    profile: Annotated[Path | None, typer.Option(help="--spec: profile to start from.")] = None,
    option: Annotated[list[str] | None, typer.Option(help="--spec: option of TRL, as max_steps=2. Repeatable.")] = None,
    usd_per_hour: Annotated[
        float | None,
        typer.Option(min=0, help="--spec: price of the machine; without it the cost is unknown and nothing ships."),
    ] = None,
    force: Force = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Make the dataset of a training run from a dataset folder: each row with its task, its content digest and its partition.

    Example: expcomp train prepare ds -o train.json --heldout heldout.parquet --spec train.toml --model base --profile profile.json
    """
    from expcomp.io.documents import json_document
    from expcomp.io.row_files import replace_parquet
    from expcomp.training.handoff import training_rows
    from expcomp.training.packing import write_dataset
    from expcomp.training.run.spec_text import option_value, write_spec

    if spec is not None and (model is None or profile is None):
        raise UsageError("--spec needs --model and --profile")
    options = {n: option_value(v) for n, v in pairs(option or [], "--option", "NAME=VALUE, as max_steps=2").items()}
    found = training_rows(dataset, config, train=train, validation=validation)
    made = write_dataset(found.rows, found.kind, out, force=force).to_dict()
    if heldout is not None:
        replace_parquet(found.heldout, heldout, force=force)
    if spec is not None and model is not None and profile is not None:
        write_spec(
            spec, profile=profile, dataset=out, dataset_digest=made["digest"], kind=found.kind, model=model,
            heldout=heldout, options=options, usd_per_hour=usd_per_hour, force=force,
        )  # fmt: skip
    told = made | {"out": str(out), "heldout_tasks": found.heldout.height}
    if as_json:
        print(json_document(told), end="")
    elif not quiet:
        print(
            f"Wrote {made['rows']:,} rows of {made['task_count']:,} tasks to {out}; {found.heldout.height:,} tasks are held out."
        )
        print(f'  dataset_digest = "{made["digest"]}"')


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

    Example: expcomp train resume jobs/job-1f0c9d2ab3e4f567
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

    Example: expcomp train verify jobs/job-1f0c9d2ab3e4f567
    """
    from expcomp.io.documents import json_document
    from expcomp.training.receipts import read_store
    from expcomp.training.run.verify import verify_job

    checks = verify_job(job, store=read_store(receipt or []), receipt_digest=receipt_digest).to_dicts()
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

    Example: expcomp train lineage jobs/job-1f0c9d2ab3e4f567/profile.json
    """
    from expcomp.io.documents import json_document
    from expcomp.training.documents import read_document
    from expcomp.training.profile import Profile
    from expcomp.training.receipts import read_store, receipt_frame

    training = read_document(Profile, profile).training
    receipts = [] if training is None else training.resolved(read_store(receipt or []), str(profile))
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


def score(
    dataset: Annotated[
        Path, typer.Argument(help="Folder that `expcomp dataset` wrote, with config sft.", show_default=False)
    ],
    model: Annotated[Path, typer.Option(help="Folder of model and tokenizer; nothing is fetched.", show_default=False)],
    arm: Annotated[str, typer.Option(help="What the trials are called.", show_default=False)],
    out: Annotated[Path, typer.Option("--out", "-o", help="File of trials to write, JSON lines.", show_default=False)],
    split: Annotated[str, typer.Option(help="Split of held-out tasks.")] = "test",
    costs: Annotated[Path | None, typer.Option(help="Cost ledger that each conversation is entered in.")] = None,
    force: Force = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Measure a local model on held-out conversations: how likely it finds the answers that passed (extra `train`). No pass rate.

    Example: expcomp train score ds --model jobs/job-1f0c9d2ab3e4f567/checkpoint --arm tuned --out tuned.jsonl
    """
    from contextlib import nullcontext

    from expcomp.io.documents import json_document
    from expcomp.training.costs import CostLedger
    from expcomp.training.likelihood import score_split, write_trials

    with CostLedger(costs) if costs is not None else nullcontext() as ledger:
        trials = score_split(dataset, model, arm=arm, split=split, costs=ledger)
    write_trials(trials, out, force=force)
    told = {
        "out": str(out),
        "trials": trials.height,
        "tasks": trials.select("benchmark", "task").n_unique(),
        "without_score": trials["score"].null_count(),
        "mean_score": trials["score"].mean(),
    }
    if as_json:
        print(json_document(told), end="")
    elif not quiet:
        mean = "no score" if told["mean_score"] is None else f"mean score {told['mean_score']:.6f}"
        print(f"Wrote {told['trials']:,} trials of {told['tasks']:,} tasks to {out}; {mean}.")


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
    if (exposure := wire.get("exposure")) is not None and exposure["verdict"] == "refused":
        parts = ", ".join(f"{kind} {n:,}" for kind, n in exposure["found"].items() if n is not None)
        print(f"  Held-out tasks found: {exposure['heldoutFound']:,} ({parts}).")
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
