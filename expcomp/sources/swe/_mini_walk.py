"""The messages of a mini-swe-agent trajectory: chat messages, shell blocks in text, or items of the Responses API."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from expcomp.sources._chat import call, observation
from expcomp.sources._dialogue import USAGE, Dialogue
from expcomp.sources._media import spoken
from expcomp.sources._values import count, epoch, items, obj, small, text
from expcomp.sources.swe._common import cost

if TYPE_CHECKING:
    from datetime import datetime

    from expcomp.sources._chat import Row, Transcript

_SUBMIT = ("COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT", "MINI_SWE_AGENT_FINAL_OUTPUT")
_RETURNED = re.compile(r"\s*<returncode>(-?\d{1,9})</returncode>")
_JINJA = re.compile(r"\{[{%#]")
_ROLES = frozenset({"system", "developer", "user", "assistant", "tool"})


class Walk:
    """One pass over the messages.

    Attributes:
        pictures: Rows of `artifacts` for pictures in messages, without their attempt.
        end: What the exit message carries; it is no message, the model never saw it.
        model: Model that the responses name.
        instruction: The task, cut out of the prompt by the template it was put into; null when that cannot be told.
        start: Time of the first call.
        stop: Time of the last record.
    """

    def __init__(self, messages: list[Any], config: dict[str, Any], *, ended: bool) -> None:
        self.dialogue = Dialogue()
        self.pictures: list[Row] = []
        self.end: Row = {}
        self.model: str | None = None
        self.instruction: str | None = None
        self.start: datetime | None = None
        self.stop: datetime | None = None
        self._messages = messages
        self._template = text(obj(config.get("agent")).get("instance_template"))
        self._complaint = _opening(config)
        self._ended = ended
        self._agent: Row | None = None
        self._asked = False

    def read(self) -> Transcript:
        """Steps, messages and notes."""
        last = len(self._messages) - 1
        for pos, entry in enumerate(self._messages):
            if not isinstance(entry, dict):
                detail = f"message {pos} is {type(entry).__name__}, expected an object; left out"
                self.dialogue.note("bad_message", detail, pos=pos)
                continue
            extra = obj(entry.get("extra"))
            kind = _kind(entry)
            if kind == "exit":
                self.end |= extra
            elif kind == "response":
                self._responded(entry, extra)
            elif kind == "output":
                self._output(entry, extra, "tool", text(entry.get("call_id")), entry.get("output"))
            elif kind == "assistant":
                self._answered(entry, extra)
            elif kind == "tool":
                self._output(entry, extra, "tool", text(entry.get("tool_call_id")), entry.get("content"))
            elif kind == "user":
                self._user(entry, extra, last=pos == last)
            else:
                self._other(kind, entry, pos)
        return self.dialogue.finish()

    def _other(self, kind: str | None, entry: Row, pos: int) -> None:
        if kind is None:
            detail = f"message {pos} has role {entry.get('role')!r}; kept as a user message of the harness"
            self.dialogue.note("unknown_role", detail, pos=pos)
        content, parts = spoken(entry.get("content"), self.pictures)
        self.dialogue.say(kind or "user", content, origin="harness", parts=parts)

    def _user(self, entry: Row, extra: Row, *, last: bool) -> None:
        content, parts = spoken(entry.get("content"), self.pictures)
        at = self._time(extra)
        if not self._asked:
            self._asked = True
            self.instruction = _between(self._template, content)
            self.dialogue.say("user", content, origin="human", parts=parts, at=at)
            return
        interrupt = text(extra.get("interrupt_type"))
        if interrupt is not None:
            origin = "human" if interrupt.startswith("User") else "harness"
            self.dialogue.say("user", content, origin=origin, parts=parts, at=at)
            return
        if "raw_output" in extra or "returncode" in extra:
            self._output(entry, extra, "user", None, entry.get("content"))
            return
        agent = self._agent
        if agent is None or agent["tool_calls"]:
            # Tool calls have tool messages: a bare user message is somebody's.
            self.dialogue.say("user", content, origin="human", parts=parts, at=at)
        elif (last and (self._ended or _submits(agent))) or self._complains(content):
            # The exit message of format 1 is the submission, or the reason; and a malformed answer gets words of the harness.
            self.dialogue.say("user", content, origin="harness", parts=parts, at=at)
        else:
            self._output(entry, extra, "user", None, entry.get("content"))

    def _complains(self, content: str | None) -> bool:
        return bool(self._complaint) and (content or "").startswith(self._complaint)

    def _answered(self, entry: Row, extra: Row) -> None:
        response = obj(extra.get("response"))
        content, parts = spoken(entry.get("content"), self.pictures)
        calls = []
        self._unread("tool_calls", entry.get("tool_calls"))
        for raw in items(entry.get("tool_calls")):
            one = obj(raw)
            inner = obj(one.get("function")) or one
            calls.append(call(one.get("id"), inner.get("name"), inner.get("arguments"), text(one.get("type"))))
        choice = obj(next(iter(items(response.get("choices"))), None))
        self._act(
            content,
            parts,
            calls or self._actions(extra),
            _reasoning(entry),
            response,
            extra,
            text(choice.get("finish_reason")),
        )

    def _actions(self, extra: Row) -> list[Row]:
        """Commands that the agent took out of the text; blocks in text that no field repeats are not parsed."""
        given = extra.get("actions")
        self._unread("actions", given)
        commands = [obj(a) for a in items(given)]
        known = [a for a in commands if isinstance(a.get("command"), str)]
        if len(known) < len(commands):
            detail = f"{len(commands) - len(known)} actions have no text as command; left out"
            self.dialogue.note("bad_tool_call", detail)
        return [call(a.get("tool_call_id"), "bash", {"command": a["command"]}, "custom") for a in known]

    def _unread(self, name: str, given: Any) -> None:
        if given and not (isinstance(given, list) and all(isinstance(one, dict) for one in given)):
            self.dialogue.note("bad_tool_call", f"{name} holds {str(given)[:80]}, expected objects; left out")

    def _responded(self, entry: Row, extra: Row) -> None:
        """A response of the Responses API in the place of a message: text, reasoning and calls are its items."""
        said: list[Any] = []
        thought: list[str] = []
        calls: list[Row] = []
        for raw in items(entry.get("output")):
            item = obj(raw)
            kind = item.get("type")
            if kind == "message":
                said += items(item.get("content"))
            elif kind == "reasoning":
                parts = items(item.get("summary")) + items(item.get("content"))
                thought += [t for p in parts if (t := text(obj(p).get("text"))) is not None]
            elif kind == "function_call":
                calls.append(call(item.get("call_id") or item.get("id"), item.get("name"), item.get("arguments")))
            else:
                said.append(item)
        content, parts_text = spoken(said, self.pictures) if said else (None, None)
        response = {k: v for k, v in entry.items() if k != "extra"}
        self._act(
            content,
            parts_text,
            calls or self._actions(extra),
            "\n".join(thought) or None,
            response,
            extra,
            text(entry.get("status")),
        )

    def _act(
        self,
        content: str | None,
        parts: str | None,
        calls: list[Row],
        reasoning: str | None,
        response: Row,
        extra: Row,
        stop: str | None,
    ) -> None:
        model = text(response.get("model"))
        self.model = self.model or model
        began = epoch(response.get("created")) or epoch(response.get("created_at"))
        ended = self._time(extra)
        if began is not None and (self.start is None or began < self.start):
            self.start = began
        if ended is None and began is not None and (self.stop is None or began > self.stop):
            self.stop = began
        self._agent = self.dialogue.act(
            content,
            calls=calls,
            reasoning=reasoning,
            parts=parts,
            at=began,
            ended_at=ended if began is None or ended is None or ended >= began else None,
            model=model,
            llm_call_id=text(response.get("id")) or None,
            stop_reason=stop,
            **_usage(obj(response.get("usage")), extra),
        )

    def _output(self, entry: Row, extra: Row, role: str, call_id: str | None, raw: Any) -> None:
        """What a command brought back; where the command stands in the text only it belongs to the turn before."""
        content, parts = spoken(raw, self.pictures)
        at = self._time(extra)
        full = text(extra.get("raw_output"))
        cut = full is not None and full.strip() not in (content or "")
        code = small(extra.get("returncode"))
        if code is None and content is not None and (found := _RETURNED.match(content)):
            code = small(int(found[1]))
        flags: dict[str, Any] = {
            "exit_code": code,
            "is_error": True if extra.get("exception_info") else None,
            "truncated": True if cut else None,
        }
        agent = self._agent
        if agent is not None and not agent["tool_calls"]:
            message = self.dialogue.say(role, content, origin="tool", parts=parts, at=at, tool_call_id=call_id)
            message["step_index"] = agent["step_index"]
            agent["observations"].append(observation(call_id, content, **flags))
        else:
            name = text(entry.get("name"))
            self.dialogue.result(call_id, content, name=name, parts=parts, at=at, role=role, **flags)
        if cut and agent is not None:
            # The model saw a shortened text; what the command wrote stays with the step.
            agent["output"] = f"{agent['output']}\n{full}" if agent.get("output") else full

    def _time(self, extra: Row) -> datetime | None:
        at = epoch(extra.get("timestamp"))
        if at is not None:
            self.start = at if self.start is None or at < self.start else self.start
            self.stop = at if self.stop is None or at > self.stop else self.stop
        return at


def _kind(entry: Row) -> str | None:
    if entry.get("object") == "response" and isinstance(entry.get("output"), list):
        return "response"
    if entry.get("type") == "function_call_output":
        return "output"
    role = entry.get("role")
    return role if isinstance(role, str) and (role in _ROLES or role == "exit") else None


def _usage(usage: Row, extra: Row) -> Row:
    """Usage columns of a call, of either API; a call without any token is one whose server does not count."""
    out: Row = dict.fromkeys(USAGE)
    out["cost_usd"] = cost(extra.get("cost"))
    sent = count(usage.get("prompt_tokens", usage.get("input_tokens")))
    got = count(usage.get("completion_tokens", usage.get("output_tokens")))
    if not sent and not got:
        return out
    inside = obj(usage.get("prompt_tokens_details")) or obj(usage.get("input_tokens_details"))
    made = obj(usage.get("completion_tokens_details")) or obj(usage.get("output_tokens_details"))
    cached = count(inside.get("cached_tokens"))
    cached = count(usage.get("cache_read_input_tokens")) if cached is None else cached
    stored = count(usage.get("cache_creation_input_tokens"))
    stored = count(inside.get("cache_creation_tokens")) if stored is None else stored
    return out | {
        "input_tokens": sent,
        "cached_input_tokens": cached,
        "cache_write_tokens": stored,
        "output_tokens": got,
        "reasoning_tokens": count(made.get("reasoning_tokens")),
    }


def _reasoning(entry: Row) -> str | None:
    given = text(entry.get("reasoning_content")) or text(entry.get("reasoning"))
    if given:
        return given
    own = obj(entry.get("provider_specific_fields"))
    blocks = items(entry.get("thinking_blocks")) or items(own.get("thinking_blocks"))
    thought = [t for b in blocks if (t := text(obj(b).get("thinking")))]
    return text(own.get("reasoning_content")) or "\n".join(thought) or None


def _submits(agent: Row) -> bool:
    return any(word in (agent["content"] or "") for word in _SUBMIT)


def _opening(config: dict[str, Any]) -> str:
    """How the words on a malformed answer begin, up to the first blank of their template."""
    for part in ("agent", "model"):
        template = text(obj(config.get(part)).get("format_error_template"))
        if template:
            return _JINJA.split(template, maxsplit=1)[0].strip()
    return ""


def _between(template: str | None, content: str | None) -> str | None:
    """What stands in a filled template at the place of the task; null where the text before it is not fixed."""
    if template is None or content is None:
        return None
    before, mark, after = template.partition("{{task}}")
    if not mark or _JINJA.search(before) or not content.startswith(before):
        return None
    fixed = _JINJA.split(after, maxsplit=1)[0]
    end = content.find(fixed.rstrip(), len(before)) if fixed.strip() else len(content)
    return content[len(before) : end] if end >= 0 else None
