"""What a later run needs to know of this one: frames in one file that nothing else reads."""

from __future__ import annotations

import io
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

if TYPE_CHECKING:
    from collections.abc import Mapping


def write_state(path: Path, frames: Mapping[str, pl.DataFrame]) -> None:
    """Write the frames; the same frames give the same bytes."""
    blobs = []
    for frame in frames.values():
        buffer = io.BytesIO()
        frame.write_parquet(buffer, compression="zstd", compression_level=1, data_page_size=1 << 30)
        blobs.append(buffer.getvalue())
    pl.DataFrame({"name": list(frames), "data": blobs}).write_ipc(path, compression="uncompressed")


def read_state(path: Path) -> dict[str, pl.DataFrame] | None:
    """What `write_state` stored; None when there is none that can be read."""
    try:
        frame = pl.read_ipc(io.BytesIO(path.read_bytes()))
        blobs = zip(frame["name"].to_list(), frame["data"].to_list(), strict=True)
        return {name: pl.read_parquet(io.BytesIO(blob)) for name, blob in blobs}
    except (OSError, ValueError, TypeError, pl.exceptions.PolarsError):
        return None


@cache
def code_digest(package: Path) -> str:
    """Digest of the Python files of a package, names and contents, as they were when it was first asked for."""
    digest = sha256()
    for path in sorted(package.rglob("*.py")):
        data = path.read_bytes()
        digest.update(f"{path.relative_to(package).as_posix()}\0{len(data)}\0".encode())
        digest.update(data)
    return digest.hexdigest()


def file_stamp(path: Path) -> list[int]:
    """Size, time of the last write and inode number of a file: they tell whether it is the one that was written."""
    known = path.lstat()
    return [known.st_size, known.st_mtime_ns, known.st_ino]
