"""Verbs that change a ledger: add, merge, archive."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from expcomp.cli.frames import plain
from expcomp.cli.ledger_options import (
    Arms,
    Cases,
    Conflict,
    DryRun,
    Groups,
    LedgerPath,
    Profile,
    Roles,
    RulesFile,
    opened,
    roles_of,
    where_of,
)
from expcomp.cli.options import Json, Quiet
from expcomp.errors import UsageError

if TYPE_CHECKING:
    import polars as pl

    from expcomp.ledger.adding import AddReport

_SHOWN = 20
_LOST = ("refused", "skipped")


def add(
    ledger: LedgerPath,
    paths: Annotated[
        list[str],
        typer.Argument(
            help="Run records (JSON, JSONL), folders of them, ledger documents, lm-evaluation-harness results, traces.",
            show_default=False,
        ),
    ],
    arm: Annotated[str | None, typer.Option(help="Arm of all of them; default: as each says.")] = None,
    group: Annotated[str | None, typer.Option(help="Run group of all of them.")] = None,
    benchmark: Annotated[str | None, typer.Option(help="Benchmark of all attempts of traces.")] = None,
    recorded_at: Annotated[
        str | None, typer.Option(help="When the ledger takes them, ISO 8601 with a zone; default: now.")
    ] = None,
    conflict: Conflict = None,
    profile: Annotated[
        str | None, typer.Option(help="Rules of a ledger that is made: default, or loopx for the ancestor's.")
    ] = None,
    roles: Roles = None,
    rules: RulesFile = None,
    dry_run: DryRun = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Add runs; the ledger is made when there is none. Exit 4 when a record was not taken.

    Example: expcomp ledger add LEDGER data/runs
    """
    from expcomp.ledger.opening import add_to

    report, made = add_to(
        ledger,
        paths,
        profile=profile,
        roles=roles_of(roles),
        rules=rules,
        dry_run=dry_run,
        conflict=conflict,
        arm=arm,
        group=group,
        benchmark=benchmark,
        recorded_at=recorded_at,
    )
    _told(report, ledger, made=made, as_json=as_json, quiet=quiet)


def merge(
    ledger: LedgerPath,
    other: Annotated[str, typer.Argument(help="Ledger whose runs are added; only read.")],
    conflict: Conflict = None,
    profile: Profile = None,
    rules: RulesFile = None,
    dry_run: DryRun = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Add all runs of another ledger; LEDGER is made like the other when there is none.

    Example: expcomp ledger merge LEDGER other-ledger
    """
    from expcomp.ledger.opening import merge_into

    source = opened(other, profile)
    report, made = merge_into(ledger, source, rules=rules, conflict=conflict, dry_run=dry_run)
    _told(report, ledger, made=made, as_json=as_json, quiet=quiet)


def archive(
    ledger: LedgerPath,
    benchmark: Annotated[str, typer.Option(help="Benchmark of the runs.")],
    cases: Cases = None,
    arms: Arms = None,
    groups: Groups = None,
    everything: Annotated[bool, typer.Option("--all", help="All runs of the benchmark.")] = False,
    keep: Annotated[
        list[str] | None, typer.Option(help="Leave runs alone whose run group holds this text. Repeatable.")
    ] = None,
    reason: Annotated[str | None, typer.Option(help="Why; needed to archive.")] = None,
    batch_id: Annotated[str | None, typer.Option(help="Id of the batch; default: a digest.")] = None,
    undo: Annotated[bool, typer.Option("--undo", help="Bring archived runs back.")] = False,
    dry_run: DryRun = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Hide runs from every count without deleting them, or bring them back.

    Example: expcomp ledger archive LEDGER --benchmark garden-desk@1.0 --arm with-skills --reason "wrong prompt"
    """
    from expcomp.ledger.archive import Filter
    from expcomp.ledger.select import select

    if not (cases or arms or groups or everything):
        msg = "name --case, --arm or --group; or say --all for all runs of the benchmark"
        raise UsageError(msg)
    if undo and (reason or batch_id):
        msg = "--undo takes neither --reason nor --batch-id"
        raise UsageError(msg)
    if not undo and not (reason or "").strip():
        msg = "archiving needs a --reason"
        raise UsageError(msg)
    book = opened(ledger)
    select(book.runs, where_of([benchmark], cases, arms, groups))  # a misspelt name is an error, not an empty archive
    which = Filter(benchmark, tuple(groups or ()), tuple(cases or ()), tuple(arms or ()), everything, tuple(keep or ()))
    if undo:
        back = book.unarchive(which, dry_run=dry_run)
        result: dict[str, Any] = {"benchmark_id": benchmark, "restored_run_count": back.height, "runs": _rows(back)}
        said = f"{back.height:,} runs brought back"
    else:
        result = book.archive(which, reason=str(reason), batch_id=batch_id, dry_run=dry_run)
        said = (
            f"{result['newly_archived_run_count']:,} runs archived, {result['already_archived_run_count']:,} were, "
            f"{result['kept_run_count']:,} kept"
        )
    _print({**result, "dry_run": dry_run}, ("dry run: " if dry_run else "") + said, as_json=as_json, quiet=quiet)


def _told(report: AddReport, ledger: str, *, made: bool, as_json: bool, quiet: bool) -> None:
    """Print what became of the records, and end with 4 when some were not taken."""
    refused = _rows(report.refused)
    result = {"ledger": ledger, "made": made, "dry_run": report.dry_run, "version": report.version}
    lines = [", ".join(f"{n:,} {what}" for what, n in report.counts.items() if n) or "nothing to add"]
    if report.dry_run:
        lines = [f"dry run: {lines[0]}"]
    else:
        lines[0] += f"; {'made ' if made else ''}{ledger}, version {report.version}"
    lines += [_refusal(r) for r in refused[:_SHOWN]]
    if len(refused) > _SHOWN:
        lines.append(f"... and {len(refused) - _SHOWN:,} more refused; --json lists all")
    _print({**result, **report.counts, "records_refused": refused}, "\n".join(lines), as_json=as_json, quiet=quiet)
    if any(report.counts.get(what) for what in _LOST):
        raise typer.Exit(4)


def _refusal(row: dict[str, Any]) -> str:
    record = None if row["record"] is None else f"record {row['record']}"
    where = ", ".join(str(p) for p in (row["file"], record, row["name"]) if p is not None)
    return "".join(c if c.isprintable() else "�" for c in f"refused: {where}: {row['field']}: {row['reason']}")


def _rows(frame: pl.DataFrame) -> list[dict[str, Any]]:
    return [plain(row) for row in frame.to_dicts()]


def _print(result: dict[str, Any], said: str, *, as_json: bool, quiet: bool) -> None:
    from expcomp.io.documents import json_document

    if as_json:
        print(json_document(result), end="")
    elif not quiet:
        print(said)
