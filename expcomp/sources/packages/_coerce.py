"""Tolerant typing of JSON documents: what fits is taken, what can be read is converted and reported, the rest is null and reported."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Any

import orjson

Report = Callable[[str, str, str], None]
"""Called with (field, code, detail) for every value that is not of its declared type."""

_NUMBER = re.compile(r"^\s*[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?\s*$")


def json_text(value: Any) -> str:
    """Compact JSON text of a value, keys sorted."""
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS).decode()


def show(value: Any, limit: int = 60) -> str:
    """A value for a message, cut."""
    text = value if isinstance(value, str) else json_text(value)
    return repr(text if len(text) <= limit else text[: limit - 1] + "…")


def as_text(value: Any, field: str, report: Report) -> str | None:
    """Text; an object or number is kept as JSON text and reported."""
    if value is None or isinstance(value, str):
        return value
    report(field, "wrong_type", f"found {type(value).__name__}, expected text; kept as JSON text")
    return json_text(value)


def as_real(value: Any, field: str, report: Report) -> float | None:
    """A finite number; numeric text is converted and reported, anything else is null and reported."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        report(field, "wrong_type", f"found {show(value)}, expected a number; null")
        return None
    if isinstance(value, str):
        if not _NUMBER.match(value):
            report(field, "wrong_type", f"found text {show(value)}, expected a number; null")
            return None
        report(field, "wrong_type", f"found text {show(value)}, expected a number; converted")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        report(field, "not_finite", f"found {number}, expected a finite number; null")
        return None
    return number


def as_int(value: Any, field: str, report: Report) -> int | None:
    """A whole number; `12.0` and numeric text are converted."""
    if isinstance(value, int) and not isinstance(value, bool):
        if -(2**63) <= value < 2**63:
            return value
        report(field, "wrong_type", f"{value} does not fit 64 bits; null")
        return None
    number = as_real(value, field, report)
    if number is None:
        return None
    if not number.is_integer() or abs(number) >= 2**53:
        report(field, "wrong_type", f"found {number}, expected a whole number; null")
        return None
    return int(number)


def as_flag(value: Any, field: str, report: Report) -> bool | None:
    """True, false or null; words are not guessed at."""
    if value is None or isinstance(value, bool):
        return value
    report(field, "wrong_type", f"found {show(value)}, expected true or false; null")
    return None


def as_texts(value: Any, field: str, report: Report) -> list[str]:
    """A list of texts; a lone text is wrapped, other elements are kept as JSON text; both are reported."""
    if value is None:
        return []
    if isinstance(value, str):
        report(field, "wrong_type", f"found text {show(value)}, expected a list; wrapped")
        return [value]
    if not isinstance(value, list):
        report(field, "wrong_type", f"found {type(value).__name__}, expected a list; wrapped as JSON text")
        return [json_text(value)]
    if any(not isinstance(x, str) for x in value):
        report(field, "wrong_type", "found elements that are not text; kept as JSON text")
    return [x if isinstance(x, str) else json_text(x) for x in value if x is not None]


def as_json(value: Any, field: str, report: Report) -> str | None:
    """Any JSON value as text; null and the empty object or list are null."""
    return None if value is None or value in ({}, []) else json_text(value)


KINDS: Mapping[str, Callable[[Any, str, Report], Any]] = {
    "text": as_text,
    "real": as_real,
    "int": as_int,
    "flag": as_flag,
    "texts": as_texts,
    "json": as_json,
}


def typed(doc: Mapping[str, Any], fields: Mapping[str, str], report: Report) -> dict[str, Any]:
    """The declared fields of a document, each of its kind; what is not declared is left to `rest`."""
    return {name: KINDS[kind](doc.get(name), name, report) for name, kind in fields.items()}


def rest(doc: Mapping[str, Any], fields: Mapping[str, str]) -> str | None:
    """Everything not declared, as JSON text; null when there is nothing."""
    left = {k: v for k, v in doc.items() if k not in fields}
    return json_text(left) if left else None
