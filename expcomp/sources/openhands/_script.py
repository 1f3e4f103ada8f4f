"""What both generations of OpenHands share: a transcript from which a condenser may take events away."""

from __future__ import annotations

from collections import Counter as Tally
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from expcomp.sources._dialogue import Dialogue
from expcomp.sources._json import dump_json
from expcomp.sources._values import moment

if TYPE_CHECKING:
    from collections.abc import Collection
    from datetime import datetime

    from expcomp.sources._chat import Row

_MOST = 10**15


@dataclass(slots=True)
class _Entry:
    """Something the model saw, as it was written, so that it can be written again."""

    kind: str
    keys: tuple[Any, ...]
    args: tuple[Any, ...]
    options: Row


@dataclass(slots=True)
class Conversation:
    """What was read of one conversation.

    Attributes:
        dialogue: Steps and messages.
        pictures: Rows of `artifacts`, without their attempt.
        model: Model as named by the events or the state.
        agent: Class of the agent.
        version: Version of the program.
        tools: Schemas of the tools.
        state: Last word on how the conversation stands.
        error: Last error: its class and its message.
        settings: Settings that the conversation was started with.
        usage: Usage of the agent's model as the source adds it up.
        other_usage: Usage of other models, by usage id.
        ignored: Events that are no part of the dialogue, by name.
        first: Time of the first event.
        last: Time of the last event.
        naive: Whether times came without a zone.
        gaps: Whether events are missing.
    """

    dialogue: Dialogue = field(default_factory=Dialogue)
    pictures: list[Row] = field(default_factory=list)
    model: str | None = None
    agent: str | None = None
    version: str | None = None
    tools: list[Any] | None = None
    state: str | None = None
    error: tuple[str | None, str | None] | None = None
    settings: Row = field(default_factory=dict)
    usage: Row | None = None
    other_usage: Row = field(default_factory=dict)
    ignored: Tally[str] = field(default_factory=Tally)
    first: datetime | None = None
    last: datetime | None = None
    naive: bool = False
    gaps: bool = False
    _view: list[_Entry] = field(default_factory=list)

    def time(self, raw: Any) -> datetime | None:
        """The time of an event."""
        at, naive = moment(raw)
        self.naive |= naive
        if at is not None:
            self.first = at if self.first is None or at < self.first else self.first
            self.last = at if self.last is None or at > self.last else self.last
        return at

    def say(self, key: Any, role: str, content: str | None, **options: Any) -> Row:
        """`Dialogue.say` for an event."""
        message = self.dialogue.say(role, content, **options)
        self._view.append(_Entry("say", (key,), (role, content), options | {"origin": message["origin"]}))
        return message

    def act(self, keys: tuple[Any, ...], content: str | None, usage: Row | None = None, **options: Any) -> Row:
        """`Dialogue.act` for the events of one model call."""
        step = self.dialogue.act(content, **options, **(usage or {}))
        self._view.append(_Entry("act", keys, (content,), options))
        return step

    def result(self, key: Any, call_id: str | None, content: str | None, **options: Any) -> Row | None:
        """`Dialogue.result` for an event."""
        self._view.append(_Entry("result", (key,), (call_id, content), options))
        return self.dialogue.result(call_id, content, **options)

    def condense(
        self, forgotten: Collection[Any], summary: str | None, offset: int | None, at: datetime | None
    ) -> None:
        """Events leave the view of the model, and a summary may take their place (R5): a new context begins.

        What the model still sees is written again as copied context, so that the new context holds the whole prompt.
        """
        kept = [e for e in self._view if not any(k in forgotten for k in e.keys)]
        self.dialogue.compact()
        self._view = []
        due = summary is not None
        seen = 0
        for entry in kept:
            if due and offset is not None and seen >= offset:
                self._summarise(summary, at)
                due = False
            self._again(entry)
            seen += len(entry.keys)
        if due:
            self._summarise(summary, at)

    def _summarise(self, summary: str | None, at: datetime | None) -> None:
        self.say(object(), "user", summary, origin="summary", at=at)

    def _again(self, entry: _Entry) -> None:
        self._view.append(entry)
        dialogue = self.dialogue
        dialogue.copied = True
        if entry.kind == "act":
            dialogue.act(*entry.args, **entry.options)
        elif entry.kind == "result":
            dialogue.result(*entry.args, **entry.options)
        else:
            # No turn of its own: the person spoke once.
            written = dialogue.say(*entry.args, **(entry.options | {"origin": "harness"}))
            written["origin"] = entry.options["origin"]
        dialogue.copied = False

    def tell_unknown(self, known: Collection[str]) -> None:
        """Note the events that were left out and that nobody knows."""
        for name, times in self.ignored.items():
            if name not in known:
                self.dialogue.note(
                    "unknown_event", f"{times} events of kind {name!r} are not known here; left out", "info"
                )

    def keep(self, found: list[Row], step: Row | int | None) -> None:
        """Note the pictures of an event."""
        index = step["step_index"] if isinstance(step, dict) else step
        self.pictures += [row | {"step_index": index} for row in found]


def tokens(raw: Any) -> int | None:
    """A count of tokens that sums can hold."""
    if isinstance(raw, bool) or not isinstance(raw, int | float) or not 0 <= raw <= _MOST:
        return None
    return int(raw) if int(raw) == raw else None


def summary(raw: Any) -> str | None:
    """The summary of a condensation; what is no text stays as JSON."""
    return raw if raw is None or isinstance(raw, str) else dump_json(raw)


def usage_columns(raw: Row) -> Row:
    """Usage columns of a record in the program's own words; without tokens it tells nothing."""
    names = {
        "input_tokens": "prompt_tokens",
        "cached_input_tokens": "cache_read_tokens",
        "cache_write_tokens": "cache_write_tokens",
        "output_tokens": "completion_tokens",
        "reasoning_tokens": "reasoning_tokens",
    }
    found = {column: tokens(raw.get(name)) for column, name in names.items()}
    return found if found["input_tokens"] or found["output_tokens"] else {}
