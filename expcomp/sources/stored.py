"""TraceSets that expcomp itself wrote (`expcomp read --out`, `TraceSet.write`): read like any other format."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from expcomp.errors import SourceError
from expcomp.sources._contract import Batch, Found, Frames, ReadOptions, Unit
from expcomp.sources._units import relative
from expcomp.tables.core import CORE

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from expcomp.sources._look import Look


class Stored:
    """Reader of written TraceSets."""

    name = "stored"
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
        """One unit, read as a whole."""
        size = sum(f.stat().st_size for f in path.rglob("*.parquet"))
        found.units.append(Unit(self.name, path, relative(path, root), size, f"{self.name}/{path.name}"))

    def read(self, units: Sequence[Unit], options: ReadOptions) -> Frames:
        """The tables, as they were written."""
        from expcomp.sources.store import scan

        del options
        batch = Batch()
        parts = []
        for unit in units:
            try:
                parts.append(scan(unit.path).collect())
            except (SourceError, OSError, pl.exceptions.PolarsError) as error:
                batch.diagnose(
                    "unreadable", str(error), package_id=unit.package_id, source_uri=unit.package_id, severity="error"
                )
        parts.append(batch.frames())
        return {name: pl.concat([p[name] for p in parts]) for name in CORE}


SOURCE = Stored()
