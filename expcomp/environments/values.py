"""JSON values: equality, types, text."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from typing import Any, Never

_MISS = object()
DEEPEST = 256
"""Levels of a value, as readers of files allow; what compares and writes values goes down one call a level."""


def is_number(value: Any) -> bool:
    """Whether it is a JSON number."""
    return isinstance(value, int | float) and not isinstance(value, bool)


TYPES: dict[str, Callable[[Any], bool]] = {
    "string": lambda v: isinstance(v, str),
    "integer": lambda v: isinstance(v, int) and not isinstance(v, bool),
    "number": is_number,
    "boolean": lambda v: isinstance(v, bool),
    "object": lambda v: isinstance(v, dict),
    "array": lambda v: isinstance(v, list),
    "any": lambda v: True,
}
"""Whether a value is of a declared type; a boolean is never a number."""


def finite(value: Any) -> bool:
    """Whether a number is one that JSON can say and that other numbers can be added to: within the range of a float."""
    if isinstance(value, int):
        return value.bit_length() <= 1023
    return math.isfinite(value)


def as_json(value: Any, depth: int = 0) -> Any:
    """A copy of a value as JSON has it; a tuple becomes an array.

    Raises:
        ValueError: It is no JSON value: of another type, a number that is not finite, a text that is no Unicode, a key that is no
            text, or too many levels.
    """
    if depth > DEEPEST:
        msg = f"more than {DEEPEST} levels"
        raise ValueError(msg)
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int | float):
        if not finite(value):
            msg = f"{value!r} is not finite" if isinstance(value, float) else "an integer past the range of a float"
            raise ValueError(msg)
        return value
    if isinstance(value, str):
        return _unicode(value)
    if isinstance(value, Mapping):
        if odd := [k for k in value if not isinstance(k, str)]:
            msg = f"the key {odd[0]!r:.40} is no text"
            raise ValueError(msg)
        return {_unicode(k): as_json(v, depth + 1) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [as_json(v, depth + 1) for v in value]
    msg = f"{type(value).__name__} is no JSON type"
    raise ValueError(msg)


def _unicode(text: str) -> str:
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError as error:
            msg = f"a text holds half a character (at {error.start})"
            raise ValueError(msg) from None
    return text


def strict_json(text: str) -> Any:
    """The value of a JSON text.

    Raises:
        ValueError: It is none; NaN and infinities are none.
    """
    try:
        return as_json(json.loads(text, parse_constant=_no_constant))
    except RecursionError:
        msg = f"more than {DEEPEST} levels"
        raise ValueError(msg) from None


def _no_constant(name: str) -> Never:
    msg = f"{name} is no JSON"
    raise ValueError(msg)


def equal(a: Any, b: Any) -> bool:
    """Whether two JSON values are equal: numbers by value, a boolean is never a number, keys in any order."""
    if isinstance(a, bool) or isinstance(b, bool):
        return a is b
    if isinstance(a, dict) and isinstance(b, dict):
        return len(a) == len(b) and all(equal(v, b.get(k, _MISS)) for k, v in a.items())
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(equal, a, b))
    return bool(a == b)


def dump(value: Any) -> str:
    """JSON text with a space after comma and colon, as most tools answer."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def as_text(value: Any) -> str:
    """Text of a value inside text: strings as they are, all else as JSON."""
    return value if isinstance(value, str) else dump(value)


def leaves(value: Any, at: str = "") -> dict[str, Any]:
    """Scalars and empty containers of a value by path: `/a/0/b`."""
    if isinstance(value, dict) and value:
        return {p: v for k, item in value.items() for p, v in leaves(item, f"{at}/{k}").items()}
    if isinstance(value, list) and value:
        return {p: v for i, item in enumerate(value) for p, v in leaves(item, f"{at}/{i}").items()}
    return {at: value}


def leaf_accuracy(truth: Any, predicted: Any) -> float:
    """Share of the leaf paths of either value at which both hold an equal one."""
    a, b = leaves(truth), leaves(predicted)
    paths = a.keys() | b.keys()
    return sum(equal(a[p], b[p]) for p in a.keys() & b.keys()) / len(paths)


def parse_json(text: str | None) -> tuple[bool, Any]:
    """Whether a text is one JSON document, and its value."""
    try:
        return (True, strict_json(text)) if text else (False, None)
    except ValueError:
        return False, None
