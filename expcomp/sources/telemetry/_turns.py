"""One message as an instrumentation records it, in any of a dozen shapes, read into turns.

Known are OpenAI chat and Responses, Anthropic blocks, OTel and Gemini parts, and LangChain messages: plain, serialised, and with
`additional_kwargs`. What is in no known shape is kept as JSON text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import orjson

from expcomp.sources._chat import Row, call
from expcomp.sources._json import canonical, dump_json, load_json
from expcomp.sources._values import items, obj, text

if TYPE_CHECKING:
    from expcomp.sources.telemetry._media import Media

_ROLES = {
    "system": "system", "developer": "developer", "user": "user", "human": "user", "assistant": "assistant", "ai": "assistant",
    "model": "assistant", "AIMessageChunk": "assistant", "tool": "tool", "function": "tool", "ToolMessage": "tool",
    "HumanMessage": "user", "AIMessage": "assistant", "SystemMessage": "system", "FunctionMessage": "tool", "bot": "assistant",
}  # fmt: skip
TEXT_TYPES = frozenset({"text", "output_text", "input_text", "refusal", "summary_text"})
THOUGHT_TYPES = frozenset({"thinking", "reasoning", "redacted_thinking", "thought"})
CALL_TYPES = frozenset({"tool_use", "server_tool_use", "tool_call", "function_call", "mcp_tool_use"})
_RESULT = ("tool_result", "tool_call_response", "_tool_result", "function_response")
_MESSAGES = re.compile(r'\s*(\[\s*\{\s*"|\{\s*"(messages|role|input|contents|choices|output|model|content|parts)"\s*:)')
SCHEMA = "schema"
"""Role of a tool schema that poses as a message."""


@dataclass(slots=True)
class Turn:
    """One message. `key` is what two records of the same message have in common; `item` that it is a Responses item."""

    role: str
    content: str | None = None
    parts: str | None = None
    reasoning: str | None = None
    opaque: bool = False
    calls: list[Row] = field(default_factory=list)
    call_id: str | None = None
    name: str | None = None
    is_error: bool | None = None
    stop: str | None = None
    native_id: str | None = None
    item: bool = False
    known: bool = True
    key: tuple[Any, ...] = ()

    def sealed(self) -> Turn:
        """The turn with its key set."""
        calls = tuple((c["name"], _plain(c["arguments"])) for c in self.calls)
        whole = (self.content or "").strip() or (self.parts if self.content is None else "") or ""
        self.key = ("system" if self.role == "developer" else self.role, whole, calls)
        return self


def parse_json(value: str) -> Any:
    """The value of a JSON text, or the text itself when it is none."""
    head = value[:64].lstrip()[:1]
    if head not in ("{", "[", '"'):
        return value
    out, problems = load_json(value.encode("utf-8", "replace"))
    return value if out is None and problems else out


def unwrap(value: Any) -> Any:
    """A value that may be JSON text, even twice."""
    for _ in range(3):
        if not isinstance(value, str):
            break
        inner = parse_json(value)
        if inner is value:
            break
        value = inner
    return value


def is_message(value: dict[str, Any]) -> bool:
    if "role" in value or (value.get("type") == "constructor" and "kwargs" in value):
        return True
    return text(value.get("type")) in _ROLES and ("content" in value or "data" in value)


def is_pair(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2 and isinstance(value[0], str) and value[0] in _ROLES


def pieces(raw: Any, role: str, media: Media) -> list[Turn]:
    """Turns of one entry: mostly one, more where results and text share a message."""
    if isinstance(raw, str):
        return [Turn(role, raw).sealed()]
    if is_pair(raw):
        return pieces({"role": raw[0], "content": raw[1]}, role, media)
    if not isinstance(raw, dict):
        return [Turn(role, dump_json(raw), dump_json(raw), known=False).sealed()]
    entry = raw
    if entry.get("type") == "constructor" and isinstance(entry.get("kwargs"), dict):
        cls = next((str(n) for n in reversed(items(entry.get("id")))), "")
        entry = {"type": cls.removesuffix("Chunk")} | entry["kwargs"] | ({"type": cls.removesuffix("Chunk")})
    elif isinstance(entry.get("data"), dict) and text(entry.get("type")) in _ROLES:
        entry = {"type": entry["type"]} | entry["data"]
    elif isinstance(entry.get("message"), dict) and "role" not in entry:
        entry = entry["message"]
    item = _item(entry, media)
    if item is not None:
        return [item.sealed()] if item.role else []
    word = entry.get("role") if isinstance(entry.get("role"), str) else entry.get("type")
    known = _ROLES.get(word) if isinstance(word, str) else None
    content = (
        entry.get("parts") if isinstance(entry.get("parts"), list) else entry.get("content", entry.get("contents"))
    )
    if (
        known == "tool"
        and isinstance(content, dict)
        and content.get("type") == "function"
        and obj(content.get("function"))
    ):
        return [Turn(SCHEMA, parts=dump_json(content))]
    turn = Turn(known or role, native_id=text(entry.get("id")), name=text(entry.get("name")))
    turn.known = known is not None or word is None
    turn.item = entry.get("type") == "message" and isinstance(entry.get("content"), list) and "role" in entry
    turn.stop = text(entry.get("finish_reason")) or text(entry.get("stop_reason"))
    if turn.role == "tool":
        return [_tool_turn(turn, entry, content, media)]
    results = _blocks(turn, content, media)
    more = obj(entry.get("additional_kwargs"))
    listed = _calls(entry) or _calls(more)
    turn.calls = listed or turn.calls
    thought = next(
        (
            t
            for t in (text(e.get(k)) for e in (entry, more) for k in ("reasoning_content", "reasoning", "thinking"))
            if t
        ),
        None,
    )
    turn.reasoning = turn.reasoning or thought
    meta = obj(entry.get("response_metadata"))
    turn.stop = turn.stop or text(meta.get("finish_reason")) or text(meta.get("stop_reason"))
    turn.sealed()
    if turn.role == "assistant":
        return [turn, *results]
    empty = turn.content is None and turn.parts is None
    return results if results and empty else [*results, turn]


def _tool_turn(turn: Turn, entry: Row, content: Any, media: Media) -> Turn:
    inner = items(content)
    if len(inner) == 1 and text(obj(inner[0]).get("type")) in _RESULT:
        out = _result(inner[0], media)
        out.call_id = out.call_id or text(entry.get("tool_call_id"))
        return out.sealed()
    turn.content, turn.parts = result_text(content, media)
    given = entry.get("tool_call_id", entry.get("tool_use_id", entry.get("call_id")))
    turn.call_id = text(given) or (turn.native_id if given is None else None)
    turn.is_error = flagged(entry)
    return turn.sealed()


def flagged(entry: Row) -> bool | None:
    """What a result says of its success."""
    if isinstance(entry.get("is_error"), bool):
        return bool(entry["is_error"])
    word = entry.get("status")
    return {"error": True, "success": False}.get(word) if isinstance(word, str) else None


def _calls(entry: Row) -> list[Row]:
    out = []
    for raw in [*items(entry.get("tool_calls")), *items(entry.get("invalid_tool_calls"))]:
        one = unwrap(raw)
        one = obj(obj(one).get("tool_call")) or obj(one)
        inner = obj(one.get("function")) or one
        given = next((inner[k] for k in ("arguments", "args", "input") if inner.get(k) is not None), None)
        out.append(call(one.get("id") or one.get("call_id"), inner.get("name"), given))
    legacy = entry.get("function_call")
    if isinstance(legacy, dict) and not out:
        out = [call(None, legacy.get("name"), legacy.get("arguments"))]
    return out


def _blocks(turn: Turn, content: Any, media: Media) -> list[Turn]:
    """Read content into the turn; gives the results that stand in it."""
    if content is None or isinstance(content, str):
        turn.content = content
        return []
    if isinstance(content, dict):
        inner = content.get("parts")
        if not isinstance(inner, list):
            turn.content = turn.parts = dump_json(media.part(content))
            return []
        content = inner
    if not isinstance(content, list):
        turn.content = turn.parts = dump_json(content)
        return []
    texts: list[str] = []
    thoughts: list[str] = []
    kept: list[Any] = []
    results: list[Turn] = []
    other = False
    for raw in content:
        block = raw if not isinstance(raw, dict) else obj(raw.get("message_content")) or raw
        if isinstance(block, str):
            texts.append(block)
            kept.append(block)
            continue
        kind = text(obj(block).get("type"))
        written = written_text(block)
        if kind in THOUGHT_TYPES or obj(block).get("thought") is True:
            if written:
                thoughts.append(written)
            turn.opaque = turn.opaque or (not written and bool(obj(block)))
        elif kind in CALL_TYPES or obj(obj(block).get("functionCall") or obj(block).get("function_call")):
            turn.calls.append(_block_call(block))
        elif (
            kind in _RESULT
            or (isinstance(kind, str) and kind.endswith("_tool_result"))
            or obj(block).get("functionResponse")
        ):
            results.append(_result(block, media).sealed())
        elif written is not None and (kind in TEXT_TYPES or kind is None):
            texts.append(written)
            kept.append(block)
        else:
            other = True
            kept.append(media.part(block))
    turn.reasoning = "\n\n".join(thoughts) if thoughts else None
    turn.opaque = turn.opaque and turn.reasoning is None
    turn.content = "".join(texts) if texts and not other else None
    turn.parts = dump_json(kept) if other or len(kept) > 1 else None
    return results


def written_text(block: Any) -> str | None:
    entry = obj(block)
    for name in ("text", "content", "thinking", "refusal", "reasoning"):
        if isinstance(entry.get(name), str):
            return str(entry[name])
    return None


def _block_call(block: Row) -> Row:
    inner = obj(block.get("functionCall") or block.get("function_call")) or block
    given = next((inner[k] for k in ("arguments", "input", "args") if inner.get(k) is not None), None)
    kind = "server" if block.get("type") == "server_tool_use" else "function"
    return call(inner.get("id") or inner.get("call_id"), inner.get("name"), given, kind)


def _result(raw: Any, media: Media) -> Turn:
    block = obj(raw)
    inner = obj(block.get("functionResponse")) or block
    turn = Turn("tool", name=text(inner.get("name")), is_error=flagged(inner))
    turn.call_id = text(inner.get("tool_use_id")) or text(inner.get("id")) or text(inner.get("tool_call_id"))
    given = next((inner[k] for k in ("result", "response", "content", "output") if inner.get(k) is not None), None)
    turn.content, turn.parts = result_text(given, media)
    return turn


def result_text(value: Any, media: Media) -> tuple[str | None, str | None]:
    """Text of what a tool gave back, and the JSON of its parts when it is not plain text."""
    if value is None or isinstance(value, str):
        return value, None
    if isinstance(value, list) and value and all(isinstance(v, dict) and isinstance(v.get("type"), str) for v in value):
        texts = [text(v.get("text")) if v["type"] in TEXT_TYPES else None for v in value]
        if all(t is not None for t in texts):
            return "".join(t or "" for t in texts), dump_json(value) if len(value) > 1 else None
        kept = dump_json(media.part(value))
        return None, kept
    written = dump_json(media.part(value))
    return written, written


def _item(entry: Row, media: Media) -> Turn | None:
    """A turn from an item of the Responses API that is no message; None when it is none, no role when it says nothing."""
    kind = entry.get("type")
    if not isinstance(kind, str) or "role" in entry:
        return None
    if kind == "reasoning" and ("summary" in entry or "encrypted_content" in entry):
        found = [written_text(p) or "" for p in (*items(entry.get("summary")), *items(entry.get("content")))]
        written = "\n\n".join(f for f in found if f) or None
        opaque = written is None and bool(entry.get("encrypted_content"))
        return Turn("assistant" if written or opaque else "", reasoning=written, opaque=opaque, item=True)
    if kind.endswith("_call_output") or (kind == "function_call_output"):
        content, parts = result_text(entry.get("output"), media)
        return Turn("tool", content, parts, call_id=text(entry.get("call_id")), is_error=flagged(entry), item=True)
    if kind in ("function_call", "custom_tool_call") or (
        kind.endswith("_call") and ("id" in entry or "call_id" in entry)
    ):
        if kind in CALL_TYPES and "call_id" not in entry:
            return None
        own = kind in ("function_call", "custom_tool_call")
        given = entry.get("arguments", entry.get("input", entry.get("action")))
        name = entry.get("name") or kind.removesuffix("_call")
        what = "custom" if kind == "custom_tool_call" else "function" if own else "server"
        one = call(entry.get("call_id") or entry.get("id"), name, given, what)
        return Turn("assistant", calls=[one], item=True)
    return None


def schema_key(schema: Any) -> Any:
    """What two spellings of one tool schema have in common: its name and its parameters."""
    inner = obj(obj(schema).get("function")) or obj(schema)
    given = next((inner[k] for k in ("parameters", "input_schema", "parameters_json_schema") if k in inner), None)
    return text(inner.get("name")), canonical(given) if inner.get("name") else canonical(schema)


def is_cut(value: Any) -> bool:
    """Whether a text begins as JSON messages do and is no JSON."""
    return isinstance(value, str) and _MESSAGES.match(value) is not None and unwrap(value) is value


def _plain(arguments: str | None) -> bytes | str | None:
    """Arguments in a form in which texts of the same value are equal."""
    if arguments is None:
        return None
    try:
        return canonical(orjson.loads(arguments))
    except (orjson.JSONDecodeError, RecursionError):
        return arguments


def same_arguments(left: str | None, right: Any) -> bool:
    """Whether a call's arguments are the input of a tool."""
    if right is None or left is None:
        return False
    other = right if isinstance(right, str) else dump_json(right)
    return _plain(left) == _plain(other)
