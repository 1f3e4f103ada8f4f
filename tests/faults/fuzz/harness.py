"""Many mutated inputs in one call of the reader, and what must hold whatever they are.

Frames cost milliseconds, so hundreds of inputs are read together; when something does not hold, the batch is halved until one input is
left that shows it alone. Files are made and removed by plain calls: objects for their names would take as long as the readers.
"""

# ruff: noqa: PTH103

from __future__ import annotations

import os
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import polars as pl

from expcomp.sources._contract import ReadOptions
from expcomp.sources.load import read_frames
from expcomp.tables.core import CORE
from tests.faults.fuzz.mutate import Files, parsed

T = TypeVar("T")
CPU_EACH = 0.03  # seconds of CPU one input may cost on top of START
CPU_START = 10.0
MAX_FILE = 1 << 20  # what a decompressed file may hold here
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_MOVES = frozenset(
    "os.mkdir os.rename os.remove os.rmdir os.link os.symlink os.truncate shutil.rmtree subprocess.Popen os.system".split()
)


class HangError(BaseException):
    """More CPU time than the bound; no reader may catch it."""


class Finding(NamedTuple):
    """A property that does not hold for a batch, what was seen, and the inputs it is about, where that is known."""

    what: str
    detail: str
    at: tuple[int, ...] = ()


@dataclass(frozen=True)
class Broken:
    """A property that did not hold: its name, what was seen, the input that shows it alone."""

    what: str
    detail: str
    files: Files


class _Watch:
    """Files opened for writing, made, moved or removed while the reader runs."""

    def __init__(self) -> None:
        self.on = False
        self.seen: list[str] = []
        sys.addaudithook(self)

    def __call__(self, event: str, args: tuple[Any, ...]) -> None:
        if not self.on:
            return
        if event == "open":
            path, mode, flags = args
            if (isinstance(flags, int) and flags & _WRITING) or (isinstance(mode, str) and set(mode) & set("wax+")):
                self.seen.append(f"open {path!r} {mode} {flags}")
        elif event in _MOVES:
            self.seen.append(f"{event} {args!r}"[:200])


_watch = _Watch()


@contextmanager
def watched() -> Iterator[list[str]]:
    """Notes of what is opened for writing, made, moved or removed inside."""
    _watch.seen.clear()
    _watch.on = True
    try:
        yield _watch.seen
    finally:
        _watch.on = False


@contextmanager
def bounded(seconds: float) -> Iterator[None]:
    """CPU time of the process, not the clock: other processes must not decide."""

    def stop(number: int, frame: object) -> None:
        raise HangError

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def held(work: Callable[[], T], seconds: float) -> T | Finding:
    """What the work gives within its CPU time, or the crash or hang; a panic of native code is no `Exception`."""
    try:
        with bounded(seconds):
            return work()
    except (KeyboardInterrupt, SystemExit):
        raise
    except HangError:
        return Finding("hang", traceback.format_exc(limit=-6))
    except BaseException:
        return Finding("crash", traceback.format_exc(limit=-8))


def place() -> Path:
    """A new folder, in memory where there is such a disk."""
    return Path(tempfile.mkdtemp(dir="/dev/shm" if Path("/dev/shm").is_dir() else None, prefix="fuzz-"))


def lay(inputs: Sequence[Files], root: Path, *, flat: bool = False) -> set[str]:
    """Input n under the folder `u<n>`, or, flat, a lone file as `u<n>` with its ending; returns all names below the root."""
    top, folders, names = f"{root}/", set(), set()
    for n, files in enumerate(inputs):
        for name, data in files.items():
            if flat and len(files) == 1 and "/" not in name:
                own = f"u{n}{name[name.find('.') :]}"
            else:
                own = f"u{n}/{name}"
                above = own.rpartition("/")[0]
                if above not in folders:
                    os.makedirs(top + above, exist_ok=True)
                    while above and above not in folders:
                        folders.add(above)
                        above = above.rpartition("/")[0]
            names.add(own)
            handle = os.open(top + own, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            if data:
                os.write(handle, data)
            os.close(handle)
    return names | folders


def below(root: Path) -> dict[str, bool]:
    """Names of everything below a folder, a folder before what is in it, and whether it is a folder."""
    out: dict[str, bool] = {}
    pending = [""]
    while pending:
        folder = pending.pop()
        with os.scandir(f"{root}/{folder}") as found:
            for entry in found:
                is_folder = entry.is_dir(follow_symlinks=False)
                out[folder + entry.name] = is_folder
                if is_folder:
                    pending.append(f"{folder}{entry.name}/")
    return out


def clear(root: Path) -> None:
    """Remove a folder; `shutil.rmtree` takes longer than some readers."""
    for name, is_folder in reversed(below(root).items()):
        (os.rmdir if is_folder else os.unlink)(f"{root}/{name}")
    root.rmdir()


def problem(inputs: Sequence[Files], name: str | None, *, flat: bool = False) -> Finding | None:
    """What does not hold when the inputs are read together, as format `name` or by content; None when all does."""
    root = place()
    try:
        there = lay(inputs, root, flat=flat)
        with watched() as writes:
            frames = held(
                lambda: read_frames([root], format=name, options=ReadOptions(max_file_bytes=MAX_FILE)),
                CPU_START + CPU_EACH * len(inputs),
            )
        if isinstance(frames, Finding):
            return frames
        if writes:
            return Finding("writes", "; ".join(writes[:5]))
        if there != below(root).keys():
            return Finding("writes", "the folder read is another one afterwards")
        return _frames_hold(frames) or _books_hold(frames, inputs, name)
    finally:
        clear(root)


def _frames_hold(frames: dict[str, pl.DataFrame]) -> Finding | None:
    for table, frame in frames.items():
        if frame.schema != CORE[table].schema:
            return Finding("schema", table)
        try:
            frame.write_ndjson()  # every text is text
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException:
            return Finding("text", traceback.format_exc(limit=-3))
    return None


def _books_hold(frames: dict[str, pl.DataFrame], inputs: Sequence[Files], name: str | None) -> Finding | None:
    """Every input with a record gave an attempt or a line of the load report; packages and tables have names of their own."""
    if name in ("packages", "stored"):
        return None
    named_apart = [n for n, files in enumerate(inputs) if any(p.startswith(("pkg_", "t/")) for p in files)]
    told = frames["diagnostics"]
    named = pl.concat([frames["attempts"]["package_id"], told["package_id"], told["source_uri"]]).drop_nulls()
    seen = set(named.str.extract(r"^u(\d+)(?:[/.]|$)").drop_nulls().cast(pl.Int64))
    lost = [
        n
        for n, files in enumerate(inputs)
        if n not in seen and n not in named_apart and any(map(_has_record, files.values()))
    ]
    return Finding("lost", "no attempt, and no line says so", tuple(lost)) if lost else None


def _has_record(data: bytes) -> bool:
    """Whether a file holds more than empty lists and objects: an export without spans has nothing to lose."""
    documents, _ = parsed(data.removeprefix(b"\xef\xbb\xbf")) if data.strip() else ([], False)
    pending: list[Any] = [data] if documents is None else list(documents)
    while pending:
        value = pending.pop()
        if isinstance(value, (list, dict)):
            pending += value if isinstance(value, list) else value.values()
        elif value is not None:
            return True
    return False


def search(
    inputs: Sequence[Files], check: Callable[[Sequence[Files]], Finding | None], *, most: int = 3
) -> list[Broken]:
    """Inputs that break a property alone, found by halving; a break that needs several inputs is kept as its smallest batch."""
    found = check(inputs)
    if found is None or most <= 0:
        return []
    if len(inputs) == 1:
        return [Broken(found.what, found.detail, inputs[0])]
    if found.at:
        # Spans and results of several files may rightly be one attempt of the first of them: alone each must tell.
        alone = (one for n in found.at for one in search([inputs[n]], check, most=1))
        return list(islice(alone, most))
    middle = len(inputs) // 2
    out = search(inputs[:middle], check, most=most)
    out += search(inputs[middle:], check, most=most - len(out))
    if out:
        return out
    return [
        Broken(
            "together-" + found.what, found.detail, {f"u{n}/{k}": v for n, f in enumerate(inputs) for k, v in f.items()}
        )
    ]
