"""Verbs that write what a ledger holds for people and other tools: report, export."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from expcomp.cli.ledger_options import (
    Archived,
    Arms,
    At,
    Benchmarks,
    Cases,
    Groups,
    Infra,
    LedgerPath,
    Profile,
    Roles,
    RulesFile,
    Scopes,
    Scores,
    Statuses,
    opened,
    where_of,
)
from expcomp.cli.options import Json, Quiet


def report(
    ledger: LedgerPath,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="File to write; default: print.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the file.")] = False,
    limit: Annotated[int, typer.Option("--limit", "-n", min=0, help="Cases to list.")] = 200,
    benchmarks: Benchmarks = None,
    cases: Cases = None,
    arms: Arms = None,
    groups: Groups = None,
    infra: Infra = None,
    at: At = None,
    profile: Profile = None,
    roles: Roles = None,
    rules: RulesFile = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Write a ledger as Markdown: scores with denominators, decisions, backlog; under loopx in the ancestor's layout.

    Example: expcomp ledger report LEDGER --out report.md
    """
    from expcomp.io.documents import json_document, write_text
    from expcomp.io.row_files import replacing
    from expcomp.ledger.report import report as report_of

    book = opened(ledger, profile, at, roles, rules)
    text = report_of(book, where_of(benchmarks, cases, arms, groups, infra=infra), limit=limit)
    if out is not None:
        with replacing(out, force=force) as file:
            write_text(file, text)
    if as_json:
        result = {"ledger": ledger, "version": book.version, "out": None if out is None else str(out), "markdown": text}
        print(json_document(result), end="")
    elif out is None and not quiet:
        print(text, end="")
    elif not quiet:
        print(f"wrote {out}")


def export(
    ledger: LedgerPath,
    out: Annotated[Path, typer.Option("--out", "-o", help="File to write.")],
    to: Annotated[
        str | None,
        typer.Option(help="json or md, the ancestor's ledger; parquet or csv, the runs; default: the file's ending."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the file.")] = False,
    benchmarks: Benchmarks = None,
    cases: Cases = None,
    arms: Arms = None,
    groups: Groups = None,
    statuses: Statuses = None,
    scores: Scores = None,
    scopes: Scopes = None,
    infra: Infra = None,
    archived: Archived = None,
    at: At = None,
    profile: Profile = None,
    roles: Roles = None,
    rules: RulesFile = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Write a ledger to one file for other tools.

    Example: expcomp ledger export LEDGER --out runs.parquet
    """
    from expcomp.io.documents import json_document
    from expcomp.ledger.export import export as export_of

    book = opened(ledger, profile, at, roles, rules)
    where = where_of(benchmarks, cases, arms, groups, statuses, scores, scopes, infra, archived)
    done = export_of(book, out, kind=to, where=where, force=force)
    if as_json:
        print(json_document({"ledger": ledger, **done}), end="")
    elif not quiet:
        print(f"wrote {done['runs']:,} runs of version {done['version']} to {out}")
