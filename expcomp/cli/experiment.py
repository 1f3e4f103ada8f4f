"""`expcomp experiment`: what is measured, on what, under which policy, closed before any run; and the receipts of the runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from expcomp.cli.options import Json, Quiet, pairs
from expcomp.errors import UsageError

_Folder = Annotated[Path, typer.Argument(help="Folder that `experiment seal` wrote.", show_default=False)]


def register(app: typer.Typer) -> None:
    """Add the verb group."""
    group = typer.Typer(
        help="Experiments that are closed before anything is measured, and the receipts of their runs.",
        no_args_is_help=True,
        rich_markup_mode=None,
    )
    for verb in (seal, cells, verify):
        group.command()(verb)
    app.add_typer(group, name="experiment")


def seal(
    tasks: Annotated[
        list[Path], typer.Argument(help="Held-out tasks: file, compile output, or dataset folder.", show_default=False)
    ],
    baseline: Annotated[Path, typer.Option(help="Profile that is in use.", show_default=False)],
    candidate: Annotated[Path, typer.Option(help="Profile that may replace it.", show_default=False)],
    grader: Annotated[str, typer.Option(help="Name and file of what grades, as tests=grade.py.", show_default=False)],
    execution_ref: Annotated[
        str, typer.Option(help="Digest that pins executors, adapters and private settings.", show_default=False)
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="New folder for the sealed experiment.", show_default=False)],
    run: Annotated[
        str | None, typer.Option(help="Run that trained the candidate; without it somebody wrote it by hand.")
    ] = None,
    model: Annotated[
        str, typer.Option(help="Model snapshot of the tasks, where it is not that of the arm.")
    ] = "of the arm",
    limit: Annotated[list[str] | None, typer.Option(help="Limit of each run, as steps=30. Repeatable.")] = None,
    policy: Annotated[Path | None, typer.Option(help="TOML file that says what is asked of the candidate.")] = None,
    repetitions: Annotated[int, typer.Option(min=1, help="Runs of each task by each arm.")] = 1,
    seed: Annotated[int, typer.Option(min=0, help="From which those of the runs are made.")] = 0,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Close an experiment: experiment.json, benchmark.json, and cells.parquet with every run that is to be made.

    Example: expcomp experiment seal heldout.parquet --baseline profile.json --candidate jobs/job-1f0c/profile.json --run job-1f0c
    --grader tests=grade.py --execution-ref sha256:... --policy policy.toml --out sealed
    """
    from expcomp.datasets.decontaminate.heldout import held_out
    from expcomp.io.documents import json_document
    from expcomp.io.pinned_files import hash_file
    from expcomp.training.documents import read_document
    from expcomp.training.experiments import CandidateLineage, GraderIdentity
    from expcomp.training.policy import DEFAULT_POLICY, read_policy
    from expcomp.training.profile import Profile
    from expcomp.training.sealing import benchmark_tasks, lineage_of, seal_benchmark, seal_experiment
    from expcomp.training.verdict_files import write_experiment

    ((name, file),) = pairs([grader], "--grader", "NAME=FILE, as tests=grade.py").items()
    graded = GraderIdentity(id=name, artifact_digest=hash_file(Path(file), 1 << 30).digest)
    before, after = (read_document(Profile, p) for p in (baseline, candidate))
    benchmark = seal_benchmark(
        benchmark_tasks(held_out(list(tasks)), graded, model=model, limits=_limits(limit or [])),
        repetitions=repetitions,
        seed=seed,
    )
    made = seal_experiment(
        benchmark,
        before,
        after,
        policy=DEFAULT_POLICY if policy is None else read_policy(policy),
        lineage=CandidateLineage(origin="human") if run is None else lineage_of(after, before, run),
        execution_ref=execution_ref,
    )
    write_experiment(made, benchmark, out)
    told = {
        "out": str(out),
        "experiment": made.digest,
        "benchmark": benchmark.digest,
        "tasks": len(benchmark.tasks),
        "runs": 2 * len(benchmark.suite.seeds),
    }
    if as_json:
        print(json_document(told), end="")
    elif not quiet:
        print(f"Sealed {told['tasks']:,} tasks, {told['runs']:,} runs, in {out}.")
        print(f"  experiment {made.digest}")


def cells(
    folder: _Folder,
    csv: Annotated[bool, typer.Option("--csv", help="Print as CSV.")] = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Print every run that a sealed experiment asks for: arm, task, repetition, seed.

    Example: expcomp experiment cells sealed --csv
    """
    from expcomp.cli.frames import emit, form_of
    from expcomp.training.sealing import cells as cells_of
    from expcomp.training.verdict_files import BENCHMARK, EXPERIMENT, read_experiment

    made = cells_of(*read_experiment(folder / EXPERIMENT, folder / BENCHMARK))
    shown = ("arm", "task_index", "task", "repetition", "seed")
    emit(
        made,
        form_of(as_json=as_json, md=False, csv=csv, quiet=quiet),
        {n: n.replace("_", " ") for n in shown},
        what="runs",
    )


def verify(
    folder: _Folder,
    receipts: Annotated[Path, typer.Option(help="Run receipts, JSON lines.", show_default=False)],
    csv: Annotated[bool, typer.Option("--csv", help="Print as CSV.")] = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Hold receipts to the cells of their experiment; exit 1 when one is missing, there twice, foreign, failed, or used again.

    Example: expcomp experiment verify sealed --receipts receipts.jsonl
    """
    from expcomp.cli.frames import emit, form_of
    from expcomp.training.coverage import FINDINGS, verify_receipts
    from expcomp.training.run_receipts import read_receipts
    from expcomp.training.verdict_files import BENCHMARK, EXPERIMENT, read_experiment

    experiment, benchmark = read_experiment(folder / EXPERIMENT, folder / BENCHMARK)
    there = read_receipts(receipts)
    found = verify_receipts(experiment, benchmark, there)
    form = form_of(as_json=as_json, md=False, csv=csv, quiet=quiet)
    if form == "table" and not found.height:
        print(f"{receipts}: {there.height:,} receipts, one of each run.")
    else:
        emit(found, form, {n: n.replace("_", " ") for n in FINDINGS if n != "receipt_digest"}, what="findings")
    if found.height:
        raise typer.Exit(1)


def _limits(given: list[str]) -> dict[str, int]:
    expected = "NAME=NUMBER, as steps=30"
    found = pairs(given, "--limit", expected)
    for name, value in found.items():
        if not value.isdecimal():
            raise UsageError(f"--limit {name}={value}: expected {expected}")
    return {name: int(value) for name, value in found.items()}
