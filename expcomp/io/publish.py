"""Atomic publish of a folder: written beside its place, fsynced, then put there in one step. A kill leaves the old or the new."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import secrets
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from expcomp.errors import OutputError
from expcomp.io.addresses import home_told, no_address
from expcomp.io.shared_lines import stands_at
from expcomp.io.whole import disk_error, sweep

_AT_FDCWD = -100
_EXCHANGE = 2
_WRITE = 2
_LOCK = ".lock"
_ASIDE = "-old"
_MANY = 512
"""Files from which on one `sync` of the system costs less than one `fsync` for each of them."""


@contextmanager
def publish(out: Path, *, force: bool = False) -> Iterator[Path]:
    """Yield a staging folder; when the block ends well it stands at `out`, else it is removed.

    Args:
        out: Folder to publish.
        force: Replace an earlier output of expcomp (or an empty folder) in one step.

    Raises:
        OutputError: `out` exists, is something else than an output, or cannot be written.
    """
    out = Path(out)
    name = out.absolute().name
    if not name or name in (".", ".."):
        msg = f"{out} is no name for an output folder"
        raise OutputError(msg)
    refuse(out, force=force)
    parent = out.absolute().parent
    with beside(out) as staging:
        try:
            staging.mkdir()
            yield staging
            sweep(staging)
            _sync(staging)
            refuse(out, force=force)
            _put(staging, out)
            sync_folder(parent)
        except Exception as error:
            if (said := disk_error(error)) is None:
                raise
            where = getattr(error, "filename", None)
            # It may be a file that was read.
            at = f" ({where})" if where and not str(where).startswith(str(staging)) else ""
            msg = f"{out} cannot be written: {said}{at}; nothing was published"
            raise OutputError(msg) from error


@contextmanager
def beside(out: Path) -> Iterator[Path]:
    """A name beside `out` for what is to take its place; whatever stands there is gone when the block ends, however it ends.

    What runs that were killed left under such names is removed first.

    Raises:
        OutputError: The folder of `out` cannot be written.
    """
    name, parent = out.absolute().name, out.absolute().parent
    try:
        parent.mkdir(parents=True, exist_ok=True)
        _sweep(parent, name)
        staging, lock = _locked(parent, name)
    except OSError as error:
        msg = f"cannot write in {parent}: {error.strerror}; choose another --out or free the disk"
        raise OutputError(msg) from error
    try:
        yield staging
    finally:
        _remove(staging)
        Path(f"{staging}{_LOCK}").unlink(missing_ok=True)
        os.close(lock)


def _locked(parent: Path, name: str) -> tuple[Path, int]:
    """A new name, and its lock: that tells what is in use from what a killed run left behind; it goes with the process."""
    while True:
        staging = parent / f".{name}.expcomp-{secrets.token_hex(6)}"
        lock = os.open(f"{staging}{_LOCK}", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC)
        fcntl.flock(lock, fcntl.LOCK_EX)
        if stands_at(lock, Path(f"{staging}{_LOCK}")):
            return staging, lock
        os.close(lock)  # another run swept it before it was locked


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def link(source: Path, target: Path) -> None:
    """The same file under another name; a copy where the file system has no links."""
    try:
        target.hardlink_to(source)
    except OSError:
        shutil.copyfile(source, target)


def start_sync(path: Path) -> None:
    """Let the system begin to bring a file to disk, so that `publish` finds most of it there; says nothing of errors, as that does."""
    call = getattr(ctypes.CDLL(None), "sync_file_range", None)
    if call is not None:
        with path.open("rb") as handle:
            call(handle.fileno(), ctypes.c_int64(0), ctypes.c_int64(0), _WRITE)


def refuse(out: Path, *, force: bool) -> None:
    """Refuse what must not be replaced, or cannot be a folder; verbs with long work ahead ask before it.

    Raises:
        OutputError: With the reason.
        UsageError: It is an address.
    """
    no_address(out, "outputs go to a folder of this machine, and from there with the tools of the store")
    if msg := home_told(out):
        raise OutputError(msg)
    if out.is_symlink():
        msg = f"{out} is a symbolic link; give the folder itself"
        raise OutputError(msg)
    if not out.exists():
        return
    if not out.is_dir():
        msg = f"{out} exists and is no folder; choose another --out"
        raise OutputError(msg)
    if not force:
        msg = f"{out} exists; choose another --out, or --force to replace it"
        raise OutputError(msg)
    if any(out.iterdir()) and not (out / "manifest.json").is_file():
        msg = f"{out} holds something else than an output of expcomp (no manifest.json); it is not replaced, not even with --force"
        raise OutputError(msg)


def _sweep(parent: Path, name: str) -> None:
    """Remove what runs that are no more left behind."""
    for lock in sorted(parent.glob(f".{name}.expcomp-*{_LOCK}")):
        staging = lock.with_name(lock.name.removesuffix(_LOCK))
        try:
            handle = os.open(lock, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError:
            continue
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            continue  # another run is at work
        else:
            aside = staging.with_name(staging.name + _ASIDE)
            if aside.is_dir() and not (parent / name).exists():
                aside.rename(parent / name)  # the run was killed between the two renames of `_put`
            for old in (staging, aside):
                _remove(old)
            lock.unlink(missing_ok=True)
        finally:
            os.close(handle)


def _sync(folder: Path) -> None:
    if sys.platform == "linux" and sum(len(names) for _, _, names in os.walk(folder)) >= _MANY:
        os.sync()  # Linux waits until all is written
        return
    for path, _, names in os.walk(folder):
        for name in names:
            handle = os.open(os.path.join(path, name), os.O_RDONLY)  # noqa: PTH118
            try:
                os.fsync(handle)
            finally:
                os.close(handle)
        sync_folder(Path(path))


def sync_folder(folder: Path) -> None:
    """Bring the entries of a folder to disk."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _put(staging: Path, out: Path) -> None:
    """Rename into place; over an old output exchange the two, so that there is no moment without one."""
    if not out.exists():
        staging.rename(out)
        return
    if not _exchanged(staging, out):
        # A file system without exchange: for a moment there is none, never half of one.
        aside = staging.with_name(staging.name + _ASIDE)
        out.rename(aside)
        try:
            staging.rename(out)
        except OSError:
            aside.rename(out)
            raise
        shutil.rmtree(aside, ignore_errors=True)


def _exchanged(a: Path, b: Path) -> bool:
    call = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if call is None:
        return False
    done = call(_AT_FDCWD, os.fsencode(a.absolute()), _AT_FDCWD, os.fsencode(b.absolute()), _EXCHANGE)
    if done == 0:
        return True
    code = ctypes.get_errno()
    if code in (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP):
        return False
    raise OSError(code, os.strerror(code))
