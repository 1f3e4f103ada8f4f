"""The runs of a benchmark ledger: one row per attempt at one case of one benchmark by one arm."""

from __future__ import annotations

from typing import TYPE_CHECKING

from expcomp.tables._spec import Table, finite, flag, integer, json, not_negative, real, text, texts, time
from expcomp.tables.ledger_views import LEDGER_VIEWS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from expcomp.tables._spec import Column

# What an entry document of the ancestor may hold, by kind of value. Null: the document has no such key.
_TEXT: Mapping[str, str] = {
    "run_id": "id of the attempt: what an upsert replaces",
    "recorded_at": "when it was recorded, as the record or the document says it",
    "benchmark_id": "benchmark with its version",
    "case_id": "task of the benchmark",
    "run_group_id": "batch the attempt belongs to",
    "arm_id": "agent configuration",
    "mode": "mode of the runner",
    "route": "route of the runner",
    "job_name": "name of the job",
    "status": "`completed`, `running`, `blocked` or `recorded`",
    "score_status": "`passed`, `failed`, `missing`, or the runner's own word",
    "failure_class": "what went wrong; `none` when nothing did",
    "failure_scope": "whose failure it is",
    "score_failure_attribution": "the runner's own word for the failure",
    "runner_return_status": "how the runner ended",
    "verifier_reward_artifact_recovery_status": "how the verifier's reward was recovered",
    "loop_score_policy": "what the score of the loop means",
    "official_score_policy": "what the official score means",
    "max_rounds_budget_applies_to": "what the budget of rounds is spent on",
    "native_goal_session_policy": "sessions of a native goal",
    "worker_bridge_status": "state of the bridge to the worker",
    "agent_model": "model of the agent",
    "model_control_status": "whether the model asked for was used",
    "source_event_schema": "schema of the record",
    "attempt_lifecycle_phase": "how far the attempt came",
    "attempt_failure_label": "label of the failure, by the accounting of attempts",
    "attempt_failure_class": "class of the failure, by the accounting of attempts",
    "post_launch_first_blocker": "first blocker of a launched job without a result",
    "compact_monitor_class": "class the monitor of a launched job gave",
    "compact_failure_evidence_kind": "evidence of the failure of a launched job",
    "ledger_attempt_kind": "kind of attempt",
    "repair_priority": "priority of the repair: P0 first",
    "repair_class": "repair that would unlock the case",
    "next_action": "what to do next, one sentence",
    "notes": "note of who recorded it",
    "official_score_countability_reason": "why the score counts or does not",
    "archive_state": "`archived`, or null when active",
    "archive_reason": "why it was archived",
    "archive_batch_id": "batch of the archiving",
    "archived_at": "when it was archived, as written",
}
_FLAG: Mapping[str, str] = {
    "official_passed": "the benchmark's own verdict",
    "official_score_bool_fallback_used": "the score stands for a verdict without a number",
    "final_round_passed": "the last round passed",
    "best_round_passed": "the best round passed",
    "best_round_is_final": "no round did better than the last",
    "round_success_observed": "some round passed",
    "agent_declared_done": "the agent said it was done",
    "official_feedback_blinded": "the agent did not see the official verdict",
    "reward_feedback_forwarded": "rewards went back to the agent",
    "codex_acp_runtime_preflight_passed": "preflight of the runtime passed",
    "native_goal_fresh_thread_per_independent_attempt": "each attempt of a native goal has its own thread",
    "native_goal_official_reward_feedback_forwarded_to_worker": "rewards went back to the worker of a native goal",
    "native_goal_verifier_output_forwarded_to_worker": "verifier output went back to the worker of a native goal",
    "runner_score_recovered_from_verifier_artifact": "the score comes from a verifier file",
    "verifier_reward_artifact_recovered": "the reward was recovered",
    "official_result_json_materialized": "the official result file was written",
    "loopx_inside_case": "the tool under test ran inside the case",
    "loopx_prompt_driven_lifecycle_observed": "its lifecycle was seen",
    "actual_model_verified": "the model was checked",
    "submit_eligible": "may be submitted",
    "leaderboard_evidence": "is evidence for a leaderboard",
    "launcher_attempt_countable": "counts as an attempt of the launcher",
    "case_attempt_countable": "counts as an attempt at the case",
    "solver_attempt_countable": "counts as an attempt of the solver",
    "verifier_attempt_countable": "counts as an attempt of the verifier",
    "official_score_attempt_countable": "counts as an officially scored attempt",
    "job_active_without_trial_result": "the job runs and has no result",
    "job_stale_active_without_trial_result": "the job has run for too long without a result",
    "stale_active_reconcile_requested": "someone asked to settle it",
    "terminal_closeout": "the job is closed",
    "benchmark_budget_countable": "counts against the budget",
    "official_score_countable": "the score may enter a statistic",
}
_INTEGER: Mapping[str, str] = {
    "round_reward_count": "rounds with a record",
    "first_success_round": "first round that passed",
    "final_round": "last round",
    "best_reward_round": "earliest round with the best reward",
    "declared_done_round": "round in which the agent said it was done",
    "max_rounds_budget": "rounds allowed",
    "native_goal_initial_turn_budget": "turns of the first goal",
    "native_goal_same_thread_followup_budget": "follow-ups in one thread",
    "native_goal_independent_attempt_budget": "independent attempts",
    "worker_loopx_cli_call_total": "calls of the tool under test by the worker",
    "loopx_prompt_driven_case_cli_call_count": "calls of the tool under test in the case",
}
_REAL: Mapping[str, str] = {
    "official_score": "score as the benchmark gives it",
    "countable_score": "the score when it counts",
    "final_round_reward": "reward of the last round",
    "best_round_reward": "best reward of a round",
    "declared_done_score": "reward when the agent said it was done",
}
_LIST: Mapping[str, str] = {
    "case_ids": "all tasks of the attempt",
    "failure_labels": "labels of the failure",
    "setup_blockers": "what blocked the setup",
    "model_warning_labels": "warnings about the model",
}
_JSON: Mapping[str, str] = {
    "round_rewards": "rewards by round",
    "app_server_goal_round_semantics": "what a round is",
    "task_staging": "how the task was staged",
    "task_setup_preflight": "preflight of the task's setup",
    "compose_setup_diagnostic": "diagnostic of the setup",
    "product_mode_lifecycle_contract": "contract of the tool under test",
    "operator_simulator_run": "the simulated operator",
    "solution_quality_signals": "signals of the solution's quality",
    "benchmark_live_worker_phase": "how far a live worker came",
    "repair_profile": "what a rerun must change",
    "artifact_refs": "public files of the run, relative",
}
KINDS: Mapping[str, Mapping[str, str]] = {
    "text": _TEXT,
    "bool": _FLAG,
    "int": _INTEGER,
    "number": _REAL,
    "list": _LIST,
    "json": _JSON,
}
DOCUMENT: Mapping[str, str] = {name: kind for kind, names in KINDS.items() for name in names}
"""Key of an entry document -> kind of its value: what a document holds; all other columns stay in the ledger."""

_MAKE = {"text": text, "bool": flag, "int": integer, "number": real, "list": texts, "json": json}
_IDENTITY: Mapping[str, Column] = {
    "run_key": text("unique key of the row: the run id, or the digest of the whole entry without one", nullable=False),
    "filed_benchmark": text("benchmark under which the ledger files the run", nullable=False),
    "filed_case": text("case under which the ledger files the run", nullable=False),
    "content_hash": text("`sha256:` and hex digest of the record"),
    "attempt_id": text("attempt of a trace set the run was made from"),
    "attempt": integer("which attempt at the case by this arm, as the record says"),
    "seed": integer("seed of the run"),
}
_FACTS: Mapping[str, Column] = {
    "run_at": time("when the run ended or started, UTC"),
    "ingested_at": time("when the ledger took it, UTC"),
    "score": real("score on the scale beside it; null when there is none or it is refused"),
    "score_min": real("lower end of the scale"),
    "score_max": real("upper end of the scale"),
    "score_threshold": real("score from which a run passes"),
    "score_norm": real("score from 0 to 1, better is higher; null without a known scale"),
    "score_issue": text("why a score was refused"),
    "passed": flag("the verdict: the benchmark's own, else the threshold of its scale"),
    "cost_usd": real("cost in US dollars"),
    "input_tokens": integer("tokens read"),
    "output_tokens": integer("tokens written"),
    "duration_s": real("wall time in seconds"),
    "agent": text("agent"),
    "agent_version": text("version of the agent"),
    "model": text("model"),
    "model_version": text("version of the model"),
    "benchmark_version": text("version of the benchmark"),
    "harness": text("what ran the benchmark"),
    "harness_version": text("version of the harness"),
    "commit": text("commit of the code under test"),
    "dataset_hash": text("digest of the benchmark's data"),
}
_DERIVED: Mapping[str, Column] = {
    "arm_rule": text("rule that gave the arm"),
    "role": text("`baseline`, `treatment` or another declared role; null when unknown"),
    "role_source": text("`declared` in the table of arms, `record`, or `guessed` from a name"),
    "is_baseline": flag("is paired as a baseline"),
    "is_treatment": flag("is paired as a treatment"),
    "failure_rule": text("rule that gave the failure class"),
    "scope_rule": text("rule that gave the failure scope"),
    "repair_rule": text("rule that gave the repair"),
    "countability_rule": text("rule that gave the verdict on the score"),
    "infra": flag("the failure is not the agent's: runner, setup, verifier, or no score"),
    "profile": text("profile that derived these columns"),
    "issues": texts("what was refused or guessed in this row"),
    "extra": json("keys of the document the columns cannot hold, as they were"),
}

RUNS = Table(
    "runs",
    "One attempt at one case of one benchmark by one arm.",
    {
        **_IDENTITY,
        **{name: _MAKE[kind](words) for kind, names in KINDS.items() for name, words in names.items()},
        **_FACTS,
        **_DERIVED,
    },
    rules={
        **{f"{c}|finite": finite(c) for c in ("score", "score_norm", "cost_usd", "duration_s")},
        **{f"{c}|not_negative": not_negative(c) for c in ("cost_usd", "input_tokens", "output_tokens", "duration_s")},
    },
    keys=("filed_benchmark", "filed_case", "run_key"),
)
LEDGER_TABLES = {RUNS.name: RUNS, **LEDGER_VIEWS}
