"""Files inside a zip archive, under a path that reads like any other: `<archive>/<member>`.

The path holds all there is to know, so that it can be handed to a worker process; the archive is opened where it is read. Members are
read into memory up to the limit of the reader, never unpacked to disk.
"""

from __future__ import annotations

import io
import os
import stat
import zipfile
import zlib
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_ENCRYPTED = 0x1
_LINK_SHIFT = 16


class ArchivePath(PurePosixPath):
    """A file or folder inside a zip archive that lies on disk; offers what readers ask of a path."""

    __slots__ = ()

    def open(self, mode: str = "rb") -> IO[bytes]:
        """The member, decompressed while it is read.

        Raises:
            OSError: No such member, encrypted, damaged, or of an unknown compression.
        """
        if mode != "rb":
            msg = "archives are only read"
            raise OSError(msg)
        archive, member = self._split()
        info = _members(archive).get(member)
        if info is None:
            raise FileNotFoundError(2, "no such member", str(self))
        if info.flag_bits & _ENCRYPTED:
            raise OSError(13, "the member is encrypted", str(self))
        try:
            return io.BufferedReader(_Member(archive, info))
        except (NotImplementedError, RuntimeError, zipfile.BadZipFile) as error:
            raise OSError(5, f"cannot be unpacked: {error}", str(self)) from error

    def read_bytes(self) -> bytes:
        """All bytes of the member."""
        with self.open() as handle:
            return handle.read()

    def iterdir(self) -> Iterator[ArchivePath]:
        """What lies directly in this folder of the archive, in the order of names."""
        archive, member = self._split()
        for name in sorted(_tree(archive).get(member, ())):
            yield self / name

    def is_dir(self) -> bool:
        """Whether members lie below this path."""
        archive, member = self._split()
        return member in _tree(archive)

    def is_file(self) -> bool:
        """Whether it is a member."""
        archive, member = self._split()
        return member in _members(archive)

    def exists(self) -> bool:
        """Whether it is a member or a folder of some."""
        return self.is_file() or self.is_dir()

    def is_symlink(self) -> bool:
        """Whether the member stands for a symbolic link."""
        archive, member = self._split()
        info = _members(archive).get(member)
        return info is not None and stat.S_ISLNK(info.external_attr >> _LINK_SHIFT)

    def stat(self) -> os.stat_result:
        """Mode and decompressed size; everything else is 0."""
        archive, member = self._split()
        info = _members(archive).get(member)
        mode = stat.S_IFDIR if info is None else stat.S_IFLNK if self.is_symlink() else stat.S_IFREG
        return os.stat_result((mode, 0, 0, 0, 0, 0, info.file_size if info else 0, 0, 0, 0))

    lstat = stat

    def absolute(self) -> ArchivePath:
        """The path itself: archives are found under absolute paths."""
        return self

    def _split(self) -> tuple[str, str]:
        return _split(str(self))


class _Member(io.RawIOBase):
    """A member being read; the archive is closed with it, and its errors are those of a file."""

    def __init__(self, archive: str, info: zipfile.ZipInfo) -> None:
        self._zip = zipfile.ZipFile(archive)
        self._stream = self._zip.open(info)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        try:
            chunk = self._stream.read(len(buffer))
        except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError) as error:
            raise OSError(5, f"cannot be unpacked: {error}") from error
        buffer[: len(chunk)] = chunk
        return len(chunk)

    def close(self) -> None:
        self._stream.close()
        self._zip.close()
        super().close()


def enter(path: Path) -> ArchivePath:
    """The root of an archive.

    Raises:
        OSError: The file is no zip archive that can be read.
    """
    _members(os.fspath(path.absolute()))
    return ArchivePath(path.absolute())


def unsafe_members(path: Path) -> list[str]:
    """Names of members that would lie outside the archive (`..`, absolute); they are never read."""
    with zipfile.ZipFile(path) as archive:
        return [i.filename for i in archive.infolist() if not i.is_dir() and _clean(i.filename) is None]


def _clean(name: str) -> str | None:
    parts = name.replace("\\", "/").split("/")
    if name.startswith(("/", "\\")) or ".." in parts or ":" in parts[0]:
        return None
    return "/".join(p for p in parts if p not in ("", "."))


@lru_cache(maxsize=1 << 14)
def _split(path: str) -> tuple[str, str]:
    """The archive on disk and the member in it."""
    here = Path(path)
    for above in (here, *here.parents):
        if above.is_file():
            return os.fspath(above), here.relative_to(above).as_posix().removeprefix(".")
    raise FileNotFoundError(2, "no such archive", path)


def _members(archive: str) -> dict[str, zipfile.ZipInfo]:
    about = os.stat(archive)  # noqa: PTH116 - a key for the cache, asked for each file
    return _listed(archive, about.st_mtime_ns, about.st_size)


@lru_cache(maxsize=8)
def _listed(archive: str, changed: int, size: int) -> dict[str, zipfile.ZipInfo]:
    del changed, size  # they are the key: an archive that was replaced is listed again
    try:
        with zipfile.ZipFile(archive) as opened:
            named = [(_clean(i.filename), i) for i in opened.infolist() if not i.is_dir()]
    except (zipfile.BadZipFile, NotImplementedError, UnicodeDecodeError) as error:
        raise OSError(5, f"is no zip archive that can be read: {error}", archive) from error
    return {name: info for name, info in named if name}


def _tree(archive: str) -> dict[str, set[str]]:
    about = os.stat(archive)  # noqa: PTH116
    return _folders(archive, about.st_mtime_ns, about.st_size)


@lru_cache(maxsize=8)
def _folders(archive: str, changed: int, size: int) -> dict[str, set[str]]:
    out: dict[str, set[str]] = {"": set()}
    for member in _listed(archive, changed, size):
        parts = member.split("/")
        for depth in range(len(parts)):
            out.setdefault("/".join(parts[:depth]), set()).add(parts[depth])
    return out
