"""Verbs that compile and check: demo, compile, verify."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

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
from expcomp.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from expcomp.config import CompileOptions


def register(app: typer.Typer) -> None:
    """Add the verbs."""
    app.command()(demo)
    app.command(name="compile")(compile_)
    app.command()(verify)


def demo(
    out: Annotated[
        Path, typer.Option("--out", "-o", help="Folder to publish; an earlier output there is replaced.")
    ] = Path("out/demo"),
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Compile the packages shipped in data/packages and show what came of it.

    Example: expcomp demo
    """
    packages = next(
        (
            p / "data" / "packages"
            for p in (Path.cwd(), *Path(__file__).resolve().parents)
            if (p / "data" / "packages").is_dir()
        ),
        None,
    )
    if packages is None:
        msg = "demo needs data/packages of the repository; run it in a clone, or use `expcomp compile PATH --out OUT`"
        raise UsageError(msg)
    _compile([packages], out, force=True, as_json=as_json, quiet=quiet)


def compile_(
    paths: Annotated[
        list[str],
        typer.Argument(
            help="Packages, run folders, trace files, job folders; or addresses, as s3://bucket/runs.",
            show_default=False,
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Folder to publish; must not exist, unless --force.", show_default=False),
    ] = None,
    update: Annotated[
        Path | None,
        typer.Option(
            "--update",
            help="Instead of --out: bring this output up to date; only what changed is compiled, the files are those of a full run.",
            show_default=False,
        ),
    ] = None,
    format_: FormatName = None,
    force: Force = False,
    workers: Workers = None,
    memory: Memory = None,
    engine: EngineName = "local",
    ray_address: RayAddress = None,
    cache: Cache = None,
    pii: Annotated[
        bool, typer.Option("--pii", help="Redact e-mail addresses, phone numbers and IP addresses too.")
    ] = False,
    margin: Annotated[float, typer.Option(help="Least score difference of a preference pair, 0..1.")] = 0.1,
    min_label_strength: Annotated[float, typer.Option(help="Weaker labels give no labelled row, 0..1.")] = 0.5,
    allow_simulated: Annotated[
        bool, typer.Option("--allow-simulated", help="Keep rows judged by a stand-in reviewer.")
    ] = False,
    allow_unlabelled: Annotated[
        bool, typer.Option("--allow-unlabelled", help="Keep conversations that no source could grade as SFT rows.")
    ] = False,
    max_text_chars: Annotated[int, typer.Option(help="Cut a step's text beyond this length, and flag it.")] = 65_536,
    max_rounds: Annotated[int, typer.Option(help="Repair rounds at the most.")] = 3,
    check: Annotated[
        str,
        typer.Option(
            help="Validation: auto (rules as expressions on every row, pandera when they object), full (pandera too) or off."
        ),
    ] = "auto",
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
    """Compile finished agent work into training rows.

    Example: expcomp compile runs/ --out out
    """
    target = out or update
    if target is None or (out is not None and update is not None):
        msg = "give --out FOLDER for a new output, or --update FOLDER to bring one up to date"
        raise UsageError(msg)
    from expcomp.io.pool import prepare

    where = engine_option(engine, ray_address, workers)
    if workers != 1 and not where.remote:
        prepare()  # before the imports below: theirs and ours run side by side
    from expcomp.config import CompileOptions

    options = CompileOptions(
        margin=margin,
        min_label_strength=min_label_strength,
        allow_simulated=allow_simulated,
        allow_unlabelled=allow_unlabelled,
        pii=pii,
        max_text_chars=max_text_chars,
        max_rounds=max_rounds,
        check=check,
    )
    read = read_options(
        tools=tools, system=system, arm=arm, task_id=task_id, trial=trial, score_scale=score_scale, config=config
    )
    report, left_out = _compile(
        paths,
        target,
        options=options,
        read=read,
        format=format_,
        force=force,
        update=update is not None,
        processes=workers,
        memory=memory_option(memory),
        engine=where,
        cache=cache,
        as_json=as_json,
        quiet=quiet,
    )
    if left_out or (strict and report["diagnostics"]):
        raise typer.Exit(PARTIAL)


def _compile(
    paths: Sequence[str | Path],
    out: Path,
    *,
    options: CompileOptions | None = None,
    as_json: bool,
    quiet: bool,
    **more: Any,
) -> tuple[dict[str, Any], dict[str, int]]:
    """The report, and what was left out, as numbers by code."""
    from expcomp.cli.show import show_report
    from expcomp.compiler.build import compile_paths
    from expcomp.compiler.compilation import open_compilation
    from expcomp.io.documents import json_document
    from expcomp.io.progress import Progress

    report = compile_paths(paths, out, options=options, progress=Progress(show=not quiet), **more)
    told = open_compilation(out).tables["diagnostics"] if report["diagnostics"] else None
    left_out = {} if told is None else errors_of(told)
    if as_json:
        print(json_document(report), end="")
    elif not quiet:
        show_report(report, out, left_out)
    return report, left_out


def verify(
    folder: Annotated[
        Path,
        typer.Argument(
            help="Output folder of any verb: compile, dataset, read, pack build, report, env build or export."
        ),
    ],
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Recompute every digest, row hash and count of an output folder.

    Example: expcomp verify out
    """
    from expcomp.io.counts import Count
    from expcomp.io.documents import json_document
    from expcomp.reports.verify import verify as check

    found = check(folder)
    if as_json:
        print(
            json_document({"ok": found.ok, "files": found.files, "rows": found.rows, "problems": found.problems}),
            end="",
        )
    elif not quiet:
        for line in found.problems:
            print(line)
        counts = [f"{Count(found.files):file|files}"]
        if found.rows:  # of some folders the files are hashed, not the rows
            counts.append(f"{Count(found.rows):row|rows}")
        counts += [f"{Count(len(found.problems)):problem|problems}"]
        print(f"{'verified' if found.ok else 'NOT verified'}: {', '.join(counts)}")
    if not found.ok:
        raise typer.Exit(1)
