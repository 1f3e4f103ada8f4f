"""JSON at the edge: exact where it is valid, tolerant where real files are not, and never silent about it."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import orjson

BOM = b"\xef\xbb\xbf"


class Problem(NamedTuple):
    """What was wrong with a file: stable code, message, byte offset when known."""

    code: str
    detail: str
    offset: int | None = None


def clean(data: bytes) -> tuple[bytes, list[Problem]]:
    """Valid UTF-8 without byte order mark; invalid bytes become U+FFFD."""
    problems: list[Problem] = []
    if data.startswith(BOM):
        data = data[3:]
        problems.append(Problem("bom", "starts with a byte order mark; skipped", 0))
    try:
        data.decode()
    except UnicodeDecodeError as error:
        bad = data[error.start : error.start + 1].hex()
        problems.append(Problem("not_utf8", f"byte 0x{bad} is not UTF-8; decoded with replacement", error.start))
        data = data.decode(errors="replace").encode()
    return data, problems


def loads(data: bytes) -> tuple[Any, list[Problem]]:
    """Parse one JSON document. The value is None (with a problem) when it cannot be parsed at all."""
    try:
        return orjson.loads(data), []
    except orjson.JSONDecodeError:
        pass
    data, problems = clean(data)
    if not data.strip():
        return None, [*problems, Problem("empty_file", "is empty, expected a JSON document", 0)]
    try:
        value = json.loads(data)  # unlike orjson it reads NaN and Infinity, which real graders write
    except RecursionError:
        return None, [*problems, Problem("bad_json", "is nested too deep to parse")]
    except ValueError as error:
        offset = getattr(error, "pos", None)
        what = getattr(error, "msg", str(error))
        return None, [
            *problems,
            Problem("bad_json", f"is not JSON ({what}; character {offset} of {len(data)})", offset),
        ]
    try:
        orjson.loads(data)
    except orjson.JSONDecodeError as error:
        if not problems:
            problems.append(
                Problem("not_strict_json", f"holds values JSON does not allow ({error.msg}); read all the same")
            )
    return value, problems


def lines(data: bytes) -> tuple[list[tuple[int, Any]], list[tuple[int, Problem]]]:
    """Parse JSON lines, split on the newline byte only. Returns (line number, value) pairs and problems; a bad line costs one line."""
    good: list[tuple[int, Any]] = []
    bad: list[tuple[int, Problem]] = []
    for number, line in enumerate(data.split(b"\n"), 1):
        if not line.strip():
            continue
        value, problems = loads(line)
        bad += [(number, p) for p in problems]
        if value is not None:
            good.append((number, value))
    return good, bad
