"""Items of the OpenAI Responses API: one after the other, those of one model call between two inputs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from expcomp.sources._chat import Note
from expcomp.sources._json import dump_json
from expcomp.sources._values import items, text
from expcomp.sources.chat._parts import ident, lift, one_call
from expcomp.sources.chat._turns import write as write_turns

if TYPE_CHECKING:
    from expcomp.sources.chat._parts import Call
    from expcomp.sources.chat._rows import ChatRows

CALLS = {
    "function_call": "function",
    "custom_tool_call": "custom",
    "local_shell_call": "function",
    "shell_call": "function",
    "apply_patch_call": "function",
    "computer_call": "function",
    "tool_search_call": "server",
    "web_search_call": "server",
    "file_search_call": "server",
    "code_interpreter_call": "server",
    "image_generation_call": "server",
    "mcp_call": "server",
}
"""Types of items that are calls -> kind. The server runs its own tools and writes what came back, if anything, into the call."""
ITEMS = frozenset(CALLS) | {
    "reasoning",
    "function_call_output",
    "custom_tool_call_output",
    "local_shell_call_output",
    "shell_call_output",
    "apply_patch_call_output",
    "computer_call_output",
    "mcp_list_tools",
    "mcp_approval_request",
    "mcp_approval_response",
    "item_reference",
    "compaction",
}
"""Types that tell an item from a chat message."""
_ARGUMENTS = ("arguments", "input", "action", "operation", "query", "queries", "code")
_RESULTS = ("output", "outputs", "results", "result")
_ABOUT = ("type", "id", "call_id", "status", "name", "namespace", "server_label", "error", "container_id")


def is_item(entry: Any) -> bool:
    """Whether an object is an item that no other dialect has, or a message made of parts for this API."""
    if not isinstance(entry, dict):
        return False
    kind = entry.get("type")
    if not isinstance(kind, str):
        return False
    if kind == "message":
        return isinstance(entry.get("role"), str) and any(
            isinstance(p, dict) and p.get("type") in ("input_text", "output_text", "input_image", "refusal")
            for p in items(entry.get("content"))
        )
    return kind in ITEMS


def write(rows: ChatRows, raw: list[Any]) -> None:
    """Write items: each run of reasoning, text and calls of the model is one assistant message and one step."""
    run: list[dict[str, Any]] = []
    for pos, item in enumerate(raw):
        if not isinstance(item, dict):
            detail = f"item {pos} is {type(item).__name__}, expected an object; left out"
            rows.talk.notes.append(Note("bad_message", detail, pos=pos))
            continue
        kind = text(item.get("type")) or ("message" if "role" in item else None)
        if kind in CALLS or kind == "reasoning" or (kind == "message" and item.get("role") == "assistant"):
            run.append(item)
            continue
        if run:
            _act(rows, run)
            run = []
        if kind is not None and kind.endswith("_output"):
            _result(rows, item)
        elif kind == "message":
            write_turns(rows, [{k: v for k, v in item.items() if k not in ("type", "status")}])
        else:
            detail = f"item {pos} of type {str(kind)[:80]!r} is no turn; left out"
            rows.talk.notes.append(Note("unknown_item", detail, "info", pos))
    if run:
        _act(rows, run)


def _act(rows: ChatRows, run: list[dict[str, Any]]) -> None:
    texts: list[str] = []
    reasoning: list[str] = []
    calls: list[Call] = []
    kept: list[Any] = []
    found: list[dict[str, Any]] = []
    results: list[tuple[str | None, str | None, bool | None]] = []
    extras: dict[str, Any] = {}
    hidden, native, answered = False, None, False
    for item in run:
        kind = text(item.get("type"))
        if kind == "reasoning":
            thoughts = [*_texts(item.get("summary")), *_texts(item.get("content"))]
            reasoning += thoughts
            hidden |= not thoughts
        elif kind in CALLS:
            calls.append(_call(item, CALLS[kind]))
            server = _server_result(item, found) if CALLS[kind] == "server" else None
            if server is not None:
                results.append(server)
        else:
            native = native or text(item.get("id"))
            content = item.get("content")
            said = [content] if isinstance(content, str) else _texts(content)
            parts = items(content)
            plain = isinstance(content, str) or (len(parts) == 1 and _plain(parts[0]))
            if not plain or answered:
                kept.append(content)
            answered = True
            texts += said
            if item.get("phase") is not None:
                extras["phase"] = item["phase"]
    row = rows.act("".join(texts) if texts else None, calls)
    rows.set(
        row,
        reasoning="\n".join(reasoning) or None,
        reasoning_opaque=True if hidden and not reasoning else None,
        parts=dump_json(lift(kept[0] if len(kept) == 1 else kept, found)) if kept else None,
        native_id=native,
    )
    for call_id, said_back, failed in results:
        rows.observe(row, call_id, said_back, is_error=failed)
    if extras:
        rows.leave(row, extras)
    if found:
        rows.attach(row, found)


def _call(item: dict[str, Any], kind: str) -> Call:
    native = ident(item.get("call_id"))
    name = text(item.get("name")) or (text(item.get("type")) or "").removesuffix("_call") or None
    key = next((k for k in _ARGUMENTS if item.get(k) is not None), None)
    if key is None:
        left = {k: v for k, v in item.items() if k not in _ABOUT and k not in _RESULTS and v is not None}
        return one_call(native or item.get("id"), name, left or None, kind)
    return one_call(native or item.get("id"), name, item[key], kind)


def _server_result(
    item: dict[str, Any], found: list[dict[str, Any]]
) -> tuple[str | None, str | None, bool | None] | None:
    error = item.get("error")
    back = next((item[k] for k in _RESULTS if item.get(k) is not None), None)
    if back is None and not error:
        return None
    value = lift(error if back is None else back, found)
    native = ident(item.get("call_id")) or ident(item.get("id"))
    return native, value if isinstance(value, str) else dump_json(value), True if error else None


def _result(rows: ChatRows, item: dict[str, Any]) -> None:
    output = item.get("output")
    found: list[dict[str, Any]] = []
    parts = None
    said = text(output)
    if output is not None and said is None:
        texts = _texts(output)
        parts = dump_json(lift(output, found))
        whole = isinstance(output, list) and len(texts) == len(output)
        said = "".join(texts) if whole else parts if not isinstance(output, list) else None
    failed = True if item.get("status") in ("failed", "incomplete") and "error" in item else None
    row = rows.result(ident(item.get("call_id")), said, parts=parts, is_error=failed)
    rows.set(row, native_id=text(item.get("id")))
    if found:
        rows.attach(row, found)


def _texts(parts: Any) -> list[str]:
    """Texts of parts; a refusal is what the model said."""
    out = []
    for part in items(parts):
        if isinstance(part, dict):
            said = text(part.get("text"))
            said = text(part.get("refusal")) if said is None else said
            if said is not None:
                out.append(said)
        elif isinstance(part, str):
            out.append(part)
    return out


def _plain(part: Any) -> bool:
    """Whether a part is nothing but its text; empty annotations say nothing."""
    if not isinstance(part, dict) or part.get("type") not in ("output_text", "input_text", "text"):
        return False
    return all(k in ("type", "text") or not v for k, v in part.items())
