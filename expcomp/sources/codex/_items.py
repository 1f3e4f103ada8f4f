"""Responses items of a rollout: calls, results, reasoning."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import orjson

from expcomp.sources._chat import call
from expcomp.sources._json import dump_json
from expcomp.sources._media import spoken
from expcomp.sources._values import items, obj, small, text

if TYPE_CHECKING:
    from expcomp.sources._chat import Row

CALLS = frozenset(
    "function_call custom_tool_call local_shell_call web_search_call tool_search_call image_generation_call".split()
)
RESULTS = frozenset("function_call_output custom_tool_call_output tool_search_output".split())
SILENT = frozenset({"ghost_snapshot"})
"""Items that the model never sees."""
_SERVER = frozenset({"web_search_call", "image_generation_call"})
_ENVELOPE = frozenset("type id call_id status execution internal_chat_message_metadata_passthrough".split())
_EXITED = ("Process exited with code", "Exit code:")
_EXIT = re.compile(rf"^(?:{'|'.join(_EXITED)}) (-?\d+)\s*$", re.MULTILINE)
_CUT = ("tokens truncated", "chars truncated", "[... omitted ")


def call_of(item: Row) -> Row:
    """The tool call that an item is."""
    kind = item.get("type")
    call_id = item.get("call_id") or item.get("id")
    if kind == "function_call":
        return call(call_id, item.get("name"), item.get("arguments"))
    if kind == "custom_tool_call":
        return call(call_id, item.get("name"), item.get("input"), "custom")
    name = str(kind).removesuffix("_call")
    inner = item.get("arguments") if "arguments" in item else item.get("action")
    if inner is None:
        rest = {k: v for k, v in item.items() if k not in _ENVELOPE and k != "result"}
        inner = rest or None
    return call(call_id, name, inner, "server" if kind in _SERVER else "function")


def result_of(item: Row, pictures: list[Row]) -> tuple[str | None, str | None, Row]:
    """Text of a result, the JSON of its parts and its flags."""
    output = item.get("output")
    flags: Row = {}
    content: str | None
    parts: str | None = None
    if type(output) is str:
        content = output
    else:
        if output is None and item.get("type") == "tool_search_output":
            output = dump_json(item.get("tools"))
        if isinstance(output, dict):
            if isinstance(output.get("success"), bool):
                flags["is_error"] = not output["success"]
            if "content" in output:
                output = output["content"]
        content, parts = spoken(output, pictures)
    if content is not None:
        exit_code = exit_of(content)
        if exit_code is not None:
            flags["exit_code"] = exit_code
        if _CUT[0] in content or _CUT[1] in content or _CUT[2] in content:
            flags["truncated"] = True
    return content, parts, flags


def said(content: Any, pictures: list[Row]) -> tuple[str | None, str | None]:
    """As `spoken`; a single plain text, which nearly every message is, is taken as it is."""
    if type(content) is list and len(content) == 1:
        part = content[0]
        if type(part) is dict and len(part) == 2 and "type" in part:
            written = part.get("text")
            if type(written) is str:
                return written, None
    return spoken(content, pictures)


def exit_of(content: str) -> int | None:
    """Exit code that a result tells of, in its metadata or in the lines before the output."""
    if content.startswith("{"):
        if '"metadata"' not in content:
            return None
        try:
            return small(obj(obj(orjson.loads(content)).get("metadata")).get("exit_code"))
        except orjson.JSONDecodeError:
            return None
    head = content[:600].partition("\nOutput:")[0]
    # A look for the words costs a tenth of the pattern.
    if _EXITED[0] not in head and _EXITED[1] not in head:
        return None
    found = _EXIT.search(head)
    return small(int(found.group(1))) if found else None


def reasoning_of(item: Row) -> tuple[str | None, bool]:
    """Reasoning as text (in full where it is there, else the summary), and whether the reasoning itself is only a ciphertext."""
    full = _texts(item.get("content"))
    written = full or _texts(item.get("summary"))
    return "\n\n".join(written) or None, bool(text(item.get("encrypted_content"))) and not full


def agent_in(content: str | None) -> str | None:
    """Thread that a spawn call brought to life, by its result."""
    if content is None or not content.startswith("{"):
        return None
    try:
        return text(obj(orjson.loads(content)).get("agent_id"))
    except orjson.JSONDecodeError:
        return None


def _texts(raw: Any) -> list[str]:
    found = [p if isinstance(p, str) else obj(p).get("text") for p in items(raw)]
    return [t for t in found if isinstance(t, str) and t]
