"""Content parts without their bytes: text as text, an inline picture as a reference to an artifact."""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING, Any

from expcomp.io.digest import PREFIX, sha256_hex
from expcomp.sources._json import dump_json
from expcomp.sources._values import obj

if TYPE_CHECKING:
    from expcomp.sources._chat import Row

_PLAIN = frozenset({"type", "text", "annotations", "cache_prompt", "logprobs"})


def spoken(content: Any, pictures: list[Row]) -> tuple[str | None, str | None]:
    """Text of a content field and, when it is more than one plain text, the JSON of its parts.

    Args:
        content: A text, or a list of parts that have a `text` or hold a picture.
        pictures: Where rows of `artifacts` go, without their attempt.
    """
    if content is None or isinstance(content, str):
        return content, None
    if not isinstance(content, list):
        kept = dump_json(lighten(content, pictures))
        return kept, kept
    texts = [p if isinstance(p, str) else obj(p).get("text") for p in content]
    written = [t for t in texts if isinstance(t, str)]
    if len(written) < len(texts):
        return ("".join(written) if written else None), dump_json(lighten(content, pictures))
    plain = len(content) <= 1 and all(isinstance(p, dict) and p.keys() <= _PLAIN for p in content)
    return "".join(written), None if plain else dump_json(content)


def lighten(value: Any, pictures: list[Row]) -> Any:
    """The value with inline pictures replaced by references to artifacts."""
    if isinstance(value, str):
        found = picture(value) if value.startswith("data:") else None
        if found is None:
            return value
        pictures.append(found)
        return {"artifact": found["digest"], "mime": found["mime"]}
    if isinstance(value, list):
        return [lighten(v, pictures) for v in value]
    if isinstance(value, dict):
        bare = value.get("data")
        mime = value.get("mimeType") or value.get("media_type")
        if isinstance(bare, str) and isinstance(mime, str):
            found = picture(f"data:{mime};base64,{bare}")
            if found is not None:
                pictures.append(found)
                rest = {k: v for k, v in value.items() if k not in ("data", "mimeType", "media_type")}
                return rest | {"artifact": found["digest"], "mime": mime}
        return {k: lighten(v, pictures) if isinstance(v, str | list | dict) else v for k, v in value.items()}
    return value


def picture(url: str) -> Row | None:
    """Row of `artifacts` for a `data:` address in base64; null when it is none."""
    head, mark, body = url.partition(";base64,")
    if not mark or not head.startswith("data:"):
        return None
    try:
        raw = base64.b64decode(body, validate=True)
    except (binascii.Error, ValueError):
        return None
    mime = head[5:].partition(";")[0] or None
    kind = "image" if (mime or "image/").startswith("image/") else "file"
    return {"kind": kind, "mime": mime, "bytes": len(raw), "digest": PREFIX + sha256_hex(raw)}
