"""JSON documents and JSON lines as Python objects, with the place of each in its file."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

import orjson

from expcomp.errors import SourceError
from expcomp.io.files import UnreadableFileError, read_fast

if TYPE_CHECKING:
    from pathlib import Path

LIMIT = 2 << 30
LINES = (".jsonl", ".ndjson")


def read_records(path: Path) -> Any:
    """The document of a JSON file, or the list of the values of a file of JSON lines.

    NaN and infinity are read as such, so that whoever takes the record can name the field.

    Raises:
        SourceError: It cannot be read, is cut, or holds no JSON; for lines the message names the line.
    """
    try:
        data = read_fast(str(path), limit=LIMIT)
    except UnreadableFileError as error:
        msg = f"{path} {error}"
        raise SourceError(msg) from error
    if path.suffix.lower() not in LINES:
        return _parsed(data, str(path))
    return [_parsed(line, f"{path}, line {n}") for n, line in enumerate(data.split(b"\n"), 1) if line.strip()]


def beside(path: Path, pattern: str) -> list[Path]:
    """Files in the folder of a file, by pattern, sorted."""
    return sorted(p for p in path.parent.glob(pattern) if p.is_file() and not p.is_symlink())


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


def _parsed(data: bytes, where: str) -> Any:
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        pass
    try:  # NaN, infinity and very large integers, which orjson refuses
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        msg = f"{where}: no JSON, or cut off ({error})"
        raise SourceError(msg) from error
