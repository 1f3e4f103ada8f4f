"""Chat messages in the shape of the OpenAI API: to messages, and to steps with results matched to calls (R8, R9)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from expcomp.sources._json import dump_json, is_object_text
from expcomp.sources._values import items, obj, text

Row = dict[str, Any]
_ROLES = {"system", "developer", "user", "assistant", "tool"}
_KINDS = {"function", "custom", "server"}


@dataclass(slots=True)
class Note:
    """A diagnostic in the making."""

    code: str
    detail: str
    severity: str = "warning"
    pos: int | None = None


@dataclass(slots=True)
class Transcript:
    """Steps and messages of one attempt, without the attempt's id."""

    steps: list[Row] = field(default_factory=list)
    messages: list[Row] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)

    def agent_steps(self) -> list[Row]:
        """Agent steps that are not copied."""
        return [s for s in self.steps if s["source"] == "agent" and not s.get("is_copied_context")]

    def counts(self) -> Row:
        """The `n_*` columns of `attempts`."""
        own = [s for s in self.steps if not s.get("is_copied_context")]
        return {
            "n_steps": len(self.agent_steps()),
            "n_messages": len(self.messages),
            "n_tool_calls": sum(len(s.get("tool_calls") or ()) for s in own),
            "n_tool_errors": sum(bool(o["is_error"]) for s in own for o in s.get("observations") or ()),
        }

    def has_system_prompt(self) -> bool:
        """Whether a system or developer message stands before the first turn of the agent."""
        for message in self.messages:
            if message["role"] in ("system", "developer"):
                return True
            if message["role"] == "assistant":
                return False
        return False


def flat(content: Any) -> tuple[str | None, str | None]:
    """Text of a content field and, when it is not plain text, the JSON of its parts."""
    if content is None or isinstance(content, str):
        return content, None
    if isinstance(content, list):
        texts = [p if isinstance(p, str) else text(obj(p).get("text")) for p in content]
        if all(t is not None for t in texts):
            return "".join(t or "" for t in texts), dump_json(content)
        return None, dump_json(content)
    return dump_json(content), dump_json(content)


def call(call_id: Any, name: Any, arguments: Any, kind: Any = "function") -> Row:
    """A tool call; arguments that the source wrote as text stay that text."""
    written = arguments if isinstance(arguments, str) or arguments is None else dump_json(arguments)
    return {
        "id": text(call_id),
        "name": text(name),
        "arguments": written,
        "arguments_ok": written is not None and is_object_text(written),
        "kind": kind if isinstance(kind, str) and kind in _KINDS else "function",
    }


def observation(call_id: str | None, content: str | None, **flags: Any) -> Row:
    """What came back."""
    return {"call_id": call_id, "content": content, "is_error": None, "exit_code": None, "truncated": None} | flags


class CallLog:
    """Calls that still wait for a result."""

    def __init__(self, notes: list[Note]) -> None:
        self._open: list[tuple[Row, Row]] = []
        self._notes = notes
        self._by_position = 0
        self._orphans: list[str] = []

    def add(self, step: Row) -> None:
        """Open the calls of a step."""
        self._open += [(step, c) for c in step.get("tool_calls") or ()]

    def match(self, call_id: str | None, step: Row | None = None) -> tuple[Row, Row] | None:
        """Step and call that a result answers: by id, by position when there are no ids, else none (an orphan).

        With `step`, a result without id may only answer a call of that step.
        """
        if call_id is not None:
            for index in range(len(self._open) - 1, -1, -1):
                if self._open[index][1]["id"] == call_id:
                    return self._open.pop(index)
            if any(c["id"] is not None for _, c in self._open) or not self._open:
                self._orphans.append(call_id)
                return None
        within = step if step is not None else (self._open[-1][0] if self._open else None)
        for index, (owner, _) in enumerate(self._open):
            if owner is within:
                self._by_position += 1
                return self._open.pop(index)
        if step is None:
            self._orphans.append("no id")
        return None

    def close(self) -> None:
        """Report what was matched by position, what answered nothing and what was never answered."""
        if self._by_position:
            detail = f"{self._by_position} results carry no call id that occurs; matched with calls by position"
            self._notes.append(Note("matched_by_position", detail))
        if self._orphans:
            shown = ", ".join(self._orphans[:3])
            detail = f"{len(self._orphans)} results answer no open call ({shown}); kept with the step before them"
            self._notes.append(Note("orphan_result", detail))
        # A tool that runs at the provider has no result of its own.
        waiting = [c for _, c in self._open if c["kind"] != "server"]
        if waiting:
            shown = ", ".join(str(c["name"]) for c in waiting[:3])
            detail = f"{len(waiting)} calls have no result ({shown})"
            self._notes.append(Note("unanswered_call", detail, "info"))


def read_chat(raw: Any, *, user_origin: str, user_source: str, trainable: bool = True) -> Transcript:
    """Messages and steps of a message list; an agent step for each assistant message, a step for each user turn."""
    out = Transcript()
    if not isinstance(raw, list):
        found = type(raw).__name__
        out.notes.append(Note("bad_transcript", f"expected a list of messages, found {found}; read as empty"))
        return out
    log = CallLog(out.notes)
    agent: Row | None = None
    turn = -1
    for pos, entry in enumerate(raw):
        role = _role(entry, pos, out.notes)
        if role is None:
            continue
        content, parts = flat(entry.get("content"))
        message: Row = {
            "message_index": len(out.messages),
            "role": role,
            "origin": {"user": user_origin, "assistant": "model", "tool": "tool"}.get(role, "harness"),
            "content": content,
            "parts": parts,
            "name": text(entry.get("name")),
            "context_id": 0,
            "branch": 0,
            "native_id": text(entry.get("id")),
        }
        out.messages.append(message)
        if role == "assistant":
            agent = _agent_step(entry, pos, message, max(turn, 0), trainable=trainable)
            out.steps.append(agent)
            log.add(agent)
        elif role == "user":
            turn += 1
            message["step_index"] = pos
            out.steps.append(_step(pos, user_source, content, turn))
        elif role == "tool":
            _result(entry, message, agent, log)
    log.close()
    return out


def _step(pos: int, source: str, content: str | None, turn: int) -> Row:
    return {
        "step_index": pos,
        "source": source,
        "content": content,
        "tool_calls": [],
        "observations": [],
        "context_id": 0,
        "is_copied_context": False,
        "trainable": False,
        "turn": turn,
    }


def _agent_step(entry: Row, pos: int, message: Row, turn: int, *, trainable: bool) -> Row:
    calls = [_call(c) for c in items(entry.get("tool_calls"))]
    legacy = entry.get("function_call")
    if isinstance(legacy, dict) and not calls:
        calls = [call(None, legacy.get("name"), legacy.get("arguments"))]
    reasoning = text(entry.get("reasoning_content")) or text(entry.get("reasoning"))
    message |= {"step_index": pos, "tool_calls": calls, "reasoning": reasoning}
    step = _step(pos, "agent", message["content"], turn)
    return step | {"tool_calls": calls, "reasoning": reasoning, "trainable": trainable}


def _call(raw: Any) -> Row:
    entry = obj(raw)
    inner = obj(entry.get("function")) or entry
    return call(entry.get("id"), inner.get("name"), inner.get("arguments"), entry.get("type"))


def _result(entry: Row, message: Row, agent: Row | None, log: CallLog) -> None:
    native = text(entry.get("tool_call_id"))
    found = log.match(native)
    owner = found[0] if found else agent
    message["tool_call_id"] = native
    if owner is None:
        return
    message["step_index"] = owner["step_index"]
    call_id = found[1]["id"] if found and native is None else native
    owner["observations"].append(observation(call_id, message["content"]))


def _role(entry: Any, pos: int, notes: list[Note]) -> str | None:
    if not isinstance(entry, dict):
        detail = f"message {pos} is {type(entry).__name__}, expected an object; left out"
        notes.append(Note("bad_message", detail, pos=pos))
        return None
    role = entry.get("role")
    if role == "function":
        return "tool"
    if isinstance(role, str) and role in _ROLES:
        return role
    notes.append(Note("unknown_role", f"message {pos} has role {role!r}; kept as a user message", pos=pos))
    return "user"
