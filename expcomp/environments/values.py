"""JSON values: equality, types, text."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

_MISS = object()


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
        return (True, json.loads(text)) if text else (False, None)
    except (ValueError, RecursionError):
        return False, None
