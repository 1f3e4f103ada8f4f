"""Files of a job folder: private copies, durable and exclusive publishing, an append-only journal, and the digest of a folder."""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from expcomp.errors import OutputError
from expcomp.io.canon import digest
from expcomp.io.pinned_files import FileDigest, PinnedFileError, hash_file
from expcomp.io.shared_lines import stands_at, whole_lines

MAX_FILES = 100_000
_NEW = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class TreeDigest:
    """A folder, or one file, as it was read.

    Attributes:
        digest: Of a file, that of its bytes; of a folder, that of the canonical JSON list of `path`, `bytes` and `sha256` of its files,
            sorted by the UTF-8 bytes of their paths.
        size: Bytes of all files.
        files: Their paths relative to the folder; empty for a file.
    """

    digest: str
    size: int
    files: tuple[str, ...] = ()


def make_job_folder(root: Path, prefix: str) -> Path:
    """Make a private folder with a random name below `root`, which is made when it is not there.

    Raises:
        OutputError: It cannot be made.
    """
    try:
        root.mkdir(parents=True, exist_ok=True)
        made = root.resolve() / f"{prefix}{secrets.token_hex(8)}"
        made.mkdir(mode=0o700)
        sync(made.parent)
    except OSError as error:
        raise OutputError(f"{root}: no job folder can be made there ({error.strerror})") from error
    return made


def make_folder(path: Path) -> None:
    """Make a new private folder in a job folder.

    Raises:
        OutputError: Something is there, or it cannot be made.
    """
    try:
        path.mkdir(mode=0o700)
    except OSError as error:
        raise OutputError(f"{path.name}: cannot be made ({error.strerror})") from error


def copy_file(
    source: Path, target: Path, max_bytes: int, *, cancelled: Callable[[], bool] = lambda: False
) -> FileDigest:
    """Copy a regular file to a new one that nobody may write, and hash what was copied.

    Raises:
        PinnedFileError: As `hash_file`.
        OutputError: The copy cannot be written.
    """
    with _new(target) as handle:
        return hash_file(source, max_bytes, sink=lambda data: _write(handle, data), cancelled=cancelled)


def copy_tree(source: Path, target: Path, max_bytes: int, *, cancelled: Callable[[], bool] = lambda: False) -> None:
    """Copy a folder of regular files, each at most `max_bytes`, as `copy_file`.

    Raises:
        PinnedFileError: A file cannot be hashed, or is a link or no regular file.
        OutputError: A copy cannot be written.
    """
    make_folder(target)
    for name in tree_files(source):
        (target / name).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        copy_file(source / name, target / name, max_bytes, cancelled=cancelled)


def publish_file(path: Path, data: bytes, *, same: bool = False) -> None:
    """Put a new read-only file at its place in one durable step; what is there stays as it is.

    Args:
        path: Where it is to stand.
        data: Its bytes.
        same: A file with the same bytes is there by right, of an earlier try.

    Raises:
        OutputError: Something is there, or it cannot be written.
    """
    beside = path.with_name(f".{path.name}.{secrets.token_hex(6)}")
    try:
        with _new(beside) as handle:
            _write(handle, data)
        os.link(beside, path, follow_symlinks=False)
    except FileExistsError:
        if not (same and path.is_file() and not path.is_symlink() and path.read_bytes() == data):
            raise OutputError(f"{path.name}: is there already, and is not replaced") from None
    except OSError as error:
        raise OutputError(f"{path.name}: cannot be written ({error.strerror})") from error
    finally:
        beside.unlink(missing_ok=True)
    sync(path.parent)


def remove_file(path: Path) -> None:
    """Remove a file durably, if it is there."""
    path.unlink(missing_ok=True)
    sync(path.parent)


def hash_tree(path: Path, max_bytes: int, *, cancelled: Callable[[], bool] = lambda: False) -> TreeDigest:
    """Digest of a file or folder of at most `max_bytes`.

    Raises:
        PinnedFileError: It is absent, empty, too large, changes meanwhile, or is or holds a link or anything but folders and files.
    """
    if not stat.S_ISDIR(_mode(path)):
        file = hash_file(path, max_bytes, cancelled=cancelled)
        if not file.size:
            raise PinnedFileError(path, "empty", "holds no bytes")
        return TreeDigest(file.digest, file.size)
    names = tree_files(path)
    listed, left = [], max_bytes
    for name in names:
        file = hash_file(path / name, left, cancelled=cancelled)
        left -= file.size
        listed.append({"path": name, "bytes": file.size, "sha256": file.digest})
    if left == max_bytes:
        raise PinnedFileError(path, "empty", "holds no bytes")
    if tree_files(path) != names:
        raise PinnedFileError(path, "changed", "got or lost files while it was read")
    return TreeDigest(digest(listed), max_bytes - left, tuple(names))


def tree_files(root: Path) -> list[str]:
    """Every file below a folder by its relative path, sorted by UTF-8 bytes; folders without files do not count.

    Raises:
        PinnedFileError: There is a link, something else than a folder or regular file, a name that is no UTF-8, or too many files.
    """
    found, folders = [], [(root, "")]
    while folders:
        folder, prefix = folders.pop()
        try:
            entries = list(os.scandir(folder))
        except OSError as error:
            raise PinnedFileError(folder, "not_regular_file", f"cannot be listed ({error.strerror})") from error
        for entry in entries:
            name = prefix + entry.name
            if not name.isprintable() or "\\" in name:
                raise PinnedFileError(root, "not_regular_file", f"holds {name!r}, a name that is no printable UTF-8")
            if entry.is_dir(follow_symlinks=False):
                folders.append((Path(entry.path), f"{name}/"))
            elif entry.is_file(follow_symlinks=False):
                found.append(name)
            else:
                raise PinnedFileError(Path(entry.path), "not_regular_file", "is a link, or neither file nor folder")
        if len(found) > MAX_FILES:
            raise PinnedFileError(root, "too_large", f"holds more than {MAX_FILES:,} files")
    return sorted(found, key=str.encode)


def freeze_tree(path: Path) -> None:
    """Take the right to write from a file, or from every file below a folder, and bring all of it to disk.

    Raises:
        PinnedFileError: It is or holds a link, or it cannot be done.
    """
    folder = stat.S_ISDIR(_mode(path))
    try:
        for file in [path / name for name in tree_files(path)] if folder else [path]:
            handle = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            try:
                os.fchmod(handle, 0o400)
                os.fsync(handle)
            finally:
                os.close(handle)
    except OSError as error:
        raise PinnedFileError(path, "not_regular_file", f"cannot be made read-only ({error.strerror})") from error
    for place in (Path(p) for p, _, _ in os.walk(path)):
        sync(place)
    sync(path.parent)


def sync(folder: Path) -> None:
    """Bring the entries of a folder to disk."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


class LineFile:
    """A file of lines that only grows, held by one writer at a time. A last line that a kill cut off does not count.

    Args:
        path: File; made when it is not there.

    Raises:
        OutputError: It cannot be opened, is a link, or another process holds it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._handle = os.open(path, os.O_CREAT | os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._handle)
            raise OutputError(f"{path}: another process is at work in this job") from None
        except OSError as error:
            raise OutputError(f"{path}: cannot be opened ({error.strerror})") from error
        self.data = whole_lines(self._read())
        os.ftruncate(self._handle, len(self.data))

    def append(self, line: bytes) -> None:
        """Add a line durably.

        Raises:
            OutputError: It cannot be written, or somebody else wrote into the file.
        """
        self.verify()
        try:
            _write(self._handle, line + b"\n")
            os.fsync(self._handle)
        except (OSError, OutputError) as error:
            os.ftruncate(self._handle, len(self.data))  # a part of a line is none
            reason = error.strerror if isinstance(error, OSError) else error
            raise OutputError(f"{self.path.name}: {reason}") from error
        self.data += line + b"\n"

    def verify(self) -> None:
        """Hold the file to what was written.

        Raises:
            OutputError: Somebody else wrote into it, or put another one in its place.
        """
        if not stands_at(self._handle, self.path) or self._read() != self.data:
            raise OutputError(f"{self.path.name}: was changed by somebody else")

    def close(self) -> None:
        """Let it go."""
        os.close(self._handle)

    def _read(self) -> bytes:
        return os.pread(self._handle, os.fstat(self._handle).st_size, 0)


def read_lines(path: Path) -> bytes | None:
    """The whole lines of such a file; None when it cannot be read."""
    try:
        return whole_lines(path.read_bytes())
    except OSError:
        return None


@contextlib.contextmanager
def _new(path: Path) -> Iterator[int]:
    try:
        handle = os.open(path, _NEW, 0o600)
    except OSError as error:
        raise OutputError(f"{path.name}: cannot be written ({error.strerror})") from error
    try:
        yield handle
        os.fchmod(handle, 0o400)
        os.fsync(handle)
    except BaseException:
        path.unlink(missing_ok=True)  # a part of a file is none
        raise
    finally:
        os.close(handle)


def _write(handle: int, data: bytes) -> None:
    view = memoryview(data)
    try:
        while view:
            view = view[os.write(handle, view) :]
    except OSError as error:
        raise OutputError(f"cannot be written ({error.strerror})") from error


def _mode(path: Path) -> int:
    try:
        return path.stat(follow_symlinks=False).st_mode
    except OSError as error:
        raise PinnedFileError(path, "not_regular_file", f"is not there ({error.strerror})") from error
