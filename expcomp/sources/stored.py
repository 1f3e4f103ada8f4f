"""TraceSets that expcomp itself wrote (`expcomp read --out`, `TraceSet.write`): read like any other format."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from expcomp.errors import SourceError
from expcomp.io.parts import row_groups
from expcomp.sources._contract import Batch, Found, Frames, ReadOptions, Unit
from expcomp.sources._units import relative
from expcomp.tables.core import CORE

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from expcomp.sources._look import Look
    from expcomp.sources.traceset import TraceSet

STORED = "stored"

WHOLE = 32 << 20
"""Folders up to this size, before compression, are read as a whole."""

PART = 16 << 20
"""Size of a part of a larger one."""

_RATIO = 256
"""Tables are never compressed better, so that small folders need not be asked for their size."""

_OF_ATTEMPTS = ("steps", "messages", "grades", "artifacts")
_OF_PACKAGES = ("evidence", "feedback", "loops", "rubric_items")


class Stored:
    """Reader of written TraceSets."""

    name = STORED
    summary = "folders that `expcomp read --out` or `TraceSet.write` wrote: Parquet tables and a manifest"
    carries = dict.fromkeys(
        ("system_prompt", "tools", "reasoning", "verdict", "trial", "tokens", "cost", "times", "token_ids"),
        "what the sources had",
    )

    def claims_folder(self, folder: Path, names: frozenset[str]) -> bool:
        """A folder whose manifest says so."""
        from expcomp.sources.store import MANIFEST, is_stored

        return MANIFEST in names and is_stored(folder)

    def claims_file(self, look: Look) -> bool:
        """Never: a written TraceSet is a folder."""
        del look
        return False

    def units(self, path: Path, root: Path, found: Found) -> None:
        """One unit, or, of a large folder, one for each part of the attempts and what belongs to them."""
        size, attempts = _sizes(path)
        package, parts = relative(path, root), -(-size // PART) if size > WHOLE else 1
        if parts == 1 or attempts < parts or not _is_sound(path):
            found.units.append(Unit(self.name, path, package, size, f"{self.name}/{path.name}"))
            return
        for n in range(parts):
            span = (n, parts, n * attempts // parts)
            found.units.append(Unit(self.name, path, package, size // parts, None, span))

    def read(self, units: Sequence[Unit], options: ReadOptions) -> Frames:
        """The tables, as they were written."""
        from expcomp.sources.store import load, scan

        del options
        batch = Batch()
        parts = []
        for unit in units:
            try:
                parts.append(load(unit.path) if unit.span is None else _part(scan(unit.path), unit.span))
            except (SourceError, OSError, pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
                batch.diagnose(
                    "unreadable", str(error), package_id=unit.package_id, source_uri=unit.package_id, severity="error"
                )
        parts.append(batch.frames())
        return {name: pl.concat([p[name] for p in parts]) for name in CORE}


def _is_sound(folder: Path) -> bool:
    """Whether all files are those that were written; looked at once, before the parts are read."""
    from expcomp.sources.store import check

    try:
        check(folder)
    except (SourceError, OSError):
        return False  # read as a whole, which says what is wrong
    return True


def _sizes(folder: Path) -> tuple[int, int]:
    """Bytes of all tables before compression, and rows of attempts; the size of the files where one cannot be read."""
    import pyarrow as pa

    files = list(folder.rglob("*.parquet"))
    on_disk = sum(f.stat().st_size for f in files)
    if on_disk < WHOLE // _RATIO:
        return on_disk, 0
    try:
        about = {f: row_groups(f) for f in files}
    except (OSError, pa.ArrowException, UnicodeDecodeError):
        return on_disk, 0
    size = sum(own for groups in about.values() for _, own in groups)
    return size, sum(rows for rows, _ in about.get(folder / "attempts.parquet", ()))


def _part(tables: TraceSet, span: tuple[int, int, int]) -> Frames:
    """One of equal parts of the attempts with the rows that are theirs or their packages', and as large a part of what is left."""
    number, parts, start = span
    attempts = _slice(tables.tables["attempts"], number, parts)
    packages = tables.tables["attempts"].lazy().select("package_id").with_row_index("row")
    # A package belongs to the part of its first attempt; one without attempts to the first part.
    homes = packages.group_by("package_id", maintain_order=True).first().collect()
    here = homes.filter(pl.col("row").is_between(start, start + attempts.height, closed="left"))["package_id"]
    own = pl.col("package_id").is_in(here.implode())
    if not number:
        own |= ~pl.col("package_id").is_in(homes["package_id"].implode())
    mine = pl.col("attempt_id").is_in(attempts["attempt_id"].implode())
    found = {"attempts": attempts}
    for name in CORE:
        if name in _OF_ATTEMPTS or name in _OF_PACKAGES:
            found[name] = tables.tables[name].lazy().filter(mine if name in _OF_ATTEMPTS else own).collect()
        elif name not in found:
            found[name] = _slice(tables.tables[name], number, parts)
    return found


def _slice(table: pl.DataFrame | pl.LazyFrame, number: int, parts: int) -> pl.DataFrame:
    rows = int(table.lazy().select(pl.len()).collect().item())
    start, end = (n * rows // parts for n in (number, number + 1))
    return table.lazy().slice(start, end - start).collect()


SOURCE = Stored()
