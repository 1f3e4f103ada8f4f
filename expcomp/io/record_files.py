"""JSON documents and JSON lines as Python objects, plain or gzip, with the place of each in its file."""

from __future__ import annotations

import gzip
import io
import json
import math
import mmap
import re
import zlib
from typing import TYPE_CHECKING, Any

import orjson

from expcomp.errors import SourceError
from expcomp.io.files import UnreadableFileError, read_fast

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

LIMIT = 2 << 30
LINES = (".jsonl", ".ndjson")
LINE = 64 << 20
"""Bytes that are read of a first line at most."""
DEPTH = 256
"""Levels of lists and objects inside each other; deeper files are not read."""

_GZIP = b"\x1f\x8b"
_LONG = re.compile(rb"[0-9]{19}")


def kind_of_file(path: Path) -> str:
    """The suffix of a file without that of a compression, in lower case: `.jsonl` of `runs.jsonl.gz`."""
    suffixes = [s.lower() for s in path.suffixes]
    return "".join((suffixes[:-1] if suffixes[-1:] == [".gz"] else suffixes)[-1:])


def read_records(path: Path) -> Any:
    """The document of a JSON file, or the list of the values of a file of JSON lines.

    NaN and infinity are read as such, so that whoever takes the record can name the field.

    Raises:
        SourceError: It cannot be read, is cut, holds no JSON, is nested too deep, or has a key twice in one object; for lines the
            message names the line.
    """
    try:
        data = _inflated(read_fast(str(path), limit=LIMIT))
    except UnreadableFileError as error:
        msg = f"{path} {error}"
        raise SourceError(msg) from error
    if kind_of_file(path) not in LINES:
        return _parsed(data, str(path))
    return [_parsed(line, f"{path}, line {n}") for n, line in enumerate(data.split(b"\n"), 1) if line.strip()]


def first_record(path: Path) -> Any:
    """The value of the first line of a file of JSON lines, plain or gzip; None when there is none or it cannot be read."""
    try:
        with path.open("rb") as handle:
            packed = handle.read(len(_GZIP)) == _GZIP
        with gzip.open(path) if packed else path.open("rb") as stream:
            return orjson.loads(stream.readline(LINE))
    except (EOFError, OSError, ValueError, zlib.error):
        return None


def beside(path: Path, pattern: str) -> list[Path]:
    """Files in the folder of a file, by pattern, sorted."""
    return sorted(p for p in path.parent.glob(pattern) if p.is_file() and not p.is_symlink())


def mentions(path: Path, words: Sequence[str]) -> bool:
    """Whether a file holds one of some words, as UTF-8; false when it cannot be read or is empty."""
    try:
        with path.open("rb") as handle, mmap.mmap(handle.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return any(data.find(w.encode()) >= 0 for w in words)
    except (OSError, ValueError):
        return False


def not_finite(value: Any, at: str = "") -> str | None:
    """Path of the first number in a value that is NaN or infinite."""
    if isinstance(value, float) and not math.isfinite(value):
        return at or "."
    if isinstance(value, dict):
        items: Any = value.items()
    elif isinstance(value, list):
        items = enumerate(value)
    else:
        return None
    for key, item in items:
        found = not_finite(item, f"{at}.{key}" if at else str(key))
        if found is not None:
            return found
    return None


def _inflated(data: bytes) -> bytes:
    if not data.startswith(_GZIP):
        return data
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as stream:
            plain = stream.read(LIMIT + 1)
    except (EOFError, OSError, zlib.error) as error:
        msg = f"cannot be decompressed, or is cut off ({error})"
        raise UnreadableFileError(msg) from error
    if len(plain) > LIMIT:
        msg = f"holds more than {LIMIT:,} bytes when decompressed; not read"
        raise UnreadableFileError(msg)
    return plain


def _parsed(data: bytes, where: str) -> Any:
    try:
        # Of an integer beyond 64 bits orjson makes a float: its last digits would be gone, and two records one.
        checked = _LONG.search(data) is not None
        try:
            value = json.loads(data, object_pairs_hook=_once) if checked else orjson.loads(data)
        except orjson.JSONDecodeError:
            if checked:
                raise
            # NaN and infinity, which orjson refuses.
            value, checked = json.loads(data, object_pairs_hook=_once), True
        keys = _keys(value)
        # Each key is followed by `":`; another number of those may be a key that is there twice, and is looked at closely.
        if not checked and data.count(b'":') != keys:
            json.loads(data, object_pairs_hook=_once)
    except _RepeatedKeyError as error:
        msg = f"{where}: the key {error} is there twice in one object; which of the two counts is not said"
        raise SourceError(msg) from error
    except (ValueError, RecursionError) as error:
        msg = f"{where}: no JSON, or cut off ({str(error).partition(';')[0]})"
        raise SourceError(msg) from error
    return value


class _RepeatedKeyError(Exception):
    """A key that one object has twice."""


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        raise _RepeatedKeyError(repr(next(k for k, _ in pairs if k in seen or seen.add(k))))  # type: ignore[func-returns-value]
    return found


def _keys(value: Any) -> int:
    """How many keys the objects of a value have, at all levels."""
    keys, level = 0, [value]
    for _ in range(DEPTH):
        inner: list[Any] = []
        for item in level:
            if type(item) is dict:
                keys += len(item)
                inner += item.values()
            elif type(item) is list:
                inner += item
        level = [v for v in inner if type(v) in (dict, list)]
        if not level:
            return keys
    msg = f"nested deeper than {DEPTH} levels"
    raise ValueError(msg)
