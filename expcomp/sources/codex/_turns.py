"""From the records of a rollout to turns: one step for each response of the model, results after the calls they answer."""

from __future__ import annotations

from collections import Counter as Tally
from typing import TYPE_CHECKING

from expcomp.sources._dialogue import Dialogue
from expcomp.sources._json import dump_json
from expcomp.sources._media import spoken
from expcomp.sources._values import items, moment, obj, small, text
from expcomp.sources.codex._items import CALLS, RESULTS, SILENT, agent_in, call_of, reasoning_of, result_of
from expcomp.sources.codex._lines import ITEMS, is_context
from expcomp.sources.codex._response import Response, counted_first
from expcomp.sources.codex._usage import responses

if TYPE_CHECKING:
    from datetime import datetime

    from expcomp.sources._chat import Row
    from expcomp.sources.codex._lines import Record, Rollout

_SETTINGS = "effort summary approval_policy sandbox_policy permission_profile personality truncation_policy".split()
_KNOWN = frozenset(
    "session_meta world_state token_usage_record state response_item event_msg turn_context compacted".split()
)
_TIMED = frozenset({"session_meta", "response_item", "compacted"})
_STARTED = frozenset({"task_started", "turn_started"})
_COMPLETE = frozenset({"task_complete", "turn_complete"})


class Turns:
    """Reads one rollout.

    Attributes:
        dialogue: What was read.
        pictures: Rows of `artifacts` for inline pictures, with their step.
        model: Model of the last turn.
        params: Settings of the thread's own turns; the last value of each.
        spawned: Thread -> call that started it.
        ending: Last word of the thread on how it stands: task_started, task_complete, turn_aborted, error, stream_error.
        error: Payload of the last error.
        first: First time of the thread's own lines.
        last: Last time of the thread's own lines.
    """

    def __init__(self, rollout: Rollout, *, trainable: bool) -> None:
        self.dialogue = Dialogue()
        self.pictures: list[Row] = []
        self.model: str | None = None
        self.models: Tally[str] = Tally()
        self.params: Row = {}
        self.spawned: dict[str, str] = {}
        self.ending: str | None = None
        self.error: Row = {}
        self._before: str | None = None
        self.first: datetime | None = None
        self.last: datetime | None = None
        self.naive = False
        self._latest: Record | None = None
        self._rollout = rollout
        self._marked = any(r.kind == "state" for r in rollout.records)
        self._trainable = trainable
        self._open: Response | None = None
        self._unpaid: Row | None = None
        self._names: dict[str, str | None] = {}
        self._exits: dict[str, int] = {}
        self._unknown: Tally[str] = Tally()
        self._where: dict[str, int] = {}

    def read(self) -> Dialogue:
        """Read everything."""
        fresh, counter = responses(self._rollout)
        early = counted_first(self._rollout, fresh)
        handlers = {kind: getattr(self, f"_{kind}") for kind in _KNOWN}
        for index, record in enumerate(self._rollout.records):
            if index == self._rollout.replayed and index:
                self._close()
                self._unpaid = None
            self.dialogue.copied = index < self._rollout.replayed
            timed = self.first is None or index in fresh or record.kind in _TIMED
            at = None
            if timed:
                at = self._time(record)
            else:
                self._pass(record)
            handlers.get(record.kind, self._other)(record, at)
            if index in fresh:
                self._used(fresh[index], at, counted_first=early[index])
        self._close()
        self.dialogue.copied = False
        if self._latest is not None:
            self._time(self._latest)
        if counter.late is not None:
            stood = counter.late["input_tokens"]
            detail = (
                f"the token counter stood at {stood} input tokens before the first response of this file; not counted"
            )
            self.dialogue.note("counter_starts_late", detail, "info")
        for name, times in self._unknown.items():
            detail = f"{times} records of type {name} are not known here; left out"
            self.dialogue.note("unknown_record", detail, "info", self._where[name])
        if self.naive:
            self.dialogue.note("naive_time", "times without a zone were read as UTC", "info")
        return self.dialogue

    # -- records -------------------------------------------------------------------------------------------------------

    def _session_meta(self, record: Record, at: datetime | None) -> None:
        self._close()

    def _world_state(self, record: Record, at: datetime | None) -> None:
        """The harness's own book-keeping."""

    def _token_usage_record(self, record: Record, at: datetime | None) -> None:
        """Read as usage."""

    def _state(self, record: Record, at: datetime | None) -> None:
        if self._open is not None and self._open.results:
            self._close()

    def _other(self, record: Record, at: datetime | None) -> None:
        self._miss(record.kind, record)

    def _turn_context(self, record: Record, at: datetime | None) -> None:
        self._close()
        self._settings(record.payload)

    def _response_item(self, record: Record, at: datetime | None) -> None:
        item, kind = record.payload, record.item()
        if kind == "message" and item.get("role") != "assistant":
            self._close()
            self._message(item, at)
        elif kind in RESULTS:
            self._result(item, at)
        elif kind in ("message", "reasoning") or kind in CALLS:
            self._output(record, at)
        elif kind not in SILENT:
            if kind in ITEMS:
                self._close()
                self._opaque_summary(item, at)
            else:
                self._miss(f"response_item/{kind}", record)

    def _event_msg(self, record: Record, at: datetime | None) -> None:
        event, kind = record.payload, record.item()
        own = not self.dialogue.copied
        if kind in _STARTED or kind in _COMPLETE or kind == "turn_aborted":
            self._close()
        if kind == "item_completed":
            self._completed(obj(event.get("item")))
        elif kind == "thread_settings_applied":
            self._settings(obj(event.get("thread_settings")))
        elif kind == "thread_rolled_back":
            self._close()
            self._roll_back(small(event.get("num_turns")) or 0)
        elif own and kind in _STARTED:
            self.ending, self.error = "task_started", {}
        elif own and kind in ("error", "stream_error"):
            self.ending, self.error, self._before = kind, event, self.ending if kind == "stream_error" else None
        elif own and kind == "turn_aborted":
            self.ending = "turn_aborted"
        elif own and kind in _COMPLETE and (self.ending != "error" or text(event.get("last_agent_message"))):
            self.ending = "task_complete"

    def _compacted(self, record: Record, at: datetime | None) -> None:
        """A summary takes the place of the history: the model then sees the summary, or the history that the line holds (R5)."""
        self._close()
        self.dialogue.compact()
        summary = text(record.payload.get("message"))
        history = record.payload.get("replacement_history")
        if not isinstance(history, list):
            if summary:
                self.dialogue.say("user", summary, origin="summary", at=at)
            return
        was, self.dialogue.copied = self.dialogue.copied, True
        said = False
        for item in history:
            if not isinstance(item, dict):
                self._miss(f"replacement_history/{type(item).__name__}", record)
                continue
            inner = type(record)(record.pos, "response_item", item, record.time)
            if item.get("type") == "message" and item.get("role") != "assistant":
                self._close()
                said |= self._retained(item, summary)
            else:
                self._response_item(inner, at)
        self._close()
        self.dialogue.copied = was
        if summary and not said:
            detail = "the summary of a compaction is not in the history that replaced the old one; left out"
            self.dialogue.note("summary_not_in_history", detail, "info", record.pos)

    # -- items ---------------------------------------------------------------------------------------------------------

    def _message(self, item: Row, at: datetime | None) -> None:
        role = item.get("role")
        if role not in ("system", "developer", "user"):
            self.dialogue.note("unknown_role", f"a message has role {role!r}; kept as a user message")
            role = "user"
        origin = "harness" if role != "user" or is_context(item) else "human"
        if origin == "human" and self.ending != "task_started" and not self.dialogue.copied:
            self.ending, self.error = None, {}
        self._say(role, item, origin, at)

    def _retained(self, item: Row, summary: str | None) -> bool:
        """A message that outlived a compaction: no turn of its own; gives whether it is the summary."""
        content = spoken(item.get("content"), [])[0]
        is_summary = bool(summary) and content is not None and str(summary) in content
        role = item.get("role")
        origin = "summary" if is_summary else "harness" if role != "user" or is_context(item) else "human"
        written = self._say(role if role in ("system", "developer", "user") else "user", item, "harness", None)
        written["origin"] = origin
        return is_summary

    def _say(self, role: str, item: Row, origin: str, at: datetime | None) -> Row:
        found: list[Row] = []
        content, parts = spoken(item.get("content"), found)
        message = self.dialogue.say(role, content, origin=origin, parts=parts, at=at, native_id=text(item.get("id")))
        self._keep(found, message.get("step_index"))
        return message

    def _opaque_summary(self, item: Row, at: datetime | None) -> None:
        """A compaction that the provider made and only it can read."""
        rest = {k: v for k, v in item.items() if k != "encrypted_content"} | {"opaque": True}
        self.dialogue.say("user", None, origin="summary", parts=dump_json([rest]), at=at)

    def _output(self, record: Record, at: datetime | None) -> None:
        item, kind = record.payload, record.payload.get("type")
        if self._open is not None and self._ends(self._open, record.key):
            self._close()
        if self._open is None:
            self._open = Response(first=at, key=record.key)
        if self.ending == "stream_error" and not self.dialogue.copied:
            self.ending, self.error = self._before, {}
        response = self._open
        response.key = response.key if response.key is not None else record.key
        response.first, response.last = response.first or at, at or response.last
        if kind == "message":
            content, parts = spoken(item.get("content"), self.pictures)
            response.native = response.native or text(item.get("id"))
            response.plain = response.plain and parts is None
            raw = item.get("content")
            response.parts += raw if isinstance(raw, list) else [{"type": "output_text", "text": content}]
            if content is not None:
                response.texts.append(content)
        elif kind == "reasoning":
            written, opaque = reasoning_of(item)
            response.opaque = bool(response.opaque) or opaque
            if written:
                response.reasoning.append(written)
        else:
            made = call_of(item)
            response.calls.append(made)
            if made["id"] is not None:
                self._names[made["id"]] = made["name"]
                space = text(item.get("namespace"))
                if space:
                    response.spaces[made["id"]] = space

    def _ends(self, response: Response, key: int | None) -> bool:
        """Whether the next item of the model belongs to another response."""
        if key is not None and response.key is not None and key != response.key:
            return True
        if response.usage is not None:
            return not response.counted_first
        if self._marked:
            return False
        return bool(response.results) and (key is None or key != response.key)

    def _result(self, item: Row, at: datetime | None) -> None:
        found: list[Row] = []
        content, parts, flags = result_of(item, found)
        call_id = text(item.get("call_id"))
        if call_id is not None:
            if flags.get("exit_code") is None and call_id in self._exits:
                flags["exit_code"] = self._exits[call_id]
            child = agent_in(content) if self._names.get(call_id) == "spawn_agent" else None
            if child is not None:
                self.spawned.setdefault(child, call_id)
        self._keep(found, len(self.dialogue.out.steps))
        if self._open is not None:
            self._open.results.append((call_id, content, parts, at, flags))
        else:
            self._bring(call_id, content, parts, at, flags)

    def _bring(
        self, call_id: str | None, content: str | None, parts: str | None, at: datetime | None, flags: Row
    ) -> None:
        name = self._names.get(call_id) if call_id is not None else None
        self.dialogue.result(call_id, content, name=name, parts=parts, at=at, **flags)

    def _keep(self, found: list[Row], step: int | None) -> None:
        if found and not self.dialogue.copied:
            self.pictures += [row | {"step_index": step} for row in found]

    # -- responses -----------------------------------------------------------------------------------------------------

    def _used(self, usage: Row, at: datetime | None, *, counted_first: bool) -> None:
        """The counter moved: a response is complete, or (in versions that count first) about to be written."""
        if not counted_first:
            if self._open is not None and self._open.usage is None:
                self._open.usage, self._open.last = usage, at or self._open.last
                return
            if self._open is None and self._unpaid is not None:
                self._pay(self._unpaid, usage)
                self._unpaid = None
                return
        self._close()
        self._open = Response(first=at, last=at, usage=usage, counted_first=counted_first)
        if not counted_first:
            self._close()

    def _pay(self, step: Row, usage: Row) -> None:
        if not step["is_copied_context"]:
            step |= usage

    def _close(self) -> None:
        response, self._open = self._open, None
        if response is None:
            return
        copied = self.dialogue.copied
        if response.empty():
            if not copied:
                self._silent(response)
        else:
            step = self._act(response)
            self._unpaid = step if response.usage is None else None
            if response.usage is not None:
                self._pay(step, response.usage)
        for call_id, content, parts, at, flags in response.results:
            self._bring(call_id, content, parts, at, flags)

    def _act(self, response: Response) -> Row:
        many = len(response.texts) > 1
        parts = None if response.plain and not many else dump_json(response.parts)
        if self.model is not None and not self.dialogue.copied:
            self.models[self.model] += 1
        return self.dialogue.act(
            "\n\n".join(response.texts) if response.texts else None,
            calls=response.calls,
            reasoning="\n\n".join(response.reasoning) or None,
            parts=parts,
            at=response.first,
            trainable=None if self._trainable else False,
            message={"native_id": response.native},
            model=self.model,
            ended_at=response.last,
            reasoning_opaque=response.opaque,
            detail=dump_json({"namespaces": response.spaces}) if response.spaces else None,
        )

    def _silent(self, response: Response) -> None:
        """A call of the model of which only the usage was recorded, such as the one that writes a summary."""
        written = len(self.dialogue.out.messages)
        step = self.dialogue.act(
            None,
            trainable=False,
            at=response.first,
            model=self.model,
            ended_at=response.last,
            detail=dump_json({"output": "not recorded"}),
        )
        del self.dialogue.out.messages[written:]
        self._pay(step, response.usage or {})
        self._unpaid = None

    # -- the rest ------------------------------------------------------------------------------------------------------

    def _completed(self, item: Row) -> None:
        kind, ident = item.get("type"), text(item.get("id"))
        if ident is None:
            return
        if kind == "CommandExecution":
            code = small(item.get("exit_code"))
            if code is not None:
                self._exits[ident] = code
        elif kind == "CollabAgentToolCall" and item.get("tool") == "spawn_agent":
            for thread in items(item.get("receiver_thread_ids")):
                if isinstance(thread, str):
                    self.spawned.setdefault(thread, ident)

    def _settings(self, payload: Row) -> None:
        self.model = text(payload.get("model")) or self.model
        if not self.dialogue.copied:
            self.params |= {k: payload[k] for k in _SETTINGS if payload.get(k) is not None}
            mode = obj(payload.get("collaboration_mode")).get("mode")
            if isinstance(mode, str):
                self.params["collaboration_mode"] = mode

    def _roll_back(self, turns: int) -> None:
        """The user took back the last turns: they are no longer on the main path."""
        messages = self.dialogue.out.messages
        starts = [
            i for i, m in enumerate(messages) if m["role"] == "user" and m["origin"] == "human" and not m["branch"]
        ]
        if turns <= 0 or not starts:
            return
        start = starts[max(len(starts) - turns, 0)]
        branch = max(m["branch"] for m in messages) + 1
        for message in messages[start:]:
            message["branch"] = message["branch"] or branch

    def _time(self, record: Record) -> datetime | None:
        at, naive = moment(record.time)
        self.naive |= naive
        if at is not None and not self.dialogue.copied:
            self.first = self.first or at
            if record.kind == "session_meta":
                return at
            self.last = at if self.last is None or at > self.last else self.last
        return at

    def _pass(self, record: Record) -> None:
        """A record whose time matters only if it is the last."""
        if not self.dialogue.copied and record.time is not None:
            self._latest = record

    def _miss(self, name: str, record: Record) -> None:
        self._unknown[name] += 1
        self._where.setdefault(name, record.pos)
