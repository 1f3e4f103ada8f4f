"""Verbs of exports: write a package for another system, read one, score a session."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from expcomp.cli.options import PARTIAL, Force, Json, Quiet

if TYPE_CHECKING:
    from expcomp.environments.package import EnvironmentPackage

Package = Annotated[Path, typer.Argument(help="Folder of an environment package.")]
Out = Annotated[Path, typer.Option("--out", "-o", help="Folder to write; must not exist, unless --force.")]


def register(env: typer.Typer) -> None:
    """Add the verbs to `env`."""
    env.command("export")(export)
    env.command("import")(import_)
    env.command("score")(score)


def export(
    folder: Package,
    to: Annotated[
        str, typer.Option("--to", help="gymnasium, openenv, verifiers, harbor, tau2, world-model, awb or trace2env.")
    ],
    out: Out,
    cases: Annotated[
        Path | None, typer.Option(help="Replay cases, JSON lines; by default those the package was validated by.")
    ] = None,
    instructions: Annotated[
        Path | None, typer.Option(help="What agents are asked to do: JSON lines of case_id and instruction.")
    ] = None,
    force: Force = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Write a package for another system, with its cases as tasks; what could not become one is told, with the reason.

    Exit code 4: none of the cases could.

    Example: expcomp env export world --to harbor --out tasks
    """
    from expcomp.environments.cases import read_cases
    from expcomp.environments.exports.targets import export_environment
    from expcomp.environments.folder import open_package, read_replay
    from expcomp.io.counts import Count
    from expcomp.io.documents import json_document

    package = open_package(folder)
    told = _instructions(instructions)
    left = export_environment(package, out, to=to, cases=cases, instructions=told, force=force)
    if as_json:
        print(json_document({"out": str(out), "to": to, "left_out": left}), end="")
    elif not quiet:
        for case, reason in sorted(left.items()):
            print(f"left out {case}: {reason}")
        print(f"{to} in {out}" + (f"; {Count(len(left)):case|cases} left out" if left else ""))
    if left and len(left) == (read_replay(package) if cases is None else read_cases(cases))[0].height:
        raise typer.Exit(PARTIAL)


def _instructions(path: Path | None) -> dict[str, str] | None:
    from expcomp.errors import UsageError
    from expcomp.io.record_files import read_records

    if path is None:
        return None
    found: dict[str, str] = {}
    records = read_records(path)
    for number, record in enumerate(records if isinstance(records, list) else [records], 1):
        told = record if isinstance(record, dict) else {}
        case, text = told.get("case_id"), told.get("instruction")
        if not isinstance(case, str) or not isinstance(text, str):
            raise UsageError(f"{path}, record {number}: expected an object of the texts case_id and instruction")
        found[case] = text
    return found


def import_(
    source: Annotated[Path, typer.Argument(help="Package folder in the trace2env layout.")],
    out: Out,
    force: Force = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Read a package of the trace2env layout; every gate is passed again, and it is a candidate until a replay carries it.

    Example: expcomp env import worldbook --out world
    """
    from expcomp.environments.exports.trace2env import read_layout

    made = read_layout(source)
    made.write(out, force=force)
    tell_package(made, out, as_json=as_json, quiet=quiet)


def tell_package(made: EnvironmentPackage, out: Path, *, as_json: bool, quiet: bool) -> None:
    """Tell of a package that was written."""
    from expcomp.io.documents import json_document

    if as_json:
        digest, open_ends = made.artifact_digest, made["unresolved"].height
        print(json_document({"status": made.status, "artifact_digest": digest, "unresolved": open_ends}), end="")
    elif not quiet:
        print(f"{made.status} in {out}, {made.artifact_digest}")


def score(
    folder: Package,
    cases: Annotated[Path, typer.Option(help="Replay cases, one JSON object a line.")],
    session: Annotated[Path, typer.Option(help="Folder of a session, as `env play --session` keeps it.")],
    case: Annotated[str | None, typer.Option(help="Which of the cases; needed when there are several.")] = None,
    digest: Annotated[str | None, typer.Option(help="Refuse a package with another artifact digest.")] = None,
    logs: Annotated[
        Path | None, typer.Option(help="Folder to write reward.txt and score.json into, made if absent.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Score a session against a recorded case: the share of the recorded state that holds times that of the recorded calls made.

    The calls of the session are played again from the state of the case, so that only they count. Prints the reward, a number
    from 0 to 1.

    Example: expcomp env score world --cases cases.jsonl --case c1 --session run
    """
    from expcomp.environments.exports.scoring import known, score_session, write_score
    from expcomp.io.documents import json_document

    found = score_session(folder, cases, session, case_id=case, artifact_digest=digest)
    if logs is not None:
        write_score(found, logs)
    print(json_document(known(found)) if as_json else f"{found.reward}\n", end="")
