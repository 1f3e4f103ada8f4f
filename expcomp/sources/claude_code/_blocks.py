"""Small readings of the messages and blocks in Claude Code lines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from expcomp.sources._chat import flat
from expcomp.sources._harness import injected
from expcomp.sources._json import dump_json
from expcomp.sources._values import amount, count, items, obj, text

if TYPE_CHECKING:
    from expcomp.sources._chat import Row

SERVER_CALLS = ("server_tool_use", "mcp_tool_use")
"""Types of blocks that are calls of tools the service runs itself; a tuple, since a type may be any value."""


def call_kind(kind: Any) -> str:
    return "server" if kind in SERVER_CALLS else "function"


def union(lines: list[Row]) -> list[Row]:
    """Blocks of a message over its lines; lines that repeat blocks of an earlier one add nothing."""
    out: list[Row] = []
    seen: set[tuple[Any, str]] = set()
    for rec in lines:
        content = rec["message"].get("content")
        if isinstance(content, str):
            content = [{"type": "text", "text": content}]
        blocks = [b if isinstance(b, dict) else {"type": "text", "text": b} for b in items(content) if b is not None]
        fresh = blocks if not out else [b for b in blocks if _known(b) not in seen]
        out += fresh
        if len(lines) > 1:
            seen.update(map(_known, fresh))
    return out


def _known(block: Row) -> tuple[Any, str]:
    """What tells a block from others of its message: the id of a call, else all of it."""
    for key in ("id", "text", "thinking"):
        value = block.get(key)
        if isinstance(value, str):
            return key, value
    return None, dump_json(block)


def last_word(lines: list[Row], key: str) -> str | None:
    for rec in reversed(lines):
        value = rec["message"].get(key)
        if isinstance(value, str):
            return value
    return None


def usage_of(lines: list[Row]) -> Row:
    """Usage of a model call: what its last line says. The prompt is what was read anew, from a cache, and into a cache."""
    usage: Row = {}
    cost: float | None = None
    for rec in lines:
        usage = obj(rec["message"].get("usage")) or usage
        found = amount(rec.get("costUSD"))
        cost = found if found is not None else cost
    fresh, read = count(usage.get("input_tokens")), count(usage.get("cache_read_input_tokens"))
    written, out = count(usage.get("cache_creation_input_tokens")), count(usage.get("output_tokens"))
    prompt = [n for n in (fresh, read, written) if n is not None]
    if not any((fresh, read, written, out)):
        # A gateway that counts nothing writes zeros; a call cannot have an empty prompt and an empty answer.
        return {"cost_usd": cost} if cost is not None else {}
    return {
        "input_tokens": count(sum(prompt)) if prompt else None,
        "cached_input_tokens": read,
        "cache_write_tokens": written,
        "output_tokens": out,
        "cost_usd": cost,
    }


def native_ids(rec: Row) -> Row:
    return {"native_id": text(rec.get("uuid")), "native_parent_id": text(rec.get("parentUuid"))}


def plain(content: Any) -> tuple[str | None, str | None]:
    """As `flat`; a single block of nothing but text is plain text."""
    if isinstance(content, list) and len(content) == 1:
        only = content[0]
        if (
            isinstance(only, dict)
            and len(only) == 2
            and only.get("type") == "text"
            and isinstance(only.get("text"), str)
        ):
            return only["text"], None
    return flat(content)


def has_binary(content: list[Any]) -> bool:
    return any(isinstance(b, dict) and "source" in b for b in content)


def first_text(content: Any) -> str | None:
    return next((t for t in (text(obj(b).get("text")) for b in items(content)) if t is not None), None)


def all_injected(shown: str | None, content: Any) -> bool:
    """Whether the harness wrote all of the text (R7)."""
    if isinstance(content, list):
        texts = [t for t in (text(obj(b).get("text")) for b in content) if t is not None and t.strip()]
        return bool(texts) and len(texts) == len(content) and all(injected(t) for t in texts)
    return shown is not None and injected(shown)
