"""Content blocks of the Anthropic API: calls, results and reasoning are parts of a turn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from expcomp.sources._json import dump_json
from expcomp.sources._values import text
from expcomp.sources.chat._parts import ident, lift, one_call

if TYPE_CHECKING:
    from expcomp.sources.chat._parts import Call
    from expcomp.sources.chat._rows import ChatRows

AGENT_BLOCKS = frozenset({"tool_use", "thinking", "redacted_thinking", "server_tool_use", "mcp_tool_use"})
"""Types of blocks that only a model writes."""
BLOCKS = AGENT_BLOCKS | {"tool_result"}
_SERVER = frozenset({"server_tool_use", "mcp_tool_use"})
_PLAIN = {
    "text": {"type", "text"},
    "thinking": {"type", "thinking"},
    "tool_use": {"type", "id", "name", "input"},
}
_ORDER = {"thinking": 0, "text": 1, "tool_use": 2}
_CALLS = 2


def is_blocks(content: Any, *types: str) -> bool:
    """Whether a content field is a list with blocks that need more than their text read (of these types, if any are named)."""
    if content.__class__ is not list:
        return False
    wanted = types or AGENT_BLOCKS
    for block in content:
        kind = block.get("type") if block.__class__ is dict else None
        if kind.__class__ is str and (kind in wanted or (not types and _is_server_result(block))):
            return True
    return False


def agent_blocks(
    rows: ChatRows,
    blocks: list[Any],
    calls: list[Call],
    spoken: str | None,
    found: list[dict[str, Any]],
    *,
    trainable: bool,
) -> int:
    """An assistant turn of blocks: one message and one step; results of the server's own tools are observations of that step."""
    texts: list[str] = []
    reasoning: list[str] = [spoken] if spoken else []
    results: list[dict[str, Any]] = []
    calls, hidden = list(calls), False
    plain, last = True, -1
    for block in blocks:
        entry = block if isinstance(block, dict) else {"type": "text", "text": text(block)}
        kind = text(entry.get("type"))
        if kind == "text":
            texts.append(text(entry.get("text")) or "")
        elif kind == "thinking":
            thought = text(entry.get("thinking"))
            hidden |= not thought
            if thought:
                reasoning.append(thought)
        elif kind == "redacted_thinking":
            hidden = True
        elif kind == "tool_use" or kind in _SERVER:
            server = "server" if kind in _SERVER else "function"
            calls.append(one_call(entry.get("id"), entry.get("name"), entry.get("input"), server))
        elif _is_server_result(entry):
            results.append(entry)
        place = _ORDER.get(kind or "", -1)
        plain &= (place > last or place == last == _CALLS) and entry.keys() == _PLAIN.get(kind or "")
        last = place
    row = rows.act("".join(texts) if texts else None, calls, trainable=trainable)
    rows.set(
        row,
        reasoning="\n".join(reasoning) or None,
        reasoning_opaque=True if hidden and not reasoning else None,
        # Signatures, several texts and blocks in another order are only in the blocks.
        parts=None if plain else dump_json(lift(blocks, found)),
    )
    for result in results:
        said, shown = result_text(result.get("content"), found)
        rows.observe(
            row, ident(result.get("tool_use_id")), said if said is not None else shown, is_error=_error(result)
        )
    return row


def person_blocks(rows: ChatRows, blocks: list[Any], found: list[dict[str, Any]]) -> tuple[int | None, list[Any]]:
    """Write the results in a user turn, one tool message each; gives the last of them and the blocks that are left."""
    rest: list[Any] = []
    row = None
    for block in blocks:
        if not isinstance(block, dict) or block.get("type") != "tool_result":
            rest.append(block)
            continue
        images: list[dict[str, Any]] = []
        said, parts = result_text(block.get("content"), images)
        row = rows.result(ident(block.get("tool_use_id")), said, parts=parts, is_error=_error(block))
        extras = {k: v for k, v in block.items() if k not in ("type", "tool_use_id", "content", "is_error")}
        if extras:
            rows.leave(row, extras)
        if images:
            rows.attach(row, images)
    return row, rest


def result_text(content: Any, found: list[dict[str, Any]]) -> tuple[str | None, str | None]:
    """Text of a result and the JSON of its parts; a single plain text block is its text."""
    if content is None or isinstance(content, str):
        return content, None
    if not isinstance(content, list):
        written = dump_json(lift(content, found))
        return written, written
    texts = [b.get("text") if isinstance(b, dict) and b.get("type") == "text" else None for b in content]
    if all(isinstance(t, str) for t in texts):
        return "".join(str(t) for t in texts), dump_json(content)
    return None, dump_json(lift(content, found))


def _is_server_result(block: dict[str, Any]) -> bool:
    kind = block.get("type")
    return isinstance(kind, str) and kind.endswith("_tool_result") and kind != "tool_result"


def _error(block: dict[str, Any]) -> bool | None:
    flag = block.get("is_error")
    if isinstance(flag, bool):
        return flag
    inner = block.get("content")
    return True if isinstance(inner, dict) and str(inner.get("type")).endswith("_error") else None
