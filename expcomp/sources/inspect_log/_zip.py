"""The zip archive of an `.eval` log, read member by member; zstd members too, which the zip reader of Python 3.11 does not know."""

from __future__ import annotations

import re
import struct
import zipfile
import zlib
from functools import lru_cache
from typing import IO, TYPE_CHECKING, Any, cast

import orjson

from expcomp.sources._bytes import UnreadableError, seekable
from expcomp.sources._json import Problem, load_json
from expcomp.sources._values import obj

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

_STORED, _DEFLATE, _ZSTD = 0, 8, 93
_ENCRYPTED = 0x1
_KEY = b'":'
_LOCAL = b"PK\x03\x04"
_LOCAL_SIZE = 30
_SAMPLE = re.compile(r"samples/(.+)_epoch_(\d{1,9})\.json", re.DOTALL)
_CHUNKED = re.compile(r"samples/.+_epoch_\d{1,9}/sample\.json", re.DOTALL)
_HEADERS = ("header.json", "_journal/start.json")


class EvalZip:
    """An open archive.

    Attributes:
        members: Entries by name, the last of those that have one name.
        samples: Names of the entries that hold a sample, epochs of a sample beside each other.
        chunked: Names of samples in the layout of several entries each.
        doubles: How many entries an entry of the same name replaces.
    """

    def __init__(self, path: Path) -> None:
        """Open an archive and read its directory.

        Raises:
            UnreadableError: No file, or no zip archive.
        """
        try:
            about = path.stat()
            self.members, self.samples, self.chunked, self.doubles = _directory(path, about.st_mtime_ns, about.st_size)
            self._handle = seekable(path)
        except OSError as error:
            raise UnreadableError("unreadable", f"cannot read the file: {error.strerror}") from error

    def __enter__(self) -> EvalZip:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._handle.close()

    @property
    def is_log(self) -> bool:
        """Whether it holds what a log holds."""
        return any(name in self.members for name in _HEADERS)

    def read(self, name: str, limit: int) -> bytes:
        """Bytes of a member.

        Raises:
            UnreadableError: Encrypted, damaged, larger than `limit`, or compressed by a method that is not known.
        """
        info = self.members[name]
        if info.flag_bits & _ENCRYPTED:
            raise UnreadableError("bad_archive", f"{name} is encrypted")
        if max(info.file_size, info.compress_size) > limit:
            raise UnreadableError("too_large", f"{name} is longer than the limit of {limit} bytes")
        try:
            data = _unpack(self._raw(info), info.compress_type, limit)
        except (zlib.error, OSError, EOFError, ValueError) as error:
            raise UnreadableError("bad_archive", f"cannot decompress {name}: {error}") from error
        if data is None:
            raise UnreadableError(
                "bad_archive", f"{name} is compressed by method {info.compress_type}, which is not known"
            )
        if len(data) > limit:
            raise UnreadableError("too_large", f"{name} is longer than the limit of {limit} bytes")
        if zlib.crc32(data) != info.CRC:
            raise UnreadableError("bad_archive", f"{name} is damaged: its checksum differs")
        return data

    def json(self, name: str, limit: int) -> tuple[Any, list[Problem]]:
        """Document in a member, and what was wrong with it; None when it cannot be read."""
        try:
            return _parse(self.read(name, limit))
        except UnreadableError as error:
            return None, [Problem(error.code, error.detail)]

    def header(self, limit: int) -> tuple[dict[str, Any], bool, list[Problem]]:
        """The log without its samples, whether it was finished, and what was wrong.

        A log that was not finished has its beginning only, in the journal.
        """
        problems: list[Problem] = []
        for name in _HEADERS:
            if name in self.members:
                document, found = self.json(name, limit)
                problems += found
                if isinstance(document, dict):
                    return document, name == _HEADERS[0], problems
        return {}, False, problems

    def _raw(self, info: zipfile.ZipInfo) -> bytes:
        self._handle.seek(info.header_offset)
        head = self._handle.read(_LOCAL_SIZE)
        if len(head) < _LOCAL_SIZE or not head.startswith(_LOCAL):
            msg = "no entry at the place that the directory names"
            raise ValueError(msg)
        name, extra = struct.unpack("<HH", head[26:30])
        self._handle.seek(info.header_offset + _LOCAL_SIZE + name + extra)
        raw = self._handle.read(info.compress_size)
        if len(raw) < info.compress_size:
            msg = "the file ends inside it"
            raise ValueError(msg)
        return raw


def _parse(data: bytes) -> tuple[Any, list[Problem]]:
    """What `load_json` gives, at half the cost for the entries of a program that writes compact JSON and no key twice."""
    try:
        document = orjson.loads(data)
        written = orjson.dumps(document)
    except (orjson.JSONDecodeError, TypeError):
        return load_json(data)
    if len(written) < len(data) and data.count(_KEY) > written.count(_KEY):
        return load_json(data)
    return document, []


@lru_cache(maxsize=2)
def _directory(path: Path, changed: int, size: int) -> tuple[dict[str, zipfile.ZipInfo], list[str], list[str], int]:
    """Entries by name, samples in order, chunked samples, replaced entries; the parts of a large log ask for them again and again."""
    del changed, size  # they are the key: a file that was replaced is listed again
    with seekable(path) as handle:
        try:
            listed = zipfile.ZipFile(handle).infolist()
        except (zipfile.BadZipFile, ValueError, NotImplementedError, struct.error) as error:
            raise UnreadableError("bad_archive", f"cannot read the archive: {error}") from error
    members = {info.filename: info for info in listed}
    samples = sorted((n for n in members if _SAMPLE.fullmatch(n)), key=sample_key)
    return members, samples, [n for n in members if _CHUNKED.fullmatch(n)], len(listed) - len(members)


def _unpack(raw: bytes, method: int, limit: int) -> bytes | None:
    """At most `limit + 1` bytes; None when the method is not known."""
    if method == _STORED:
        return raw
    if method == _DEFLATE:
        return zlib.decompressobj(-zlib.MAX_WBITS).decompress(raw, limit + 1)
    if method == _ZSTD:
        import pyarrow as pa

        stream = cast("IO[bytes]", pa.CompressedInputStream(pa.BufferReader(raw), "zstd"))
        out = bytearray()
        while len(out) <= limit and (chunk := stream.read(min(1 << 20, limit + 1 - len(out)))):
            out += chunk
        return bytes(out)
    return None


def sample_key(name: str) -> tuple[int, int, str, int]:
    """Order of sample entries: numbers as numbers, then texts; epochs of a sample beside each other."""
    found = _SAMPLE.fullmatch(name)
    ident, epoch = (found[1], int(found[2])) if found else (name, 0)
    number = ident.isascii() and ident.isdigit() and len(ident) <= 18
    return (0, int(ident), ident, epoch) if number else (1, 0, ident, epoch)


def sample_of(name: str) -> str:
    """The sample's id as its entry is named."""
    found = _SAMPLE.fullmatch(name)
    return found[1] if found else name


def dataset_of(header: dict[str, Any]) -> str:
    """Name of the dataset, or of the task when the dataset has none."""
    spec = obj(header.get("eval"))
    for name in (obj(spec.get("dataset")).get("name"), spec.get("task")):
        if isinstance(name, str) and name:
            return name
    return "inspect"
