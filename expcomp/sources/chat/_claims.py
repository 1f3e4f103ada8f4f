"""What the first bytes of a file say about the chats in it; all formats of the family ask here, once per file."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import polars as pl

from expcomp.sources._bytes import HEAD, open_plain
from expcomp.sources._json import load_json
from expcomp.sources._look import Look
from expcomp.sources.chat import _log as _chat_log
from expcomp.sources.chat import _responses
from expcomp.sources.chat import _turns as _chat_turns
from expcomp.sources.chat._anthropic import BLOCKS
from expcomp.sources.chat._columns import INSTANCES, LABELS
from expcomp.sources.chat._sets import first_records
from expcomp.sources.chat._shape import CHATS, chats_of, is_single

if TYPE_CHECKING:
    from collections.abc import Iterable

_FURTHER = 4 << 20
_TURNS = 64
_SEEN = "chat_kind"
_GZIP = b"\x1f\x8b"
_ZSTD = b"\x28\xb5\x2f\xfd"
_OTHERS = frozenset({"trajectory_format", "schema_version", "simulations", "dotted_order", "traceId", "sessionId"})
"""Keys of records that are of other formats, whatever they hold besides."""


def kind_of(look: Look) -> str | None:
    """Which format of the family a file is of; null if of none. The answer is kept with the look."""
    kept = vars(look)
    if _SEEN not in kept:
        kept[_SEEN] = _kind(look)
    found: str | None = kept[_SEEN]
    return found


def _kind(look: Look) -> str | None:
    head = _records(look)
    if not head:
        return _by_shape(look)
    first = head[0]
    if isinstance(first, list):
        return _dialect(first)
    if not isinstance(first, dict) or first.keys() & _OTHERS:
        return None
    objects = [r for r in head if isinstance(r, dict)]
    if is_single(first):
        return _dialect(objects)
    if _chat_log.is_log(objects):
        return _log_kind(objects)
    chats = chats_of(first)
    if not chats:
        return None
    dialect = _dialect(chats[0].turns)
    if dialect is None:
        return None
    keys = set[str]().union(*(r.keys() for r in objects))
    if chats[0].mark is None and chats[0].used[0] in (*CHATS, "prompt") and keys & (LABELS | INSTANCES):
        return "hf_trajectories"
    if dialect == "openai_chat":
        if "conversations" in chats[0].used:
            return "sharegpt"
        if isinstance(first.get("system"), str | list):
            return "anthropic_messages"
    return dialect


def _records(look: Look) -> list[Any]:
    """The first records, as far as they can be had with a short look."""
    if look.kind == "parquet":
        import pyarrow as pa

        try:
            return first_records(look.path, 4)
        except (OSError, ValueError, pa.ArrowException, pl.exceptions.PolarsError):
            return []
    if look.kind not in ("object", "array"):
        return []
    if look.rows:
        return list(look.rows)
    longer = look
    if len(look.head) >= HEAD and any(
        k in look.keys for k in (*CHATS, "chosen", "completion", "request", "role", "input")
    ):
        longer = Look(look.path, _longer(look.path))
    if longer.rows:
        return list(longer.rows)
    value, _ = load_json(longer.body.partition(b"\n")[0]) if longer.kind == "array" else (None, [])
    return [value] if isinstance(value, list) and value and isinstance(value[0], dict) else []


def _longer(path: Path) -> bytes:
    """More of a file than a look holds, decompressed."""
    try:
        with open_plain(path) as handle:
            start = handle.read(4)
            handle.seek(0)
            stream: IO[bytes] = handle
            if start.startswith(_GZIP):
                stream = gzip.GzipFile(fileobj=handle)  # type: ignore[assignment]
            elif start.startswith(_ZSTD):
                import pyarrow as pa

                stream = pa.CompressedInputStream(handle, "zstd")
            return stream.read(_FURTHER)
    except (OSError, EOFError, zlib.error):
        return b""


def _by_shape(look: Look) -> str | None:
    """The same from the keys alone, where not even the first record could be read as a whole."""
    if look.keys & _OTHERS:
        return None
    for key in CHATS:
        said = look.at(key)
        if key not in look.keys or not said & {"role", "from"} or not said & {"content", "value", "text", "tool_calls"}:
            continue
        if look.keys & (LABELS | INSTANCES):
            return "hf_trajectories"
        if look.at(f"{key}/content") & {"tool_use_id", "input", "thinking"} or "system" in look.keys:
            return "anthropic_messages"
        return "sharegpt" if "from" in said or key == "conversations" else "openai_chat"
    return None


def _dialect(turns: list[Any]) -> str | None:
    """Dialect of a list of turns; null if they are none."""
    entries = [t for t in turns[:_TURNS] if isinstance(t, dict)]
    if any(map(_responses.is_item, entries)):
        return "openai_responses"
    if not entries or not _chat_turns.is_message(entries[0]):
        return None
    if any(b in BLOCKS for e in entries for b in _block_types(e)):
        return "anthropic_messages"
    if any(e.get("type") == "message" and "stop_reason" in e for e in entries):
        return "anthropic_messages"
    return "sharegpt" if "from" in entries[0] and "role" not in entries[0] else "openai_chat"


def _block_types(entry: dict[str, Any]) -> Iterable[str]:
    content = entry.get("content")
    if isinstance(content, list):
        for block in content:
            if isinstance(block, dict) and isinstance(block.get("type"), str):
                yield block["type"]


def _log_kind(records: list[dict[str, Any]]) -> str | None:
    guessed: str | None = None
    for record in records:
        request, response = _chat_log.sides(record)
        if response is not None:
            if "choices" in response:
                return "openai_chat"
            return "openai_responses" if "output" in response else "anthropic_messages"
        asked = _dialect(_chat_log.history(request)) if request is not None else None
        if asked is not None:
            guessed = guessed or ("anthropic_messages" if "system" in (request or {}) else asked)
    return guessed
