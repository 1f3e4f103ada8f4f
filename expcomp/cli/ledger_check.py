"""Verbs that check a ledger and answer with an exit code: decide, drift."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from expcomp.cli.frames import Csv, Limit, Md, emit, form_of, plain
from expcomp.cli.ledger_look import FILED
from expcomp.cli.ledger_options import (
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
    opened,
    where_of,
)
from expcomp.cli.options import Json, Quiet
from expcomp.errors import UsageError

_DECISIONS = {
    **FILED,
    "decision": "decision",
    "official_score_delta": "difference",
    "active_run_count": "runs",
    "repair_priority": "priority",
}


def decide(
    ledger: LedgerPath,
    baseline: Annotated[str | None, typer.Option(help="Decide between this arm and --treatment.")] = None,
    treatment: Annotated[str | None, typer.Option(help="Arm that is held against --baseline.")] = None,
    decision: Annotated[list[str] | None, typer.Option(help="Only cases with this decision. Repeatable.")] = None,
    fail_on: Annotated[
        list[str] | None,
        typer.Option(help="Exit 1 when a case has this decision, as paired_treatment_regressed. Repeatable."),
    ] = None,
    benchmarks: Benchmarks = None,
    cases: Cases = None,
    arms: Arms = None,
    groups: Groups = None,
    infra: Infra = None,
    at: At = None,
    profile: Profile = None,
    roles: Roles = None,
    rules: RulesFile = None,
    limit: Limit = None,
    as_json: Json = False,
    md: Md = False,
    csv: Csv = False,
    quiet: Quiet = False,
) -> None:
    """Say of each case what its baseline and treatment show, or what has to be repaired first.

    Example: expcomp ledger decide LEDGER --fail-on paired_treatment_regressed
    """
    import polars as pl

    from expcomp.ledger.decide import decide as decisions_of
    from expcomp.ledger.names import check_decisions
    from expcomp.ledger.select import select
    from expcomp.ledger.views import between

    form = form_of(as_json=as_json, md=md, csv=csv, quiet=quiet)
    if (baseline is None) != (treatment is None):
        msg = "--baseline and --treatment go together"
        raise UsageError(msg)
    book = opened(ledger, profile, at, roles, rules)
    check_decisions([*(decision or ()), *(fail_on or ())], book.pack)
    named = [a for a in (baseline, treatment) if a is not None]
    if named:
        select(book.runs, where_of(arms=named))  # each is an arm of the ledger
    runs = select(book.runs, where_of(benchmarks, cases, arms, groups, infra=infra))
    if baseline is not None and treatment is not None:
        runs = between(runs, baseline, treatment)
    found = decisions_of(runs.collect(), book.pack)
    shown = found.filter(pl.col("decision").is_in(decision)) if decision else found
    emit(shown, form, _DECISIONS, limit=limit, what="cases")
    if fail_on and found["decision"].is_in(fail_on).any():
        raise typer.Exit(1)


def drift(
    ledger: LedgerPath,
    history: Annotated[
        list[Path], typer.Argument(help="Files or folders of run records the ledger should hold.", show_default=False)
    ],
    limit: Annotated[
        int | None, typer.Option("--limit", "-n", min=0, help="Missing runs to list; default: 20.")
    ] = None,
    at: At = None,
    profile: Profile = None,
    rules: RulesFile = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Check that a ledger holds the runs of a history; exit 1 when some are missing.

    Example: expcomp ledger drift LEDGER data/runs
    """
    from expcomp.io.documents import json_document
    from expcomp.ledger.drift import drift as drift_of
    from expcomp.ledger.drift import history_runs
    from expcomp.ledger.folders import read_history

    book = opened(ledger, profile, at, rules=rules)
    schema = book.pack.data("operations")["drift"]["record_schema"]
    items = read_history(history, [schema])
    found = history_runs(items, book.pack)
    if items and not found.height:
        msg = f"none of the {len(items):,} values read is a record of schema {schema}"
        raise UsageError(msg)
    report = drift_of(book.runs.collect(), found, book.pack, limit=limit, ledger=ledger)
    report["other_history_item_count"] = len(items) - found.height
    if as_json:
        print(json_document(plain(report)), end="")
    elif not quiet:
        print(
            f"{report['matched_history_run_count']:,} of {report['terminal_history_run_count']:,} ended runs are in the ledger; "
            f"{report['non_terminal_skipped_count']:,} have not ended, {report['other_history_item_count']:,} are no run records"
        )
        for run in report["missing_runs"]:
            named = ", ".join(str(run[k]) for k in ("benchmark_id", "case_id", "arm_id", "job_name") if run[k])
            print("missing: " + "".join(c if c.isprintable() else "�" for c in named))
        if report["truncated"]:
            print(f"{report['missing_ledger_run_count']:,} are missing in all; --limit lists more")
    if report["drift_detected"]:
        raise typer.Exit(1)
