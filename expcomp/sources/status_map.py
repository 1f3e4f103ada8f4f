"""Words in which formats say how an attempt ended, and what they mean: data, so that a word is one line (R1, R2)."""

from __future__ import annotations

from expcomp.sources.errors_map import ErrorClass

DONE = ErrorClass("completed", voids_reward=False)
LIMIT = ErrorClass("limit", voids_reward=False)
AGENT = ErrorClass("agent_error", voids_reward=False)
CANCELLED = ErrorClass("cancelled", voids_reward=True)
INFRA = ErrorClass("infra_error", voids_reward=True)
RUNNING = ErrorClass("running", voids_reward=True)
UNKNOWN = ErrorClass("unknown", voids_reward=False)

STATUSES: dict[str, dict[str, ErrorClass]] = {
    "terminal_bench": {
        "unset": DONE,
        "none": DONE,
        "unknown": UNKNOWN,
        "agent_timeout": LIMIT,
        "context_length_exceeded": LIMIT,
        "output_length_exceeded": LIMIT,
        "unknown_agent_error": AGENT,
        "fatal_llm_parse_error": AGENT,
        "test_timeout": INFRA,
        "parse_error": INFRA,
        "agent_installation_failed": INFRA,
    },
    "tau2_bench": {
        "user_stop": DONE,
        "agent_stop": DONE,
        "max_steps": LIMIT,
        "timeout": LIMIT,
        "too_many_errors": AGENT,
        "agent_error": AGENT,
        "user_error": INFRA,
        "infrastructure_error": INFRA,
        "unexpected_error": INFRA,
    },
    "swe_agent": {
        "submitted": DONE,
        "submitted (exit_context)": LIMIT,
        "submitted (exit_cost)": LIMIT,
        "submitted (exit_format)": AGENT,
        "submitted (exit_error)": AGENT,
        "submitted (exit_command_timeout)": LIMIT,
        "submitted (exit_total_execution_time)": LIMIT,
        "exit_cost": LIMIT,
        "exit_context": LIMIT,
        "exit_total_execution_time": LIMIT,
        "exit_command_timeout": LIMIT,
        "exit_format": AGENT,
        "exit_forfeit": AGENT,
        "exit_error": AGENT,
        "early_exit": LIMIT,
        "exit_api": INFRA,
        "exit_environment_error": INFRA,
        "skipped": CANCELLED,
    },
    "mini_swe_agent": {
        "Submitted": DONE,
        "LimitsExceeded": LIMIT,
        "Timeout": INFRA,
        "TimeoutExpired": LIMIT,
        "FormatError": AGENT,
        "UserInterruption": CANCELLED,
        "KeyboardInterrupt": CANCELLED,
    },
    "openhands": {
        "finished": DONE,
        "idle": UNKNOWN,
        "running": RUNNING,
        "paused": CANCELLED,
        "stopped": CANCELLED,
        "awaiting_user_input": DONE,
        "waiting_for_confirmation": RUNNING,
        "rejected": CANCELLED,
        "stuck": AGENT,
        "error": AGENT,
        "rate_limited": INFRA,
    },
    "inspect": {
        "success": DONE,
        "started": RUNNING,
        "cancelled": CANCELLED,
        "error": INFRA,
    },
    "codex": {
        "task_complete": DONE,
        "turn_aborted": CANCELLED,
        "error": INFRA,
        "stream_error": INFRA,
    },
    "verifiers": {},
    "adp": {},
    "otel": {"OK": DONE, "UNSET": UNKNOWN, "ERROR": AGENT},
    "openinference": {"OK": DONE, "UNSET": UNKNOWN, "ERROR": AGENT},
    "langfuse": {"DEFAULT": UNKNOWN, "ERROR": AGENT},
    "langsmith": {"success": DONE, "error": AGENT, "pending": RUNNING},
    "mlflow": {"OK": DONE, "ERROR": AGENT, "IN_PROGRESS": RUNNING, "STATE_UNSPECIFIED": UNKNOWN},
}
"""Format -> native word -> meaning. A word that is not here leaves the status unknown and a diagnostic `unknown_status`."""
