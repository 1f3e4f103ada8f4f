"""Traces of other recorders: where their steps lie, and which of their names mean ours. Nothing is invented."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

STEP_KEYS = ("steps", "trace_steps", "trace", "records", "events", "actions")
OPERATIONS: Mapping[str, str] = {
    "bash": "execute",
    "shell": "execute",
    "run": "execute",
    "exec": "execute",
    "command": "execute",
    "create_file": "write",
    "write_file": "write",
    "file_write": "write",
    "read_file": "read",
    "think": "analyze",
    "reason": "analyze",
    "finalize": "answer",
    "finish": "answer",
    "respond": "answer",
    "test": "verify",
    "check": "verify",
    "find": "search",
}
OUTCOMES: Mapping[str, str] = {
    "ok": "completed",
    "success": "completed",
    "done": "completed",
    "completed": "completed",
    "fail": "failed",
    "failed": "failed",
    "error": "failed",
    "block": "blocked",
    "blocked": "blocked",
    "progress": "progress",
    "corrected": "corrected",
}
_TRUE = {"true": True, "false": False}
_NEXT_KEY = {"action", "inputs", "outputs", "step_number", "index", "cmd", "decision_summary", "stdout_summary"}


def steps_of(doc: Mapping[str, Any]) -> tuple[str | None, list[Any]]:
    """The key and the list of steps of a trace object, also one level deeper; (None, []) when there is none."""
    for key in STEP_KEYS:
        value = doc.get(key)
        if isinstance(value, list):
            return key, value
        if isinstance(value, dict):
            for inner in ("steps", "events", "actions"):
                if isinstance(value.get(inner), list):
                    return key, value[inner]
    return None, []


def _first(value: Any, *names: str) -> Any:
    """The value itself when it is text, else the first of the named entries of an object."""
    if isinstance(value, dict):
        return next((value[n] for n in names if value.get(n) is not None), None)
    return value


def normalise(raw: Mapping[str, Any]) -> dict[str, Any]:
    """One foreign step in our field names. Fields that have no counterpart stay as they are (they end in detail.extra)."""
    step = {k: v for k, v in raw.items() if k not in _NEXT_KEY and v is not None}
    number = raw.get("step", raw.get("step_number", raw.get("index")))
    if number is not None:
        step["step"] = number
    word = raw.get("action")
    is_user = word == "user_message"
    step["action"] = (
        "user_message"
        if is_user
        else "error"
        if word == "error"
        else "output"
        if word in ("output", "final")
        else "agent_step"
    )
    if not is_user and isinstance(word, str):
        step.setdefault("operation", OPERATIONS.get(word.lower(), "other"))
        if word.lower() not in OPERATIONS or word.lower() in ("bash", "shell"):
            step.setdefault("tool", word)
    given = raw.get("inputs", raw.get("input"))
    if isinstance(given, dict) and isinstance(given.get("commands"), list):
        given = "\n".join(map(str, given["commands"]))
    step["input"] = _first(given, "text", "cmd", "command", "input")
    got = raw.get("outputs", raw.get("output"))
    step["output"] = _first(got, "stdout", "text", "output", "result", "summary")
    if isinstance(got, dict):
        step["exit_code"] = got.get("exit_code")
    if raw.get("decision_summary") is not None:
        step["reasoning"] = raw["decision_summary"]
    changes = raw.get("state_changes")
    if isinstance(changes, list):
        step.pop("state_changes", None)
        step["state_change"] = "\n".join(map(str, changes)) or None
    if isinstance(raw.get("artifact_paths"), list):
        step["artifact_refs"] = step.pop("artifact_paths")
    outcome = raw.get("step_outcome", raw.get("outcome", raw.get("status")))
    if isinstance(outcome, str):
        step["step_outcome"] = OUTCOMES.get(outcome.lower(), "neutral")
    if isinstance(step.get("success"), str):
        step["success"] = _TRUE.get(step["success"].lower(), step["success"])
    actor = raw.get("actor")
    if isinstance(actor, dict):
        step["actor"] = actor.get("role") or actor.get("actor_kind")
        step.setdefault("agent_id", actor.get("agent_id"))
        step.setdefault("actor_kind", actor.get("actor_kind"))
    return {k: v for k, v in step.items() if v is not None}
