"""TraceSet: the tables that one load gives."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import polars as pl

from expcomp.errors import TableError
from expcomp.tables.core import CORE

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True)
class TraceSet:
    """LazyFrames of the common model, one for each table; a table that is not given is empty.

    Attributes:
        tables: LazyFrame by table name.
        redactions: Hits by redaction rule, counted while loading.
        packages: Ids of all units that were read, also those without an attempt.
    """

    tables: Mapping[str, pl.LazyFrame]
    redactions: Mapping[str, int] = field(default_factory=dict)
    packages: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        unknown = sorted(set(self.tables) - set(CORE))
        if unknown:
            msg = f"TraceSet has no table {', '.join(unknown)}; its tables are {', '.join(CORE)}"
            raise TableError(msg)

    def __getitem__(self, name: str) -> pl.LazyFrame:
        if name not in CORE:
            msg = f"TraceSet has no table '{name}'; its tables are {', '.join(CORE)}"
            raise TableError(msg)
        return self.tables[name] if name in self.tables else CORE[name].empty().lazy()

    def __getattr__(self, name: str) -> pl.LazyFrame:
        if name.startswith("_") or name not in CORE:
            raise AttributeError(name)
        return self[name]

    def collect(self) -> dict[str, pl.DataFrame]:
        """All tables as frames."""
        return dict(zip(CORE, pl.collect_all([self[name] for name in CORE]), strict=True))

    def __repr__(self) -> str:
        return f"TraceSet({', '.join(sorted(self.tables))}; {len(self.packages)} packages)"
