"""The mutations of `mutate.py` at a hundredth of their price: the places of a JSON text are found once, a change is a cut in its bytes.

A text is parsed when it is first seen. After that, an input costs a few draws and one join: nothing is decoded, copied or encoded.
"""

from __future__ import annotations

import json
import random
import re
from bisect import bisect
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import accumulate

from tests.faults.fuzz.mutate import DEEPER, ODD, RAW, Files

Cut = tuple[int, int, bytes]

_TOKEN = re.compile(rb'\s*("(?:[^"\\]|\\.)*"|[{}\[\]:,]|[^\s{}\[\]:,"]+)', re.DOTALL)
_HEX = rb"[0-9a-f]{8}(?:[0-9a-f]{8}|[0-9a-f]{24}|-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})"
_ID = re.compile(rb"(?<=[\x22/_-])(?:" + _HEX + rb"|[0-9A-Za-z+/]{22}==)(?![0-9A-Za-z])")
_ID_KEYS = frozenset((b"trace_id", b"traceId", b"request_id"))
_ODD = [json.dumps(value, ensure_ascii=n % 2 == 0).encode() for n, value in enumerate(ODD)]
_KEYS = [json.dumps(key).encode() for key in ("", "type", "id", "role", "content", "a\x00", "messages")]
_TAG = 6
"""First characters of an id that say which input it belongs to."""


@dataclass(slots=True)
class Place:
    """A value in a text: where it begins and ends, with its key if it has one, and what it lies in."""

    start: int
    end: int
    begin: int
    holder: Place | None
    inside: list[Place] = field(default_factory=list)

    def weigh(self, weight: float) -> Iterator[tuple[Place, float]]:
        """The places from here down, each with the chance of a random way down to end there."""
        stack = [(self, weight)]
        while stack:
            place, weight = stack.pop()
            goes = DEEPER if place.inside else 0.0
            yield place, weight * (1 - goes)
            stack += [(inner, weight * goes / len(place.inside)) for inner in place.inside]


@dataclass(frozen=True, slots=True)
class Text:
    """A JSON text, or JSON lines, and its places."""

    data: bytes
    places: list[Place]
    chances: list[float]
    ids: list[tuple[int, int]]

    def pick(self, rng: random.Random) -> Place:
        """A random place; shallow ones come often."""
        return self.places[min(bisect(self.chances, rng.random() * self.chances[-1]), len(self.places) - 1)]


@lru_cache(maxsize=4096)
def text(data: bytes) -> Text | None:
    """The places of a text; None for what is no JSON."""
    top = Place(0, len(data), 0, None)
    try:
        json.loads(data)
        top.inside = [_places(data, top)]
    except (ValueError, RecursionError):
        try:
            for line in re.finditer(rb"[^\n]+", data):
                if line[0].strip():
                    json.loads(line[0])
                    top.inside.append(_places(data, top, line.start()))
        except (ValueError, RecursionError):
            return None
    if not top.inside:
        return None
    found = [one for place in top.inside for one in place.weigh(1 / len(top.inside))]
    chances = list(accumulate(chance for _, chance in found))
    return Text(data, [place for place, _ in found], chances, _ids(data, top, [place for place, _ in found]))


def _ids(data: bytes, top: Place, places: list[Place]) -> list[tuple[int, int]]:
    """What of the ids is replaced by the tag: the beginning of a number, nothing of a name."""
    found = [(m.start(), m.start() + _TAG) for m in _ID.finditer(data)]
    names = set()
    for place in places:
        key = data[place.begin : place.start].partition(b'"')[2].partition(b'"')[0]
        whole = place.holder is not None and place.holder.holder is top
        if key in _ID_KEYS or (key == b"id" and whole):
            value = data[place.start : place.end]
            if value[:1] == b'"' and len(value) > 2 and not _ID.match(value, 1):
                names.add(value)
    for name in names:
        found += [(m.start() + 1, m.start() + 1) for m in re.finditer(re.escape(name), data)]
    return sorted(found)


def _places(data: bytes, holder: Place, at: int = 0) -> Place:
    """The value at a place of a text that is known to be JSON."""
    begin: int | None = None
    stack = [holder]
    for token in _TOKEN.finditer(data, at):
        start, mark = token.start(1), token[1]
        if mark in (b":", b","):
            continue
        if mark in (b"}", b"]"):
            place = stack.pop()
            place.end = token.end()
        else:
            is_object = stack[-1] is not holder and data[stack[-1].start] == ord("{")
            if is_object and begin is None:
                begin = start
                continue
            place = Place(start, token.end(), start if begin is None else begin, stack[-1])
            begin = None
            if stack[-1] is not holder:
                stack[-1].inside.append(place)
            if mark in (b"{", b"["):
                stack.append(place)
                continue
        if len(stack) == 1:
            return place
    raise ValueError(at)


def cut(seed: Files, others: list[Files], rng: random.Random, tag: bytes | None) -> Files | None:
    """One to ten changes at the places of one or two files; None where none of them is JSON.

    With a tag, ids begin with it, so that inputs read together are not taken for parts of one another.
    """
    out = {name: tagged(data, tag) for name, data in seed.items()} if tag and len(seed) > 1 else dict(seed)
    names = [name for name, data in seed.items() if text(data) is not None]
    if not names:
        return None
    for name in {rng.choice(names) for _ in range(rng.choice((1, 1, 1, 2)))} if len(names) > 1 else names:
        known = text(seed[name])
        assert known is not None
        changes: list[Cut] = []
        for _ in range(rng.choice((1, 1, 2, 3, 5))):
            changes += _change(known, others, rng)
        out[name] = _joined(known, changes, tag)
    return out


def tagged(data: bytes, tag: bytes | None) -> bytes:
    """The text with ids of its own."""
    known = text(data)
    return data if known is None else _joined(known, [], tag)


def ids_of(data: bytes) -> set[bytes]:
    """The ids of a text as they stand in it: names with their quotes, numbers without."""
    known = text(data)
    out = set()
    for start, end in known.ids if known else ():
        found = _ID.match(data, start) if end > start else None
        out.add(found[0] if found else data[start - 1 : data.index(b'"', start) + 1])
    return out


def retagged(data: bytes, ids: re.Pattern[bytes], tag: bytes) -> bytes:
    """The text with ids of its own where it still has those of a seed."""
    return ids.sub(lambda m: b'"' + tag + m[0][1:] if m[0][:1] == b'"' else tag + m[0][_TAG:], data)


def _joined(known: Text, changes: list[Cut], tag: bytes | None) -> bytes:
    if tag:
        changes = changes + [(start, end, tag) for start, end in known.ids]
    # Of changes that overlap the first and widest is made.
    changes.sort(key=lambda c: (c[0], -c[1]))
    parts, at, data = [], 0, known.data
    for start, end, new in changes:
        if start >= at:
            parts += (data[at:start], new)
            at = end
    parts.append(data[at:])
    return b"".join(parts)


def _change(known: Text, others: list[Files], rng: random.Random) -> list[Cut]:
    place = known.pick(rng)
    data, kind = known.data, rng.random()
    old = data[place.start : place.end]
    if kind < 0.45:
        return [(place.start, place.end, rng.choice(_ODD))]
    if kind < 0.6:
        return [_without(data, place)]
    if kind < 0.7:
        return [(place.start, place.end, rng.choice(RAW))]
    if kind < 0.78:
        there = known.pick(rng)
        return [(place.start, place.end, data[there.start : there.end])]
    if kind < 0.84:
        quoted = json.dumps(old.decode("utf-8", "replace")).encode()
        return [(place.start, place.end, rng.choice((b"[" + old + b"]", b'{"x":' + old + b"}", quoted)))]
    beside = place.holder.inside if place.holder is not None else []
    if kind < 0.9 and beside:
        other = rng.choice(beside)
        return [(place.start, place.end, data[other.start : other.end]), (other.start, other.end, old)]
    if kind < 0.93 and place.begin < place.start:
        key = data[place.begin : place.start].rstrip(b": \t\r\n")
        return [(place.begin, place.begin + len(key), rng.choice((key[:-1] + b'x"', *_KEYS)))]
    if kind < 0.97:
        whole = data[place.begin : place.end]
        joint = b"\n" if not beside else b","
        return [(place.end, place.end, (joint + whole) * rng.choice((1, 2, 40)))]
    if kind < 0.98 and place.inside:
        mixed = [data[p.begin : p.end] for p in place.inside]
        rng.shuffle(mixed)
        return [(place.inside[0].begin, place.inside[-1].end, b",".join(mixed))]
    other_text = text(rng.choice(list(rng.choice(others).values())))
    there = (other_text or known).pick(rng)
    return [(place.start, place.end, (other_text or known).data[there.start : there.end])]


def _without(data: bytes, place: Place) -> Cut:
    """The cut that takes a value out, with its key and one comma or line end."""
    end = place.end
    while data[end : end + 1] in (b" ", b"\t", b"\r", b"\n"):
        end += 1
    if data[end : end + 1] == b",":
        return (place.begin, end + 1, b"")
    start = place.begin
    while data[start - 1 : start] in (b" ", b"\t", b"\r", b"\n"):
        start -= 1
    return (start - 1 if data[start - 1 : start] == b"," else place.begin, place.end, b"")
