"""One package folder while it is read: its entries, its documents, the refs that were cited and what is wrong with it."""

from __future__ import annotations

import hashlib
import os
from typing import TYPE_CHECKING, Any

from expcomp.errors import SourceError
from expcomp.evidence.media import sniffed
from expcomp.evidence.refs import is_hidden, normalise, problem
from expcomp.evidence.resolve import resolve
from expcomp.io.files import Entry, read_fast, walk
from expcomp.sources._json import load_json, load_lines

if TYPE_CHECKING:
    from expcomp.sources._contract import Batch, ReadOptions, Unit
    from expcomp.sources.packages._coerce import Report

Cited = tuple[str, str, int | None, str | None, bool | None, str | None]
"""package_id, ref, bytes, sha256, exists, media type by the first bytes."""


class Package:
    """Entries, bytes and refs of one package; every problem goes to the batch as a diagnostics line."""

    def __init__(self, unit: Unit, batch: Batch, options: ReadOptions) -> None:
        self.id = unit.package_id
        self.folder = unit.path
        self.options = options
        self.root = os.fspath(unit.path)
        self.batch = batch
        self.limit = options.max_file_bytes
        self.paths = walk(unit.path)
        self.names = frozenset(self.paths)
        self.plain = Entry(is_symlink=False)
        self.cited: dict[str, None] = {}
        self._hashes: dict[str, tuple[int, str, str | None]] = {}
        self._refs: dict[tuple[str | None, str], tuple[str | None, str, str]] = {}

    # -- problems -------------------------------------------------------------------------------------------------------
    def note(self, code: str, file: str, detail: str, **where: Any) -> None:
        """One diagnostics line of this package."""
        self.batch.diagnose(code, f"{file}: {detail}", package_id=self.id, source_uri=file, **where)

    def reporter(self, file: str, pos: int | None = None) -> Report:
        """A callback for the coercions: names this file and record."""
        at = "" if pos is None else f"record {pos}, "

        def report(field: str, code: str, detail: str) -> None:
            self.note(code, file, f"{at}{field}: {detail}", source_pos=pos, field=field)

        return report

    # -- files ----------------------------------------------------------------------------------------------------------
    def has(self, ref: str) -> bool:
        """Whether the package holds an entry at this path."""
        return ref in self.paths

    def below(self, folder: str) -> list[str]:
        """Refs of the entries under a folder, sorted."""
        start = folder + "/"
        return [ref for ref in self.paths if ref.startswith(start)]

    def read(self, ref: str) -> bytes | None:
        """Bytes of a file of the package; None, with a diagnostic, when it cannot be read."""
        entry = self.paths.get(ref)
        if entry is None:
            return None
        path = f"{self.root}/{ref}"
        if entry.is_symlink:
            real = os.path.realpath(path)
            if not real.startswith(os.path.realpath(self.root) + os.sep) or not os.path.isfile(real):  # noqa: PTH113
                self.note("symlink_refused", ref, "is a link out of the package; not opened", severity="error")
                del self.paths[ref]
                return None
            path = real
        try:
            data = read_fast(path, limit=self.limit)
        except SourceError as error:
            self.note("unreadable_file", ref, str(error), severity="error")
            self.paths.pop(ref, None)
            return None
        self._hashes[ref] = (len(data), hashlib.sha256(data).hexdigest(), sniffed(data))
        return data

    def read_text(self, ref: str) -> str | None:
        """A text file, decoded as UTF-8; bad bytes are replaced and reported."""
        data = self.read(ref)
        if data is None:
            return None
        try:
            return data.decode()
        except UnicodeDecodeError as error:
            self.note(
                "not_utf8",
                ref,
                f"byte 0x{data[error.start]:02x} is not UTF-8; decoded with replacement",
                byte_offset=error.start,
            )
            return data.decode(errors="replace")

    def read_json(self, ref: str, *, expected: type = dict) -> Any:
        """A JSON document of the expected shape; None, with a diagnostic, when it is absent from its file or another shape."""
        data = self.read(ref)
        return None if data is None else self.parse(data, ref, expected=expected)

    def parse(self, data: bytes, ref: str, *, expected: type | tuple[type, ...] = dict) -> Any:
        """Parse bytes read from `ref`."""
        value, problems = load_json(data)
        for found in problems:
            self.note(found.code, ref, found.detail, byte_offset=found.byte_offset, severity=found.severity)
        if value is not None and not isinstance(value, expected):
            self.note("wrong_shape", ref, f"holds a {type(value).__name__}, expected an object", severity="error")
            return None
        return value

    def parse_lines(self, data: bytes, ref: str) -> list[tuple[int, dict[str, Any]]]:
        """Objects of JSON lines read from `ref`."""
        good, bad = load_lines(data)
        for found in bad:
            self.note(found.code, ref, found.detail, source_pos=found.pos, byte_offset=found.byte_offset)
        for number, value in good:
            if not isinstance(value, dict):
                self.note(
                    "wrong_shape",
                    ref,
                    f"line {number} holds a {type(value).__name__}, expected an object",
                    source_pos=number,
                )
        return [(n, v) for n, v in good if isinstance(v, dict)]

    def facts(self, ref: str) -> tuple[int, str]:
        """Size and `sha256:` digest of a file that was read."""
        size, digest, _ = self._hashes[ref]
        return size, "sha256:" + digest

    # -- refs -----------------------------------------------------------------------------------------------------------
    def cite(self, ref: str) -> str:
        """Put a path into the evidence catalogue and return it."""
        self.cited[ref] = None
        return ref

    def ref(self, raw: str, kind: str | None, file: str, field: str, pos: int | None = None) -> str | None:
        """The normalised ref that a source text names, cited; None, with a diagnostic, when it is no ref at all.

        A ref that names no file stays (it is the row's business) and is reported; so is one that names a hidden file.
        """
        key = (kind, raw)
        found = self._refs.get(key)
        if found is None:
            found = self._refs[key] = self._look_up(raw, kind)
        ref, code, detail = found
        if code:
            where = "" if pos is None else f"step {pos}, "
            severity = "error" if code == "bad_ref" else "warning"
            self.note(code, file, f"{where}{field} {raw!r} {detail}", source_pos=pos, field=field, severity=severity)
        if ref is not None:
            self.cited[ref] = None
        return ref

    def _look_up(self, raw: str, kind: str | None) -> tuple[str | None, str, str]:
        if raw in self.paths:
            return (raw, "hidden_ref", "is hidden; never opened") if is_hidden(raw) else (raw, "", "")
        bad = problem(raw)
        if bad is not None and bad != "dotdot_ref":
            # A path of the machine it was recorded on; what follows `/attempts/` or `/packages/` may name a file of ours.
            found = resolve(raw, attempt=kind, paths=self.names)
            if found.ref is not None and found.how == "exact":
                return found.ref, "", ""
        if bad is not None:
            return None, "bad_ref", f"is not a path inside the package ({bad}); dropped"
        ref = normalise(raw)
        if ref is None:
            return None, "bad_ref", "is not a path inside the package; dropped"
        if is_hidden(ref):
            return ref, "hidden_ref", "is hidden; never opened"
        if ref in self.paths:
            return ref, "", ""
        found = resolve(raw, attempt=kind, paths=self.names)
        if found.ref is not None:
            return found.ref, "", ""
        hint = f"; candidates: {', '.join(found.candidates[:3])}" if found.candidates else ""
        return ref, "unresolved_ref", f"names no file of the package{hint}"

    def evidence(self) -> list[Cited]:
        """A line for each cited ref; each file is read and hashed once, over its real bytes."""
        rows: list[Cited] = []
        hashes, paths, root, limit = self._hashes, self.paths, self.root, self.limit
        sha256 = hashlib.sha256
        for ref in sorted(self.cited):
            if "hidden" in ref and is_hidden(ref):
                rows.append((self.id, ref, None, None, None, None))
                continue
            found = hashes.get(ref)
            if found is None and ref in paths:
                if paths[ref].is_symlink:
                    self.read(ref)
                else:
                    # The hot loop of a compile: most files of a package are read for their digest only.
                    try:
                        data = read_fast(f"{root}/{ref}", limit=limit)
                        hashes[ref] = (len(data), sha256(data).hexdigest(), sniffed(data))
                    except SourceError:
                        self.read(ref)
                found = hashes.get(ref)
            if found is None:
                rows.append((self.id, ref, None, None, False, None))
            else:
                rows.append((self.id, ref, found[0], "sha256:" + found[1], True, found[2]))
        return rows
