"""The formats, and the way from files and folders to units of a format."""

from __future__ import annotations

import importlib
import os
import stat
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from expcomp.errors import UsageError
from expcomp.io.nearest import nearest
from expcomp.sources._archive import ArchivePath, enter, unsafe_members
from expcomp.sources._bytes import LFS_POINTER, UnreadableError, read_head
from expcomp.sources._contract import Found, Source, Unit
from expcomp.sources._look import Look
from expcomp.sources._units import relative
from expcomp.sources._values import writable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

MODULES = (
    "packages.reader",
    "stored",
    "harbor.reader",
    "tau_bench.reader",
    "tau2_bench.reader",
    "atif.reader",
    "terminal_bench.reader",
    "inspect_log.reader",
    "swe.swe_bench_report",
    "swe.swe_agent",
    "swe.mini_swe_agent",
    "codex.reader",
    "claude_code.reader",
    "openhands.reader",
    "verifiers.reader",
    "telemetry.mlflow",
    "telemetry.langfuse",
    "telemetry.langsmith",
    "telemetry.openinference",
    "telemetry.otel",
    "adp.reader",
    "chat.hf_trajectories",
    "chat.openai_responses",
    "chat.anthropic_messages",
    "chat.sharegpt",
    "chat.openai_chat",
)
"""One module a format, in the order in which they are asked: those that say more of themselves first, plain messages last."""

LARGE_BYTES = 16 << 20
"""A load above this size is worth worker processes."""

_SKIPPED = frozenset({"node_modules", "__pycache__", "venv", "site-packages"})


def _sources() -> dict[str, Source]:
    found: list[Source] = [importlib.import_module(f"expcomp.sources.{name}").SOURCE for name in MODULES]
    return {source.name: source for source in found}


SOURCES: dict[str, Source] = _sources()


def discover(
    paths: Sequence[Path],
    *,
    format: str | None = None,  # noqa: A002
    large: Callable[[], None] | None = None,
) -> Found:
    """Units of the files and folders given, and a diagnostic for everything that is none.

    Folders are walked in the order of names. A folder that a format claims belongs to it as a whole; other files are
    recognised by their content, never by name. Symbolic links are refused; hidden entries and folders of installed
    packages and caches are skipped. Paths in ids and diagnostics are relative to the load root: the folder given, the
    parent of a file or claimed folder given, or the deepest folder above all of them.

    Args:
        paths: Files and folders.
        format: Name of a format that everything is read as.
        large: Called once, as soon as what was found is more than `LARGE_BYTES`.

    Raises:
        UsageError: No such format.
    """
    if format is not None and format not in SOURCES:
        msg = f"no format '{format}'; there are {', '.join(SOURCES)}{nearest(format, SOURCES)}"
        raise UsageError(msg)
    sources = [SOURCES[format]] if format is not None else list(SOURCES.values())
    walk = _Walk(sources, forced=format is not None, large=large)
    given = list(dict.fromkeys(map(_given, paths)))
    root = _root([path if path.is_dir() and walk.claim(path, _names(path)) is None else path.parent for path in given])
    for path in given:
        if not path.exists():
            walk.tell("not_found", "no such file or folder", path, root, "error")
        elif path.is_dir():
            walk.folder(path, root)
        else:
            walk.file(path, root)
    unique: dict[tuple[str, Path, tuple[int, int, int] | None], Unit] = {}
    for unit in walk.found.units:
        unique.setdefault((unit.format, unit.path, unit.span), unit)
    walk.found.units = _told_apart(walk, list(unique.values()), root)
    return walk.found


def _given(path: Path) -> Path:
    """A file that is named as a link is the file it leads to; readers follow none."""
    whole = path.absolute()
    return whole.resolve() if whole.is_symlink() and whole.is_file() else whole


def _told_apart(walk: _Walk, units: list[Unit], root: Path) -> list[Unit]:
    """Packages are named by their folder: of two with one name the second is named by its path."""
    homes: dict[str, Path] = {}
    for i, unit in enumerate(units):
        if homes.setdefault(unit.package_id, unit.path) != unit.path:
            detail = f"another package of this load is named {unit.package_id} too; this one is named by its path"
            walk.tell("same_name", detail, unit.path, root)
            units[i] = replace(unit, package_id=relative(unit.path, root))
    return units


def _row(code: str, detail: str, uri: str | None, severity: str) -> dict[str, Any]:
    return {"source_uri": uri, "code": code, "severity": severity, "detail": writable(detail)}


def _names(path: Path) -> frozenset[str]:
    try:
        return frozenset(child.name for child in path.iterdir())
    except OSError:
        return frozenset()


def _root(bases: list[Path]) -> Path:
    from pathlib import Path

    return Path(os.path.commonpath(bases)) if bases else Path()


class _Walk:
    """One discovery."""

    def __init__(self, sources: list[Source], *, forced: bool, large: Callable[[], None] | None = None) -> None:
        self.sources = sources
        self.forced = forced
        self.found = Found()
        self._large = large
        self._counted = self._bytes = 0

    def tell(self, code: str, detail: str, path: Path, root: Path, severity: str = "info") -> None:
        """Add a diagnostic about a file or folder."""
        self.found.diagnostics.append(_row(code, detail, relative(path, root), severity))

    def claim(self, path: Path, names: frozenset[str]) -> Source | None:
        """The format that takes the folder as a whole."""
        return next((s for s in self.sources if s.claims_folder(path, names)), None)

    def folder(self, top: Path, root: Path) -> None:
        """Walk a folder, without recursion so that no nesting is too deep."""
        stack = [top]
        while stack:
            path = stack.pop()
            self._weigh()
            mode = path.lstat().st_mode
            if stat.S_ISLNK(mode) and path != top:
                self.tell("symlink_refused", "a symbolic link is not followed", path, root, "warning")
            elif path.is_dir():
                stack += self._enter(path, root)
            elif stat.S_ISREG(mode) or path == top:
                self.file(path, root)
            else:
                self.tell("not_a_regular_file", "not a regular file; not read", path, root)

    def _weigh(self) -> None:
        """Say so when the load turns out to be large, while the rest of it is still being found."""
        if self._large is None or self._counted == len(self.found.units):
            return
        self._bytes += sum(u.size for u in self.found.units[self._counted :])
        self._counted = len(self.found.units)
        if self._bytes > LARGE_BYTES:
            self._large()
            self._large = None

    def _enter(self, path: Path, root: Path) -> list[Path]:
        """Units of a claimed folder, else what is to be looked at in it, last first."""
        try:
            names = sorted(child.name for child in path.iterdir())
        except OSError as error:
            self.tell("unreadable", f"cannot list the folder: {error.strerror}", path, root, "error")
            return []
        source = self.claim(path, frozenset(names))
        if source is not None:
            try:
                source.units(path, root, self.found)
            except OSError as error:
                detail = f"cannot read the folder: {error.strerror}"
                if isinstance(cast("object", path), ArchivePath):
                    detail = f"{source.name} folders are not read inside an archive; unpack it"
                self.tell("unreadable", detail, path, root, "error")
            return []
        return [path / name for name in reversed(names) if not name.startswith(".") and name not in _SKIPPED]

    def file(self, path: Path, root: Path) -> None:
        """Give a file to the format that its content shows."""
        try:
            look = Look(path, b"" if self.forced else read_head(path))
            source = self.sources[0] if self.forced else self._by_content(look)
            if source is not None:
                source.units(path, root, self.found)
                return
        except UnreadableError as error:
            # A link is left alone on purpose; of all else nobody knows what was lost.
            self.tell(error.code, error.detail, path, root, "warning" if error.code == "symlink_refused" else "error")
            return
        except OSError as error:
            self.tell("unreadable", f"cannot read the file: {error.strerror}", path, root, "error")
            return
        if look.kind == "zip":
            self._archive(path, root)
            return
        if look.head.startswith(LFS_POINTER):
            self.tell(
                "pointer_file",
                "a Git LFS pointer, the file itself was not fetched (git lfs pull)",
                path,
                root,
                "warning",
            )
            return
        detail = "no format is recognised in the content" if look.head else "the file is empty"
        self.tell("not_recognised", detail, path, root)

    def _archive(self, path: Path, root: Path) -> None:
        """Look at what is inside a zip archive as if it were a folder; an archive in an archive stays closed."""
        known, told = len(self.found.units), len(self.found.diagnostics)
        if isinstance(cast("object", path), ArchivePath):
            self.tell("nested_archive", "an archive inside an archive is not opened; unpack it", path, root, "warning")
            return
        try:
            top = enter(path)
            unsafe = unsafe_members(path)
        except OSError as error:
            self.tell("bad_archive", f"the archive cannot be read: {error.strerror}", path, root, "warning")
            return
        for name in unsafe:
            self.tell("member_refused", f"member {name!r} would lie outside the archive", path, root, "warning")
        self.folder(cast("Path", top), root)
        if len(self.found.units) == known and all(d["code"] == "not_recognised" for d in self.found.diagnostics[told:]):
            # Office documents and program packages are zip archives too: one line is enough for each.
            del self.found.diagnostics[told:]
            self.tell("not_recognised", "no format is recognised in the archive", path, root)

    def _by_content(self, look: Look) -> Source | None:
        return next((s for s in self.sources if s.claims_file(look)), None)
