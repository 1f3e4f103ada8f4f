"""Events of OpenHands V1 (the agent SDK): one model call is all events with its `llm_response_id`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from expcomp.sources._chat import call
from expcomp.sources._json import dump_json
from expcomp.sources._media import spoken
from expcomp.sources._values import count, items, obj, small, text
from expcomp.sources.openhands._script import Conversation, summary, usage_columns
from expcomp.sources.swe._common import cost

if TYPE_CHECKING:
    from datetime import datetime

    from expcomp.sources._chat import Row

KINDS = frozenset(
    "SystemPromptEvent MessageEvent ActionEvent ObservationEvent AgentErrorEvent UserRejectObservation "
    "ConversationErrorEvent Condensation CondensationSummaryEvent CondensationRequest TokenEvent PauseEvent "
    "ConversationStateUpdateEvent HookExecutionEvent LLMCompletionLogEvent StreamingDeltaEvent InterruptEvent".split()
)
"""Kinds of events that are known."""


class V1:
    """Reads the events of one conversation.

    Args:
        state: `base_state.json`, empty when there is none.
    """

    def __init__(self, state: Row) -> None:
        self.found = Conversation()
        self._usage: dict[str, Row] = {}
        self._spare: tuple[list[int], list[int]] | None = None
        self._last: Row | None = None
        self._state(state)

    def read(self, events: list[Row], off: frozenset[str] = frozenset()) -> Conversation:
        """Read events in their order; those in `off` are not on the path to the last leaf."""
        calls: dict[str, list[Row]] = {}
        for event in events:
            response = text(event.get("llm_response_id"))
            if event.get("kind") == "ActionEvent" and response is not None:
                calls.setdefault(response, []).append(event)
        done: set[str] = set()
        for event in events:
            at = self.found.time(event.get("timestamp"))
            kind = text(event.get("kind")) or "an event without kind"
            self.found.dialogue.branch = int(event.get("id") in off) if off and isinstance(event.get("id"), str) else 0
            if kind == "ActionEvent":
                response = text(event.get("llm_response_id"))
                if response is None:
                    self._act([event], None, at)
                elif response not in done:
                    done.add(response)
                    self._act(calls[response], response, at)
            else:
                self._one(kind, event, at)
        self.found.dialogue.branch = 0
        self.found.tell_unknown(KINDS)
        if self.found.state is None and events and events[-1].get("tool_name") == "finish":
            self.found.state = "finished"
        return self.found

    def _state(self, state: Row) -> None:
        out, agent = self.found, obj(state.get("agent"))
        llm = obj(agent.get("llm"))
        out.model = text(llm.get("model"))
        out.agent = text(agent.get("kind"))
        out.state = text(state.get("execution_status")) or text(state.get("agent_status"))
        out.settings = {k: v for k, v in llm.items() if k != "model" and v is not None} if llm else {}
        if state.get("max_iterations") is not None:
            out.settings["max_iterations"] = state["max_iterations"]
        metrics = obj(
            obj(state.get("stats")).get("usage_to_metrics") or obj(state.get("stats")).get("service_to_metrics")
        )
        own = text(llm.get("usage_id")) or text(llm.get("service_id")) or "agent"
        if own not in metrics and len(metrics) == 1:
            own = next(iter(metrics))
        for name, raw in metrics.items():
            entry = obj(raw)
            totals = usage_columns(obj(entry.get("accumulated_token_usage"))) | {
                "cost_usd": cost(entry.get("accumulated_cost"))
            }
            if not any(totals.values()):
                continue
            if name != own:
                out.other_usage[name] = totals
                continue
            out.usage = totals
            for used in items(entry.get("token_usages")):
                response = text(obj(used).get("response_id"))
                if response:
                    self._usage[response] = usage_columns(obj(used))

    def _one(self, kind: str, event: Row, at: datetime | None) -> None:
        out = self.found
        if kind == "SystemPromptEvent":
            self._system(event, at)
        elif kind == "MessageEvent":
            self._message(event, at)
        elif kind in ("ObservationEvent", "AgentErrorEvent", "UserRejectObservation"):
            self._result(kind, event, at)
        elif kind == "Condensation":
            forgotten = {k for k in items(event.get("forgotten_event_ids")) if isinstance(k, str)}
            out.condense(forgotten, summary(event.get("summary")), count(event.get("summary_offset")), at)
        elif kind == "ConversationErrorEvent":
            out.error = (text(event.get("code")), text(event.get("detail")))
        elif kind == "TokenEvent":
            self._tokens(event)
        else:
            out.ignored[kind] += 1

    def _system(self, event: Row, at: datetime | None) -> None:
        found: list[Row] = []
        raw = event.get("system_prompt")
        parts = [p for p in (raw, event.get("dynamic_context")) if p]
        content, kept = spoken(parts if parts and isinstance(raw, dict) else raw, found)
        message = self.found.say(
            text(event.get("id")), "system", content, parts=kept, at=at, native_id=text(event.get("id"))
        )
        self.found.keep(found, message.get("step_index"))
        tools = event.get("tools")
        if isinstance(tools, list) and tools:
            self.found.tools = tools

    def _message(self, event: Row, at: datetime | None) -> None:
        said = obj(event.get("llm_message"))
        found: list[Row] = []
        raw = said.get("content")
        more = items(event.get("extended_content"))
        if more:
            raw = ([raw] if isinstance(raw, str) else items(raw)) + more
        content, parts = spoken(raw, found)
        native = text(event.get("id"))
        if event.get("source") == "agent" or said.get("role") == "assistant":
            response = text(event.get("llm_response_id"))
            calls = [
                call(
                    c.get("id"),
                    c.get("name") or obj(c.get("function")).get("name"),
                    c.get("arguments", obj(c.get("function")).get("arguments")),
                )
                for c in items(said.get("tool_calls"))
                if isinstance(c, dict)
            ]
            reasoning, opaque = _reasoning(said)
            step = self._step(
                (native,),
                content,
                response,
                at,
                calls=calls,
                reasoning=reasoning,
                opaque=opaque,
                parts=parts,
                native=native,
            )
            self.found.keep(found, step)
            return
        role = said.get("role") if said.get("role") in ("system", "developer") else "user"
        origin = None if event.get("source") == "user" or role != "user" else "harness"
        message = self.found.say(native, str(role), content, origin=origin, parts=parts, at=at, native_id=native)
        self.found.keep(found, message.get("step_index"))

    def _act(self, events: list[Row], response: str | None, at: datetime | None) -> None:
        found: list[Row] = []
        head = next((e for e in events if e.get("thought")), events[0])
        content, parts = spoken(head.get("thought") or None, found)
        reasoning, opaque = None, None
        for event in events:
            reasoning, opaque = _reasoning(event)
            if reasoning is not None or opaque:
                break
        calls = []
        risks = {}
        for event in events:
            made = obj(event.get("tool_call"))
            inner = obj(made.get("function")) or made
            arguments = inner.get("arguments")
            if arguments is None and isinstance(event.get("action"), dict):
                arguments = {k: v for k, v in event["action"].items() if k != "kind"}
            call_id = text(event.get("tool_call_id")) or text(made.get("id"))
            calls.append(call(call_id, text(event.get("tool_name")) or inner.get("name"), arguments))
            if call_id is not None and event.get("security_risk") not in (None, "UNKNOWN"):
                risks[call_id] = event["security_risk"]
        keys = tuple(text(e.get("id")) for e in events)
        step = self._step(
            keys,
            content,
            response,
            at,
            calls=calls,
            reasoning=reasoning,
            opaque=opaque,
            parts=parts,
            native=keys[0],
            detail=dump_json({"security_risk": risks}) if risks else None,
        )
        self.found.keep(found, step)

    def _step(
        self,
        keys: tuple[Any, ...],
        content: str | None,
        response: str | None,
        at: datetime | None,
        *,
        calls: list[Row],
        reasoning: str | None,
        opaque: bool | None,
        parts: str | None,
        native: str | None,
        detail: str | None = None,
    ) -> Row:
        step = self.found.act(
            keys,
            content,
            self._usage.pop(response, None) if response is not None else None,
            calls=calls,
            reasoning=reasoning,
            parts=parts,
            at=at,
            message={"native_id": native},
            llm_call_id=response,
            model=self.found.model,
            reasoning_opaque=opaque,
            detail=detail,
        )
        self._last = step
        if self._spare is not None:
            step["prompt_token_ids"], step["completion_token_ids"] = self._spare
            self._spare = None
        return step

    def _result(self, kind: str, event: Row, at: datetime | None) -> None:
        found: list[Row] = []
        seen = obj(event.get("observation"))
        flags: Row = {}
        if kind == "AgentErrorEvent":
            raw: Any = event.get("error")
            flags["is_error"] = True
        elif kind == "UserRejectObservation":
            raw = event.get("rejection_reason")
        else:
            raw = next((seen[k] for k in ("content", "output", "message", "text") if seen.get(k) is not None), None)
            if raw is None and seen:
                raw = dump_json({k: v for k, v in seen.items() if k != "kind"})
            if isinstance(seen.get("is_error"), bool):
                flags["is_error"] = seen["is_error"]
            code = seen.get("exit_code")
            flags["exit_code"] = small(obj(seen.get("metadata")).get("exit_code") if code is None else code)
        more = items(event.get("extended_content"))
        if more:
            raw = ([raw] if isinstance(raw, str) else items(raw)) + more
        content, parts = spoken(raw, found)
        self.found.keep(found, self._last)
        native = text(event.get("id"))
        self.found.result(
            native,
            text(event.get("tool_call_id")),
            content,
            name=text(event.get("tool_name")),
            parts=parts,
            at=at,
            message={"native_id": native},
            **flags,
        )

    def _tokens(self, event: Row) -> None:
        """Token ids of a model call; the event may stand before or after the call's own events."""
        prompt, answer = _ids(event.get("prompt_token_ids")), _ids(event.get("response_token_ids"))
        if prompt is None or answer is None:
            self.found.ignored["TokenEvent"] += 1
        elif self._last is not None and self._last.get("completion_token_ids") is None:
            self._last["prompt_token_ids"], self._last["completion_token_ids"] = prompt, answer
        else:
            self._spare = (prompt, answer)


def off_path(events: list[Row], leaf: Any) -> frozenset[str]:
    """Ids of events that are not on the way from the leaf back to the first event; none when the links do not reach it."""
    above = {e["id"]: e.get("parent_id") for e in events if isinstance(e.get("id"), str)}
    if not isinstance(leaf, str) or leaf not in above:
        return frozenset()
    path: set[str] = set()
    at: Any = leaf
    while isinstance(at, str) and at in above and at not in path:
        path.add(at)
        at = above[at]
    linked = {k for k, up in above.items() if isinstance(up, str)}
    return frozenset(linked - path) if at is None else frozenset()


def _reasoning(event: Row) -> tuple[str | None, bool | None]:
    blocks = [b for b in items(event.get("thinking_blocks")) if isinstance(b, dict)]
    said = [b["thinking"] for b in blocks if isinstance(b.get("thinking"), str) and b["thinking"]]
    written = text(event.get("reasoning_content")) or "\n\n".join(said) or None
    if written is not None:
        return written, False
    sealed = bool(blocks) or bool(obj(event.get("responses_reasoning_item")))
    return None, True if sealed else None


def _ids(raw: Any) -> list[int] | None:
    if not isinstance(raw, list) or not all(
        isinstance(n, int) and not isinstance(n, bool) and 0 <= n < 2**31 for n in raw
    ):
        return None
    return raw
