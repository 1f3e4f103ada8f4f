"""Where in a record the turns of a chat are: one list, a prompt and a completion, a preferred and a rejected side, input and output."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from expcomp.sources._values import obj, text
from expcomp.sources.chat import _log as _chat_log
from expcomp.sources.chat import _responses
from expcomp.sources.chat import _turns as _chat_turns
from expcomp.sources.chat._columns import SEARCHED
from expcomp.sources.chat._parts import parsed

CHATS = ("messages", "conversations", "conversation", "trajectory", "traj", "dialogue", "dialog", "history", "chat")
"""Columns that may hold the messages, in the order in which they are believed."""


@dataclass(slots=True)
class Chat:
    """The turns of one attempt, and what is said of its model calls.

    Attributes:
        turns: Messages or items.
        used: Top-level columns that the turns came from.
        mark: `chosen` or `rejected`.
        prompt: What identifies the prompt of a preference pair.
        calls: Number of the agent's turn -> id, model, stop_reason, usage of that model call.
        params: How the model was asked.
        asked: Model asked for.
    """

    turns: list[Any]
    used: tuple[str, ...]
    mark: str | None = None
    prompt: Any = None
    calls: dict[int, dict[str, Any]] = field(default_factory=dict)
    params: dict[str, Any] = field(default_factory=dict)
    asked: str | None = None


def chats_of(row: dict[str, Any]) -> list[Chat]:
    """The chats in a record; none if it has no messages."""
    pair = preference_pair(row)
    if pair:
        return pair
    for key in CHATS:
        value = row.get(key)
        if value is None:
            continue
        turns = turns_of(value)
        if turns is not None:
            return [Chat(turns, (key,))]
    if "completion" in row and "prompt" in row:
        return [Chat([*_side(row["prompt"], "user"), *_side(row["completion"], "assistant")], ("prompt", "completion"))]
    said, back = row.get("input"), row.get("output")
    if isinstance(back, list) and isinstance(said, list | str):
        return [Chat([*_side(said, "user"), *back], ("input", "output"))]
    if isinstance(said, list) and any(_responses.is_item(i) or _chat_turns.is_message(i) for i in said[:SEARCHED]):
        return [Chat(said, ("input",))]
    if isinstance(back, list) and any(_responses.is_item(i) for i in back[:SEARCHED]):
        return [Chat(back, ("output",))]
    return []


def turns_of(value: Any) -> list[Any] | None:
    """The list of turns that a column holds: as it is, as JSON text, or one object deeper."""
    if isinstance(value, str):
        value = parsed(value)
    if isinstance(value, list):
        return value
    if isinstance(value, dict):
        for key in ("messages", "conversations", "trajectory", "input"):
            inner = value.get(key)
            if isinstance(inner, list):
                return inner
    return None


def is_single(record: Any) -> bool:
    """Whether a record is one turn of a conversation that fills the file."""
    if not isinstance(record, dict) or any(k in record for k in CHATS):
        return False
    return _responses.is_item(record) or (_chat_turns.is_message(record) and not _chat_log.is_response(record))


def is_bare(head: list[Any]) -> bool:
    """Whether a file is one conversation: the first of its records that is anything at all is a turn."""
    for record in head:
        if is_single(record):
            return True
        if isinstance(record, list) or (isinstance(record, dict) and chats_of(record)):
            return False
    return False


def is_one(head: list[Any]) -> bool:
    """Whether a file, by its first records, cannot be cut: it is one conversation, or a log of requests."""
    return is_bare(head) or _chat_log.is_log(head)


def preference_pair(row: dict[str, Any]) -> list[Chat]:
    for good, bad in (("chosen", "rejected"), ("preferred_output", "non_preferred_output")):
        if row.get(good) is None or row.get(bad) is None:
            continue
        source = row.get("prompt")
        used = ["prompt"] if source is not None else []
        if source is None and isinstance(row.get("input"), dict | list):
            source = turns_of(row["input"])
            used = ["input"] if source is not None else []
        prompt = _side(source, "user")
        out = []
        for key, mark in ((good, "chosen"), (bad, "rejected")):
            side = _side(row[key], "assistant")
            first = obj(side[0]) if side else {}
            speaker = first.get("role", first.get("from"))
            whole_chat = isinstance(speaker, str) and _chat_turns.ROLES.get(speaker) not in ("assistant", "call")
            out.append(Chat(side if whole_chat else [*prompt, *side], (good, bad, *used), mark))
        shared = prompt or _common(out[0].turns, out[1].turns)
        out[0].prompt = out[1].prompt = shared
        return out
    return []


def _common(one: list[Any], two: list[Any]) -> list[Any]:
    same = 0
    while same < min(len(one), len(two)) and one[same] == two[same]:
        same += 1
    return one[:same]


def _side(value: Any, role: str) -> list[Any]:
    """A prompt or a completion as turns: a text is one turn."""
    turns = turns_of(value)
    if turns is not None:
        return turns
    if isinstance(value, str):
        return [{"role": role, "content": value}]
    return [] if value is None else [value]


def acts(turns: list[Any]) -> int:
    """How many turns of the agent a history has: the number of the model call that comes next."""
    if not any(map(_responses.is_item, turns)):
        return sum(obj(t).get("role") == "assistant" for t in turns)
    count, inside = 0, False
    for turn in turns:
        entry = obj(turn)
        own = (
            text(entry.get("type")) in _responses.CALLS
            or entry.get("type") == "reasoning"
            or entry.get("role") == "assistant"
        )
        count += own and not inside
        inside = own
    return count
