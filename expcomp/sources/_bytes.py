"""Bytes of a file, decompressed by what they are and not by what the file is called."""

from __future__ import annotations

import gzip
import io
import os
import zlib
from pathlib import Path
from typing import IO, cast

HEAD = 64 * 1024
_LEAST = HEAD
_GZIP = b"\x1f\x8b"
_ZSTD = b"\x28\xb5\x2f\xfd"
LFS_POINTER = b"version https://git-lfs.github.com/spec/"


class UnreadableError(Exception):
    """Bytes that cannot be had; `code` is that of the diagnostic."""

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(detail)
        self.code = code
        self.detail = detail


def read_head(path: Path) -> bytes:
    """The first decompressed bytes of a file, enough to tell its format.

    Raises:
        UnreadableError: The file cannot be opened or decompressed.
    """
    return _read(path, HEAD, whole=False)[0]


def read_bytes(path: Path, limit: int) -> tuple[bytes, bytes]:
    """Decompressed bytes and the bytes on disk, both at most `limit` long.

    Raises:
        UnreadableError: The file cannot be opened or decompressed, or is longer than `limit`.
    """
    return _read(path, limit, whole=True)


def _read(path: Path, limit: int, *, whole: bool) -> tuple[bytes, bytes]:
    try:
        with path.open("rb") as handle:
            # Not limit + 1 at once: a buffer of that size would be set up for every small file.
            size = min(limit, max(_LEAST, os.fstat(handle.fileno()).st_size)) if _on_disk(path) else _LEAST
            raw = handle.read(size + 1)
            while whole and size < len(raw) <= limit:
                size = min(limit, 8 * size)
                raw += handle.read(size + 1 - len(raw))
    except OSError as error:
        raise UnreadableError("unreadable", f"cannot read the file: {error.strerror}") from error
    if whole and len(raw) > limit:
        raise UnreadableError("too_large", f"the file is longer than the limit of {limit} bytes")
    try:
        data = _inflate(raw, limit)
    except (EOFError, OSError, zlib.error) as error:
        raise UnreadableError("bad_archive", f"cannot decompress the file: {error}") from error
    if whole and len(data) > limit:
        raise UnreadableError("too_large", f"the decompressed file is longer than the limit of {limit} bytes")
    return data[: limit if whole else HEAD], raw


def _on_disk(path: object) -> bool:
    """A member of an archive has no file descriptor."""
    return isinstance(path, Path)


def _inflate(raw: bytes, limit: int) -> bytes:
    if raw.startswith(_GZIP):
        return _take(cast("IO[bytes]", gzip.GzipFile(fileobj=io.BytesIO(raw))), limit)
    if raw.startswith(_ZSTD):
        import pyarrow as pa

        return _take(cast("IO[bytes]", pa.CompressedInputStream(pa.BufferReader(raw), "zstd")), limit)
    return raw


def _take(stream: IO[bytes], limit: int) -> bytes:
    """At most `limit + 1` bytes, so that a bomb costs no more than the limit; a head may end inside a frame."""
    out = bytearray()
    while len(out) <= limit:
        try:
            chunk = stream.read(min(1 << 20, limit + 1 - len(out)))
        except EOFError:
            if limit == HEAD and out:
                break
            raise
        if not chunk:
            break
        out += chunk
    return bytes(out)
