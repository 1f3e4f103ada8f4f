"""State paths: `world.parts.P-201.stock`, `world.files["/tmp/a.txt"].size`, reading and writing through them.

Segments are separated by dots; `["key"]` and `[0]` are segments too, `a["k"].b` is `a.k.b`. A segment that looks like a file
path or an address (it begins with `/` or `~/`, or holds `://`) absorbs the dots after it, the longest existing key first; a key
in brackets is taken as it is. On an array a segment of digits is a position.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

NAMESPACES = ("world", "session", "surface", "epistemic")
COUNTERS = ("step", "revision")
"""Read-only paths beside the namespaces."""

MISSING: Any = object()
"""Nothing is there; null is something."""

_PLAIN = re.compile(r'[^.\[\]{}"]+')


Change = Callable[[Any, str], None]


class Key(str):
    """A segment that is one key whatever it holds."""

    __slots__ = ()


class PathError(ValueError):
    """A text that is no state path."""


def split(text: str) -> tuple[str, ...]:
    """Segments of a path without tokens.

    Raises:
        PathError: Empty segments or open brackets.
    """
    found: list[str] = []
    at = 0
    while at < len(text):
        if text[at] == "[":
            end = _bracket(text, at)
            found.append(_key(text[at + 1 : end], text))
            at = end + 1
        else:
            end = next((i for i in range(at, len(text)) if text[i] in ".["), len(text))
            if end == at:
                msg = f"{text!r}: an empty segment at character {at}"
                raise PathError(msg)
            found.append(text[at:end])
            at = end
        if at < len(text) and text[at] == ".":
            at += 1
            if at == len(text):
                msg = f"{text!r}: it ends in a dot"
                raise PathError(msg)
    if not found:
        msg = "an empty path"
        raise PathError(msg)
    return tuple(found)


def _bracket(text: str, at: int) -> int:
    quote = ""
    for i in range(at + 1, len(text)):
        char = text[i]
        if quote:
            if char == quote and text[i - 1] != "\\":
                quote = ""
        elif char in "\"'":
            quote = char
        elif char == "]":
            return i
    msg = f"{text!r}: the bracket at character {at} is not closed"
    raise PathError(msg)


def _key(inner: str, text: str) -> Key:
    if inner[:1] == "'" and inner[-1:] == "'" and len(inner) > 1:
        return Key(inner[1:-1])
    try:
        value = json.loads(inner)
    except ValueError:
        value = inner
    if isinstance(value, bool) or not isinstance(value, str | int) or value == "":
        msg = f"{text!r}: [{inner}] is no key; expected a quoted text or a position"
        raise PathError(msg)
    return Key(value)


def join(segments: tuple[str, ...]) -> str:
    """Canonical text of segments: dots, brackets only for keys that dots cannot say."""
    parts: list[str] = []
    for segment in segments:
        if isinstance(segment, Key) and (not _PLAIN.fullmatch(segment) or _is_place(segment)):
            parts.append(f"[{json.dumps(segment, ensure_ascii=False)}]")
        else:
            parts.append(f".{segment}" if parts else segment)
    return "".join(parts)


def normalise(text: str) -> str:
    """Canonical text of a path.

    Raises:
        PathError: It is no path.
    """
    return join(split(text))


def _is_place(segment: str) -> bool:
    return segment.startswith(("/", "~/")) or "://" in segment


def _absorbs(segment: str) -> bool:
    return not isinstance(segment, Key) and _is_place(segment)


def _step(at: Any, segments: tuple[str, ...], i: int) -> tuple[Any, str, int]:
    """What stands below `at`: the value or MISSING, the key, and the number of the next segment."""
    segment = segments[i]
    if isinstance(at, list):
        position = _position(segment)
        return (at[position] if 0 <= position < len(at) else MISSING), segment, i + 1
    if not isinstance(at, dict):
        return MISSING, segment, i + 1
    if _absorbs(segment):
        for end in range(len(segments), i, -1):
            key = ".".join(segments[i:end])
            if key in at:
                return at[key], key, end
        return MISSING, ".".join(segments[i:]), len(segments)
    return at.get(str(segment), MISSING), str(segment), i + 1


def _position(segment: str) -> int:
    """Position that a segment means, -1 for none; Python refuses to read thousands of digits."""
    return int(segment) if segment.isdecimal() and len(segment) < 20 else -1


def get(state: Any, segments: tuple[str, ...]) -> Any:
    """The value at a path, or MISSING."""
    at, i = state, 0
    while i < len(segments):
        at, _, i = _step(at, segments, i)
        if at is MISSING:
            return MISSING
    return at


def changed(state: Any, segments: tuple[str, ...], change: Change, *, create: bool) -> Any:
    """The state with one container changed; containers on the way are copied, all else is shared.

    `change` gets a copy of the container the path ends in, and the key there. With `create` objects are made on the way;
    without it an absent one leaves the state as it is.

    Raises:
        KeyError: What is on the way is no container, or a position that an array does not have.
    """
    below, key, end = _step(state, segments, 0)
    if not isinstance(state, dict | list):
        raise KeyError(join(segments))
    new = state.copy()
    if end == len(segments):
        change(new, key)
        return new
    if below is MISSING:
        if not create:
            return state
        if isinstance(state, list):
            raise KeyError(join(segments[:end]))
        below = {}
    child = changed(below, segments[end:], change, create=create)
    if isinstance(new, list):
        new[int(key)] = child
    else:
        new[key] = child
    return new


def put(state: Any, segments: tuple[str, ...], value: Any) -> Any:
    """The state with a value at a path; on an array the position exists or is its end.

    Raises:
        KeyError: There is no place for it.
    """

    def change(at: Any, key: str) -> None:
        if isinstance(at, dict):
            at[key] = value
        elif 0 <= _position(key) < len(at):
            at[_position(key)] = value
        elif key == str(len(at)):
            at.append(value)
        else:
            raise KeyError(join(segments))

    return changed(state, segments, change, create=True)


def drop(state: Any, segments: tuple[str, ...]) -> Any:
    """The state without what stands at a path; nothing happens when nothing does."""

    def change(at: Any, key: str) -> None:
        if isinstance(at, dict):
            at.pop(key, None)
        elif 0 <= _position(key) < len(at):
            del at[_position(key)]

    return changed(state, segments, change, create=False)


def covers(declared: tuple[str, ...], used: tuple[str, ...]) -> bool:
    """Whether a path is the declared one or below it; `*` in the declaration is any one segment."""
    return len(used) >= len(declared) and meets(declared, used)


def meets(declared: tuple[str, ...], used: tuple[str, ...]) -> bool:
    """Whether one of two paths is the other, above or below it; `*` in the declaration is any one segment."""
    return all(d in ("*", u) for d, u in zip(declared, used, strict=False))
