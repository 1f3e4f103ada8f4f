"""Inputs at an address (`s3://`, `gs://`, `file://`, ... as fsspec knows them): fetched before they are read, file by file."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from expcomp.errors import ConfigError, SourceError, UsageError
from expcomp.io.progress import Progress
from expcomp.io.whole import whole

if TYPE_CHECKING:
    from expcomp.io.pool import Workers

_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")
_CHUNK = 1 << 20
_JOB_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class FetchJob:
    """Files to fetch: address and place of each."""

    files: tuple[tuple[str, str], ...]


def is_address(path: str | Path) -> bool:
    """Whether a path is an address and no place on this machine."""
    return isinstance(path, str) and _ADDRESS.match(path) is not None


@contextmanager
def local_paths(
    paths: Sequence[str | Path],
    pool: Workers,
    *,
    beside: Path | None = None,
    progress: Progress | None = None,
) -> Iterator[list[str | Path]]:
    """The paths as they are; or, where they are addresses, a copy of what lies there that is gone when the block ends.

    The copy keeps the names below bucket or host, so that ids are those of the same tree on disk.

    Args:
        paths: Files and folders here, or addresses of files, folders or wildcards.
        pool: Fetches.
        beside: The copy lies beside this output, on the same disk, which all workers see; None: with the temporary files.
        progress: Where progress is shown.

    Raises:
        UsageError: Places on this machine and addresses together.
        SourceError: Nothing lies there, it cannot be read, or a name would lead out of the copy.
        ConfigError: The file system at the address needs a package that is not installed.
    """
    addresses = [str(p) for p in paths if is_address(p)]
    if not addresses:
        yield list(paths)
        return
    if len(addresses) < len(paths):
        msg = "addresses and places on this machine cannot be read in one load: their names have no common root"
        raise UsageError(msg)
    if beside is not None:
        beside.absolute().parent.mkdir(parents=True, exist_ok=True)
    name = "expcomp-" if beside is None else f".{beside.absolute().name}.inputs-"
    with tempfile.TemporaryDirectory(prefix=name, dir=beside and beside.absolute().parent) as folder:
        tops, jobs = [], []
        for address in addresses:
            top, files = _listed(address, Path(folder))
            tops.append(top)
            jobs += _jobs(files)
        with (progress or Progress()).stage("fetch", len(jobs)) as tick:
            pool.map(run_fetch, jobs, tick)
        yield list(dict.fromkeys(tops))


def run_fetch(job: FetchJob) -> int:
    """Copy files in pieces; returns the bytes."""
    import fsspec

    size = 0
    for address, place in job.files:
        target = Path(place)
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            with fsspec.open(address, "rb") as source, whole(target) as beside, beside.open("wb") as out:
                while chunk := source.read(_CHUNK):
                    size += out.write(chunk)
        except Exception as error:
            if isinstance(error, OSError) and error.filename == place:
                raise
            raise _unreadable(address, error) from error
    return size


def _listed(address: str, folder: Path) -> tuple[Path, list[tuple[str, str, int]]]:
    """Where the copy of an address begins; address, place and size of each file."""
    system, top = _opened(address)
    try:
        found: dict[str, Any] = system.glob(top, detail=True) if _wild(top) else {}
        roots = sorted(found) if _wild(top) else [top]
        files = {n: i for root in roots for n, i in system.find(root, detail=True).items() if i.get("type") == "file"}
    except Exception as error:
        raise _unreadable(address, error) from error
    if not files:
        msg = f"nothing to read at {address}"
        raise SourceError(msg)
    out = []
    for name in sorted(files):
        place = folder / _safe(name, address)
        out.append((system.unstrip_protocol(name), str(place), int(files[name].get("size") or 0)))
    fixed = top.rstrip("/") if not _wild(top) else str(PurePosixPath(re.split(r"[*?\[]", top)[0] + "x").parent)
    return folder / _safe(fixed, address), out


def _opened(address: str) -> tuple[Any, str]:
    try:
        import fsspec
    except ImportError as error:
        msg = f"{address}: addresses need the extra: pip install 'expcomp[remote]'"
        raise ConfigError(msg) from error
    try:
        system, top = fsspec.core.url_to_fs(address)
    except (
        ImportError,
        ValueError,
    ) as error:  # fsspec says which package the protocol needs, or that there is no such protocol
        msg = f"{address}: {error}"
        raise ConfigError(msg) from error
    return system, str(top)


def _safe(name: str, address: str) -> PurePosixPath:
    """A name below the copy; object stores take any text for a name."""
    parts = name.strip("/").split("/")
    if not name.strip("/") or any(p in ("", ".", "..") or "\x00" in p or "\\" in p for p in parts):
        msg = f"{address}: the name {name!r} cannot be a path below a folder; not read"
        raise SourceError(msg)
    return PurePosixPath(*parts)


def _wild(name: str) -> bool:
    return any(mark in name for mark in "*?[")


def _jobs(files: Sequence[tuple[str, str, int]]) -> list[FetchJob]:
    jobs: list[FetchJob] = []
    current: list[tuple[str, str]] = []
    size = 0
    for address, place, own in files:
        current.append((address, place))
        size += own + (1 << 16)  # asking for a file costs as much as some of its bytes
        if size >= _JOB_BYTES:
            jobs.append(FetchJob(tuple(current)))
            current, size = [], 0
    return [*jobs, *([FetchJob(tuple(current))] if current else [])]


def _unreadable(address: str, error: Exception) -> SourceError:
    return SourceError(f"{address} cannot be read: {type(error).__name__}: {error}")
