"""One ATIF trajectory document to steps, messages and sums. Shared by the formats `atif` and `harbor`."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from expcomp.sources._chat import CallLog, Note, Row, Transcript, call, flat, observation
from expcomp.sources._dialogue import USAGE
from expcomp.sources._harness import injected
from expcomp.sources._json import dump_json
from expcomp.sources._values import amount, count, items, moment, obj, small, text, whole

if TYPE_CHECKING:
    from expcomp.sources._look import Look

_VERSION = re.compile(rb'"schema_version"\s*:\s*"ATIF-')
_SUMMARY = re.compile(r"summari[sz]|compact|condens", re.IGNORECASE)
_SOURCES = {"agent": "assistant", "user": "user", "system": "system"}


@dataclass(slots=True)
class Trajectory:
    """What one document gives."""

    transcript: Transcript = field(default_factory=Transcript)
    refs: list[Row] = field(default_factory=list)
    has_compaction: bool = False
    usage: Row = field(default_factory=dict)
    summed: bool = False
    started_at: Any = None
    ended_at: Any = None
    naive: bool = False


def is_atif(look: Look) -> bool:
    """Whether the first bytes are those of an ATIF document."""
    if look.kind != "object":
        return False
    if "schema_version" in look.keys and _VERSION.search(look.head):
        return True
    return {"agent", "steps"} <= look.keys and b'"source"' in look.head and b'"name"' in look.head


def read_trajectory(doc: Row, *, trainable: bool = True, relation: str = "root") -> Trajectory:
    """Steps and messages in the order of the document; a step is a row, whoever acted."""
    out = Trajectory()
    log = CallLog(out.transcript.notes)
    reader = _Reader(out, log, obj(doc.get("agent")), trainable, relation)
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
    if reader.loose:
        detail = f"{reader.loose} results stand on turns without a call; kept with their step"
        out.transcript.notes.append(Note("result_without_call", detail, "info"))
    _sum(out, obj(doc.get("final_metrics")))
    return out


@dataclass(slots=True)
class _Reader:
    """The state that goes from step to step."""

    out: Trajectory
    log: CallLog
    agent: Row
    trainable: bool
    relation: str
    context: int = 0
    turn: int = -1
    loose: int = 0
    humans: int = 0
    summary_next: bool = False
    new_context: bool = False

    def step(self, pos: int, entry: Row) -> None:
        """Read one step."""
        if self.new_context:
            # A marker that nothing follows opens no context: the model never saw it.
            self.context, self.new_context, self.summary_next = self.context + 1, False, True
            self.out.has_compaction = True
        source = entry.get("source")
        role = _SOURCES.get(source if isinstance(source, str) else "")
        if role is None:
            note = Note("unknown_source", f"step {pos} has source {source!r}; kept as a system step", pos=pos)
            self.out.transcript.notes.append(note)
            role = "system"
        copied = entry.get("is_copied_context") is True
        content, parts = flat(entry.get("message"))
        origin = self._origin(role, content, copied=copied)
        stamp, naive = moment(entry.get("timestamp"))
        self.out.naive = self.out.naive or naive
        if stamp is not None and not copied:
            self.out.started_at = min(self.out.started_at or stamp, stamp)
            self.out.ended_at = max(self.out.ended_at or stamp, stamp)
        if role == "user" and origin != "harness":
            self.turn += 1
        calls = [_call(c, obj(entry.get("extra"))) for c in items(entry.get("tool_calls"))]
        by_model = role == "assistant" and entry.get("llm_call_count") != 0
        row: Row = {
            "step_index": pos,
            "source": {"assistant": "agent"}.get(role, "system" if origin == "harness" else role),
            "model": (text(entry.get("model_name")) or text(self.agent.get("model_name"))) if by_model else None,
            "started_at": stamp,
            "content": content,
            "reasoning": text(entry.get("reasoning_content")),
            "tool_calls": calls,
            "observations": [],
            "context_id": self.context,
            "is_copied_context": copied,
            "trainable": self.trainable and by_model and not copied,
            "step_number": whole(entry.get("step_id")),
            "turn": max(self.turn, 0),
            "llm_call_id": text(obj(entry.get("extra")).get("api_call_id")),
        }
        if role == "assistant" and not copied:
            row |= _usage(obj(entry.get("metrics")))
        self.out.transcript.steps.append(row)
        self._message(row, role, origin, content, parts, tool_calls=calls, reasoning=row["reasoning"])
        self.log.add(row)
        for result in items(obj(entry.get("observation")).get("results")):
            self._result(row, obj(result))
        if role == "assistant":
            self.summary_next = False
        if role == "system" and self._is_summary(entry, content):
            self.new_context = True

    def _origin(self, role: str, content: str | None, *, copied: bool) -> str:
        if role != "user":
            return "model" if role == "assistant" else "harness"
        if content is not None and injected(content):
            return "harness"
        self.humans += 1
        if self.summary_next or (self.relation == "continuation" and copied and self.humans > 1):
            return "summary"
        return "harness" if self.relation == "summariser" and not copied else "human"

    def _is_summary(self, entry: Row, content: str | None) -> bool:
        refs = [
            dump_json(r)
            for o in items(obj(entry.get("observation")).get("results"))
            for r in items(obj(o).get("subagent_trajectory_ref"))
        ]
        if refs:
            return any(_SUMMARY.search(r) for r in refs) or bool(_SUMMARY.search(content or ""))
        return bool(re.search(r"context (was )?(summari[sz]|compact|condens)", content or "", re.IGNORECASE))

    def _result(self, row: Row, result: Row) -> None:
        owners = row["tool_calls"]
        self.out.refs += [
            {"step_index": row["step_index"], "call_id": text(result.get("source_call_id")), **r}
            for r in items(result.get("subagent_trajectory_ref"))
            if isinstance(r, dict)
        ]
        if result.get("content") is None:
            return
        content, parts = flat(result.get("content"))
        native, extra = text(result.get("source_call_id")), obj(result.get("extra"))
        found = self.log.match(native, row) if native is not None or owners else None
        self.loose += found is None and native is None
        step, answered = found or (row, None)
        call_id = native if native is not None else answered["id"] if answered else None
        flags = {"is_error": extra["is_error"]} if isinstance(extra.get("is_error"), bool) else {}
        seen = observation(call_id, content if content is not None else parts, exit_code=small(extra.get("exit_code")))
        step["observations"].append(seen | flags)
        # Without a call the agent got the text as the next user turn: a chat template has no other place for it.
        role = "tool" if answered or native is not None else "user"
        name = answered["name"] if answered else None
        self._message(row, role, "tool", content, parts, tool_call_id=call_id, name=name)

    def _message(self, row: Row, role: str, origin: str, content: str | None, parts: str | None, **more: Any) -> None:
        messages = self.out.transcript.messages
        messages.append(
            {
                "message_index": len(messages),
                "role": role,
                "origin": origin,
                "content": content,
                "parts": parts,
                "step_index": row["step_index"],
                "context_id": self.context,
                "branch": 0,
                "timestamp": row["started_at"],
                **more,
            }
        )


def _call(raw: Any, extra: Row) -> Row:
    entry = obj(raw)
    call_id = entry.get("tool_call_id")
    detail = obj(obj(extra.get("tool_call_details")).get(call_id)) if isinstance(call_id, str) else {}
    # Adapters that parse the arguments keep the model's own text beside them; that text is what was written.
    written = text(detail.get("raw_arguments"))
    kind = "custom" if detail.get("item_type") == "custom_tool_call" else "function"
    arguments = entry.get("arguments") if written is None or kind == "custom" else written
    return call(call_id, entry.get("function_name"), arguments, kind)


def _usage(metrics: Row) -> Row:
    extra = obj(metrics.get("extra"))
    row: Row = {
        "input_tokens": count(metrics.get("prompt_tokens")),
        "cached_input_tokens": count(metrics.get("cached_tokens")),
        "cache_write_tokens": count(extra.get("cache_write_input_tokens")),
        "output_tokens": count(metrics.get("completion_tokens")),
        "reasoning_tokens": count(extra.get("reasoning_output_tokens")),
        "cost_usd": amount(metrics.get("cost_usd")),
    }
    for name in ("prompt_token_ids", "completion_token_ids"):
        ids = [small(n) for n in items(metrics.get(name))]
        row[name] = ids if ids and all(n is not None for n in ids) else None
    probs = items(metrics.get("logprobs"))
    numbers = all(isinstance(p, int | float) and not isinstance(p, bool) for p in probs)
    row["logprobs"] = [float(p) for p in probs] if probs and numbers else None
    return row


def _sum(out: Trajectory, final: Row) -> None:
    """Sum the usage of the steps that are not copied; the header counts only where no step carries any (R3, R15)."""
    header = {
        "input_tokens": count(final.get("total_prompt_tokens")),
        "cached_input_tokens": count(final.get("total_cached_tokens")),
        "output_tokens": count(final.get("total_completion_tokens")),
        "cost_usd": amount(final.get("total_cost_usd")),
    }
    steps = out.transcript.agent_steps()
    sums: Row = {}
    for name in USAGE:
        values = [s[name] for s in steps if s.get(name) is not None]
        sums[name] = sum(values) if values else None
    out.summed = any(v is not None for v in sums.values())
    out.usage = sums if out.summed else {name: header.get(name) for name in USAGE}
    for name in ("input_tokens", "output_tokens") if out.summed else ():
        if header[name] is not None and header[name] != sums[name]:
            detail = f"the header counts {header[name]} {name}, the steps of this file {sums[name]}; the steps are used"
            out.transcript.notes.append(Note("usage_mismatch", detail, "info"))
