"""Bytes of a file, decompressed by what they are and not by what the file is called."""

from __future__ import annotations

import errno
import gzip
import io
import os
import stat
import zlib
from pathlib import Path
from typing import IO, cast

from expcomp.sources._archive import ArchivePath

HEAD = 64 * 1024
_LEAST = HEAD + 1
_READ = os.O_RDONLY | sum(getattr(os, flag, 0) for flag in ("O_BINARY", "O_NOFOLLOW", "O_NONBLOCK"))
"""Links and pipes are told when a folder is listed; a link that came in between is not followed, a pipe not waited for."""
_LARGEST = 1 << 30
_GZIP = b"\x1f\x8b"
_ZSTD = b"\x28\xb5\x2f\xfd"
LFS_POINTER = b"version https://git-lfs.github.com/spec/"

Place = Path | ArchivePath | str
"""A file or folder: a path, one inside an archive, or the text of a path, which costs least where there are thousands."""


class UnreadableError(Exception):
    """Bytes that cannot be had; `code` is that of the diagnostic."""

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(detail)
        self.code = code
        self.detail = detail


def read_head(path: Place) -> bytes:
    """The first decompressed bytes of a file, enough to tell its format.

    Raises:
        UnreadableError: The file cannot be opened or decompressed.
    """
    return _read(path, HEAD, whole=False)[0]


def read_bytes(path: Place, limit: int) -> tuple[bytes, bytes]:
    """Decompressed bytes and the bytes on disk, both at most `limit` long.

    Raises:
        UnreadableError: The file cannot be opened or decompressed, or is longer than `limit`.
    """
    return _read(path, limit, whole=True)


def open_plain(path: Path | ArchivePath) -> IO[bytes]:
    """A file opened to be read from its beginning on, never through a link.

    Raises:
        OSError: It cannot be opened, or is a link or no regular file.
    """
    return path.open() if isinstance(path, ArchivePath) else os.fdopen(_opened(path)[0], "rb")


def seekable(path: Path | ArchivePath) -> IO[bytes]:
    """The same, read from any place; a member of an archive is taken into memory, up to a gigabyte.

    Raises:
        OSError: It cannot be opened, is a link or no regular file, or a larger member.
    """
    handle = open_plain(path)
    if handle.seekable():
        return handle
    data = io.BytesIO()
    with handle:
        while chunk := handle.read(1 << 20):
            data.write(chunk)
            if data.tell() > _LARGEST:
                raise OSError(errno.EFBIG, f"longer than {_LARGEST} bytes; unpack the archive", str(path))
    data.seek(0)
    return data


def _read(path: Place, limit: int, *, whole: bool) -> tuple[bytes, bytes]:
    try:
        raw = _on_disk(path, limit + 1) if not isinstance(path, ArchivePath) else _in_archive(path, limit + 1)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise UnreadableError("symlink_refused", "a symbolic link is not followed") from error
        raise UnreadableError("unreadable", f"cannot read the file: {error.strerror}") from error
    if whole and len(raw) > limit:
        raise UnreadableError("too_large", f"the file is longer than the limit of {limit} bytes")
    if raw[:2] != _GZIP and raw[:4] != _ZSTD:
        return (raw if len(raw) <= limit else raw[:limit]), raw
    try:
        data = _inflate(raw, limit)
    except (EOFError, OSError, zlib.error) as error:
        raise UnreadableError("bad_archive", f"cannot decompress the file: {error}") from error
    if whole and len(data) > limit:
        raise UnreadableError("too_large", f"the decompressed file is longer than the limit of {limit} bytes")
    return data[:limit], raw


def _on_disk(path: Path | str, most: int) -> bytes:
    """At most `most` first bytes; without a file object, which costs more than reading a small file does."""
    handle, size = _opened(path)
    try:
        raw = chunk = os.read(handle, min(most, max(_LEAST, size + 1)))
        # A file that grows, and one that the system makes up, has more, or less, than its size says.
        while chunk and len(raw) < most and len(raw) != size:
            chunk = os.read(handle, min(most - len(raw), max(_LEAST, size)))
            raw += chunk
    finally:
        os.close(handle)
    return raw


def _opened(path: Path | str) -> tuple[int, int]:
    """A descriptor of a regular file, and its size."""
    handle = os.open(path, _READ)
    about = os.fstat(handle)
    if not stat.S_ISREG(about.st_mode):
        os.close(handle)
        raise OSError(errno.EINVAL, "no regular file", str(path))
    return handle, about.st_size


def _in_archive(path: ArchivePath, most: int) -> bytes:
    """The same of a member of an archive, which has no file descriptor and tells its size only as it pleases."""
    with path.open() as handle:
        size = min(most, _LEAST)
        raw = handle.read(size)
        while size == len(raw) < most:
            size = min(most, 8 * size)
            raw += handle.read(size - len(raw))
    return raw


def _inflate(raw: bytes, limit: int) -> bytes:
    if raw.startswith(_GZIP):
        return _take(cast("IO[bytes]", gzip.GzipFile(fileobj=io.BytesIO(raw))), limit)
    import pyarrow as pa

    return _take(cast("IO[bytes]", pa.CompressedInputStream(pa.BufferReader(raw), "zstd")), limit)


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
