"""Media type of a file by its first bytes: rules as data. Text has none of its own, so nothing is said of it."""

from __future__ import annotations

from collections import defaultdict

# Bytes at the start, bytes at an offset behind them (b"" for none), media type.
MARKS: tuple[tuple[bytes, int, bytes, str], ...] = (
    (b"\x89PNG\r\n\x1a\n", 0, b"", "image/png"),
    (b"\xff\xd8\xff", 0, b"", "image/jpeg"),
    (b"GIF87a", 0, b"", "image/gif"),
    (b"GIF89a", 0, b"", "image/gif"),
    (b"RIFF", 8, b"WEBP", "image/webp"),
    (b"RIFF", 8, b"WAVE", "audio/wav"),
    (b"RIFF", 8, b"AVI ", "video/x-msvideo"),
    (b"II*\x00", 0, b"", "image/tiff"),
    (b"MM\x00*", 0, b"", "image/tiff"),
    (b"%PDF-", 0, b"", "application/pdf"),
    (b"ID3\x02", 0, b"", "audio/mpeg"),
    (b"ID3\x03", 0, b"", "audio/mpeg"),
    (b"ID3\x04", 0, b"", "audio/mpeg"),
    (b"OggS\x00", 0, b"", "audio/ogg"),
    (b"fLaC\x00", 0, b"", "audio/flac"),
    (b"\x00\x00", 4, b"ftyp", "video/mp4"),
    (b"\x1aE\xdf\xa3", 0, b"", "video/webm"),
    (b"PK\x03\x04", 0, b"", "application/zip"),
    (b"\x1f\x8b\x08", 0, b"", "application/gzip"),
    (b"(\xb5/\xfd", 0, b"", "application/zstd"),
    (b"PAR1", 0, b"", "application/vnd.apache.parquet"),
    (b"SQLite format 3\x00", 0, b"", "application/vnd.sqlite3"),
)
_FIRST: dict[bytes, list[tuple[bytes, int, bytes, str]]] = defaultdict(list)
for _mark in MARKS:
    _FIRST[_mark[0][:1]].append(_mark)


def sniffed(data: bytes) -> str | None:
    """Media type of bytes by their mark; null when they have none that is known."""
    for start, offset, inside, name in _FIRST.get(data[:1], ()):
        if data.startswith(start) and data.startswith(inside, offset):
            return name
    return None
