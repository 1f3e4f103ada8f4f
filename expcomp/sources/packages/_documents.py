"""The documents of a package: which fields each holds, of what kind. Data only; `_coerce.typed` reads by it."""

from __future__ import annotations

from collections.abc import Mapping

Fields = Mapping[str, str]


def fields(**by_kind: str) -> dict[str, str]:
    """`fields(text="a b", real="c")` is {"a": "text", "b": "text", "c": "real"}."""
    return {name: kind for kind, names in by_kind.items() for name in names.split()}


TASK = fields(
    text="task_id raw_task_id normalized_title raw_title title normalized_instruction raw_description instruction domain subdomain "
    "normalized_domain normalized_subdomain task_family workflow_family workflow_type difficulty_tier license",
    texts="output_requirements input_requirements constraints",
)
RUBRIC = fields(text="rubric_id")
RUBRIC_ITEM = fields(
    text="rubric_item_id criterion_name criterion_description scoring_method",
    real="weight score_min score_max pass_threshold",
    flag="worker_visible verifier_only",
    texts="required_artifacts",
)
OUTPUTS = fields(
    text="attempt_id attempt_kind task_id status output_summary primary_output_ref final_message_ref stdout_ref stderr_ref error_type "
    "error_message",
    texts="deliverable_refs artifact_refs files_created files_modified input_artifact_refs raw_log_refs",
)
OUTPUT_REFS = (
    "deliverable_refs",
    "artifact_refs",
    "files_created",
    "files_modified",
    "input_artifact_refs",
    "raw_log_refs",
    "primary_output_ref",
    "final_message_ref",
    "stdout_ref",
    "stderr_ref",
)
PRODUCED = ("deliverable_refs", "artifact_refs", "files_created")
TRACE = fields(
    text="trace_id task task_id attempt_id attempt_kind attempt_status termination_reason started_at ended_at system_prompt run_id "
    "output_summary final_output_summary environment_domain schema_version",
    json="agent_config",
    texts="agent_tools",
)
GRADE = fields(
    text="attempt_id grader_kind score_source score_reliability reasoning_summary model provider grader_notes verifier_status",
    real="max_score min_score confidence",
    flag="passed hidden_reference_used hidden_reference_leaked",
    texts="failed_criteria passed_criteria evidence_refs",
)
CRITERION = fields(
    text="rubric_item_id criterion_name failure_mode reasoning_summary notes improvement_suggestion",
    real="score max_score",
    flag="passed",
    texts="evidence_refs",
)
VERDICT = fields(
    text="attempt_id verification_status verifier_notes model provider",
    flag="artifact_contract_ok evidence_grounding_ok score_consistency_ok hidden_reference_leaked leakage_check_ok "
    "semantic_evidence_grounding_ok",
    real="confidence",
    texts="issues unsupported_claims",
)
FEEDBACK = fields(
    text="attempt_id feedback_type feedback_summary suggested_revision revision_priority mentor_evaluator_status",
    real="confidence",
    texts="failed_rubric_items actionable_feedback evidence_refs",
)
LESSON = fields(text="lesson_summary", texts="strategy_lessons source_attempt_ids common_failure_modes")
SIGNAL = fields(
    text="attempt_kind attempt_id trace_id step_quality_label label_source", int="step", real="local_reward"
)

# Loop documents by file stem. What a family reads is typed here, so that the JSON text decodes with one dtype.
LOOP: Mapping[str, Fields] = {
    "review_packet": fields(
        text="loop_id mode current_goal current_attempt_summary actual_outputs_ref",
        int="loop_iteration",
        json="rubric_status verifier_status evaluator_status diff_from_previous_iteration",
        texts="known_failures missing_outputs recommended_review_focus artifact_refs",
    ),
    "reviewer_feedback": fields(
        text="reviewer_type review_source verdict feedback feedback_text summary stop_condition",
        real="score",
        texts="blocking_issues non_blocking_issues revision_instructions evidence_refs",
    ),
    "revision_plan": fields(
        text="loop_id",
        int="from_iteration to_iteration",
        flag="revision_required feedback_applied",
        texts="issues_to_fix artifacts_to_update verification_steps stop_conditions",
    ),
    "loop_decision": fields(
        text="loop_id decision verdict stop_condition termination_reason training_value_notes",
        int="loop_iteration",
        real="score",
        flag="continue_loop",
    ),
    "contract_verification": fields(
        flag="contract_verification_passed actual_outputs_json_ok",
        int="failure_count semantic_warning_count",
        json="failures semantic_warnings checked",
    ),
    "contract_repair_plan": fields(
        text="repair_id risk_of_regression",
        flag="repair_required repair_allowed preserve_passing_items",
        json="issues_to_fix",
        texts="files_to_modify files_to_preserve repair_steps",
    ),
    "contract_repair_result": fields(
        text="repair_id notes",
        real="before_score after_score",
        flag="before_contract_status after_contract_status regression_detected reverted",
        texts="files_modified files_preserved",
    ),
    "diff_report": fields(flag="available", texts="added_refs removed_refs", json="changed_summary"),
}

# How an attempt ended: the first field that is in the table decides.
STATUS: tuple[tuple[str, Mapping[str, str]], ...] = (
    (
        "termination_reason",
        {
            "task_complete": "completed",
            "verifier_passed": "completed",
            "verifier_failed": "completed",
            "max_iterations_reached": "limit",
            "timeout": "limit",
            "partial_then_stopped": "completed",
            "agent_blocked": "agent_error",
            "error_unrecoverable": "agent_error",
            "provider_usage_limit": "infra_error",
        },
    ),
    (
        "attempt_status",
        {"completed": "completed", "partial": "completed", "failed": "agent_error", "blocked": "agent_error"},
    ),
    (
        "status",
        {
            "success": "completed",
            "partial": "completed",
            "failed": "agent_error",
            "timeout": "limit",
            "error": "agent_error",
        },
    ),
)

# Who graded, and how far the grade can be trusted.
GRADE_KIND: Mapping[str, str] = {
    "structural_guardrail": "heuristic",
    "heuristic": "heuristic",
    "model": "model_judge",
    "model_judge": "model_judge",
    "llm": "model_judge",
    "hybrid": "model_judge",
    "human": "human",
    "human_expert": "human",
    "expert": "human",
    "verifier": "verifier",
    "programmatic": "verifier",
    "unit_test": "test",
    "test": "test",
    "unavailable": "simulated",
    "simulated_for_test": "simulated",
}
RELIABILITY: Mapping[str, str] = {
    "verified": "verified",
    "needs_review": "needs_review",
    "partially_verified": "needs_review",
    "failed_verification": "failed_verification",
    "failed": "failed_verification",
    "unverified": "unverified",
    "not_run": "not_run",
}
SIMULATED_REVIEWERS = frozenset({"simulated_for_test", "mentor_model_unavailable", "unavailable"})
STEP_LABEL: Mapping[str, int] = {"positive": 1, "negative": -1, "neutral": 0}
LABEL_SOURCES = frozenset({"grader", "verifier", "evaluator", "heuristic", "human_future"})

# Surface when a step declares none: by a surface-specific field (then by a word of the tool name, see `sources.surfaces`).
SURFACE_BY_FIELD: tuple[tuple[str, str], ...] = (
    ("mcp_tool_name", "mcp_tool"),
    ("mcp_resource_uri", "mcp_resource"),
    ("mcp_prompt_name", "mcp_prompt"),
    ("api_endpoint", "api"),
    ("database_type", "database"),
    ("workbook_ref", "spreadsheet"),
    ("search_provider", "search"),
    ("screenshot_ref", "browser"),
    ("queue_name", "queue"),
    ("webhook_id", "webhook"),
    ("schedule_id", "scheduler"),
    ("job_id", "async_job"),
    ("document_ref", "document"),
    ("ticket_id", "saas_app"),
    ("deployment_id", "cloud_console"),
    ("channel_id", "messaging"),
    ("device_id", "device"),
    ("physical_environment_type", "physical"),
    ("test_command", "codebase"),
    ("patch_ref", "codebase"),
    ("command", "cli"),
    ("file_path", "file"),
)
