"""What a Claude Code session carries beside its text: images and documents inside messages, patches, outputs kept in files of their own."""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING, Any

from expcomp.io.digest import PREFIX, sha256_hex
from expcomp.sources._json import dump_json
from expcomp.sources._values import items, obj, text

if TYPE_CHECKING:
    from expcomp.sources._chat import Row

_SMALL = 64 * 1024
_SPAN = ("oldStart", "oldLines", "newStart", "newLines")


def inline_files(content: list[Any]) -> tuple[list[Any], list[Row]]:
    """The blocks with a reference in place of each embedded file, and the rows of those files."""
    out: list[Any] = []
    files: list[Row] = []
    for block in content:
        source = block.get("source") if isinstance(block, dict) else None
        if not isinstance(source, dict) or source.get("type") != "base64" or not isinstance(source.get("data"), str):
            out.append(block)
            continue
        mime = text(source.get("media_type"))
        try:
            data = base64.b64decode(source["data"])
        except (binascii.Error, ValueError):
            out.append({**block, "source": {"type": "base64", "media_type": mime, "error": "no base64 text; left out"}})
            continue
        digest = PREFIX + sha256_hex(data)
        kind = "image" if block.get("type") == "image" or (mime or "").startswith("image/") else "file"
        kept = {k: v for k, v in block.items() if k != "source"}
        out.append({**kept, "artifact": digest, "media_type": mime})
        files.append({"kind": kind, "mime": mime, "bytes": len(data), "digest": digest})
    return out, files


def shown_file(about: Row) -> Row | None:
    """An attachment as an artifact: what the program showed the model beside its messages; none if it says nothing but its type."""
    kind = text(about.get("type")) or "attachment"
    if not any(value not in (None, "", [], {}) for key, value in about.items() if key not in ("type", "itemCount")):
        return None
    body = dump_json(about)
    data = body.encode()
    return {
        "step_index": None,
        "kind": "other",
        "name": f"{kind}: {name}" if (name := text(about.get("filename"))) else kind,
        "mime": "application/json",
        "bytes": len(data),
        "digest": PREFIX + sha256_hex(data),
        "content": body if len(data) <= _SMALL else None,
    }


def patch_text(native: Row) -> Row | None:
    """The patch that the structured form of an edit holds, as an artifact; none if it is empty or large."""
    hunks = items(native.get("structuredPatch"))
    name = text(native.get("filePath"))
    if not hunks or name is None:
        return None
    lines = [f"--- {name}", f"+++ {name}"]
    for hunk in map(obj, hunks):
        span = [hunk.get(key) for key in _SPAN]
        if not all(isinstance(n, int) for n in span):
            return None
        lines.append("@@ -{},{} +{},{} @@".format(*span))
        lines += [line for line in items(hunk.get("lines")) if isinstance(line, str)]
    body = "\n".join(lines) + "\n"
    data = body.encode()
    if len(data) > _SMALL:
        return None
    return {
        "kind": "patch",
        "name": name,
        "mime": "text/x-diff",
        "bytes": len(data),
        "digest": PREFIX + sha256_hex(data),
        "content": body,
    }
