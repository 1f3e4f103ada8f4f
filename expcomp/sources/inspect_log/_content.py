"""Content of inspect messages: attachments put back, reasoning and server tools apart, media as artifacts."""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from expcomp.io.digest import PREFIX, sha256_hex
from expcomp.sources._json import dump_json
from expcomp.sources._values import items, obj, text

if TYPE_CHECKING:
    from expcomp.sources._chat import Row

_REFS = ("attachment://", "tc://")
_PLAIN = {"text": {"type", "text"}, "reasoning": {"type", "reasoning"}}
_MEDIA_LEAST = 256


@dataclass(slots=True)
class Content:
    """A content field, read.

    Attributes:
        text: Text; null when there are parts other than text and reasoning.
        parts: JSON of the parts, where they hold more than the text and the reasoning say.
        reasoning: Reasoning text.
        opaque: Whether reasoning is there that nobody can read.
        server: Tools that ran at the provider.
        spoken: Text of the text parts, also when there are others.
    """

    text: str | None
    parts: str | None = None
    reasoning: str | None = None
    opaque: bool = False
    server: list[dict[str, Any]] = field(default_factory=list)
    spoken: str | None = None


class Reader:
    """Reads the content fields of one sample.

    Attributes:
        missing: References to attachments that the sample does not have.
        artifacts: Media found, by digest.
    """

    def __init__(self, attachments: Any) -> None:
        self._attachments = obj(attachments)
        self.missing: set[str] = set()
        self.artifacts: dict[str, Row] = {}

    def resolve(self, value: Any) -> Any:
        """The value with attachments in place of references to them."""
        if isinstance(value, str):
            return self._text(value) if value.startswith(_REFS) else value
        if isinstance(value, list):
            return [self.resolve(v) for v in value]
        if isinstance(value, dict):
            return {k: self.resolve(v) for k, v in value.items()}
        return value

    def read(self, raw: Any) -> Content:
        """Read a content field: text, null, or a list of parts."""
        if isinstance(raw, str):
            said = self.resolve(raw)
            return Content(said, spoken=said)
        if raw is None:
            return Content(None)
        if not isinstance(raw, list):
            said = dump_json(raw)
            return Content(said, said, spoken=said)
        return self._parts(raw)

    def _parts(self, raw: list[Any]) -> Content:
        said: list[str] = []
        thought: list[str] = []
        out = Content(None)
        simple, textual = True, True
        for entry in raw:
            part = entry if isinstance(entry, dict) else {"type": "text", "text": entry}
            kind = part.get("type")
            piece = self.resolve(part.get("text"))
            if kind == "text" and isinstance(piece, str):
                said.append(piece)
                simple = simple and len(said) == 1
            elif kind == "reasoning":
                self._reason(part, thought, out)
            else:
                textual = False
                if kind == "tool_use":
                    out.server.append(part)
            # A key more than the text, set to something: a signature, citations, a refusal.
            simple = simple and {k for k, v in part.items() if v not in (None, False)} <= _PLAIN.get(str(kind), set())
        out.reasoning = "\n".join(thought) or None
        out.spoken = "".join(said) if said else None
        out.text = "".join(said) if textual and (said or not raw or out.reasoning or out.opaque) else None
        if not simple:
            out.parts = dump_json([self.media(part) for part in raw])
        return out

    def _reason(self, part: Row, thought: list[str], out: Content) -> None:
        written, summary = text(self.resolve(part.get("reasoning"))), text(self.resolve(part.get("summary")))
        if part.get("redacted") is True or (not written and part.get("signature")):
            # What is in `reasoning` then is a ciphertext.
            out.opaque = True
            written = None
        if written or summary:
            thought.append(written or summary or "")

    def media(self, part: Any) -> Any:
        """A part with attachments put back and its data URIs replaced by the digests of artifacts."""
        if isinstance(part, list):
            return [self.media(p) for p in part]
        if isinstance(part, dict):
            out = {}
            for key, value in part.items():
                found = self._store(value) if isinstance(value, str) else None
                if found is None:
                    out[key] = self.media(value)
                else:
                    out["artifact"] = found
            return out
        return self.resolve(part)

    def _text(self, value: str) -> str:
        found = self._attachments.get(value.partition("://")[2])
        if isinstance(found, str):
            return found
        self.missing.add(value)
        return value

    def _store(self, value: str) -> str | None:
        """Keep the bytes of a data URI; give their digest, or null when the text is none."""
        value = self.resolve(value)
        if not value.startswith("data:") or len(value) < _MEDIA_LEAST:
            return None
        about, _, body = value[5:].partition(",")
        mime, _, coding = about.partition(";")
        if not coding.endswith("base64"):
            return None
        try:
            data = base64.b64decode(body)
        except (binascii.Error, ValueError):
            return None
        digest = PREFIX + sha256_hex(data)
        kind = "image" if mime.startswith("image/") else "other"
        self.artifacts.setdefault(digest, {"kind": kind, "mime": mime or None, "bytes": len(data), "digest": digest})
        return digest


def said_by(raw: Any) -> str | None:
    """Text of a sample's input: the text, or what the user's messages in it say."""
    if isinstance(raw, str):
        return raw
    reader = Reader(None)
    told = [reader.read(m.get("content")).spoken for m in items(raw) if isinstance(m, dict) and m.get("role") == "user"]
    return "\n\n".join(t for t in told if t) or None
