"""Files that are hashed while they are written, and what is said of one that was."""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, NamedTuple

from expcomp.io.digest import PREFIX, sha256_file

if TYPE_CHECKING:
    from pathlib import Path
    from typing import BinaryIO


class Written(NamedTuple):
    """A file: its rows, its size in bytes and its digest."""

    rows: int
    bytes: int
    sha256: str


class Hashing:
    """A file that is only written to, with its size and digest so far."""

    closed = False

    def __init__(self, raw: BinaryIO) -> None:
        self.raw, self.size, self._digest = raw, 0, sha256()

    @property
    def sha256(self) -> str:
        """Digest of what was written so far."""
        return PREFIX + self._digest.hexdigest()

    def write(self, data: bytes | memoryview) -> int:
        """Append bytes; returns their number."""
        self.raw.write(data)
        self._digest.update(data)
        size = memoryview(data).nbytes
        self.size += size
        return size

    def tell(self) -> int:
        """Position of the next byte."""
        return self.size

    def flush(self) -> None:
        """Hand everything to the system."""
        self.raw.flush()

    def close(self) -> None:
        """Nothing: whoever opened the file closes it."""
        self.closed = True


def written(path: Path, rows: int) -> Written:
    """What is said of a file that is there, whose rows are known."""
    return Written(rows, path.stat().st_size, sha256_file(path))
