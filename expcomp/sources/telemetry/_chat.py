"""Inputs and outputs of model calls: the containers that messages come in, often as JSON text, read into turns."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import orjson

from expcomp.sources._chat import Row
from expcomp.sources._json import dump_json
from expcomp.sources._values import items, obj, text
from expcomp.sources.telemetry._turns import (
    CALL_TYPES,
    SCHEMA,
    TEXT_TYPES,
    THOUGHT_TYPES,
    Turn,
    is_message,
    is_pair,
    parse_json,
    pieces,
    unwrap,
    written_text,
)

if TYPE_CHECKING:
    from expcomp.sources.telemetry._media import Media

_LISTS = ("messages", "input", "contents", "prompts", "prompt")
_SYSTEM = ("system", "instructions", "system_instruction", "systemInstruction")
_TOOLS = ("tools", "functions")


@dataclass(slots=True)
class Chat:
    """What one input or output of a model call says."""

    turns: list[Turn] = field(default_factory=list)
    system: str | None = None
    tools: list[Any] = field(default_factory=list)
    params: Row = field(default_factory=dict)
    model: str | None = None
    ident: str | None = None
    others: list[Any] = field(default_factory=list)
    known: bool = True


class Memo:
    """The last list of messages that was read: histories repeat, so that only what is new is read again."""

    def __init__(self) -> None:
        self._text = ""
        self._parsed: list[Any] = []
        self._raw: list[Any] = []
        self._pieces: list[list[Turn]] = []

    def parse(self, value: str) -> Any:
        """JSON text to a value; of a list that continues the last one only the rest is parsed."""
        old = self._text
        if len(old) > 2 and value.startswith(old[:-1]) and value[len(old) - 1 : len(old)] == ",":
            rest = parse_json("[" + value[len(old) :])
            if isinstance(rest, list):
                self._parsed = self._parsed + rest
                self._text = value
                return self._parsed
        out = parse_json(value)
        if isinstance(out, list) and out and value.endswith("]"):
            self._text, self._parsed = value, out
        return out

    def pieces(self, raw: list[Any], role: str, media: Media) -> list[list[Turn]]:
        """Turns of each entry of a list."""
        shared = 0
        for new, old in zip(raw, self._raw, strict=False):
            if new is not old and new != old:
                break
            shared += 1
        self._pieces = self._pieces[:shared] + [pieces(entry, role, media) for entry in raw[shared:]]
        self._raw = raw
        return self._pieces


def _unwrapped(value: Any, memo: Memo | None = None) -> tuple[Any, str | None]:
    """The value, and the text that it was read from last."""
    written = None
    for _ in range(3):
        if not isinstance(value, str):
            break
        written = value
        inner = memo.parse(value) if memo is not None else parse_json(value)
        if inner is value:
            break
        value = inner
    return value, written


def read_input(value: Any, memo: Memo, media: Media) -> Chat | None:
    """Messages that a model was given; None when they were not recorded or are lost."""
    value, written = _unwrapped(value, memo)
    if value in (None, "", [], {}):
        return None
    chat = Chat()
    raw: Any = value
    if isinstance(value, dict) and not is_message(value):
        inner = obj(value.get("kwargs")) or value
        name = next((n for n in _LISTS if inner.get(n) not in (None, "", [])), None)
        chat.system = prompt_text(next((inner[n] for n in _SYSTEM if inner.get(n)), None))
        chat.tools = next((schemas(inner[n]) for n in _TOOLS if inner.get(n)), [])
        chat.params = {k: v for k, v in inner.items() if k not in _LISTS and k not in _TOOLS and k not in _SYSTEM}
        if name is None:
            if set(value) == {"content"} and value["content"] == "role":
                # An exporter of the Claude Agent SDK iterates over a message in place of its list.
                return None
            chat.known, chat.params = False, {}
            chat.turns = [Turn("user", written or dump_json(value), None if written else dump_json(value)).sealed()]
            return chat
        raw = _unwrapped(inner[name], memo)[0]
    if isinstance(raw, list) and raw and all(isinstance(entry, list) for entry in raw) and not is_pair(raw[0]):
        raw = raw[0]
    entries = raw if isinstance(raw, list) else [raw]
    chat.turns = _joined(memo.pieces(entries, "user", media), chat)
    return chat


def read_output(value: Any, media: Media) -> Chat | None:
    """Messages that a model gave; None when they were not recorded."""
    value, written = _unwrapped(value)
    if value in (None, "", [], {}):
        return None
    chat = Chat()
    entries, stop = _answers(value, chat)
    if written is not None and (
        not chat.known or (isinstance(value, list) and not any(isinstance(v, dict) for v in value))
    ):
        # The model wrote JSON: its text is the message.
        chat.known, entries = True, [written]
    turns = _joined([pieces(entry, "assistant", media) for entry in entries], chat)
    own = [t for t in turns if t.role == "assistant"]
    chat.turns = turns
    if own and own[0].stop is None:
        own[0].stop = stop
    return chat


def _answers(value: Any, chat: Chat) -> tuple[list[Any], str | None]:
    """Messages inside a response, and why it stopped."""
    if isinstance(value, list):
        if value and all(
            isinstance(v, dict) and "role" not in v and text(v.get("type")) in CALL_TYPES | TEXT_TYPES | THOUGHT_TYPES
            for v in value
        ):
            if any("call_id" in v for v in value):
                return value, None
            return [{"role": "assistant", "content": value}], None
        return value, None
    if not isinstance(value, dict):
        return [value], None
    chat.model, chat.ident = text(value.get("model")), text(value.get("id"))
    for name in ("choices", "candidates", "generations"):
        found = items(value.get(name))
        while found and isinstance(found[0], list):
            found = found[0]
        if found:
            chat.others = found[1:]
            first = obj(found[0])
            stop = first.get("finish_reason") or first.get("finishReason") or first.get("stop_reason")
            stop = stop or obj(first.get("generation_info")).get("finish_reason")
            inner = first.get("message") or first.get("content") or first.get("text") or first.get("delta")
            return ([inner] if inner is not None else []), text(stop)
    if isinstance(value.get("output"), list):
        chat.system = prompt_text(value.get("instructions"))
        chat.tools = schemas(value.get("tools"))
        return value["output"], text(value.get("status"))
    stop = text(value.get("stop_reason")) or text(value.get("finish_reason"))
    if is_message(value) or ("content" in value and isinstance(value["content"], str | list)):
        chat.ident = chat.ident if not isinstance(value.get("lc"), int) else None
        return [{"role": "assistant"} | value if "role" not in value and "type" not in value else value], stop
    for name in ("messages", "message", "output", "text", "completion", "response"):
        inner = value.get(name)
        if inner not in (None, "", []):
            inner = unwrap(inner)
            return (inner if isinstance(inner, list) else [inner]), stop
    chat.known = False
    return [dump_json(value)], stop


def _joined(pieces: list[list[Turn]], chat: Chat) -> list[Turn]:
    """Turns in order: items of one Responses call are one turn, schemas are no turns."""
    out: list[Turn] = []
    for piece in pieces:
        for turn in piece:
            last = out[-1] if out else None
            if turn.role == SCHEMA:
                chat.tools.append(orjson.loads(turn.parts or "null"))
            elif turn.item and turn.role == "assistant" and last is not None and last.item and last.role == "assistant":
                out[-1] = _merged(last, turn)
            else:
                out.append(turn)
            chat.known = chat.known and turn.known
    return out


def _merged(first: Turn, second: Turn) -> Turn:
    texts = [t for t in (first.content, second.content) if t is not None]
    thoughts = [t for t in (first.reasoning, second.reasoning) if t is not None]
    return replace(
        first,
        content="".join(texts) if texts else None,
        reasoning="\n\n".join(thoughts) if thoughts else None,
        opaque=first.opaque or second.opaque,
        calls=first.calls + second.calls,
        parts=second.parts or first.parts,
    ).sealed()


def prompt_text(value: Any) -> str | None:
    """Text of system instructions: text, or parts that are text."""
    value = unwrap(value)
    if isinstance(value, str):
        return value or None
    if isinstance(value, dict):
        value = value.get("parts", [value])
    found = [v if isinstance(v, str) else written_text(v) for v in items(value)]
    return "\n\n".join(f for f in found if f) or None


def schemas(value: Any) -> list[Any]:
    """Tool schemas as a list, whatever they came in: a list, JSON texts, a map by name, the request parameters of Pydantic AI."""
    value = unwrap(value)
    if isinstance(value, dict):
        own = [*items(value.get("function_tools")), *items(value.get("output_tools"))]
        if own or "function_tools" in value:
            value = own
        elif all(isinstance(v, str | dict) for v in value.values()) and "name" not in value and "type" not in value:
            value = [{"name": k} | obj(unwrap(v)) for k, v in value.items()]
        else:
            value = [value]
    out = []
    for raw in items(value):
        one = unwrap(raw)
        if isinstance(one, dict):
            wrapped = obj(one.get("tool"))
            one = unwrap(wrapped.get("json_schema")) if "json_schema" in wrapped else one
        if isinstance(one, dict) and "parameters_json_schema" in one:
            function = {"name": one.get("name"), "description": one.get("description")}
            one = {"type": "function", "function": function | {"parameters": one["parameters_json_schema"]}}
        if isinstance(one, dict) and one:
            out.append(one)
    return out
