"""Steps and messages of many chats as columns: what `_dialogue.Dialogue` does for one attempt, without a dict for each row.

Every step of a chat belongs to one message (a person's turn or an assistant's), so both tables come from one list of turns.
Sets of chats have millions of turns; building frames from lists of values is several times quicker than from dicts.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import polars as pl

from expcomp.sources._dialogue import USAGE
from expcomp.sources._json import dump_json
from expcomp.sources._values import redact
from expcomp.sources.chat._pending import Pending
from expcomp.tables.core import MESSAGES, OBSERVATION, STEPS, TOOL_CALL

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from expcomp.sources._chat import Note
    from expcomp.sources.chat._parts import Call

_INT64 = 2**63
_SPARSE_MESSAGES = ("parts", "reasoning", "tool_call_id", "name", "timestamp", "native_id")
_SPARSE_STEPS = ("llm_call_id", "model", "started_at", "reasoning_opaque", "stop_reason", "detail", *USAGE)


@dataclass(slots=True)
class Talk:
    """What is known of a chat once its last turn is written.

    Attributes:
        notes: Diagnostics of the chat.
        extras: Fields of messages that have no column and no step: position -> field -> value.
        artifacts: Rows of `artifacts`, without the attempt.
        instruction: First text a person wrote.
        system: Whether a system or developer message stands before the first turn of the agent.
        last: `person`, `agent`, `result` or `other`; what the last turn was.
        open_calls: Names of the calls of the last agent turn that nobody answered.
    """

    notes: list[Note] = field(default_factory=list)
    extras: dict[str, Any] = field(default_factory=dict)
    artifacts: list[dict[str, Any]] = field(default_factory=list)
    instruction: str | None = None
    system: bool = False
    last: str | None = None
    open_calls: list[str | None] = field(default_factory=list)
    n_steps: int = 0
    n_messages: int = 0
    n_tool_calls: int = 0
    n_tool_errors: int = 0
    thinks: int = 0
    models: list[str] = field(default_factory=list)
    usage: dict[str, Any] = field(default_factory=dict)
    calls_seen: set[str] = field(default_factory=set)
    agent_rows: list[int] = field(default_factory=list)
    stop_reason: str | None = None


class ChatRows:
    """Turns of many chats, one chat after the other: `begin`, then `say`, `act` and `result` in order, then `end`."""

    def __init__(self) -> None:
        self._attempt: list[str] = []
        self._role: list[str] = []
        self._origin: list[str] = []
        self._content: list[str | None] = []
        self._index: list[int] = []
        self._step: list[int | None] = []
        self._source: list[str | None] = []
        self._turns: list[int] = []
        self._trainable: list[bool] = []
        self._calls: dict[int, list[Call]] = {}
        self._seen: dict[int, list[tuple[str | None, str | None, bool | None]]] = {}
        self._more: dict[str, dict[int, Any]] = {k: {} for k in (*_SPARSE_MESSAGES, *_SPARSE_STEPS)}
        self.begin("")

    def begin(self, ident: str) -> Talk:
        """Begin the chat of an attempt; its `Talk` fills while turns are written."""
        self._ident = ident
        self._base = len(self._role)
        self._steps = 0
        self._turn = -1
        self._agent: int | None = None
        self._pending = Pending()
        self._details: dict[int, dict[str, Any]] = {}
        self.talk = Talk()
        return self.talk

    def set(self, row: int, **columns: Any) -> None:
        """Set further columns of a turn: `parts`, `name`, `native_id`, `timestamp`, `detail`, `model`, usage, ..."""
        for key, value in columns.items():
            if value is not None:
                self._more[key][row] = value

    @property
    def has_acted(self) -> bool:
        """Whether the agent had a turn in this chat."""
        return self._agent is not None

    def leave(self, row: int, extras: dict[str, Any]) -> None:
        """Keep fields that no column holds: in the detail of the turn's step, or, where it has none, with the attempt."""
        if self._source[row] is not None:
            self._details.setdefault(row, {}).update(extras)
        else:
            self.talk.extras.setdefault(str(row - self._base), {}).update(extras)

    def attach(self, row: int, artifacts: list[dict[str, Any]]) -> None:
        """Add what was taken out of a turn to the artifacts of the attempt."""
        self.talk.artifacts += [a | {"step_index": self._step[row]} for a in artifacts]

    def say(self, role: str, content: str | None, origin: str) -> int:
        """A turn that is neither the agent's nor a result; only a person's is a step and begins a turn (R7)."""
        talk = self.talk
        row = len(self._role)
        if origin == "human":
            self._turn += 1
            self._add(role, origin, content, self._steps, "user", trainable=False)
            self._steps += 1
            talk.last = "person"
            if talk.instruction is None:
                talk.instruction = content
        else:
            owner = self._step[self._agent] if origin == "tool" and self._agent is not None else None
            self._add(role, origin, content, owner, None, trainable=False)
            talk.last = "person" if role == "user" else "other"
            if role != "user" and self._agent is None:
                talk.system = True
        return row

    def act(self, content: str | None, calls: list[Call], *, trainable: bool = True) -> int:
        """A model call: an assistant message and its step."""
        talk = self.talk
        row = self._agent = len(self._role)
        self._add("assistant", "model", content, self._steps, "agent", trainable=trainable)
        self._steps += 1
        talk.n_steps += 1
        talk.last = "agent"
        talk.agent_rows.append(row)
        if calls:
            self._calls[row] = calls
            talk.n_tool_calls += len(calls)
            self._pending.add(row, calls)
        return row

    def result(
        self, call_id: str | None, content: str | None, *, parts: str | None = None, is_error: bool | None = None
    ) -> int:
        """What a call brought back: a tool message, and an observation of the step that called (R8).

        `parts` is the JSON of what is no plain text: a result that has no text of its own is that to the step.
        """
        owner, known = self._pending.match(call_id)
        if owner is None:
            owner = self._agent
        row = len(self._role)
        self._add("tool", "tool", content, self._step[owner] if owner is not None else None, None, trainable=False)
        if call_id is not None:
            self._more["tool_call_id"][row] = call_id
        if parts is not None:
            self._more["parts"][row] = parts
        self.talk.last = "result"
        if owner is not None:
            seen = content if content is not None else parts
            self.observe(owner, known if call_id is None else call_id, seen, is_error=is_error)
        return row

    def observe(self, row: int, call_id: str | None, content: str | None, *, is_error: bool | None = None) -> None:
        """What came back inside the same model call: an observation that is no message of its own."""
        self._seen.setdefault(row, []).append((call_id, content, is_error))
        self.talk.n_tool_errors += bool(is_error)

    def used(self, row: int, usage: Mapping[str, Any], call_id: str | None = None) -> None:
        """Usage of a model call, if none is known yet; the sum over the chat counts each call once (R3)."""
        if row in self._more["output_tokens"] or row in self._more["input_tokens"]:
            return
        self.set(row, llm_call_id=call_id, **usage)
        talk = self.talk
        if call_id is not None:
            if call_id in talk.calls_seen:
                return
            talk.calls_seen.add(call_id)
        for key, value in usage.items():
            if value is not None:
                total = talk.usage.get(key, 0) + value
                if total < _INT64:
                    talk.usage[key] = total

    def end(self) -> Talk:
        """The chat is over: counts, and notes on results and calls without the other."""
        talk = self.talk
        count = len(self._role) - self._base
        for row, detail in self._details.items():
            self._more["detail"][row] = dump_json(redact(detail))
        self._attempt += [self._ident] * count
        self._index += range(count)
        talk.n_messages = count
        talk.notes += self._pending.notes()
        talk.open_calls = self._pending.open_of(self._agent)
        return talk

    def frames(self) -> dict[str, pl.DataFrame]:
        """The frames of `messages` and `steps`."""
        n = len(self._role)
        calls, mask = self._call_lists(n)
        more = self._more
        base = pl.DataFrame(
            [
                pl.Series("attempt_id", self._attempt, pl.String),
                pl.Series("message_index", self._index, pl.Int32),
                pl.Series("role", self._role, MESSAGES.schema["role"]),
                pl.Series("origin", self._origin, MESSAGES.schema["origin"]),
                pl.Series("content", self._content, pl.String),
                calls,
                pl.Series("step_index", self._step, pl.Int32),
                *(_sparse(k, more[k], n, MESSAGES.schema[k]) for k in _SPARSE_MESSAGES),
                pl.Series("source", self._source, STEPS.schema["source"]),
                pl.Series("turn", self._turns, pl.Int64),
                pl.Series("trainable", self._trainable, pl.Boolean),
                self._observations(n),
                *(_sparse(k, more[k], n, STEPS.schema[k]) for k in _SPARSE_STEPS),
                mask,
            ]
        )
        zero = pl.lit(0, pl.Int32)
        messages = base.with_columns(
            context_id=zero,
            branch=zero,
            tool_calls=pl.when("_acts").then("tool_calls"),
        )
        steps = base.filter(pl.col("source").is_not_null()).with_columns(
            context_id=zero, is_copied_context=pl.lit(value=False)
        )
        return {"messages": _whole(messages, MESSAGES.schema), "steps": _whole(steps, STEPS.schema)}

    def _add(
        self,
        role: str,
        origin: str,
        content: str | None,
        step: int | None,
        source: str | None,
        *,
        trainable: bool,
    ) -> None:
        self._role.append(role)
        self._origin.append(origin)
        self._content.append(content)
        self._step.append(step)
        self._source.append(source)
        self._turns.append(self._turn if self._turn > 0 else 0)
        self._trainable.append(trainable)

    def _call_lists(self, n: int) -> tuple[pl.Series, pl.Series]:
        """Calls by turn, and which turns are the agent's: the others have none rather than an empty list."""
        flat = [c for row in sorted(self._calls) for c in self._calls[row]]
        columns = list(zip(*flat, strict=True)) or [()] * len(TOOL_CALL.fields)
        lists = _lists("tool_calls", n, {r: len(c) for r, c in self._calls.items()}, columns, TOOL_CALL)
        return lists, pl.Series("_acts", [s == "agent" for s in self._source], pl.Boolean)

    def _observations(self, n: int) -> pl.Series:
        flat = [(c, t, e, None, None) for row in sorted(self._seen) for c, t, e in self._seen[row]]
        columns = list(zip(*flat, strict=True)) or [()] * len(OBSERVATION.fields)
        return _lists("observations", n, {r: len(s) for r, s in self._seen.items()}, columns, OBSERVATION)


def _sparse(name: str, values: dict[int, Any], n: int, dtype: pl.DataType) -> pl.Series:
    """A column that is null but for a few rows."""
    if not values:
        return pl.Series(name, [None], dtype).new_from_index(0, n)
    column: list[Any] = [None] * n
    for row, value in values.items():
        column[row] = value
    return pl.Series(name, column, dtype)


def _lists(name: str, n: int, lengths: dict[int, int], columns: Sequence[Sequence[Any]], inner: pl.Struct) -> pl.Series:
    """A column of lists of structs from the flat columns of the structs and the length of each list."""
    empty = pl.Series(name, [[]], pl.List(inner))
    if not lengths:
        return empty.new_from_index(0, n)
    import pyarrow as pa

    kinds: dict[Any, Any] = {pl.String: pa.large_string(), pl.Boolean: pa.bool_(), pl.Int32: pa.int32()}
    arrays = [
        pa.array(values, kinds.get(type(f.dtype), pa.large_string()))
        for f, values in zip(inner.fields, columns, strict=True)
    ]
    offsets, at = [0] * (n + 1), 0
    for row in range(n):
        at += lengths.get(row, 0)
        offsets[row + 1] = at
    struct = pa.StructArray.from_arrays(arrays, [f.name for f in inner.fields])
    lists = pl.Series(name, pa.LargeListArray.from_arrays(pa.array(offsets, pa.int64()), struct))
    return lists.cast(pl.List(inner))


def _whole(frame: pl.DataFrame, schema: pl.Schema) -> pl.DataFrame:
    """The columns of a table in their order; those that chats never have are null."""
    have = set(frame.columns)
    return frame.select(
        pl.col(name) if name in have else pl.lit(None, dtype).alias(name) for name, dtype in schema.items()
    )
