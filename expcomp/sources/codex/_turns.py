"""From the records of a rollout to turns: what was said, what stands in its events, how the thread went and ended."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from expcomp.sources._json import dump_json
from expcomp.sources._media import spoken
from expcomp.sources._values import items, moment, obj, small, text
from expcomp.sources.codex._items import CALLS, RESULTS, SILENT, said
from expcomp.sources.codex._lines import ITEMS, Record, is_context
from expcomp.sources.codex._response import counted_first
from expcomp.sources.codex._steps import Steps
from expcomp.sources.codex._usage import responses

if TYPE_CHECKING:
    from expcomp.sources._chat import Row
    from expcomp.sources._dialogue import Dialogue
    from expcomp.sources.codex._lines import Rollout

_SETTINGS = "effort summary approval_policy sandbox_policy permission_profile personality truncation_policy".split()
_IGNORED = frozenset({"world_state", "token_usage_record"})
"""The harness's own book-keeping, and what is read as usage."""
_TIMED = frozenset({"session_meta", "response_item", "compacted"})
"""Records whose time is needed; of the others only the first and the last."""
_WRITTEN = CALLS | {"message", "reasoning"}
_ROLES = ("system", "developer", "user")
_STARTED = frozenset({"task_started", "turn_started"})
_COMPLETE = frozenset({"task_complete", "turn_complete"})
_EDGES = _STARTED | _COMPLETE | {"turn_aborted"}
_EVENTS = _EDGES | {"item_completed", "thread_settings_applied", "thread_rolled_back", "error", "stream_error"}
"""Events that are read; the others say again what the items say."""


class Turns:
    """Reads one rollout.

    Attributes:
        steps: Writer of the steps; holds what was written.
        params: Settings of the thread's own turns; the last value of each.
        ending: Last word of the thread on how it stands: task_started, task_complete, turn_aborted, error, stream_error.
        error: Payload of the last error.
        first: First time of the thread's own lines.
        last: Last time of the thread's own lines.
        cumulative: Whether usage is told by a counter of the whole thread, not by each response.
    """

    def __init__(self, rollout: Rollout, *, trainable: bool) -> None:
        self.steps = Steps(trainable=trainable, marked=rollout.marked)
        self.params: Row = {}
        self.ending: str | None = None
        self.error: Row = {}
        self._before: str | None = None
        self.first: datetime | None = None
        self.last: datetime | None = None
        self.naive = False
        self.cumulative = False
        self._dialogue = self.steps.dialogue
        self._rollout = rollout
        self._unknown: dict[str, list[int]] = {}

    def read(self) -> Dialogue:
        """Read everything."""
        fresh, counter = responses(self._rollout)
        early = counted_first(self._rollout, fresh)
        self.cumulative = any(self._rollout.records[index].kind == "event_msg" for index in fresh)
        dialogue, steps = self._dialogue, self.steps
        replayed = self._rollout.replayed
        dialogue.copied = replayed > 0
        untimed: str | None = None
        for index, record in enumerate(self._rollout.records):
            if index == replayed and index:
                steps.restart()
                dialogue.copied = False
            _, kind, item, payload, time, _ = record
            usage = fresh.get(index)
            at = None
            if kind in _TIMED or usage is not None or self.first is None:
                at = self._time(time, kind)
            elif time is not None:
                untimed = time
            if kind == "response_item":
                self._item(record, at)
            elif kind == "event_msg":
                if item in _EVENTS:
                    self._event(str(item), payload)
            elif kind == "turn_context":
                steps.close()
                self._settings(payload)
            elif kind == "session_meta":
                steps.close()
            elif kind == "compacted":
                self._compacted(record, at)
            elif kind == "state":
                steps.mark()
            elif kind not in _IGNORED:
                self._miss(kind, record)
            if usage is not None:
                steps.used(usage, at, counted_first=early[index])
        steps.close()
        dialogue.copied = False
        self._time(untimed, "event_msg")
        if counter.late is not None:
            stood = counter.late["input_tokens"]
            detail = (
                f"the token counter stood at {stood} input tokens before the first response of this file; not counted"
            )
            dialogue.note("counter_starts_late", detail, "info")
        for name, where in self._unknown.items():
            detail = f"{len(where)} records of type {name} are not known here; left out"
            dialogue.note("unknown_record", detail, "info", where[0])
        if self.naive:
            dialogue.note("naive_time", "times without a zone were read as UTC", "info")
        return dialogue

    # -- records -------------------------------------------------------------------------------------------------------

    def _item(self, record: Record, at: datetime | None) -> None:
        _, _, kind, item, _, _ = record
        if kind == "message" and item.get("role") != "assistant":
            self.steps.close()
            self._message(item, at)
        elif kind in RESULTS:
            self.steps.result(item, at)
        elif kind in _WRITTEN:
            if self.ending == "stream_error" and not self._dialogue.copied:
                self.ending, self.error = self._before, {}
            self.steps.output(item, record.key(), at)
        elif kind not in SILENT:
            if kind in ITEMS:
                self.steps.close()
                self._opaque_summary(item, at)
            else:
                self._miss(f"response_item/{kind}", record)

    def _event(self, kind: str, event: Row) -> None:
        own = not self._dialogue.copied
        if kind in _EDGES:
            self.steps.close()
        if kind == "item_completed":
            self._completed(obj(event.get("item")))
        elif kind == "thread_settings_applied":
            self._settings(obj(event.get("thread_settings")))
        elif kind == "thread_rolled_back":
            self.steps.close()
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
        self.steps.close()
        self._dialogue.compact()
        summary = text(record.payload.get("message"))
        history = record.payload.get("replacement_history")
        if not isinstance(history, list):
            if summary:
                self._dialogue.say("user", summary, origin="summary", at=at)
            return
        was, self._dialogue.copied = self._dialogue.copied, True
        told = False
        for item in history:
            if not isinstance(item, dict):
                self._miss(f"replacement_history/{type(item).__name__}", record)
                continue
            inner = Record(record.pos, "response_item", text(item.get("type")), item, record.time)
            if item.get("type") == "message" and item.get("role") != "assistant":
                self.steps.close()
                told |= self._retained(item, summary)
            else:
                self._item(inner, at)
        self.steps.close()
        self._dialogue.copied = was
        if summary and not told:
            detail = "the summary of a compaction is not in the history that replaced the old one; left out"
            self._dialogue.note("summary_not_in_history", detail, "info", record.pos)

    # -- items ---------------------------------------------------------------------------------------------------------

    def _message(self, item: Row, at: datetime | None) -> None:
        role = item.get("role")
        if role not in _ROLES:
            self._dialogue.note("unknown_role", f"a message has role {role!r}; kept as a user message")
            role = "user"
        origin = "harness" if role != "user" or is_context(item) else "human"
        if origin == "human" and self.ending != "task_started" and not self._dialogue.copied:
            self.ending, self.error = None, {}
        self._say(role, item, origin, at)

    def _retained(self, item: Row, summary: str | None) -> bool:
        """A message that outlived a compaction: no turn of its own; gives whether it is the summary."""
        content = spoken(item.get("content"), [])[0]
        is_summary = bool(summary) and content is not None and str(summary) in content
        role = item.get("role")
        origin = "summary" if is_summary else "harness" if role != "user" or is_context(item) else "human"
        written = self._say(role if role in _ROLES else "user", item, "harness", None)
        written["origin"] = origin
        return is_summary

    def _say(self, role: str, item: Row, origin: str, at: datetime | None) -> Row:
        found: list[Row] = []
        content, parts = said(item.get("content"), found)
        message = self._dialogue.say(role, content, origin=origin, parts=parts, at=at, native_id=text(item.get("id")))
        self.steps.keep(found, message.get("step_index"))
        return message

    def _opaque_summary(self, item: Row, at: datetime | None) -> None:
        """A compaction that the provider made and only it can read."""
        rest = {k: v for k, v in item.items() if k != "encrypted_content"} | {"opaque": True}
        self._dialogue.say("user", None, origin="summary", parts=dump_json([rest]), at=at)

    # -- the rest ------------------------------------------------------------------------------------------------------

    def _completed(self, item: Row) -> None:
        kind, ident = item.get("type"), text(item.get("id"))
        if ident is None:
            return
        if kind == "CommandExecution":
            code = small(item.get("exit_code"))
            if code is not None:
                self.steps.exits[ident] = code
        elif kind == "CollabAgentToolCall" and item.get("tool") == "spawn_agent":
            for thread in items(item.get("receiver_thread_ids")):
                if isinstance(thread, str):
                    self.steps.spawned.setdefault(thread, ident)

    def _settings(self, payload: Row) -> None:
        self.steps.model = text(payload.get("model")) or self.steps.model
        if not self._dialogue.copied:
            self.params |= {k: payload[k] for k in _SETTINGS if payload.get(k) is not None}
            mode = obj(payload.get("collaboration_mode")).get("mode")
            if isinstance(mode, str):
                self.params["collaboration_mode"] = mode

    def _roll_back(self, turns: int) -> None:
        """The user took back the last turns: they are no longer on the main path."""
        messages = self._dialogue.out.messages
        starts = [
            i for i, m in enumerate(messages) if m["role"] == "user" and m["origin"] == "human" and not m["branch"]
        ]
        if turns <= 0 or not starts:
            return
        start = starts[max(len(starts) - turns, 0)]
        branch = max(m["branch"] for m in messages) + 1
        for message in messages[start:]:
            message["branch"] = message["branch"] or branch

    def _time(self, written: str | None, kind: str) -> datetime | None:
        if written is None:
            return None
        try:
            at: datetime | None = datetime.fromisoformat(written)
        except ValueError:
            at = None
        if at is None or at.tzinfo is not UTC:
            at, naive = moment(written)
            self.naive |= naive
            if at is None:
                return None
        if not self._dialogue.copied:
            if self.first is None:
                self.first = at
            if kind != "session_meta" and (self.last is None or at > self.last):
                self.last = at
        return at

    def _miss(self, name: str, record: Record) -> None:
        self._unknown.setdefault(name, []).append(record.pos)
