"""The verb that reads traces into tables, and the options that every reading verb shares."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from expcomp.cli.inputs import inputs
from expcomp.cli.options import (
    PARTIAL,
    Arm,
    Cache,
    Config,
    EngineName,
    Force,
    FormatName,
    Json,
    Memory,
    Quiet,
    RayAddress,
    ScoreScale,
    System,
    TaskId,
    Tools,
    Trial,
    Workers,
    engine_option,
    errors_of,
    memory_option,
    read_options,
)


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command()(read)


def read(
    paths: Annotated[
        list[str],
        typer.Argument(
            help="Trace files, folders, archives, job folders, wildcards; or addresses, as s3://bucket/runs.",
            show_default=False,
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Folder for the tables as Parquet; without it they are only counted."),
    ] = None,
    format_: FormatName = None,
    force: Force = False,
    workers: Workers = None,
    memory: Memory = None,
    engine: EngineName = "local",
    ray_address: RayAddress = None,
    cache: Cache = None,
    tools: Tools = None,
    system: System = None,
    arm: Arm = None,
    task_id: TaskId = None,
    trial: Trial = None,
    score_scale: ScoreScale = None,
    config: Config = None,
    strict: Annotated[bool, typer.Option("--strict", help="Exit 4 when anything was skipped or reported.")] = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Read traces of any format into the tables of the common model, and show what is in them.

    Example: expcomp read runs/ --out traces
    """
    from expcomp.cli.show import show_traces
    from expcomp.io.documents import json_document
    from expcomp.io.progress import Progress
    from expcomp.io.publish import refuse
    from expcomp.sources.load import scan_traces

    options = read_options(
        tools=tools, system=system, arm=arm, task_id=task_id, trial=trial, score_scale=score_scale, config=config
    )
    where, progress = engine_option(engine, ray_address, workers), Progress(show=not quiet)
    if out is not None:
        refuse(out, force=force)
    with inputs(paths, where, beside=out, cache=cache, quiet=quiet) as given:
        ts = scan_traces(
            *given,
            format=format_,
            options=options,
            processes=workers,
            memory=memory_option(memory),
            progress=progress,
            engine=where,
        )
        if out is not None:
            ts.write(out, force=force)
            ts = scan_traces(out)
        summary, skipped = ts.summary(), ts.skipped()
    if as_json:
        print(json_document(_result(summary.to_dicts(), skipped.to_dicts(), len(ts.packages), out)), end="")
    elif not quiet:
        show_traces(summary, skipped, len(ts.packages), out)
    if errors_of(skipped, lines="lines") or (strict and skipped.height):
        raise typer.Exit(PARTIAL)


def _result(
    summary: list[dict[str, Any]], skipped: list[dict[str, Any]], units: int, out: Path | None
) -> dict[str, Any]:
    return {
        "units": units,
        "attempts": sum(row["attempts"] for row in summary),
        "summary": summary,
        "diagnostics": skipped,
        "out": None if out is None else str(out),
    }
