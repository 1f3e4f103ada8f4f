"""Verbs that look into a ledger: show, backlog, history."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from expcomp.cli.frames import Csv, Limit, Md, emit, form_of
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
from expcomp.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    import polars as pl

FILED = {"filed_benchmark": "benchmark", "filed_case": "case"}
_RUNS = {
    **FILED,
    "arm_id": "arm",
    "attempt": "attempt",
    "score": "score",
    "score_status": "score is",
    "failure_class": "failure",
    "archive_state": "archived",
}
_CASES = {
    **FILED,
    "runs": "runs",
    "active": "active",
    "arms": "arms",
    "scored": "scored",
    "passed": "passed",
    "infra": "infra",
    "mean_score_norm": "mean score",
}
_SCORES = {
    "filed_benchmark": "benchmark",
    "arm_id": "arm",
    "mean_of_case_means": "mean of case means",
    "latest": "latest",
    "best_of_n": "best of n",
    "max_runs_per_case": "n",
    "missing_as_zero": "missing as 0",
    "cases_scored": "cases scored",
    "cases": "of",
    "runs_scored": "runs scored",
    "runs_infra": "infra",
    "runs": "runs",
}
_BACKLOG = {
    "repair_priority": "priority",
    "filed_benchmark": "benchmark",
    "repair_class": "repair",
    "runs": "runs",
    "cases": "cases",
    "cases_blocked": "blocked",
    "pairs_unlocked": "pairs unlocked",
    "comparisons_unlocked": "comparisons unlocked",
}
_HISTORY = {"version": "version", "committed_at": "when", "action": "action", "runs": "runs", "reason": "why"}
VIEWS = {"runs": _RUNS, "cases": _CASES, "scores": _SCORES}


def show(
    ledger: LedgerPath,
    view: Annotated[
        str, typer.Option(help="runs; cases, one row each; scores by benchmark and arm, with denominators.")
    ] = "runs",
    columns: Annotated[
        str | None, typer.Option(help="Columns to print, comma-separated; `expcomp schema show runs` lists them.")
    ] = None,
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
    limit: Limit = None,
    as_json: Json = False,
    md: Md = False,
    csv: Csv = False,
    quiet: Quiet = False,
) -> None:
    """Show runs, cases or scores.

    Example: expcomp ledger show LEDGER --arm with-skills --score-status missing
    """
    from expcomp.ledger.changes import ORDER
    from expcomp.ledger.report import score_table
    from expcomp.ledger.select import select
    from expcomp.ledger.views import cases_of

    form = form_of(as_json=as_json, md=md, csv=csv, quiet=quiet)
    if view not in VIEWS:
        msg = f"--view {view}: expected one of {', '.join(VIEWS)}"
        raise UsageError(msg)
    book = opened(ledger, profile, at, roles, rules)
    runs = select(book.runs, where_of(benchmarks, cases, arms, groups, statuses, scores, scopes, infra, archived))
    if view == "runs":
        frame = runs.sort(ORDER, nulls_last=True, maintain_order=True).collect()
    else:
        frame = cases_of(runs).collect() if view == "cases" else score_table(runs.collect())
    shown: Mapping[str, str] = VIEWS[view]
    if columns is not None:
        frame, shown = _picked(frame, columns)
    emit(frame, form, shown, limit=limit, what=view)


def backlog(
    ledger: LedgerPath,
    benchmarks: Benchmarks = None,
    cases: Cases = None,
    arms: Arms = None,
    groups: Groups = None,
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
    """List repairs by priority, with the cases each blocks and the comparisons it would unlock.

    Example: expcomp ledger backlog LEDGER --benchmark garden-desk@1.0
    """
    from expcomp.ledger.backlog import backlog_of
    from expcomp.ledger.select import select

    form = form_of(as_json=as_json, md=md, csv=csv, quiet=quiet)
    book = opened(ledger, profile, at, roles, rules)
    found = backlog_of(select(book.runs, where_of(benchmarks, cases, arms, groups)), book.pack)
    emit(found, form, _BACKLOG, limit=limit, what="repairs")


def history(
    ledger: LedgerPath,
    limit: Limit = None,
    as_json: Json = False,
    md: Md = False,
    csv: Csv = False,
    quiet: Quiet = False,
) -> None:
    """List the commits of a ledger, newest first: version, time, action, and what became of how many runs.

    Example: expcomp ledger history LEDGER
    """
    import polars as pl

    from expcomp.io.wording import worded
    from expcomp.tables.ledger_views import ACTIONS

    form = form_of(as_json=as_json, md=md, csv=csv, quiet=quiet)
    frame = opened(ledger).history.collect()
    if form == "table":
        counts = [pl.when(pl.col(a) > 0).then(worded("{} {}", pl.col(a), pl.lit(a))) for a in ACTIONS]
        frame = frame.with_columns(
            runs=pl.concat_str(counts, separator=", ", ignore_nulls=True),
            committed_at=pl.col("committed_at").dt.strftime("%Y-%m-%d %H:%M:%S UTC"),
        )
    emit(frame, form, _HISTORY, limit=limit, what="commits")


def _picked(frame: pl.DataFrame, columns: str) -> tuple[pl.DataFrame, Mapping[str, str]]:
    names = [c.strip() for c in columns.split(",") if c.strip()]
    unknown = [c for c in names if c not in frame.columns]
    if unknown or not names:
        msg = f"--columns {columns}: no column {(unknown or [''])[0]!r}; there are {', '.join(frame.columns)}"
        raise UsageError(msg)
    names = list(dict.fromkeys(names))
    return frame.select(names), {n: n for n in names}
