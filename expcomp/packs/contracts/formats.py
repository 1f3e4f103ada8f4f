"""File formats that a contract knows: suffixes, first bytes, and the family whose words its failures use."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import orjson

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class Format:
    """One format.

    Attributes:
        family: How it is measured and what its failures are called: csv, json, parquet, xlsx, text or binary.
        suffixes: File suffixes, lower case.
        magic: First bytes that every file of it has; empty for text.
        separator: Between the cells of a line.
    """

    family: str
    suffixes: tuple[str, ...]
    magic: bytes = b""
    separator: str = ","


FORMATS: Mapping[str, Format] = {
    "csv": Format("csv", (".csv",)),
    "tsv": Format("csv", (".tsv", ".tab"), separator="\t"),
    "bed": Format("csv", (".bed",), separator="\t"),
    "json": Format("json", (".json", ".geojson")),
    "jsonl": Format("json", (".jsonl", ".ndjson")),
    "parquet": Format("parquet", (".parquet",), b"PAR1"),
    "xlsx": Format("xlsx", (".xlsx",), b"PK\x03\x04"),
    "markdown": Format("text", (".md", ".markdown")),
    "text": Format(
        "text", (".txt", ".log", ".rst", ".svg", ".html", ".xml", ".yaml", ".yml", ".toml", ".ini", ".py", ".sql")
    ),
    "pdf": Format("binary", (".pdf",), b"%PDF-"),
    "png": Format("binary", (".png",), b"\x89PNG\r\n\x1a\n"),
    "jpeg": Format("binary", (".jpg", ".jpeg"), b"\xff\xd8\xff"),
    "gif": Format("binary", (".gif",), b"GIF8"),
    "gzip": Format("binary", (".gz",), b"\x1f\x8b"),
    "sqlite": Format("binary", (".sqlite", ".db"), b"SQLite format 3\x00"),
    "zip": Format("binary", (".zip", ".docx", ".pptx"), b"PK\x03\x04"),
    "binary": Format("binary", ()),
}
"""`binary` is any file whose content nothing is said of."""

ALIASES: Mapping[str, str] = {
    "md": "markdown",
    "txt": "text",
    "ndjson": "jsonl",
    "json_lines": "jsonl",
    "jpg": "jpeg",
    "excel": "xlsx",
    "gz": "gzip",
}
_BY_SUFFIX = {suffix: name for name, f in FORMATS.items() for suffix in f.suffixes}
_PEEK = 1 << 20


def format_of(path: str) -> str:
    """Format by the suffix of a path; `binary` when it says nothing."""
    name = path.rpartition("/")[2].lower()
    return _BY_SUFFIX.get("." + name.rpartition(".")[2] if "." in name else "", "binary")


def mismatch(name: str, data: bytes) -> str | None:
    """What the bytes are instead of the format; None when they may be of it."""
    expected = FORMATS[name]
    if expected.magic:
        return None if data.startswith(expected.magic) else (_by_magic(data) or "no " + name)
    if name == "binary":
        return None
    found = _by_magic(data)
    if found is None and expected.family == "csv" and _is_json(data):
        return "json"
    return found


def _by_magic(data: bytes) -> str | None:
    return next((n for n, f in FORMATS.items() if f.magic and data.startswith(f.magic)), None)


def _is_json(data: bytes) -> bool:
    """Whether a text is one JSON object or array; looked at only when it begins like one and is small."""
    if len(data) > _PEEK or data.lstrip()[:1] not in (b"{", b"["):
        return False
    try:
        orjson.loads(data)
    except orjson.JSONDecodeError:
        return False
    return True
