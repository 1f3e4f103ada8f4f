"""Binary data inside message parts: replaced by a reference, so that no table holds megabytes of base64."""

from __future__ import annotations

import base64
import binascii
import re
from typing import Any

from expcomp.io.digest import PREFIX, sha256_hex
from expcomp.sources._values import text

_DATA_URL = re.compile(r"data:([\w.+/-]*)(?:;[\w=.+-]+)*;base64,")
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]+={0,2}\s*")
_SMALL = 256
_DEPTH = 5
_MIME = ("mime_type", "media_type", "mimeType", "mime")


class Media:
    """Inline files of one attempt, by digest."""

    def __init__(self) -> None:
        self.files: dict[str, dict[str, Any]] = {}

    def part(self, value: Any, mime: str | None = None, depth: int = 0) -> Any:
        """The part with every inline file replaced by `{type, artifact, mime}`."""
        if depth > _DEPTH:
            return value
        if isinstance(value, dict):
            known = next((text(value.get(key)) for key in _MIME if key in value), None) or mime
            return {k: self.part(v, known, depth + 1) for k, v in value.items()}
        if isinstance(value, list):
            return [self.part(v, mime, depth + 1) for v in value]
        if isinstance(value, str) and len(value) > _SMALL:
            return self._file(value, mime)
        return value

    def _file(self, value: str, mime: str | None) -> Any:
        url = _DATA_URL.match(value)
        body = value[url.end() :] if url else value
        if not url and (mime is None or not _BASE64.fullmatch(body)):
            return value
        try:
            data = base64.b64decode(body.replace("-", "+").replace("_", "/") + "=" * (-len(body) % 4))
        except (binascii.Error, ValueError):
            return value
        kind = (url.group(1) if url else None) or mime
        digest = PREFIX + sha256_hex(data)
        shape = "image" if (kind or "").startswith("image/") else "file"
        self.files.setdefault(digest, {"kind": shape, "mime": kind, "bytes": len(data), "digest": digest})
        return {"type": shape, "artifact": digest, "mime": kind}
