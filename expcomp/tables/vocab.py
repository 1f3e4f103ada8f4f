"""Closed vocabularies. An Enum for each set of words that a column may hold."""

from __future__ import annotations

import polars as pl

STATUS = pl.Enum(["completed", "limit", "agent_error", "infra_error", "cancelled", "running", "unknown"])
TRIAL_SOURCE = pl.Enum(["native", "ordered", "unknown"])
USAGE_BASIS = pl.Enum(["reported", "summed", "cumulative", "missing"])
RELATION = pl.Enum(["root", "subagent", "fork", "continuation", "summariser"])
STEP_SOURCE = pl.Enum(["agent", "user", "system", "simulator", "environment"])
CALL_KIND = pl.Enum(["function", "custom", "server"])
ROLE = pl.Enum(["system", "developer", "user", "assistant", "tool"])
ORIGIN = pl.Enum(["human", "simulator", "harness", "model", "tool", "summary", "synthetic", "demo"])
GRADE_KIND = pl.Enum(
    ["verifier", "test", "model_judge", "human", "user_feedback", "environment", "heuristic", "simulated", "unstated"]
)
RELIABILITY = pl.Enum(["verified", "needs_review", "failed_verification", "unverified", "not_run"])
ARTIFACT_KIND = pl.Enum(["patch", "file", "log", "test_report", "recording", "image", "environment_state", "other"])
EVIDENCE_KIND = pl.Enum(
    [
        "task_spec",
        "rubric",
        "trace",
        "actual_outputs",
        "artifact",
        "grader",
        "verifier",
        "feedback",
        "training_signal",
        "review_packet",
        "revision_plan",
        "loop_decision",
        "contract_verification_or_repair",
        "loop_evidence",
        "package_file",
    ]
)
VISIBILITY = pl.Enum(["visible", "hidden_excluded"])
SEVERITY = pl.Enum(["info", "warning", "error"])

SURFACES = (
    "api mcp_tool mcp_resource mcp_prompt browser computer_use cli file codebase database spreadsheet search cloud_console "
    "saas_app async_job queue webhook scheduler messaging email collaboration document pdf table multimodal device "
    "industrial physical mixed other_tool other_surface unknown"
).split()
SURFACE = pl.Enum(SURFACES)
SURFACE_SOURCE = pl.Enum(["declared", "field", "tool", "none"])
DOMAINS = (
    "terminal browser computer_use web search codebase software os android mcp api database spreadsheet file multimodal "
    "device robotics lab industrial physical mixed unknown"
).split()
DOMAIN = pl.Enum(DOMAINS)
OPERATIONS = (
    "plan analyze search read write edit execute verify download install ask_user answer select grade evaluate revise other"
).split()
OPERATION = pl.Enum(OPERATIONS)
OUTCOMES = ["progress", "neutral", "blocked", "failed", "corrected", "completed"]
OUTCOME = pl.Enum(OUTCOMES)
FEEDBACK_KIND = pl.Enum(["evaluator", "reviewer", "user", "verifier", "lesson"])
LABEL_SOURCE = pl.Enum(
    [
        "grader",
        "verifier",
        "evaluator",
        "heuristic",
        "human_future",
        "outcome",
        "environment",
        "test",
        "model_judge",
        "human",
        "none",
    ]
)
