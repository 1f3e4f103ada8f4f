"""Digest of a file that somebody else may be changing: one read, bounded, never through a link."""

from __future__ import annotations

import hashlib
import os
import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING

from expcomp.errors import SourceError
from expcomp.io.digest import PREFIX

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_CHUNK = 1 << 20
# Without O_NONBLOCK opening a FIFO waits for its writer.
_FLAGS = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0)


class PinnedFileError(SourceError):
    """A file that cannot be hashed: `code` is `not_regular_file`, `too_large`, `empty`, `changed` or `cancelled`, `found` says more."""

    def __init__(self, path: Path, code: str, found: str) -> None:
        super().__init__(f"{path}: {found}")
        self.code, self.found = code, found


@dataclass(frozen=True, slots=True)
class FileDigest:
    """A file as it was read.

    Attributes:
        digest: `sha256:` and the hex digest of its bytes.
        size: Their number.
        content: The bytes themselves, when they were asked for.
    """

    digest: str
    size: int
    content: bytes | None = None


def hash_file(
    path: Path,
    max_bytes: int,
    *,
    capture: bool = False,
    sink: Callable[[bytes], object] | None = None,
    cancelled: Callable[[], bool] = lambda: False,
) -> FileDigest:
    """Hash a regular file of at most `max_bytes`, in one pass.

    Args:
        path: Its last part is not followed when it is a link.
        max_bytes: Largest size that is read.
        capture: Keep the bytes, so that what is parsed is what was hashed.
        sink: Called with each chunk, so that a copy holds what was hashed.
        cancelled: Asked between chunks of 1 MiB.

    Raises:
        PinnedFileError: It is absent, a link, no regular file, too large, or changed while it was read; or `cancelled`.
    """
    try:
        handle = os.open(path, _FLAGS)
    except OSError as error:
        raise PinnedFileError(path, "not_regular_file", f"cannot be opened ({error.strerror})") from error
    try:
        before = os.fstat(handle)
        if not stat.S_ISREG(before.st_mode):
            raise PinnedFileError(path, "not_regular_file", "is no regular file")
        if before.st_size > max_bytes:
            raise PinnedFileError(path, "too_large", f"holds {before.st_size:,} bytes, more than {max_bytes:,}")
        digest, total, kept = hashlib.sha256(), 0, []
        while chunk := os.read(handle, _CHUNK):
            if cancelled():
                raise PinnedFileError(path, "cancelled", "hashing was cancelled")
            total += len(chunk)
            if total > before.st_size:
                break
            digest.update(chunk)
            if capture:
                kept.append(chunk)
            if sink is not None:
                sink(chunk)
        after = os.fstat(handle)
    except OSError as error:
        raise PinnedFileError(path, "not_regular_file", f"cannot be read ({error.strerror})") from error
    finally:
        os.close(handle)
    if total != before.st_size or _state(before) != _state(after):
        raise PinnedFileError(path, "changed", "was changed while it was read")
    return FileDigest(PREFIX + digest.hexdigest(), total, b"".join(kept) if capture else None)


def _state(of: os.stat_result) -> tuple[int, ...]:
    return of.st_dev, of.st_ino, of.st_size, of.st_mtime_ns, of.st_ctime_ns
