"""Inputs at an address (`s3://`, `gs://`, `https://`, ... as fsspec knows them): copied to a folder, from which they are read."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path, PurePosixPath
from typing import Any

from expcomp.errors import OutputError, SourceError, UsageError
from expcomp.io.addresses import is_address
from expcomp.io.engine import LOCAL, Engine
from expcomp.io.fetch import Remote, fetch_jobs, patiently, run_fetch, store_of, unreadable
from expcomp.io.fetched import for_one_run, lasting
from expcomp.io.memory import processors
from expcomp.io.pool import workers
from expcomp.io.progress import Progress

_TELLS = frozenset(
    "etag md5hash crc32c contentmd5 digest generation versionid lastmodified modified updated mtime created".split()
)
"""What stores say of an object that changes with it, in their several spellings."""


@contextmanager
def local_paths(
    paths: Sequence[str | Path],
    engine: Engine = LOCAL,
    *,
    beside: Path | None = None,
    cache: Path | None = None,
    progress: Progress | None = None,
) -> Iterator[list[str | Path]]:
    """The paths as they are; or, where they are addresses, a copy of what lies there that is gone when the block ends.

    The copy keeps the names below protocol and bucket or host, so that ids are those of the same tree on disk.

    Args:
        paths: Files and folders here, or addresses of files, folders or wildcards.
        engine: Where they are fetched; of Ray the connection lasts as long as the block.
        beside: The copy lies beside this output, on the same disk, which all workers see; None: with the temporary files.
        cache: The copy lies in this folder and stays; the next load with it fetches what the store shows to have changed since.
        progress: Where progress is shown.

    Raises:
        UsageError: Places on this machine and addresses together.
        SourceError: Nothing lies there, it cannot be read, or a name would lead out of the copy.
        ConfigError: The file system at the address needs a package that is not installed.
        OutputError: The disk has no room for the copy, or the cache holds something else, or is in use.
    """
    addresses = [str(p) for p in paths if is_address(p)]
    if not addresses:
        yield list(paths)
        return
    if len(addresses) < len(paths):
        msg = "addresses and places on this machine cannot be read in one load: their names have no common root"
        raise UsageError(msg)
    connected = workers(1, engine=engine) if engine.remote else nullcontext()
    with connected, for_one_run(beside) if cache is None else lasting(cache) as copies:
        listed = [_listed(address) for address in addresses]
        files = {file.place: file for _, own in listed for file in own}
        for file in (f for _, own in listed for f in own if files[f.place].address != f.address):
            msg = f"{file.address} and {files[file.place].address} would be one file; read them in two loads"
            raise SourceError(msg)
        wanted = copies.changed(list(files.values()))
        _room(copies.folder, wanted)
        by_store: dict[str, list[Remote]] = {}
        for file in wanted:
            by_store.setdefault(_protocol(file.address), []).append(file)
        jobs = [job for own in by_store.values() for job in fetch_jobs(copies.folder, own)]
        count = min(engine.workers or processors(), len(jobs))
        with workers(count, engine=engine) as pool, (progress or Progress()).stage("fetch", len(jobs)) as tick:
            pool.map(run_fetch, jobs, tick)
        copies.keep(list(files.values()))
        yield list(dict.fromkeys(copies.folder / top for top, _ in listed))


def _listed(address: str) -> tuple[PurePosixPath, list[Remote]]:
    """Where the copy of an address begins, and the objects there in the order of their names."""
    if "::" in address:
        msg = f"{address}: an address inside another is not read; give that of the archive, which is read as it is"
        raise UsageError(msg)
    system, top = store_of(address)
    # Of a page on the web `?` begins a query, and a slash at the end tells a listing from a file.
    marks = "*" if top.startswith("http") else "*?["
    wild = any(mark in top for mark in marks)
    fixed = re.split(f"[{re.escape(marks)}]", top)[0].rpartition("/")[0] if wild else top.rstrip("/")
    folder = wild or top.endswith("/")
    try:
        system.invalidate_cache()  # of a listing that this process had before
        found = patiently(lambda: _objects(system, f"{fixed}/" if folder else fixed))
    except Exception as error:
        raise unreadable(address, error) from error
    if wild:
        found = _matching(found, top)
    if not found:
        msg = f"nothing to read at {address}"
        raise SourceError(msg)
    files = [_remote(system, name, found[name], address) for name in sorted(found)]
    return _place(system.unstrip_protocol(fixed), address), files


def _objects(system: Any, top: str) -> dict[str, dict[str, Any]]:
    """What the store says of each object at or below a name. Its own wildcards are not used: they leave out what cannot be listed."""
    if not top.endswith("/") and system.isfile(top):
        return {top: system.info(top)}
    found: dict[str, dict[str, Any]] = system.find(top, detail=True)
    # Of a single object some stores find the name alone.
    return {n: i or system.info(n) for n, i in found.items() if not i or i.get("type") == "file"}


def _matching(found: dict[str, dict[str, Any]], pattern: str) -> dict[str, dict[str, Any]]:
    """Objects that match a pattern, or that lie below something that does."""
    from fsspec.utils import glob_translate

    rule = re.compile(glob_translate(pattern.rstrip("/")))
    return {n: i for n, i in found.items() if any(map(rule.match, (n, *_above(n))))}


def _above(name: str) -> list[str]:
    return [name[:i] for i, mark in enumerate(name) if mark == "/"]


def _remote(system: Any, name: str, info: dict[str, Any], address: str) -> Remote:
    full = system.unstrip_protocol(name)
    told = {k: str(v) for k, v in info.items() if v is not None and re.sub(r"[-_]", "", k.lower()) in _TELLS}
    state = json.dumps(told | {"size": info.get("size")}, sort_keys=True) if told else ""
    return Remote(full, str(_place(full, address)), info.get("size"), state)


def _place(full: str, address: str) -> PurePosixPath:
    """Place of an object in the copy; object stores take any text for a name."""
    protocol, _, name = full.partition("://")
    if protocol in ("http", "https"):
        name = name.partition("?")[0]
    parts = name.strip("/").split("/")
    if not name.strip("/") or any(p in ("", ".", "..") or "\x00" in p or "\\" in p for p in parts):
        msg = f"{address}: the name {name!r} cannot be a path below a folder; not read"
        raise SourceError(msg)
    return PurePosixPath(protocol, *parts)


def _protocol(address: str) -> str:
    return address.partition("://")[0]


def _room(folder: Path, files: Sequence[Remote]) -> None:
    """Refuse before the first byte what does not fit on the disk."""
    needed, free = sum(f.size or 0 for f in files), shutil.disk_usage(folder).free
    if needed > free:
        msg = f"{needed / 1e9:.1f} GB are to be fetched and {free / 1e9:.1f} GB are free in {folder.parent}; free the disk, or name less"
        raise OutputError(msg)
