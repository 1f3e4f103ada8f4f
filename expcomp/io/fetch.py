"""Objects of a store as files: small ones many at a time, large ones in pieces, again where the store falters. Runs in a worker."""

from __future__ import annotations

import errno
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from expcomp.errors import ConfigError, OutputError, SourceError
from expcomp.io.staging import subfolder
from expcomp.io.whole import whole

SMALL_BYTES = 4 << 20
"""Larger objects are read one after the other, in pieces: drivers fetch them in parts that are held in memory."""

AT_ONCE = 64
"""Small objects that one worker asks for at once."""

JOB_BYTES = 64 << 20
TRIES = 4
PAUSE = 0.5
"""Seconds before the second try; the next pauses are twice as long each."""

_CHUNK = 1 << 20
_EACH = 1 << 16  # asking for an object costs as much as some of its bytes
_LASTING = (FileNotFoundError, PermissionError, IsADirectoryError, NotImplementedError, ConfigError)
_FULL = (errno.ENOSPC, errno.EDQUOT)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Remote:
    """An object: address, place below the folder of the copy, bytes (None: the store does not say), and what tells its state."""

    address: str
    place: str
    size: int | None
    state: str = ""


@dataclass(frozen=True, slots=True)
class FetchJob:
    """Objects to fetch, of one store, into an existing folder."""

    folder: Path
    files: tuple[Remote, ...]


def fetch_jobs(folder: Path, files: Sequence[Remote]) -> list[FetchJob]:
    """Objects cut into jobs; the cut depends on their sizes only."""
    jobs: list[FetchJob] = []
    current: list[Remote] = []
    size = 0
    for file in files:
        current.append(file)
        size += (file.size or 0) + _EACH
        if size >= JOB_BYTES:
            jobs.append(FetchJob(folder, tuple(current)))
            current, size = [], 0
    return [*jobs, *([FetchJob(folder, tuple(current))] if current else [])]


def store_of(address: str) -> tuple[Any, str]:
    """The store behind an address, as fsspec opens it, and the name there.

    Raises:
        ConfigError: fsspec or the package of the protocol is not installed, or there is no such protocol.
    """
    try:
        import fsspec
    except ImportError as error:
        msg = f"{address}: addresses need the extra: pip install 'expcomp[remote]'"
        raise ConfigError(msg) from error
    try:
        system, name = fsspec.core.url_to_fs(address)
    except (ImportError, ValueError) as error:  # fsspec says which package the protocol needs, or that there is none
        msg = f"{address}: {error}"
        raise ConfigError(msg) from error
    return system, str(name)


def run_fetch(job: FetchJob) -> int:
    """Copy objects; returns the bytes.

    Raises:
        FileNotFoundError: This machine does not see the folder.
        SourceError: An object cannot be read.
    """
    if not job.folder.is_dir():
        raise FileNotFoundError(2, "no such folder", str(job.folder))
    system, _ = store_of(job.files[0].address)
    for above in sorted({(job.folder / f.place).parent for f in job.files}):
        subfolder(above)
    small = [f for f in job.files if f.size is None or f.size <= SMALL_BYTES]
    if not getattr(system, "async_impl", False):
        small = []
    left = {f.place for f in job.files} - {f.place for f in small}
    for start in range(0, len(small), AT_ONCE):
        own = small[start : start + AT_ONCE]
        try:
            _together(system, own, job.folder)
        except Exception:  # one by one shows which it was, and tries again
            left |= {f.place for f in own}
    for file in job.files:
        if file.place in left:
            _alone(system, file, job.folder / file.place)
    return sum((job.folder / f.place).stat().st_size for f in job.files)


def _together(system: Any, files: Sequence[Remote], folder: Path) -> None:
    with ExitStack() as stack:
        beside = [str(stack.enter_context(whole(folder / f.place))) for f in files]
        system.get([system._strip_protocol(f.address) for f in files], beside, batch_size=AT_ONCE)


def _alone(system: Any, file: Remote, target: Path) -> None:
    def copy() -> None:
        with (
            whole(target) as beside,
            beside.open("wb") as out,
            system.open(system._strip_protocol(file.address), "rb") as source,
        ):
            while chunk := source.read(_CHUNK):
                out.write(chunk)

    try:
        patiently(copy)
    except Exception as error:
        if isinstance(error, OSError) and error.errno in _FULL:
            msg = f"no room for the copy of {file.address} in {target.parent}: {error.strerror}; free the disk"
            raise OutputError(msg) from error
        if isinstance(error, OSError) and str(error.filename).startswith(str(target.parent)):
            raise
        raise unreadable(file.address, error) from error


def patiently(call: Callable[[], T]) -> T:
    """What a call of a store gives; after an error that may pass it is called again, `TRIES` times in all."""
    for number in range(TRIES - 1):
        try:
            return call()
        except Exception as error:
            full = isinstance(error, OSError) and error.errno in _FULL
            if full or isinstance(error, _LASTING) or _denied(error):
                raise
            time.sleep(PAUSE * 2**number)
    return call()


def unreadable(address: str, error: Exception) -> SourceError:
    """The error of a store, with the address and, where it is about who asks, with what to do."""
    hint = (
        "; give credentials as the driver of the store reads them (s3: AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY; "
        "FSSPEC_S3_ANON=true for a public bucket), on every machine that fetches"
    )
    return SourceError(f"{address} cannot be read: {type(error).__name__}: {error}{hint if _denied(error) else ''}")


def _denied(error: Exception) -> bool:
    return isinstance(error, PermissionError) or "credential" in f"{type(error).__name__} {error}".lower()
