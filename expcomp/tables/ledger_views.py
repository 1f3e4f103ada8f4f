"""What is derived from the runs of a ledger: cases, decisions, history, backlog, estimates."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from expcomp.tables._spec import Table, finite, flag, integer, json, not_negative, real, text, texts, time

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from expcomp.tables._spec import Column

_FILED: Mapping[str, Column] = {
    "filed_benchmark": text("benchmark under which the ledger files the runs", nullable=False),
    "filed_case": text("case under which the ledger files the runs", nullable=False),
}


def _counted(columns: Iterable[str]) -> dict[str, pl.Expr]:
    return {f"{c}|not_negative": not_negative(c) for c in columns}


def _at_most(part: str, whole: str) -> dict[str, pl.Expr]:
    return {f"{part}|at_most_{whole}": (pl.col(part) <= pl.col(whole)).fill_null(value=True)}


_SIDE: Mapping[str, tuple[Callable[[str], Column], str]] = {
    "runs": (integer, "active runs of a {}"),
    "scored": (integer, "of these, runs whose score counts"),
    "mean": (
        real,
        "mean of the counted scores of a {}: from 0 to 1, or as they are where no score of the case has a scale",
    ),
}

CASES = Table(
    "cases",
    "One case of a benchmark: its runs, and what those that are not archived show.",
    {
        **_FILED,
        "runs": integer("runs, archived ones too", nullable=False),
        "active": integer("runs that are not archived", nullable=False),
        "arms": integer("arms with an active run", nullable=False),
        "scored": integer("active runs with a score", nullable=False),
        "passed": integer("active runs that passed", nullable=False),
        "infra": integer("active runs whose failure is not the agent's", nullable=False),
        "mean_score_norm": real("mean of the scores from 0 to 1; null without a known scale"),
        "latest_run_at": time("when the latest active run ended or started, UTC"),
    },
    rules={
        **_counted(("runs", "active", "arms", "scored", "passed", "infra")),
        **_at_most("active", "runs"),
        **_at_most("scored", "active"),
        **_at_most("infra", "active"),
        "mean_score_norm|finite": finite("mean_score_norm"),
    },
    keys=tuple(_FILED),
)

DECISIONS = Table(
    "decisions",
    "The decision of one case, by the rules of the profile: what its last baseline and treatment show, or what comes first.",
    {
        **_FILED,
        "decision": text("what the case shows, or what has to be repaired first", nullable=False),
        "decision_rule": text("rule that gave it", nullable=False),
        "run_count": integer("runs, archived ones too", nullable=False),
        "active_run_count": integer("runs that are not archived", nullable=False),
        "archived_run_count": integer("archived runs", nullable=False),
        "baseline_run_id": text("last active run of a baseline"),
        "treatment_run_id": text("last active run of a treatment"),
        "latest_run_id": text("last active run"),
        "baseline_failure_scope": text("whose failure the baseline's run is"),
        "treatment_failure_scope": text("whose failure the treatment's run is"),
        "failure_scope": text("the baseline's, for decisions on a baseline alone"),
        "official_score_delta": real(
            "treatment less baseline: of their mean scores, or, under a compatible profile, of the scores of their last runs"
        ),
        **{
            f"{side}_{name}": make(meaning.format(side))
            for side in ("baseline", "treatment")
            for name, (make, meaning) in _SIDE.items()
        },
        "repair_priority": text("priority of the repair the decision points to: P0 first"),
        "repair_class": text("repair the decision points to"),
        "failure_class": text("what went wrong in the run to repair"),
        "next_action": text("what to do next, one sentence"),
        "pair_complete": flag("the pair may be compared; null where no contract of equalities is asked"),
        "pair_blocker": text("why it may not"),
        "pair_review": json("review of the pair"),
        "routing_class": text("route of the case, over all its active runs"),
        "routing_priority": text("priority of the route"),
        "routing_evidence": text("count the route rests on"),
        "routing_next_action": text("what the route asks for, one sentence"),
    },
    rules={
        **_counted(("run_count", "active_run_count", "archived_run_count")),
        "run_count|active_and_archived": (
            pl.col("run_count") == pl.col("active_run_count") + pl.col("archived_run_count")
        ).fill_null(value=True),
        "official_score_delta|finite": finite("official_score_delta"),
    },
    keys=tuple(_FILED),
)

ACTIONS: Mapping[str, str] = {
    "inserted": "runs that were new",
    "updated": "runs that took the place of an earlier record of their attempt",
    "identical": "runs that were there",
    "conflicting": "runs that lost their place to a later record",
    "refused": "records that were not taken",
    "appended": "runs that were new, by the rules of a compatible profile",
    "replaced": "runs that took the place of the one with their id",
    "filled": "runs that filled what an equal run lacked",
    "skipped": "runs that had not ended",
    "archived": "runs that were archived",
    "restored": "runs that were brought back",
}
"""What may befall a run in one commit, and what it means."""

HISTORY = Table(
    "history",
    "One commit of a ledger, newest first; of a commit by another engine only its operation is known.",
    {
        "version": integer("version the commit made", nullable=False),
        "committed_at": time("when, UTC"),
        "action": text("`create`, `add`, `merge`, `archive`, `unarchive`, `compact`, or another engine's operation"),
        "reason": text("why runs were archived"),
        **{name: integer(meaning) for name, meaning in ACTIONS.items()},
    },
    rules=_counted(("version", *ACTIONS)),
    keys=("version",),
)

BACKLOG = Table(
    "backlog",
    "One repair of one benchmark: what it blocks and what it would unlock, over ended runs that are not archived.",
    {
        "repair_priority": text("P0 first"),
        "filed_benchmark": text("benchmark under which the ledger files the runs", nullable=False),
        "repair_class": text("repair"),
        "failure_classes": texts("what went wrong in the runs to repair, sorted", nullable=False),
        "next_action": text("what to do next, one sentence"),
        "arms": texts("arms of the runs to repair, sorted", nullable=False),
        "runs": integer("runs to repair", nullable=False),
        "cases": integer("cases of these runs", nullable=False),
        "cases_blocked": integer("of these, cases where an arm to repair has no score that counts", nullable=False),
        "blocked_cases": texts("those cases, sorted", nullable=False),
        "cases_unlocked": integer("blocked cases where no arm has a score that counts", nullable=False),
        "pairs_unlocked": integer(
            "cases that would have a counted baseline and treatment, and now do not", nullable=False
        ),
        "comparisons_unlocked": integer(
            "comparisons of two arms at a case that would become possible: C(S + B, 2) - C(S, 2) with S arms scored, B blocked",
            nullable=False,
        ),
    },
    rules={
        **_counted(("runs", "cases", "cases_blocked", "cases_unlocked", "pairs_unlocked", "comparisons_unlocked")),
        **_at_most("cases", "runs"),
        **_at_most("cases_blocked", "cases"),
        **_at_most("cases_unlocked", "cases_blocked"),
        **_at_most("pairs_unlocked", "cases_blocked"),
    },
    keys=("filed_benchmark", "repair_class"),
)

LEDGER_VIEWS = {t.name: t for t in (CASES, DECISIONS, HISTORY, BACKLOG)}
