"""Turns of a message list in any dialect of chat: OpenAI (and its legacy fields), Anthropic blocks, ShareGPT, plain role and text.

A turn is written as the source has it: turns are not merged, text is not changed, and calls that exist in the text only are not parsed.
A `<think>` block stays in the text as it is; what is inside is copied to the reasoning column, and `detail` of the step says
`"reasoning_from": "content"`, so that whoever joins both knows that it is there already.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from expcomp.sources._chat import Note
from expcomp.sources._harness import injected
from expcomp.sources._json import dump_json
from expcomp.sources._values import moment, text
from expcomp.sources.chat._anthropic import agent_blocks, is_blocks, person_blocks
from expcomp.sources.chat._parts import calls_of, ident, legacy_call, lift, parsed, usage_of

if TYPE_CHECKING:
    from expcomp.sources.chat._parts import Call
    from expcomp.sources.chat._rows import ChatRows

ROLES = {
    "system": "system",
    "developer": "developer",
    "user": "user",
    "human": "user",
    "assistant": "assistant",
    "gpt": "assistant",
    "ai": "assistant",
    "model": "assistant",
    "bot": "assistant",
    "chatgpt": "assistant",
    "agent": "assistant",
    "tool": "tool",
    "function": "tool",
    "observation": "tool",
    "tool_response": "tool",
    "tool_result": "tool",
    "function_response": "tool",
    "function_result": "tool",
    "ipython": "tool",
    "environment": "tool",
    "function_call": "call",
    "tool_call": "call",
}
"""Native role -> role; `call` is a turn that is nothing but a call."""

OBSERVED = (
    "OBSERVATION:",
    "Observation:",
    "EXECUTION RESULT of [",
    "<returncode>",
    "<output>",
    "<observation>",
    "<tool_response>",
    "<tool_result",
    "<function_results>",
)
"""Openings of text that protocols without tool roles return under the user's name; after the first turn of the agent only."""
OBSERVED_END = ("bash-$",)
"""Endings of such text."""

_CONTENT = ("content", "value", "text", "system_prompt")
_REASONING = ("reasoning_content", "reasoning", "thinking")
_KNOWN = frozenset(
    (*_CONTENT, *_REASONING, "role", "from", "name", "id", "tool_calls", "function_call", "tool_call_id", "timestamp")
) | {"model", "usage", "stop_reason", "finish_reason", "is_error", "error", "mask", "loss", "weight", "train"}
_END, _BEGIN = "</think>", "<think>"
_PLAIN = 3
"""Keys of a turn that says no more than who, what, and which call."""


def write(rows: ChatRows, raw: list[Any]) -> None:
    """Write the turns of a message list; what is no message leaves a note."""
    for pos, entry in enumerate(raw):
        if entry.__class__ is not dict or len(entry) > _PLAIN or not _plain_turn(rows, entry):
            _turn(rows, entry, pos)


def _plain_turn(rows: ChatRows, entry: dict[str, Any]) -> bool:
    """Write a turn that has nothing but what nearly all turns have, in a third of the time; false leaves it to `_turn`."""
    size, role, content = len(entry), entry.get("role"), entry.get("content")
    kind = ROLES.get(role) if role.__class__ is str else None
    if size == 2:
        if content.__class__ is not str:
            return False
        if kind == "assistant":
            rows.talk.stop_reason = None
            _think(rows, rows.act(content, []), content, None)
        elif kind == "user":
            rows.say("user", content, _origin(rows, content))
        elif kind == "system":
            rows.say("system", content, "harness")
        else:
            return False
        return True
    if size == _PLAIN and kind == "tool":
        call_id = entry.get("tool_call_id")
        if call_id.__class__ is str and content.__class__ is str:
            rows.result(call_id, content)
            return True
    elif size == _PLAIN and kind == "assistant" and "content" in entry and entry.get("tool_calls"):
        if content is not None and content.__class__ is not str:
            return False
        calls, bad = calls_of(entry["tool_calls"])
        if calls and not bad:
            rows.talk.stop_reason = None
            row = rows.act(content, calls)
            if content is not None:
                _think(rows, row, content, None)
            return True
    return False


def is_message(entry: Any) -> bool:
    """Whether an object is a chat message: it says who speaks, and something is said."""
    if not isinstance(entry, dict):
        return False
    speaker = entry.get("role", entry.get("from"))
    if not isinstance(speaker, str):
        return False
    return any(k in entry for k in (*_CONTENT, "tool_calls", "function_call"))


def _turn(rows: ChatRows, raw: Any, pos: int) -> None:
    """A turn that is more than a role and a text."""
    notes = rows.talk.notes
    entry = parsed(raw) if isinstance(raw, str) else raw
    if not isinstance(entry, dict):
        detail = f"message {pos} is {type(raw).__name__}, expected an object; left out"
        notes.append(Note("bad_message", detail, pos=pos))
        return
    native = entry.get("role")
    if native is None:
        native = entry.get("from")
    kind = ROLES.get(native) or ROLES.get(native.strip().lower()) if isinstance(native, str) else None
    content = next((entry[k] for k in _CONTENT if entry.get(k) is not None), None)
    extras = {k: v for k, v in entry.items() if k not in _KNOWN and v is not None}
    if kind == "assistant":
        _assistant(rows, entry, content, extras)
        return
    if kind == "call":
        _call_turn(rows, content, extras)
        return
    found: list[dict[str, Any]] = []
    if kind == "user" and isinstance(content, list) and is_blocks(content, "tool_result"):
        row, content = person_blocks(rows, content, found)
        if row is not None and not content:
            _more(rows, row, entry, extras, found)
            return
    said, parts = _flat(content, found)
    name = text(entry.get("name"))
    if kind == "tool":
        call_id = ident(entry.get("tool_call_id"))
        if call_id is None:
            call_id = ident(entry.get("tool_use_id"))
        row = rows.result(call_id, said, parts=parts, is_error=_flagged(entry))
    elif kind is None:
        detail = f"message {pos} has role {str(native)[:80]!r}; kept as a user message of the harness"
        notes.append(Note("unknown_role", detail, pos=pos))
        row = rows.say("user", said, "harness")
        name = name or text(native)
    elif kind == "user":
        row = rows.say("user", said, _origin_of(rows, said, content))
    else:
        row = rows.say(kind, said, "harness")
    rows.set(row, parts=parts, name=name)
    _more(rows, row, entry, extras, found)


def _assistant(rows: ChatRows, entry: dict[str, Any], content: Any, extras: dict[str, Any]) -> None:
    found: list[dict[str, Any]] = []
    raw_calls = entry.get("tool_calls")
    calls: list[Call] = []
    if raw_calls:
        calls, bad = calls_of(raw_calls)
        if bad:
            detail = f"{bad} entries of tool_calls are no objects; kept in the detail of the step"
            rows.talk.notes.append(Note("bad_tool_call", detail))
            extras["tool_calls"] = raw_calls
    if not calls and entry.get("function_call"):
        one = legacy_call(entry["function_call"])
        calls = [] if one is None else [one]
    spoken = next((t for k in _REASONING if (t := _reasoning(entry.get(k))) is not None), None)
    trainable = _trainable(entry)
    if isinstance(content, list) and is_blocks(content):
        row = agent_blocks(rows, content, calls, spoken, found, trainable=trainable)
    else:
        said, parts = _flat(content, found)
        row = rows.act(said, calls, trainable=trainable)
        rows.set(row, parts=parts, reasoning=spoken)
        if said is not None:
            _think(rows, row, said, spoken)
    model = text(entry.get("model"))
    stop = text(entry.get("stop_reason")) or text(entry.get("finish_reason"))
    rows.set(row, model=model, stop_reason=stop, name=text(entry.get("name")))
    rows.talk.stop_reason = stop
    if model is not None and model not in rows.talk.models:
        rows.talk.models.append(model)
    usage = usage_of(entry.get("usage"))
    if usage:
        rows.used(row, usage, text(entry.get("id")))
    _more(rows, row, entry, extras, found)


def _call_turn(rows: ChatRows, content: Any, extras: dict[str, Any]) -> None:
    """A ShareGPT turn that is a call: its text is an object, or a list of objects, with name and arguments."""
    value = parsed(content) if isinstance(content, str) else content
    calls, bad = calls_of(value) if isinstance(value, dict | list) else ([], 1)
    if bad or not calls:
        detail = "the text of a call turn is no object with name and arguments; kept as the arguments of a call"
        rows.talk.notes.append(Note("bad_tool_call", detail))
        calls = [one] if (one := legacy_call(content if isinstance(content, str) else dump_json(content))) else []
    row = rows.act(None, calls)
    written = content if isinstance(content, str) and value is not None else dump_json(content)
    rows.set(row, parts=written)
    if extras:
        rows.leave(row, extras)


def _more(rows: ChatRows, row: int, entry: dict[str, Any], extras: dict[str, Any], found: list[dict[str, Any]]) -> None:
    """What any turn may say of itself besides its text."""
    stamp = entry.get("timestamp")
    if stamp is not None:
        at, naive = moment(stamp)
        rows.set(row, timestamp=at, started_at=at)
        if at is None:
            extras["timestamp"] = stamp
        elif naive and not any(n.code == "naive_time" for n in rows.talk.notes):
            rows.talk.notes.append(Note("naive_time", "times without a zone were read as UTC", "info"))
    native = ident(entry.get("id"))
    if native is not None:
        rows.set(row, native_id=native)
    if extras:
        rows.leave(row, extras)
    if found:
        rows.attach(row, found)


def _think(rows: ChatRows, row: int, content: str, spoken: str | None) -> None:
    """Copy a leading `<think>` block to the reasoning column; templates may have eaten the opening tag."""
    end = content.find(_END)
    if end < 0 or spoken is not None:
        return
    begin = content.find(_BEGIN, 0, end)
    if begin > 0 and content[:begin].strip():
        return
    rows.set(row, reasoning=content[begin + len(_BEGIN) if begin >= 0 else 0 : end].strip())
    rows.leave(row, {"reasoning_from": "content"})
    rows.talk.thinks += 1


def _flat(content: Any, found: list[dict[str, Any]]) -> tuple[str | None, str | None]:
    """Text of a content field and, when it is no plain text, the JSON of its parts with binary taken out."""
    if content is None or content.__class__ is str:
        return content, None
    if isinstance(content, list):
        texts = [p if isinstance(p, str) else text(p.get("text")) if isinstance(p, dict) else None for p in content]
        if all(t is not None for t in texts):
            return "".join(t or "" for t in texts), dump_json(content)
        return None, dump_json(lift(content, found))
    written = dump_json(lift(content, found))
    return written, written


def _origin(rows: ChatRows, content: str) -> str:
    """Who really wrote a user turn: a person, the harness (R7), or a tool whose protocol has no role for it."""
    if rows.has_acted and (content.startswith(OBSERVED) or content.endswith(OBSERVED_END)):
        return "tool"
    return "harness" if injected(content) else "human"


def _origin_of(rows: ChatRows, said: str | None, content: Any) -> str:
    """The same for a turn of parts: a person's as soon as one part is; that part is what was asked."""
    if not isinstance(content, list):
        return "human" if said is None else _origin(rows, said)
    texts = [
        t for p in content if (t := p if isinstance(p, str) else text(p.get("text") if isinstance(p, dict) else None))
    ]
    own = [t for t in texts if _origin(rows, t) == "human"]
    if texts and not own:
        return _origin(rows, texts[0])
    if rows.talk.instruction is None and own:
        rows.talk.instruction = "\n".join(own)
    return "human"


def _reasoning(value: Any) -> str | None:
    """Reasoning text; some sources give a list of parts."""
    if isinstance(value, str):
        return value or None
    if isinstance(value, list):
        texts = [t for p in value if isinstance(p, dict) and (t := text(p.get("text")) or text(p.get("thinking")))]
        return "\n".join(texts) or None
    if isinstance(value, dict):
        return text(value.get("text")) or text(value.get("content"))
    return None


def _flagged(entry: dict[str, Any]) -> bool | None:
    """Whether the source itself calls a result an error."""
    flag, error = entry.get("is_error"), entry.get("error")
    if isinstance(flag, bool):
        return flag
    if isinstance(error, bool):
        return error
    return True if isinstance(error, dict | str) and error else None


def _trainable(entry: dict[str, Any]) -> bool:
    """False where the source says that a turn is not to be learned from (R6)."""
    for key in ("loss", "train", "mask"):
        flag = entry.get(key)
        # In the sets that have `mask` true marks what is learned; elsewhere the word means the opposite and comes without text.
        if isinstance(flag, bool) and (key != "mask" or "text" in entry):
            return flag
    weight = entry.get("weight")
    return not (weight.__class__ in (int, float) and weight == 0)
