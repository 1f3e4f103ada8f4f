"""Events of OpenHands V0: actions and observations, tied by `cause` or by the id of a tool call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from expcomp.sources._chat import call
from expcomp.sources._json import dump_json
from expcomp.sources._media import lighten, spoken
from expcomp.sources._values import amount, count, items, obj, redact, small, text, whole
from expcomp.sources.openhands._script import Conversation, summary, tokens, usage_columns
from expcomp.sources.swe._common import cost

if TYPE_CHECKING:
    from datetime import datetime

    from expcomp.sources._chat import Row

_SILENT = frozenset(
    "recall null noop condensation_request change_agent_state agent_state_changed pause resume stop loop_recovery ping".split()
)
"""Actions and observations that are no part of the dialogue."""
_MARKS = frozenset({"status", "error", "log", "token"})
"""Keys of messages to the user interface that exports hold between events."""
_START = frozenset({"initialize", "start", "init"})
_SHOTS = ("screenshot", "set_of_marks")
_NOT_ARGUMENTS = frozenset({"thought", "confirmation_state", "is_confirmed"})


class V0:
    """Reads the events of one conversation."""

    def __init__(self) -> None:
        self.found = Conversation()
        self._calls: dict[int, str] = {}
        self._names: dict[str, str | None] = {}
        self._delegates: list[str | None] = []
        self._actors: list[str | None] = []
        self._before: Row = {}
        self._paid: set[str] = set()
        self._last: Row | None = None

    def read(self, raw: list[Any]) -> Conversation:
        """Read events in their order; older lists hold pairs of an action and what came of it."""
        events: list[Row] = []
        for pos, value in enumerate(raw):
            for event in value if isinstance(value, list) else [value]:
                if isinstance(event, dict):
                    events.append(event)
                else:
                    detail = f"event {pos} is {type(event).__name__}, expected an object; left out"
                    self.found.dialogue.note("bad_event", detail, pos=pos)
        groups: dict[str, list[Row]] = {}
        for event in events:
            response = _response_id(event)
            if response is not None and _is_action(event):
                groups.setdefault(response, []).append(event)
        done: set[str] = set()
        for event in events:
            at = self.found.time(event.get("timestamp"))
            if _is_action(event):
                response = _response_id(event)
                if response is None or response not in done:
                    self._action(event, groups[response] if response is not None else [event], at)
                    done |= {response} if response is not None else set()
            elif text(event.get("observation")) is not None:
                self._observation(event, at)
            else:
                self._note(event)
        self.found.tell_unknown(_SILENT | _MARKS)
        return self.found

    # -- actions -------------------------------------------------------------------------------------------------------

    def _action(self, event: Row, group: list[Row], at: datetime | None) -> None:
        out, name, args = self.found, str(event["action"]), obj(event.get("args"))
        if name == "system":
            out.say(_key(event), "system", text(args.get("content")) or text(event.get("message")), at=at)
            tools = args.get("tools")
            out.tools = tools if isinstance(tools, list) and tools else out.tools
            out.version = text(args.get("openhands_version")) or out.version
            out.agent = text(args.get("agent_class")) or out.agent
        elif name in _START:
            out.model = text(args.get("LLM_MODEL")) or out.model
            out.agent = text(args.get("AGENT")) or out.agent
            out.settings |= redact(
                {k: v for k, v in args.items() if k not in ("LLM_MODEL", "AGENT") and v not in (None, "")}
            )
        elif name == "condensation":
            out.condense(_forgotten(args), summary(args.get("summary")), count(args.get("summary_offset")), at)
        elif name in _SILENT:
            out.ignored[name] += 1
        elif name == "message" and event.get("source") != "agent":
            self._heard(event, args, at)
        else:
            self._act(event, group, at)

    def _heard(self, event: Row, args: Row, at: datetime | None) -> None:
        found: list[Row] = []
        content, parts = _with_images(args, found)
        origin = None if event.get("source") == "user" else "harness"
        at = at or self.found.time(args.get("timestamp"))
        message = self.found.say(_key(event), "user", content, origin=origin, parts=parts, at=at)
        self.found.keep(found, message.get("step_index"))

    def _act(self, event: Row, group: list[Row], at: datetime | None) -> None:
        response = obj(obj(event.get("tool_call_metadata")).get("model_response"))
        said = obj(obj(next(iter(items(response.get("choices"))), None)).get("message"))
        args = obj(event.get("args"))
        found: list[Row] = []
        calls = _calls(group, said)
        if "content" in said:
            content, parts = spoken(said.get("content"), found)
        elif event["action"] == "message":
            content, parts = _with_images(args, found)
        else:
            content, parts = text(args.get("thought")) or None, None
        for made, one in zip(calls, [e for e in group if e["action"] != "message"], strict=False):
            number = whole(one.get("id"))
            if number is not None and made["id"] is not None:
                self._calls.setdefault(number, made["id"])
        self._names |= {made["id"]: made["name"] for made in calls if made["id"] is not None}
        own = event.get("source") == "agent"
        usage = self._usage(group, response) if own else None
        step = self.found.act(
            tuple(_key(e) for e in group),
            content,
            usage,
            calls=calls,
            reasoning=text(said.get("reasoning_content")) or None,
            parts=parts,
            at=at,
            model=text(response.get("model")) or (self.found.model if own else None),
            llm_call_id=text(response.get("id")),
            stop_reason=text(obj(next(iter(items(response.get("choices"))), None)).get("finish_reason")),
            actor=self._actors[-1] if self._actors else None,
            **({} if own else {"source": "user", "origin": "human", "role": "user", "trainable": False}),
        )
        self._last = step
        self.found.keep(found, step)
        name = event["action"]
        if name == "delegate":
            self._delegates.append(calls[0]["id"] if calls else None)
            self._actors.append(text(args.get("agent")))
        elif own and name in ("finish", "reject") and not self._actors:
            self.found.state = "finished" if name == "finish" else "rejected"

    def _usage(self, group: list[Row], response: Row) -> Row:
        """What a model call used: the change of the cumulative metrics, else what the response itself says (R3)."""
        now = next((m for m in (obj(e.get("llm_metrics")) for e in reversed(group)) if m), {})
        total = usage_columns(obj(now.get("accumulated_token_usage"))) | {"cost_usd": cost(now.get("accumulated_cost"))}
        used: Row = {}
        for name, value in total.items():
            if value is None:
                continue
            change = value - (self._before.get(name) or 0)
            used[name] = change if change >= 0 else value
            self._before[name] = value
        ident = text(response.get("id"))
        if not (used.get("input_tokens") or used.get("output_tokens")):
            used = {k: v for k, v in used.items() if k == "cost_usd"}
            if ident not in self._paid:
                used |= _said_usage(obj(response.get("usage")))
        if ident is not None:
            self._paid.add(ident)
        return {k: v for k, v in used.items() if v is not None and (k != "cost_usd" or v > 0)}

    # -- observations --------------------------------------------------------------------------------------------------

    def _observation(self, event: Row, at: datetime | None) -> None:
        out, name, extras = self.found, str(event["observation"]), obj(event.get("extras"))
        content = text(event.get("content"))
        if name == "agent_state_changed":
            out.ignored[name] += 1
            state = text(extras.get("agent_state"))
            if state is not None and not self._actors:
                out.state = state
            return
        if name == "recall":
            # Put into the prompt by the program, in other words than these.
            kept = {k: v for k, v in redact(extras).items() if v not in (None, "", [], {})}
            out.say(_key(event), "user", content, origin="harness", parts=dump_json([kept]) if kept else None, at=at)
            return
        if name in _SILENT:
            out.ignored[name] += 1
            return
        found: list[Row] = []
        flags: Row = {}
        if name == "error":
            flags["is_error"] = True
            out.error = (text(extras.get("error_id")) or None, content)
        elif isinstance(extras.get("error"), bool):
            flags["is_error"] = extras["error"]
        code = extras.get("exit_code")
        flags["exit_code"] = small(obj(extras.get("metadata")).get("exit_code") if code is None else code)
        shots = [{"type": "image", "image_url": lighten(extras[k], found)} for k in _SHOTS if text(extras.get(k))]
        parts = dump_json([{"type": "text", "text": content}, *shots]) if shots else None
        out.keep(found, self._last)
        if name == "delegate" and self._actors:
            self._actors.pop()
        call_id, tool = self._answered(event, name)
        if call_id is None and not self._waiting():
            out.say(_key(event), "user", content, origin="harness", parts=parts, at=at)
            return
        out.result(_key(event), call_id, content, name=tool, parts=parts, at=at, **flags)

    def _answered(self, event: Row, name: str) -> tuple[str | None, str | None]:
        """Id of the call an observation answers, and the tool."""
        meta = obj(event.get("tool_call_metadata"))
        call_id, cause = text(meta.get("tool_call_id")), whole(event.get("cause"))
        if call_id is None and cause is not None and cause >= 0:
            call_id = self._calls.get(cause)
        if name == "delegate" and self._delegates:
            last = self._delegates.pop()
            call_id = call_id or last
        return call_id, text(meta.get("function_name")) or self._names.get(call_id or "")

    def _waiting(self) -> bool:
        """Whether the last step has calls without a result."""
        return self._last is not None and len(self._last["tool_calls"]) > len(self._last["observations"])

    def _note(self, event: Row) -> None:
        kind = next((k for k in sorted(_MARKS) if k in event), "an event without action")
        self.found.ignored[kind] += 1
        sid = text(event.get("sid"))
        if sid:
            self.found.settings.setdefault("sid", sid)


def _is_action(event: Row) -> bool:
    return isinstance(event.get("action"), str) and bool(event["action"])


def _response_id(event: Row) -> str | None:
    return text(obj(obj(event.get("tool_call_metadata")).get("model_response")).get("id"))


def _key(event: Row) -> Any:
    """What a condensation calls an event."""
    number = whole(event.get("id"))
    return number if number is not None and number >= 0 else id(event)


def _forgotten(args: Row) -> frozenset[int] | range:
    listed = [n for n in items(args.get("forgotten_event_ids")) if isinstance(n, int)]
    start, end = whole(args.get("forgotten_events_start_id")), whole(args.get("forgotten_events_end_id"))
    if not listed and start is not None and end is not None:
        return range(start, end + 1)
    return frozenset(listed)


def _with_images(args: Row, found: list[Row]) -> tuple[str | None, str | None]:
    content = text(args.get("content"))
    urls = [u for u in items(args.get("image_urls") or args.get("images_urls")) if isinstance(u, str)]
    if not urls:
        return content, None
    images = [{"type": "image", "image_url": lighten(u, found)} for u in urls]
    return content, dump_json([{"type": "text", "text": content}, *images])


def _calls(group: list[Row], said: Row) -> list[Row]:
    """Calls of a model call: the action of each event, in the model's own words where the response is there."""
    written = {text(obj(c).get("id")): obj(obj(c).get("function")) for c in items(said.get("tool_calls"))}
    out: list[Row] = []
    for event in group:
        if event["action"] == "message":
            continue
        meta, args = obj(event.get("tool_call_metadata")), obj(event.get("args"))
        call_id = text(meta.get("tool_call_id"))
        inner = written.pop(call_id, None) if call_id is not None else None
        if inner:
            out.append(call(call_id, inner.get("name"), inner.get("arguments")))
            continue
        number = whole(event.get("id"))
        if call_id is None and number is not None and number >= 0:
            call_id = str(number)
        name = text(meta.get("function_name")) or event["action"]
        out.append(call(call_id, name, {k: v for k, v in args.items() if k not in _NOT_ARGUMENTS}))
    out += [call(i, f.get("name"), f.get("arguments")) for i, f in written.items() if i is not None and f]
    return out


def _said_usage(raw: Row) -> Row:
    details = obj(raw.get("prompt_tokens_details"))
    found = {
        "input_tokens": tokens(raw.get("prompt_tokens")),
        "cached_input_tokens": tokens(details.get("cached_tokens")),
        "output_tokens": tokens(raw.get("completion_tokens")),
        "reasoning_tokens": tokens(obj(raw.get("completion_tokens_details")).get("reasoning_tokens")),
    }
    return found if found["input_tokens"] or found["output_tokens"] else {}


def totals(metrics: Row) -> Row | None:
    """Usage columns of the `metrics` of an evaluation row; null when they tell nothing."""
    found = usage_columns(obj(metrics.get("accumulated_token_usage")))
    if not found:
        calls = [obj(u) for u in items(metrics.get("token_usages"))]
        rows = [r for r in map(usage_columns, calls) if r]
        found = {k: sum(r[k] or 0 for r in rows) for k in rows[0]} if rows else {}
    spent = amount(metrics.get("accumulated_cost")) or None
    return found | {"cost_usd": spent} if found or spent else None
