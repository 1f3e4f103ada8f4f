"""A look at the first bytes of a file: enough to tell its format, taken once and shown to every source."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any, overload

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
    def rows(self) -> Records:
        """The first objects of the file that fit in the head as a whole: lines, elements of an array, or the document.

        They are parsed when they are looked at. Empty when not even the first fits; `keys` and `shape` still show what begins there.
        """
        return Records(_records(self.body, self.kind))

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


class Records(Sequence[dict[str, Any]]):
    """Objects that are parsed one by one, as far as somebody looks."""

    def __init__(self, source: Iterator[dict[str, Any]]) -> None:
        self._source = source
        self._known: list[dict[str, Any]] = []

    def __iter__(self) -> Iterator[dict[str, Any]]:
        at = 0
        while self._reach(at + 1):
            yield self._known[at]
            at += 1

    def __bool__(self) -> bool:
        return self._reach(1)

    def __len__(self) -> int:
        self._reach(_ROWS)
        return len(self._known)

    @overload
    def __getitem__(self, index: int) -> dict[str, Any]: ...
    @overload
    def __getitem__(self, index: slice) -> list[dict[str, Any]]: ...
    def __getitem__(self, index: int | slice) -> dict[str, Any] | list[dict[str, Any]]:
        wanted = index + 1 if isinstance(index, int) and index >= 0 else _ROWS
        self._reach(min(_ROWS, index.stop) if isinstance(index, slice) and (index.stop or -1) > 0 else wanted)
        return self._known[index]

    def _reach(self, count: int) -> bool:
        """Whether there are so many."""
        while len(self._known) < count:
            found = next(self._source, None)
            if found is None:
                return False
            self._known.append(found)
        return True


def _records(body: bytes, kind: str) -> Iterator[dict[str, Any]]:
    """The objects at the head of a text: none when the first is not whole."""
    if kind == "object":
        first, cut, rest = body.partition(b"\n")
        value = _parsed(first)
        if isinstance(value, dict):
            yield value
            lines = (_parsed(line) for line in islice(_split(rest), _ROWS - 1)) if cut else ()
            yield from (line for line in lines if isinstance(line, dict))
            return
    if kind in ("object", "array"):
        document = _parsed(body)
        values = document if isinstance(document, list) else [document]
        yield from (value for value in values[:_ROWS] if isinstance(value, dict))


def _split(text: bytes) -> Iterator[bytes]:
    at = 0
    while at < len(text):
        end = text.find(b"\n", at)
        end = len(text) if end < 0 else end
        yield text[at:end]
        at = end + 1


def _parsed(text: bytes) -> Any:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return None


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
