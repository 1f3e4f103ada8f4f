"""TraceSet: the tables that one load gives."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import polars as pl

from expcomp.errors import TableError
from expcomp.tables.core import CORE

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True)
class TraceSet:
    """The tables of the common model, each a DataFrame or a LazyFrame; a table that is not given is empty.

    Attributes:
        tables: Frame by table name; also `ts.steps`, `ts["steps"]`.
        packages: Ids of all units that were read, also those without an attempt.
    """

    tables: Mapping[str, pl.DataFrame | pl.LazyFrame]
    packages: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        unknown = sorted(set(self.tables) - set(CORE))
        if unknown:
            msg = f"TraceSet has no table {', '.join(unknown)}; its tables are {', '.join(CORE)}"
            raise TableError(msg)

    def __getitem__(self, name: str) -> Any:
        if name not in CORE:
            msg = f"TraceSet has no table '{name}'; its tables are {', '.join(CORE)}"
            raise TableError(msg)
        return self.tables[name] if name in self.tables else CORE[name].empty()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name not in CORE:
            raise AttributeError(name)
        return self[name]

    def lazy(self) -> TraceSet:
        """The same with LazyFrames."""
        return replace(self, tables={name: self[name].lazy() for name in CORE})

    def collect(self) -> dict[str, pl.DataFrame]:
        """All tables as frames; a LazyFrame is run."""
        return {name: self[name].lazy().collect() for name in CORE}

    def __repr__(self) -> str:
        return f"TraceSet({', '.join(name for name in CORE if name in self.tables)}; {len(self.packages)} packages)"
