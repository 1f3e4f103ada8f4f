"""Traces of other recorders: where their steps lie, and which of their names mean ours. Nothing is invented, nothing is left out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from expcomp.sources._values import whole
from expcomp.sources.packages import _coerce as co
from expcomp.tables.vocab import OPERATIONS as KNOWN

if TYPE_CHECKING:
    from collections.abc import Sequence

NUMBERS = ("step", "step_number", "index")
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
} | {word: word for word in KNOWN}
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
    "neutral": "neutral",
}
ACTIONS: Mapping[str, str] = {
    "user_message": "user_message",
    "agent_step": "agent_step",
    "error": "error",
    "output": "output",
    "final": "output",
}
"""Actions that are one of ours; any other word tells the operation of an agent's step."""
OURS = frozenset({None, *ACTIONS} - {"final"})
"""Actions that steps of ours hold."""
_TRUE = {"true": True, "false": False}
_ONLY_THEIRS = frozenset(
    {
        "inputs",
        "outputs",
        "step_number",
        "index",
        "decision_summary",
        "stdout_summary",
        "state_changes",
        "artifact_paths",
    }
)
_INPUT = ("cmd", "command", "commands", "text", "input")
_OUTPUT = ("stdout", "stderr", "text", "output", "result", "summary")


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


def is_foreign(raw: Mapping[str, Any]) -> bool:
    """Whether a step is written in the words of another recorder: by a key that ours has not, or an action that is none of ours."""
    word = raw.get("action")
    return not _ONLY_THEIRS.isdisjoint(raw) or (isinstance(word, str) and word not in OURS)


def _text(value: Any, names: Sequence[str], *, instead: str) -> str | None:
    """A text as it is; of an object that says one thing only, that; any other value whole, as JSON text."""
    if isinstance(value, dict):
        said = {k: v for k, v in value.items() if v not in (None, "", [], {})}
        if len(said) == 1:
            name, only = next(iter(said.items()))
            if isinstance(only, list) and name == "commands":
                return "\n".join(map(str, only))
            if isinstance(only, str) and (name in names or name.endswith(instead)):
                return only
        return co.json_text(value) if said else None
    return value if value is None or isinstance(value, str) else co.json_text(value)


def normalise(raw: Mapping[str, Any], report: co.Report) -> dict[str, Any]:
    """One foreign step in our field names. What has no counterpart stays under its own name (it ends in detail.extra)."""
    left = {k: v for k, v in raw.items() if v is not None}
    step: dict[str, Any] = {}
    numbers = [left.pop(k) for k in NUMBERS if k in left]
    if numbers:
        step["step"] = numbers[0]
    _kind(left, step)
    given = [left.pop(k) for k in ("inputs", "input") if k in left]
    got = [left.pop(k) for k in ("outputs", "output") if k in left]
    step["input"] = _text(given[0], _INPUT, instead="_summary") if given else None
    output = got[0] if got else left.pop("stdout_summary", None)
    if isinstance(output, dict) and "exit_code" in output and "exit_code" not in left:
        step["exit_code"] = output["exit_code"]
        output = {k: v for k, v in output.items() if k != "exit_code"}
    step["output"] = _text(output, _OUTPUT, instead="_summary")
    if "reasoning" not in left:
        step["reasoning"] = left.pop("decision_summary", None)
    if isinstance(left.get("state_changes"), list) and "state_change" not in left:
        changes = left.pop("state_changes")
        step["state_change"] = "\n".join(c if isinstance(c, str) else co.json_text(c) for c in changes) or None
    for name in ("artifact_paths", "artifacts"):
        paths = left.get(name)
        if isinstance(paths, list) and "artifact_refs" not in {*left, *step} and all(isinstance(p, str) for p in paths):
            step["artifact_refs"] = left.pop(name)
    for name in ("step_outcome", "outcome", "status"):
        word = left.get(name)
        if isinstance(word, str):
            step["step_outcome"] = OUTCOMES.get(word.strip().lower(), "neutral")
            if word.strip().lower() in OUTCOMES:
                del left[name]
            break
    if isinstance(left.get("success"), str):
        left["success"] = _TRUE.get(left["success"].strip().lower(), left["success"])
    actor = left.get("actor")
    if isinstance(actor, dict):
        del left["actor"]
        step["actor"] = actor.get("role") or actor.get("actor_kind")
        named = {
            "actor_role": actor.get("role"),
            "actor_kind": actor.get("actor_kind"),
            "agent_id": actor.get("agent_id"),
        }
        step |= {k: v for k, v in named.items() if k not in left}
        more = {k: v for k, v in actor.items() if k not in ("role", "actor_kind", "agent_id")}
        left |= {"actor_object": more} if more else {}
    _causes(left, step, report)
    return {k: v for k, v in (left | step).items() if v is not None}


def _kind(left: dict[str, Any], step: dict[str, Any]) -> None:
    """Action, operation and tool from the free words of another recorder; a word that is not known stays beside `other`."""
    word = left.pop("action", None)
    step["action"] = ACTIONS.get(word, "agent_step") if isinstance(word, str) else "agent_step"
    if step["action"] == "user_message":
        return
    named = left.get("operation")
    if isinstance(named, str):
        del left["operation"]
        step["operation"] = OPERATIONS.get(named.strip().lower(), "other")
        if step["operation"] == "other" and named.strip().lower() != "other":
            left["native_operation"] = named
    if not isinstance(word, str):
        left |= {} if word is None else {"native_action": word}
        return
    if word in ACTIONS:
        return
    plain = word.strip().lower()
    step.setdefault("operation", OPERATIONS.get(plain, "other"))
    if "tool" not in left and (plain not in OPERATIONS or plain in ("bash", "shell")):
        left["tool"] = word
    elif plain not in KNOWN:
        left["native_action"] = word


def _causes(left: dict[str, Any], step: dict[str, Any], report: co.Report) -> None:
    """Without causes that are no earlier step: another recorder may mean something else by them."""
    number, causes = whole(step.get("step")), left.get("caused_by")
    if number is None or not isinstance(causes, list):
        return
    known = [whole(c) for c in causes]
    late = [n for n in known if n is not None and n >= number]
    if late:
        report("caused_by", "forward_cause", f"names {', '.join(map(str, late))}, no earlier step; dropped")
        left["caused_by"] = [c for c, n in zip(causes, known, strict=True) if n is None or n < number]
