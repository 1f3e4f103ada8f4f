"""What a source module has to offer, and the small pieces all of them share."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import orjson
import polars as pl

from expcomp.errors import UsageError
from expcomp.io.digest import sha256_hex
from expcomp.sources._columns import CHUNK, Columns
from expcomp.sources.rules import Rules
from expcomp.tables.core import CORE

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from expcomp.sources._look import Look

Frames = dict[str, pl.DataFrame]


@dataclass(frozen=True, slots=True)
class Unit:
    """The smallest piece of input that is read as a whole: a package folder, a results file, a trial folder.

    Attributes:
        format: Registry name of the source that reads it.
        path: File or folder.
        package_id: Path of the unit relative to the load root (for a package: its folder name); never a machine path.
        size: Bytes, as far as a look at the file sizes tells; used to cut shards.
        group: Task key when it is known without reading everything; units of one group are compiled together.
        span: Part of a large file: first byte, end byte and position of the first record for lines; first and end row group and
            position of the first row for Parquet. None is the whole file.
        digest: Of the whole file, where it was taken when the file was cut.
    """

    format: str
    path: Path
    package_id: str
    size: int = 0
    group: str | None = None
    span: tuple[int, int, int] | None = None
    digest: str | None = None


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """What a user may supply where a format lacks it. None leaves the matter to the file.

    Attributes:
        tools: JSON array of function schemas, for attempts whose file has none.
        system: System prompt, for attempts whose file has none.
        arm: Arm of all attempts. Formats made of rows or spans (chat sets, telemetry): name of the column, attribute or tag that holds
            it, or, when no record has such a key, the arm itself.
        task_id: Task of all attempts, or the name of the column, attribute or tag that holds it, as for `arm`.
        trial: 0-based trial of all attempts, or the name of the column, attribute or tag that holds it, as for `arm`.
        score_scale: Lower and upper end of the primary grade, where the format does not fix them.
        max_file_bytes: Larger files are refused, before and after decompression; formats that are read in parts have no limit.
        rules: Error classes, status words and score scales, with what `expcomp.toml` adds.
    """

    tools: str | None = None
    system: str | None = None
    arm: str | None = None
    task_id: str | None = None
    trial: int | str | None = None
    score_scale: tuple[float, float] | None = None
    max_file_bytes: int = 1 << 30
    rules: Rules = field(default_factory=Rules)

    def __post_init__(self) -> None:
        if self.tools is not None and not _is_schemas(self.tools):
            msg = f"tools: expected a JSON array of function schemas, found {self.tools[:60]!r}"
            raise UsageError(msg)
        number = int(self.trial) if isinstance(self.trial, int) or (self.trial or "").isdecimal() else 0  # type: ignore[arg-type]
        if not 0 <= number < 2**31:
            msg = f"trial: expected a number from 0 on, or the name of a column, found {self.trial!r}"
            raise UsageError(msg)
        if self.score_scale is not None and not 0 < self.score_scale[1] - self.score_scale[0] < math.inf:
            msg = f"score_scale: expected (low, high) with low below high, found {self.score_scale}"
            raise UsageError(msg)


def _is_schemas(text: str) -> bool:
    try:
        schemas = orjson.loads(text)
    except orjson.JSONDecodeError:
        return False
    return isinstance(schemas, list) and bool(schemas) and all(isinstance(s, dict) for s in schemas)


@dataclass(slots=True)
class Found:
    """Units and problems that discovery came across."""

    units: list[Unit] = field(default_factory=list)
    diagnostics: list[dict[str, Any]] = field(default_factory=list)


class Source(Protocol):
    """One format. Adding a format is one module with such an object and one entry in the registry."""

    name: str
    summary: str
    carries: dict[str, str]

    def claims_folder(self, folder: Path, names: frozenset[str]) -> bool:
        """Whether this folder, with these entry names, is of the format; it is then read as a whole."""

    def claims_file(self, look: Look) -> bool:
        """Whether a file is of the format, by its (decompressed) first bytes; the name alone never decides."""

    def units(self, path: Path, root: Path, found: Found) -> None:
        """Add the units of a claimed file or folder to `found`."""

    def read(self, units: Sequence[Unit], options: ReadOptions) -> Frames:
        """Read units into frames of the common model. A problem in one unit becomes diagnostics, never an exception."""


class Batch:
    """Rows gathered by a parser, as dicts by table. Absent keys are null."""

    def __init__(self) -> None:
        self.rows: dict[str, list[dict[str, Any]]] = defaultdict(list)
        self._packed: dict[str, Columns] = {}

    def add(self, table: str, **row: Any) -> None:
        """Add one row."""
        self.rows[table].append(row)

    def diagnose(
        self,
        code: str,
        detail: str,
        *,
        package_id: str | None = None,
        source_uri: str | None = None,
        source_pos: int | None = None,
        byte_offset: int | None = None,
        attempt_id: str | None = None,
        field: str | None = None,
        severity: str = "warning",
    ) -> None:
        """Add one line to the load report."""
        self.add(
            "diagnostics",
            package_id=package_id,
            source_uri=source_uri,
            source_pos=source_pos,
            byte_offset=byte_offset,
            attempt_id=attempt_id,
            field=field,
            code=code,
            severity=severity,
            detail=detail,
        )

    def pack(self, *tables: str) -> None:
        """Take apart the rows so far, where there are enough, while they are in the cache.

        For tables whose rows the reader changes no more.
        """
        for name in tables:
            if len(self.rows[name]) >= CHUNK:
                self._columns(name).add(self.rows.pop(name))

    def frames(self) -> Frames:
        """One typed frame for each table of the common model, also the empty ones."""
        for name in CORE:
            self._columns(name).add(self.rows.get(name, []))
        return {name: self._packed.pop(name).frame() for name in CORE}

    def _columns(self, name: str) -> Columns:
        if name not in self._packed:
            self._packed[name] = Columns(CORE[name].schema)
        return self._packed[name]


def attempt_id(*parts: object) -> str:
    """Stable id of an attempt: a digest of what tells it apart (format, unit, task, kind or trial, position)."""
    return "attempt_" + sha256_hex("\x1f".join(map(str, parts)).encode("utf-8", "backslashreplace"))[:20]
