"""Parts of chat messages: calls, usage, and large binary that becomes an artifact."""

from __future__ import annotations

import ast
import base64
import binascii
from typing import Any

import orjson

from expcomp.io.digest import PREFIX, sha256_hex
from expcomp.sources._json import dump_json, is_object_text, load_json
from expcomp.sources._values import amount, count, obj, text

Call = tuple[str | None, str | None, str | None, bool, str]
"""Id, name, arguments as text, whether they are a JSON object, kind."""

_KINDS = {"function": "function", "custom": "custom", "server": "server"}
_ARGUMENTS = ("arguments", "input", "args", "parameters")
_LITERAL = 100_000
_NO_CALLS = (None, "", "null", "None")


def ident(value: Any) -> str | None:
    """An id as text; some sources count their calls."""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return text(value)


def one_call(call_id: Any, name: Any, arguments: Any, kind: Any = "function") -> Call:
    """A call; arguments that the source wrote as text stay that text, whatever it is (R9)."""
    if isinstance(arguments, str):
        written: str | None = arguments
        good = is_object_text(arguments)
    else:
        written, good = (None if arguments is None else dump_json(arguments)), isinstance(arguments, dict)
    known = _KINDS.get(kind, "function") if isinstance(kind, str) else "function"
    return (ident(call_id), text(name), written, good, known)


def calls_of(raw: Any) -> tuple[list[Call], int]:
    """The calls of a `tool_calls` field and how many entries are none; the list and its entries may be JSON text."""
    value = parsed(raw) if isinstance(raw, str) else raw
    if isinstance(value, dict):
        value = [value]
    if not isinstance(value, list):
        return [], int(raw not in _NO_CALLS)
    out: list[Call] = []
    bad = 0
    for one in value:
        entry = parsed(one) if isinstance(one, str) else one
        if isinstance(entry, dict):
            out.append(_call(entry))
        else:
            bad += one not in _NO_CALLS
    return out, bad


def _call(entry: dict[str, Any]) -> Call:
    inner = entry.get("function")
    if inner.__class__ is dict:
        call_id, name, written = entry.get("id"), inner.get("name"), inner.get("arguments")
        if call_id.__class__ is str and name.__class__ is str and written.__class__ is str:
            kind = entry.get("type")
            return (
                call_id,
                name,
                written,
                is_object_text(written),
                _KINDS.get(kind, "function") if kind.__class__ is str else "function",
            )
    if inner.__class__ is not dict:
        if isinstance(inner, str):
            inner = parsed(inner)
        if not isinstance(inner, dict):
            inner = entry.get("custom")
        if not isinstance(inner, dict):
            inner = entry
    key = next((k for k in _ARGUMENTS if inner.get(k) is not None), "arguments")
    return one_call(entry.get("id", inner.get("id")), inner.get("name"), inner.get(key), entry.get("type"))


def legacy_call(raw: Any) -> Call | None:
    """The call of a `function_call` field: an object, or its text in JSON or in Python's notation."""
    if isinstance(raw, str):
        entry = parsed(raw)
        if not isinstance(entry, dict):
            return one_call(None, None, raw)
    elif isinstance(raw, dict):
        entry = raw
    else:
        return None
    if not any(v is not None for v in entry.values()):
        return None
    key = next((k for k in _ARGUMENTS if entry.get(k) is not None), "arguments")
    return one_call(entry.get("id"), entry.get("name"), entry.get(key))


def parsed(written: str) -> Any:
    """The value that a text holds in JSON or as a Python literal; null if in neither."""
    start = written.lstrip()[:1]
    if start not in ("{", "["):
        return None
    try:
        value = orjson.loads(written)
        orjson.dumps(value)
    except orjson.JSONDecodeError:
        pass
    except TypeError:
        return None
    else:
        return value
    value, problems = load_json(written.encode("utf-8", "replace"))
    if not any(p.code == "bad_json" for p in problems):
        return value
    if len(written) > _LITERAL:
        return None
    try:
        value = ast.literal_eval(written.strip())
        # What JSON does not know (sets, bytes, lone surrogates) is no value here either.
        return orjson.loads(orjson.dumps(value))
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return None


def usage_of(raw: Any) -> dict[str, Any]:
    """Usage columns of a usage object in the terms of OpenAI chat, Responses or Anthropic; input includes what was cached."""
    use = obj(raw)
    if not use:
        return {}
    if "cache_read_input_tokens" in use or "cache_creation_input_tokens" in use:
        read, write = count(use.get("cache_read_input_tokens")), count(use.get("cache_creation_input_tokens"))
        fresh = count(use.get("input_tokens"))
        whole = None if fresh is None else fresh + (read or 0) + (write or 0)
        out: dict[str, Any] = {"input_tokens": whole, "cached_input_tokens": read, "cache_write_tokens": write}
    else:
        into = use.get("prompt_tokens_details") or use.get("input_tokens_details")
        out = {
            "input_tokens": count(use.get("prompt_tokens", use.get("input_tokens"))),
            "cached_input_tokens": count(obj(into).get("cached_tokens")),
        }
    made = use.get("completion_tokens_details") or use.get("output_tokens_details")
    out |= {
        "output_tokens": count(use.get("completion_tokens", use.get("output_tokens"))),
        "reasoning_tokens": count(obj(made).get("reasoning_tokens")),
        "cost_usd": amount(use.get("cost")) or None,
    }
    return {k: v for k, v in out.items() if v is not None}


def lift(part: Any, found: list[dict[str, Any]]) -> Any:
    """A part of a message with its binary replaced by a reference; the rows of the artifacts go to `found`."""
    if isinstance(part, list):
        return [lift(p, found) for p in part]
    if not isinstance(part, dict):
        return part
    for key, value in part.items():
        if isinstance(value, str):
            blob = _data_url(value)
        elif isinstance(value, dict):
            blob = _embedded(value)
        else:
            if isinstance(value, list):
                return part | {k: lift(v, found) for k, v in part.items() if isinstance(v, list | dict)}
            continue
        if blob is None:
            continue
        mime, data = blob
        digest = PREFIX + sha256_hex(data)
        image = mime is not None and mime.startswith("image/")
        found.append({"kind": "image" if image else "file", "mime": mime, "bytes": len(data), "digest": digest})
        rest = {k: v for k, v in part.items() if k not in (key, "type")}
        if isinstance(value, dict):
            rest |= {k: v for k, v in value.items() if k not in ("url", "data", "file_data", "type", "media_type")}
        kind = "image" if image else part.get("type") or "file"
        return {"type": kind, "artifact": digest, "mime": mime, "bytes": len(data)} | rest
    return part


def _embedded(value: dict[str, Any]) -> tuple[str | None, bytes] | None:
    for key in ("url", "file_data", "bytes"):
        inner = value.get(key)
        if isinstance(inner, str):
            blob = _data_url(inner)
            if blob is not None:
                return blob
    data = value.get("data")
    if not isinstance(data, str) or (value.get("type") != "base64" and "format" not in value):
        return None
    plain = _decoded(data)
    mime = text(value.get("media_type")) or (f"audio/{value['format']}" if "format" in value else None)
    return None if plain is None else (mime, plain)


def _data_url(value: str) -> tuple[str | None, bytes] | None:
    if not value.startswith("data:"):
        return None
    head, comma, data = value.partition(",")
    if not comma or not head.endswith(";base64"):
        return None
    blob = _decoded(data)
    return None if blob is None else (head[5:].partition(";")[0] or None, blob)


def _decoded(data: str) -> bytes | None:
    try:
        return base64.b64decode(data, validate=True) or None
    except (binascii.Error, ValueError):
        return None
