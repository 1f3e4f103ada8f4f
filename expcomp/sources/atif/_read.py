"""One ATIF trajectory document to steps, messages and sums. Shared by the formats `atif` and `harbor`."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from expcomp.sources._chat import CallLog, Note, Row, Transcript, flat, observation
from expcomp.sources._dialogue import USAGE
from expcomp.sources._harness import injected
from expcomp.sources._json import dump_json
from expcomp.sources._values import amount, count, items, moment, obj, small, text, whole
from expcomp.sources.atif._parts import detail_of, read_call, read_metrics, unknown_fields

if TYPE_CHECKING:
    from datetime import datetime

    from expcomp.sources._look import Look

_VERSION = re.compile(rb'"schema_version"\s*:\s*"ATIF-')
_SUMMARY = re.compile(r"summari[sz]|compact|condens", re.IGNORECASE)
_SUMMARISED = re.compile(r"context (was )?(summari[sz]|compact|condens)", re.IGNORECASE)
_ROLES = {"agent": "assistant", "user": "user", "system": "system"}


@dataclass(slots=True)
class Trajectory:
    """What one document gives."""

    transcript: Transcript = field(default_factory=Transcript)
    refs: list[Row] = field(default_factory=list)
    has_compaction: bool = False
    usage: Row = field(default_factory=dict)
    summed: bool = False
    started_at: datetime | None = None
    ended_at: datetime | None = None
    naive: bool = False


def is_atif(look: Look) -> bool:
    """Whether the first bytes are those of an ATIF document."""
    if look.kind != "object":
        return False
    if "schema_version" in look.keys and _VERSION.search(look.head):
        return True
    return {"agent", "steps"} <= look.keys and b'"source"' in look.head and b'"name"' in look.head


def read_trajectory(doc: Row, ident: str, *, trainable: bool = True, relation: str = "root") -> Trajectory:
    """Steps and messages of the attempt `ident` in the order of the document; a step is a row, whoever acted."""
    out = Trajectory()
    log = CallLog(out.transcript.notes)
    model = text(obj(doc.get("agent")).get("model_name"))
    reader = _Reader(out, log, ident, model, trainable, relation)
    raw = doc.get("steps")
    if not isinstance(raw, list) or not raw:
        out.transcript.notes.append(Note("no_steps", "expected steps[] with at least one step; read as empty"))
    for pos, entry in enumerate(items(raw)):
        if isinstance(entry, dict):
            reader.step(pos, entry)
        else:
            detail = f"step {pos} is {type(entry).__name__}, expected an object; left out"
            out.transcript.notes.append(Note("bad_step", detail, pos=pos))
    log.close()
    if strange := unknown_fields(doc):
        named = ", ".join(f"{name} ({n})" for name, n in list(strange.items())[:8])
        detail = f"{len(strange)} fields are not of the format and were not read: {named}"
        out.transcript.notes.append(Note("unknown_field", detail, "info"))
    if reader.loose:
        detail = f"{reader.loose} results stand on turns without a call; kept with their step"
        out.transcript.notes.append(Note("result_without_call", detail, "info"))
    _sum(out, reader.counted, obj(doc.get("final_metrics")))
    return out


@dataclass(slots=True)
class _Reader:
    """The state that goes from step to step."""

    out: Trajectory
    log: CallLog
    ident: str
    model: str | None
    trainable: bool
    relation: str
    context: int = 0
    turn: int = -1
    loose: int = 0
    humans: int = 0
    summary_next: bool = False
    new_context: bool = False
    counted: list[Row] = field(default_factory=list)
    """Steps whose usage counts: of the agent, and not copied."""

    def step(self, pos: int, entry: Row) -> None:
        """Read one step."""
        if self.new_context:
            # A marker that nothing follows opens no context: the model never saw it.
            self.context, self.new_context, self.summary_next = self.context + 1, False, True
            self.out.has_compaction = True
        get = entry.get
        role = self._role(pos, get("source"))
        copied = get("is_copied_context") is True
        message = get("message")
        content, parts = (message, None) if isinstance(message, str) else flat(message)
        origin = self._origin(role, content, copied=copied)
        stamp = self._stamp(get("timestamp"), copied=copied)
        if role == "user" and origin != "harness":
            self.turn += 1
        extra = obj(get("extra"))
        calls = [read_call(c, extra) for c in items(get("tool_calls"))]
        by_agent = role == "assistant"
        by_model = by_agent and get("llm_call_count") != 0
        reasoning = text(get("reasoning_content"))
        row: Row = {
            "attempt_id": self.ident,
            "step_index": pos,
            "source": "agent" if by_agent else "system" if origin == "harness" else role,
            "model": (text(get("model_name")) or self.model) if by_model else None,
            "started_at": stamp,
            "content": content,
            "reasoning": reasoning,
            "tool_calls": calls,
            "observations": [],
            "context_id": self.context,
            "is_copied_context": copied,
            "trainable": self.trainable and by_model and not copied,
            "step_number": whole(get("step_id")),
            "turn": max(self.turn, 0),
            "llm_call_id": text(extra.get("api_call_id")),
            "detail": detail_of(entry, extra),
        }
        if by_agent and not copied:
            if isinstance(metrics := get("metrics"), dict):
                read_metrics(metrics, row)
            self.counted.append(row)
        self.out.transcript.steps.append(row)
        said = self._message(row, role, origin, content, parts)
        said["tool_calls"], said["reasoning"] = calls, reasoning
        if calls:
            self.log.add(row)
        results = items(obj(get("observation")).get("results"))
        for result in results:
            self._result(row, obj(result))
        if by_agent:
            self.summary_next = False
        elif role == "system" and _is_summary(results, content or ""):
            self.new_context = True

    def _role(self, pos: int, source: Any) -> str:
        role = _ROLES.get(source) if isinstance(source, str) else None
        if role is None:
            note = Note("unknown_source", f"step {pos} has source {source!r}; kept as a system step", pos=pos)
            self.out.transcript.notes.append(note)
        return role or "system"

    def _stamp(self, raw: Any, *, copied: bool) -> datetime | None:
        """The time of a step; those of steps that are not copied bound the run."""
        stamp, naive = moment(raw)
        out = self.out
        if naive:
            out.naive = True
        if stamp is not None and not copied:
            if out.started_at is None or stamp < out.started_at:
                out.started_at = stamp
            if out.ended_at is None or stamp > out.ended_at:
                out.ended_at = stamp
        return stamp

    def _origin(self, role: str, content: str | None, *, copied: bool) -> str:
        if role != "user":
            return "model" if role == "assistant" else "harness"
        if content is not None and injected(content):
            return "harness"
        self.humans += 1
        if self.summary_next or (self.relation == "continuation" and copied and self.humans > 1):
            return "summary"
        return "harness" if self.relation == "summariser" and not copied else "human"

    def _result(self, row: Row, result: Row) -> None:
        native = text(result.get("source_call_id"))
        self.out.refs += [
            {"step_index": row["step_index"], "call_id": native, **r}
            for r in items(result.get("subagent_trajectory_ref"))
            if isinstance(r, dict)
        ]
        raw = result.get("content")
        if raw is None:
            return
        content, parts = flat(raw)
        extra = obj(result.get("extra"))
        found = self.log.match(native, row) if native is not None or row["tool_calls"] else None
        self.loose += found is None and native is None
        step, answered = found or (row, None)
        call_id = native if native is not None else answered["id"] if answered else None
        seen = observation(call_id, content if content is not None else parts)
        if extra:
            failed = extra.get("is_error")
            seen["is_error"] = failed if isinstance(failed, bool) else None
            seen["exit_code"] = small(extra.get("exit_code"))
        step["observations"].append(seen)
        # Without a call the agent got the text as the next user turn: a chat template has no other place for it.
        role = "tool" if answered or native is not None else "user"
        said = self._message(row, role, "tool", content, parts)
        said["tool_call_id"], said["name"] = call_id, answered["name"] if answered else None

    def _message(self, row: Row, role: str, origin: str, content: str | None, parts: str | None) -> Row:
        messages = self.out.transcript.messages
        said: Row = {
            "attempt_id": self.ident,
            "message_index": len(messages),
            "role": role,
            "origin": origin,
            "content": content,
            "step_index": row["step_index"],
            "context_id": self.context,
            "branch": 0,
            "timestamp": row["started_at"],
        }
        if parts is not None:
            said["parts"] = parts
        messages.append(said)
        return said


def _is_summary(results: list[Any], content: str) -> bool:
    """Whether a system step tells that the context was summarised: by the trajectory that it refers to, else in words."""
    refs = [dump_json(r) for o in results for r in items(obj(o).get("subagent_trajectory_ref"))]
    if refs:
        return any(_SUMMARY.search(r) for r in refs) or _SUMMARY.search(content) is not None
    # Most system steps are long and say nothing of the kind.
    return "context " in content.lower() and _SUMMARISED.search(content) is not None


def _sum(out: Trajectory, counted: list[Row], final: Row) -> None:
    """Sum the usage of the steps that are not copied; the header counts only where no step carries any (R3, R15)."""
    header = {
        "input_tokens": count(final.get("total_prompt_tokens")),
        "cached_input_tokens": count(final.get("total_cached_tokens")),
        "output_tokens": count(final.get("total_completion_tokens")),
        "cost_usd": amount(final.get("total_cost_usd")),
    }
    sums: Row = {}
    for name in USAGE:
        values = [step[name] for step in counted if name in step]
        sums[name] = sum(values) if values else None
    out.summed = any(v is not None for v in sums.values())
    out.usage = sums if out.summed else {name: header.get(name) for name in USAGE}
    for name in ("input_tokens", "output_tokens") if out.summed else ():
        if header[name] is not None and header[name] != sums[name]:
            detail = f"the header counts {header[name]} {name}, the steps of this file {sums[name]}; the steps are used"
            out.transcript.notes.append(Note("usage_mismatch", detail, "info"))
