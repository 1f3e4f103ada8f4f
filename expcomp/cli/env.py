"""Verbs of environment packages: verify, show, search, replay, play, patch; build and export stand beside."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from expcomp.cli.env_export import tell_package
from expcomp.cli.options import Force, Json, Quiet

if TYPE_CHECKING:
    from expcomp.environments.assessment import Assessment
    from expcomp.environments.replay import Replay

Package = Annotated[Path, typer.Argument(help="Folder of an environment package.")]
Strict = Annotated[bool, typer.Option("--strict", help="All or nothing: every case passes, every rule is covered.")]

env = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Environment packages: build, check, search, replay, play, export.",
)


def register(app: typer.Typer) -> None:
    """Add the verbs, below `env`."""
    env.command()(verify)
    env.command()(show)
    env.command()(search)
    env.command()(replay)
    env.command()(play)
    env.command()(patch)
    app.add_typer(env, name="env")


def verify(folder: Package, as_json: Json = False, quiet: Quiet = False) -> None:
    """Recompute every digest of a package and pass its gates; exit code 1 when something is found.

    Example: expcomp env verify world
    """
    from expcomp.environments.folder import verify_package
    from expcomp.io.counts import Count
    from expcomp.io.documents import json_document

    problems = verify_package(folder)
    if as_json:
        print(json_document({"ok": not problems, "problems": problems}), end="")
    elif not quiet:
        for problem in problems:
            print(problem)
        print(f"{folder}: {f'{Count(len(problems)):problem|problems}' if problems else 'sound'}")
    if problems:
        raise typer.Exit(1)


def show(
    folder: Package,
    action: Annotated[str | None, typer.Argument(help="An action: its arguments, rules and examples.")] = None,
    state: Annotated[str | None, typer.Option("--state", help="State paths from this one down, as in world.")] = None,
    turn: Annotated[str | None, typer.Option("--turn", help="One recorded turn, by transition id.")] = None,
    offset: Annotated[int, typer.Option("--offset", min=0, help="Characters of the answer to pass over.")] = 0,
    length: Annotated[int, typer.Option("--length", min=1, help="Characters of the answer to show.")] = 2_000,
    as_json: Json = False,
) -> None:
    """Look into a package: what it is, an action, state paths, or a recorded turn.

    Example: expcomp env show world get_user
    """
    from expcomp.environments.folder import open_package
    from expcomp.environments.reader import inspect_action, state_fields
    from expcomp.environments.reader import turn as one_turn

    package = open_package(folder)
    if turn is not None:
        _print({"turn": [one_turn(package, turn, offset=offset, length=length)]}, as_json)
    elif state is not None:
        _print({"state": state_fields(package, state).to_dicts()}, as_json)
    elif action is not None:
        view = inspect_action(package, action)._asdict()
        _print({name: frame.to_dicts() for name, frame in view.items()}, as_json)
    else:
        about = {
            "environment_id": package.config.environment_id,
            "status": package.status,
            "construction_kind": package.config.construction_kind,
            "artifact_digest": package.artifact_digest,
        }
        tables = {name: frame.height for name, frame in package.frames.items() if frame.height}
        _print({"package": [about], "rows": [tables], "rules": package.summary().to_dicts()}, as_json)


def _print(found: dict[str, list[dict[str, Any]]], as_json: bool) -> None:
    from expcomp.io.documents import json_document

    if as_json:
        print(json_document(found), end="")
        return
    for name, records in found.items():
        for record in records:
            print(f"{name}: " + ", ".join(f"{k} {_short(v)}" for k, v in record.items() if v not in (None, [], "")))


def _short(value: Any) -> str:
    text = " ".join(str(value).split())
    return text if len(text) <= 200 else f"{text[:200]} … ({len(text):,} characters)"


def search(
    folder: Package,
    text: Annotated[str, typer.Argument(help="Words; any of them counts.")],
    kind: Annotated[
        list[str] | None, typer.Option("--kind", help="rule, note, demonstration, evidence, action.")
    ] = None,
    action: Annotated[str | None, typer.Option(help="Only of this action.")] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="Hits to show.")] = 10,
    as_json: Json = False,
) -> None:
    """Search rules, notes, examples and recorded turns.

    Example: expcomp env search world "insufficient funds"
    """
    from expcomp.environments.folder import open_package
    from expcomp.environments.search import Search
    from expcomp.errors import UsageError
    from expcomp.tables.environment import SEARCH_KIND

    known = SEARCH_KIND.categories.to_list()
    if unknown := sorted(set(kind or ()) - set(known)):
        raise UsageError(f"--kind {unknown[0]}: expected one of {', '.join(known)}")
    package = open_package(folder)
    found = Search(package.frames, folder / "index.sqlite")
    hits = found.find(text, kinds=kind or (), action=action, limit=limit).to_dicts()
    found.close()
    if as_json:
        from expcomp.io.documents import json_document

        print(json_document(hits), end="")
        return
    for hit in hits:
        status = f" ({hit['status']})" if hit["status"] else ""
        print(f"{hit['score']:8.2f} {hit['kind']:13} {hit['id']}{status}  {_short(hit['snippet'])}")
    print(f"{len(hits)} hits")


def replay(
    folder: Package,
    cases: Annotated[Path, typer.Argument(help="Replay cases, one JSON object a line.")],
    strict: Strict = False,
    baseline: Annotated[Path | None, typer.Option(help="Package that must not do better on the same cases.")] = None,
    promote: Annotated[
        Path | None, typer.Option(help="Publish the package here as validated, if the replay carries it.")
    ] = None,
    threshold: Annotated[
        float, typer.Option(min=0, max=1, help="Exactness asked of the answers that are given.")
    ] = 0.95,
    teacher_forced: Annotated[
        bool, typer.Option("--teacher-forced", help="Take the recorded state after each step; never promotes.")
    ] = False,
    force: Force = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Play recorded cases and compare every step; exit code 1 when a case fails or the promotion is refused.

    Example: expcomp env replay world cases.jsonl --promote world-validated
    """
    from expcomp.environments.assessment import assess
    from expcomp.environments.cases import read_cases
    from expcomp.environments.folder import open_package
    from expcomp.environments.replay import replay as play_cases
    from expcomp.errors import UsageError
    from expcomp.io.documents import json_document

    if teacher_forced and promote is not None:
        raise UsageError("--teacher-forced shows what single steps are worth; it cannot promote")
    package = open_package(folder)
    frames = read_cases(cases)
    if teacher_forced:
        played = play_cases(package, *frames, teacher_forced=True, strict=strict)
        if as_json:
            print(json_document(played.metrics()), end="")
        elif not quiet:
            _replayed(played)
        raise typer.Exit(0 if played.cases["passed"].all() else 1)
    before = None if baseline is None else play_cases(open_package(baseline), *frames, strict=strict)
    judged = assess(package, *frames, mode="strict" if strict else "graded", threshold=threshold, baseline=before)
    if as_json:
        print(json_document(dict(judged.report)), end="")
    elif not quiet:
        _replayed(judged.replay)
        _judged(judged)
    if promote is not None:
        judged.promote(promote, force=force)
        if not as_json and not quiet:
            print(f"validated package in {promote}")
    elif not judged.replay.cases["passed"].all():
        raise typer.Exit(1)


def _replayed(played: Replay) -> None:
    for case in played.cases.to_dicts():
        mark = "passed" if case["passed"] else "failed"
        print(f"{mark} {case['case_id']}: {case['attempted_steps']} of {case['expected_steps']} steps")
        for error in case["errors"][:5]:
            print(f"  {_short(error)}")
    m = played.metrics()
    share = "none" if m["selective_exact"] is None else f"{m['selective_exact']:.1%}"
    print(
        f"{m['cases_passed']} of {m['cases']} cases passed; {m['answered']} of {m['steps']} steps answered, {share} of these exact"
    )


def _judged(judged: Assessment) -> None:
    for rule in judged.report["demoted"]:
        print(f"made tentative: {rule}")
    for condition in judged.report["conditions"]:
        print(f"{'holds' if condition['holds'] else 'FAILS'}  {condition['name']}: {condition['found']}")


def play(
    folder: Package,
    state: Annotated[
        Path | None, typer.Option("--state", help="Initial state, a JSON object with world, session, ...")
    ] = None,
    session: Annotated[
        Path | None, typer.Option("--session", help="Folder that keeps the session; it is taken up again.")
    ] = None,
    case: Annotated[
        str | None, typer.Option("--case", help="Begin where this recorded case begins; a wrong id tells the cases.")
    ] = None,
    rules_only: Annotated[
        bool, typer.Option("--rules-only", help="Only rules answer, nothing that was learned beside them.")
    ] = False,
    allow_unvalidated: Annotated[
        bool, typer.Option("--allow-unvalidated", help="Play a candidate that no replay has validated.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Play a package: one action a line, as `withdraw amount=25` or `withdraw {"amount": 25}`.

    `:actions`, `:state`, `:audit` and `:quit` look around and end it. With --json every answer is one JSON object a line. A refused
    action is told, and the session goes on (exit 0); when another session plays on from the same state it ends (exit 2).

    Example: expcomp env play world --state start.json
    """
    import io
    import sys

    from expcomp.cli.env_play import loop
    from expcomp.environments.core import case_state
    from expcomp.environments.folder import open_package, read_replay
    from expcomp.environments.predictor import Recorded
    from expcomp.environments.session import open_session
    from expcomp.errors import UsageError
    from expcomp.io.record_files import read_records

    if state is not None and case is not None:
        raise UsageError("give --state or --case, not both")
    package = open_package(folder)
    start = None if state is None else read_records(state)
    if case is not None:
        start = case_state(read_replay(package)[0], case)
    responder = None if rules_only else Recorded(package)
    opened = open_session(package, session, start=start, responder=responder, allow_unvalidated=allow_unvalidated)
    try:
        loop(opened, sys.stdin or io.StringIO(), as_json=as_json)  # a closed stdin ends it at once
    finally:
        opened.close()


def patch(
    folder: Package,
    document: Annotated[Path, typer.Argument(metavar="PATCH", help="Patch, a JSON document with base and edits.")],
    out: Annotated[
        Path, typer.Option("--out", "-o", help="Folder of the new candidate; must not exist, unless --force.")
    ],
    force: Force = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Edit items of a package by key; the result is a new candidate, to be replayed against the old package.

    Example: expcomp env patch world fix.json --out world-2
    """
    from expcomp.environments.folder import open_package
    from expcomp.environments.patch import apply_patch
    from expcomp.io.record_files import read_records

    made = apply_patch(open_package(folder), read_records(document))
    made.write(out, force=force)
    tell_package(made, out, as_json=as_json, quiet=quiet)
