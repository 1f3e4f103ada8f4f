"""JSON at the edge: exact when the bytes are good, tolerant and with a report when they are not."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

import orjson

_SPACE = re.compile(r"[\s,]*")
_SURROGATE = re.compile("[\ud800-\udfff]")
_KEY, _SPACED_KEY = b'":', b'" :'
_BLANK = " \t\r\n"
_BOM = b"\xef\xbb\xbf"


@dataclass(slots=True)
class Problem:
    """One thing wrong with a text: code, what was found, where."""

    code: str
    detail: str
    pos: int | None = None
    byte_offset: int | None = None
    severity: str = "error"


@dataclass(slots=True)
class Rows:
    """Records of a file with their 0-based positions, and what was wrong with it."""

    rows: list[tuple[int, Any]] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)


def load_json(data: bytes) -> tuple[Any, list[Problem]]:
    """The document in `data`, or None, and what was wrong with it. Files start with a mark, hold stray bytes, NaN or half an object."""
    try:
        document = orjson.loads(data)
        # The writer stops at a depth that every later walk over the document can take; the reader goes much deeper.
        written = orjson.dumps(document)
    except (orjson.JSONDecodeError, TypeError):
        return _load_slowly(data)
    return document, _doubles(data, written)


def _doubles(data: bytes, written: bytes) -> list[Problem]:
    """Keys that an object holds twice: the last value counts, and it is said."""
    if written == data or not _lacks_keys(data, written):
        return []
    found: dict[str, None] = {}

    def pairs(entries: list[tuple[str, Any]]) -> dict[str, Any]:
        made = dict(entries)
        if len(made) < len(entries):
            seen: set[str] = set()
            found.update({key: None for key, _ in entries if key in seen or seen.add(key)})  # type: ignore[func-returns-value]
        return made

    try:
        json.loads(data, object_pairs_hook=pairs)
    except (ValueError, RecursionError):
        return []
    if not found:
        return []
    detail = f"holds the key {', '.join(map(repr, list(found)[:5]))} twice in one object; the last value counts"
    return [Problem("duplicate_key", detail, severity="warning")]


def _lacks_keys(data: bytes, written: bytes) -> bool:
    """Whether `written`, made of what was read from `data`, may hold fewer keys than it."""
    # A dropped key takes quotes with it; single bytes are counted five times faster than pairs.
    if data.count(b'"') == written.count(b'"') and b"\\u0022" not in data:
        return False
    # Inside texts a quote is escaped, so the two counts differ only by keys that were dropped or by an odd way of writing.
    return data.count(_KEY) + data.count(_SPACED_KEY) > written.count(_KEY) + written.count(_SPACED_KEY)


def _load_slowly(data: bytes) -> tuple[Any, list[Problem]]:
    body = data.removeprefix(_BOM)
    marks = (
        [Problem("bom", "starts with a byte order mark; skipped", byte_offset=0, severity="info")]
        if body != data
        else []
    )
    if not body.strip():
        return None, [*marks, Problem("empty_file", "is empty, expected a JSON document", byte_offset=0)]
    try:
        document = orjson.loads(body)
        orjson.dumps(document)
    except orjson.JSONDecodeError:
        pass
    except TypeError:
        return None, [*marks, Problem("bad_json", "is nested too deep to be read")]
    else:
        return document, marks
    text, problems = _decode(body)
    problems = marks + problems
    try:
        value = _tidy(json.loads(text), problems)
    except json.JSONDecodeError as error:
        problems.append(_bad(text, error))
    except (RecursionError, ValueError) as error:
        problems.append(Problem("bad_json", f"cannot be read: {error}"))
    else:
        if len(problems) == len(marks):
            detail = "holds NaN, Infinity or another value that JSON does not know; read all the same"
            problems.append(Problem("not_strict_json", detail, severity="warning"))
        return value, problems
    return None, problems


def load_lines(data: bytes) -> tuple[list[tuple[int, Any]], list[Problem]]:
    """JSON lines, split at the newline byte only: (1-based line number, value), and what was wrong.

    A bad line costs one line, and of that only what is broken: records that were glued together are taken apart.
    """
    lines = data.split(b"\n")
    if not lines[-1]:
        lines.pop()
    try:
        values = list(map(orjson.loads, lines))
        written = orjson.dumps(values)
    except (orjson.JSONDecodeError, TypeError):
        return _load_lines_slowly(data, lines)
    if None in values or not (_same_lines(lines, written) or not _lacks_keys(data, written)):
        return _load_lines_slowly(data, lines)
    return list(enumerate(values, 1)), []


def _load_lines_slowly(data: bytes, lines: list[bytes]) -> tuple[list[tuple[int, Any]], list[Problem]]:
    """Lines some of which are broken, blank or odd."""
    good: list[tuple[int, Any]] = []
    bad: list[Problem] = []
    for number, line in enumerate(lines, 1):
        try:
            good.append((number, orjson.loads(line)))
        except orjson.JSONDecodeError:
            if line.strip():
                good += _lame(line, number, bad)
    # What is asked of each document is asked of all lines at once: one call costs a tenth of a call a line.
    values = [value for _, value in good]
    try:
        written = orjson.dumps(values)
        plain = None not in values and (_same_lines(lines, written) or not _lacks_keys(data, written))
    except TypeError:
        plain = False
    if not plain:
        good, bad = [], []
        for number, line in enumerate(lines, 1):
            if line.strip():
                good += _lame(line, number, bad)
    return good, bad


def _same_lines(lines: list[bytes], written: bytes) -> bool:
    """Whether the array that was written of the lines holds them byte for byte, as of most programs, which write no spaces."""
    joined = b",".join(lines)
    return len(written) == len(joined) + 2 and written.startswith(joined, 1)


def _lame(line: bytes, number: int, bad: list[Problem]) -> list[tuple[int, Any]]:
    """Records of a line that may be anything, and what is wrong with it."""
    value, problems = load_json(line)
    values = [] if value is None else [value]
    if value is None and not problems:
        problems = [Problem("bad_line", "is null, expected a record; left out")]
    if value is None and any(p.code == "bad_json" for p in problems):
        parts = load_rows(line)
        values = [part for _, part in parts.rows]
        if values:
            detail = f"held {len(values)} records; taken apart"
            others = [p for p in parts.problems if p.code != "glued_line"]
            problems = [Problem("glued_line", detail, severity="warning"), *others]
    for problem in problems:
        problem.pos = number
        problem.detail = f"line {number} {problem.detail}"
    bad += problems
    return [(number, value) for value in values]


def load_rows(data: bytes) -> Rows:
    """Records of a JSON array, a single object, or lines of JSON; a broken or cut record costs only itself."""
    body = data.removeprefix(_BOM).strip()
    out = Rows()
    document, problems = load_json(body) if body else ([], [])
    if not any(p.code == "bad_json" for p in problems):
        out.problems = problems
        out.rows = list(enumerate(document if isinstance(document, list) else [document]))
    else:
        text, out.problems = _decode(body)
        _salvage(text, out)
    if not out.rows and not out.problems:
        # An empty array, or what only looks like blanks: to Python the byte 0x1f is one.
        out.problems.append(Problem("empty_file", "the file holds no record"))
    return out


def _salvage(text: str, out: Rows) -> None:
    """Read record after record; after a broken one go on with the next line that starts a record."""
    decoder, in_array = json.JSONDecoder(), text.startswith("[")
    at, index = 1 if in_array else 0, 0
    counted, offset = 0, 0
    ended: int | None = None
    while True:
        space = _SPACE.match(text, at)
        at = space.end() if space else at
        if ended is not None and ended <= at < len(text) and not in_array and "\n" not in text[ended:at]:
            detail = f"record {index} follows on the line of the record before it; taken apart"
            out.problems.append(Problem("glued_line", detail, pos=index, severity="warning"))
        ended = None
        if at >= len(text):
            if in_array:
                # Cut between two records: each that is there is whole, and nothing else shows that more were to come.
                out.problems.append(Problem("bad_json", "the array is not closed; the file ends early", pos=index))
            break
        if in_array and text[at] == "]":
            # What follows an array are records too: a line of JSON lines may be an array.
            in_array, at = False, at + 1
            continue
        end = -1 if in_array else text.find("\n", at)
        line = None if in_array else _line(text[at : end if end >= 0 else len(text)])
        if line is not None:
            out.rows.append((index, line))
            at = end if end >= 0 else len(text)
            index += 1
            continue
        try:
            value, at = decoder.raw_decode(text, at)
            ended = at
            out.rows.append((index, _tidy(value, out.problems)))
        except (ValueError, RecursionError) as error:
            where = error.pos if isinstance(error, json.JSONDecodeError) else at
            offset += len(text[counted:where].encode("utf-8", "replace"))
            counted = where
            deep = "nested too deep" if isinstance(error, RecursionError) else "a number too long"
            found = error.msg if isinstance(error, json.JSONDecodeError) else deep
            detail = f"record {index} is no JSON ({found}); it was left out"
            out.problems.append(Problem("bad_json", detail, pos=index, byte_offset=offset))
            end = text.find("\n", at)
            if in_array or end < 0:
                break
            at = end + 1
        index += 1


def _line(text: str) -> Any:
    """The record that fills the line, the fast way; None leaves it to the tolerant reader."""
    try:
        value = orjson.loads(text)
        orjson.dumps(value)
    except (orjson.JSONDecodeError, TypeError):
        return None
    return value


def _decode(data: bytes) -> tuple[str, list[Problem]]:
    try:
        return data.decode("utf-8"), []
    except UnicodeDecodeError as error:
        detail = f"byte 0x{data[error.start]:02x} is not UTF-8; decoded with replacement"
        problem = Problem("not_utf8", detail, byte_offset=error.start, severity="warning")
        return data.decode("utf-8", "replace"), [problem]


def _bad(text: str, error: json.JSONDecodeError) -> Problem:
    offset = len(text[: error.pos].encode("utf-8", "replace"))
    return Problem(
        "bad_json",
        f"is not JSON ({error.msg}; byte {offset} of {len(text.encode('utf-8', 'replace'))})",
        byte_offset=offset,
    )


def _tidy(value: Any, problems: list[Problem]) -> Any:
    """Replace lone surrogates, which no UTF-8 column can hold; only the tolerant reader lets them through."""
    hits = 0

    def walk(node: Any) -> Any:
        nonlocal hits
        if isinstance(node, str):
            if _SURROGATE.search(node):
                hits += 1
                return _SURROGATE.sub("�", node)
            return node
        if isinstance(node, list):
            return [walk(item) for item in node]
        if isinstance(node, dict):
            return {walk(key): walk(item) for key, item in node.items()}
        return node

    out = walk(value)
    if hits:
        problems.append(Problem("bad_unicode", f"{hits} texts hold lone surrogates; replaced", severity="warning"))
    return out


def dump_json(value: Any) -> str:
    """Compact JSON text of a value that came from JSON; numbers that JSON lacks become null."""
    try:
        return orjson.dumps(value).decode()
    except (TypeError, ValueError):
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def canonical(value: Any) -> bytes:
    """JSON bytes with sorted keys, for digests."""
    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    except (TypeError, ValueError):
        return json.dumps(value, sort_keys=True, separators=(",", ":")).encode("utf-8", "replace")


def is_object_text(text: str) -> bool:
    """Whether a text parses to a JSON object."""
    if not text.lstrip(_BLANK).startswith("{"):
        return False  # Without the cost of an error that is raised and caught.
    try:
        return isinstance(orjson.loads(text), dict)
    except orjson.JSONDecodeError:
        return False
