"""A look at the first bytes of a file: enough to tell its format, taken once and shown to every source."""

from __future__ import annotations

import re
from collections import defaultdict
from functools import cached_property
from typing import TYPE_CHECKING, Any

import orjson

if TYPE_CHECKING:
    from pathlib import Path

_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|["{}\[\]:,]', re.DOTALL)
_BOM = b"\xef\xbb\xbf"
_DEPTH = 4
_ROWS = 32


class Look:
    """The head of a file, decompressed, and what it shows.

    Attributes:
        path: The file.
        head: Its first decompressed bytes, at most 64 kB.
    """

    def __init__(self, path: Path, head: bytes) -> None:
        self.path = path
        self.head = head

    @property
    def name(self) -> str:
        """File name; it may support a guess, it never decides."""
        return self.path.name

    @cached_property
    def body(self) -> bytes:
        """The head without a byte order mark and leading white space."""
        return self.head.removeprefix(_BOM).lstrip()

    @cached_property
    def kind(self) -> str:
        """`object`, `array`, `zip`, `parquet` or `other`; JSON lines are `object` too."""
        first = self.body[:4]
        if first == b"PK\x03\x04":
            return "zip"
        if first == b"PAR1":
            return "parquet"
        return {b"{": "object", b"[": "array"}.get(first[:1], "other")

    @cached_property
    def rows(self) -> list[dict[str, Any]]:
        """The first objects of the file that fit in the head as a whole, parsed: lines, elements of an array, or the document.

        Empty when not even the first fits; `keys` and `shape` still show what begins there.
        """
        if self.kind not in ("object", "array"):
            return []
        try:
            document = orjson.loads(self.body)
        except orjson.JSONDecodeError:
            return _lines(self.body) if self.kind == "object" else []
        return [r for r in (document if isinstance(document, list) else [document])[:_ROWS] if isinstance(r, dict)]

    @cached_property
    def shape(self) -> dict[str, frozenset[str]]:
        """Keys of objects by their place: `""` the first record, `info` the object at that key, `messages` the objects in that list.

        Places are joined by `/` and at most four deep; the text may be cut anywhere.
        """
        if self.rows:
            found: dict[str, set[str]] = defaultdict(set)
            _places(self.rows[0], "", 0, found)
            return {place: frozenset(keys) for place, keys in found.items()}
        return _scan(self.body) if self.kind in ("object", "array") else {}

    @cached_property
    def keys(self) -> frozenset[str]:
        """Keys of the first record (the first object of an array or of lines, or the document)."""
        return frozenset(self.rows[0]) if self.rows else self.shape.get("", frozenset())

    def at(self, place: str) -> frozenset[str]:
        """Keys of the objects at a place of the first record."""
        return self.shape.get(place, frozenset())

    def any_row(self, *keys: str) -> bool:
        """Whether one of the first records has all these keys."""
        wanted = set(keys)
        return wanted <= self.keys or any(wanted <= row.keys() for row in self.rows)


def _lines(body: bytes) -> list[dict[str, Any]]:
    """Objects of the first lines, as far as they parse; none when the first line is no whole object."""
    out: list[dict[str, Any]] = []
    for number, line in enumerate(body.split(b"\n")[:_ROWS]):
        if not line.strip():
            continue
        try:
            value = orjson.loads(line)
        except orjson.JSONDecodeError:
            if number == 0:
                return []
            continue
        if isinstance(value, dict):
            out.append(value)
    return out


def _places(value: Any, place: str, depth: int, found: dict[str, set[str]]) -> None:
    if isinstance(value, list):
        for item in value[:_ROWS]:
            _places(item, place, depth, found)
    elif isinstance(value, dict):
        found[place] |= value.keys()
        if depth < _DEPTH:
            for key, inner in value.items():
                if isinstance(inner, dict | list):
                    _places(inner, f"{place}/{key}" if place else key, depth + 1, found)


def _scan(body: bytes) -> dict[str, frozenset[str]]:
    """The same from a text that is cut: a walk over its tokens."""
    found: dict[str, set[str]] = defaultdict(set)
    stack: list[tuple[bytes, str]] = []
    last, key, records = b"", "", 0
    for match in _TOKEN.finditer(body):
        token = match.group()
        if token == b'"':
            break
        if token in b"{[":
            above = stack[-1] if stack else (b"", "")
            place = above[1] if above[0] in (b"[", b"") else (f"{above[1]}/{key}" if above[1] else key)
            stack.append((token, place))
        elif token in b"}]":
            if stack:
                _, place = stack.pop()
                records += token == b"}" and place == ""
            if records:
                break
        elif token == b":" and stack and last[:1] == b'"':
            key = last[1:-1].decode("utf-8", "replace")
            if stack[-1][0] == b"{" and len(stack) <= _DEPTH + 2:
                found[stack[-1][1]].add(key)
        last = token
    return {place: frozenset(keys) for place, keys in found.items()}
