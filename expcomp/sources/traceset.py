"""TraceSet: the tables that one load gives."""

from __future__ import annotations

from dataclasses import dataclass, replace
from html import escape
from typing import TYPE_CHECKING, Any

import polars as pl

from expcomp.errors import TableError
from expcomp.tables.core import CORE

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

GROUP = ("source_format", "model", "arm")


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

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *CORE})

    def lazy(self) -> TraceSet:
        """The same with LazyFrames."""
        return replace(self, tables={name: self[name].lazy() for name in CORE})

    def collect(self) -> dict[str, pl.DataFrame]:
        """All tables as frames; a LazyFrame is run. Of a large load the files are read once for all tables."""
        from expcomp.sources.stream import LazyTables

        if isinstance(self.tables, LazyTables):
            return self.tables.plan.run().frames()
        return {name: self[name].lazy().collect() for name in CORE}

    def write(self, out: str | Path, *, force: bool = False) -> None:
        """Write as a folder of Parquet tables that `scan_traces` and `read_traces` take again; large loads are streamed.

        Raises:
            OutputError: `out` exists or cannot be written.
        """
        from expcomp.sources.store import write

        write(self, out, force=force)

    def summary(self) -> pl.DataFrame:
        """Attempts by format, model and arm: how they ended, verdicts, steps, calls, tokens and cost.

        Counts are attempts; `ungraded` has no verdict, `void` a score that is not valid. Sums are null where no attempt tells.
        """
        attempts: pl.LazyFrame = self["attempts"].lazy()
        status = pl.col("status").cast(pl.String)
        words = ("completed", "limit", "agent_error", "infra_error", "cancelled", "running", "unknown")
        sums = ("input_tokens", "output_tokens", "cost_usd")
        return (
            attempts.group_by(GROUP, maintain_order=True)
            .agg(
                pl.len().alias("attempts"),
                pl.col("task_id").drop_nulls().n_unique().alias("tasks"),
                (pl.col("relation") != "root").sum().alias("subagents"),
                *((status == word).sum().alias(word) for word in words),
                pl.col("passed").sum().alias("passed"),
                (~pl.col("passed")).sum().alias("failed"),
                pl.col("passed").is_null().sum().alias("ungraded"),
                (~pl.col("score_valid")).sum().alias("void"),
                *(pl.col(n).sum().alias(n) for n in ("n_steps", "n_tool_calls")),
                *(pl.when(pl.col(n).is_not_null().any()).then(pl.col(n).sum()).alias(n) for n in sums),
            )
            .sort(GROUP, nulls_last=True)
            .collect()
        )

    def skipped(self) -> pl.DataFrame:
        """What the load report says, by severity and code, with the first case of each."""
        told: pl.LazyFrame = self["diagnostics"].lazy()
        return (
            told.group_by("severity", "code", maintain_order=True)
            .agg(
                pl.len().alias("lines"),
                pl.col("source_uri").drop_nulls().n_unique().alias("files"),
                pl.col("source_uri").first().alias("first_file"),
                pl.col("detail").first().alias("first_detail"),
            )
            .sort(pl.col("severity").to_physical(), pl.col("lines"), "code", descending=[True, True, False])
            .collect()
        )

    def __repr__(self) -> str:
        from expcomp.sources.stream import LazyTables

        if isinstance(self.tables, LazyTables):
            units = self.tables.plan.units
            size = sum(u.size for u in units)
            return f"TraceSet({len(self.packages):,} files and folders, {size / 1e6:,.0f} MB, not read yet; .write(dir) streams it)"
        sizes = [
            f"{frame.height:,} {name}"
            for name in CORE
            if isinstance(frame := self[name], pl.DataFrame) and frame.height
        ]
        return f"TraceSet({', '.join(sizes) or 'lazy tables'}; {len(self.packages):,} files and folders)"

    def _repr_html_(self) -> str:
        from expcomp.sources.stream import LazyTables

        head = f"<p>{escape(repr(self))}</p>"
        if isinstance(self.tables, LazyTables) and "held" not in vars(self.tables):
            return head  # a look at it in a notebook must not read gigabytes
        parts = [head, _html(self.summary(), "Attempts")]
        skipped = self.skipped()
        if skipped.height:
            parts.append(_html(skipped, "Reported while reading"))
        return "".join(parts)


def _html(frame: pl.DataFrame, title: str) -> str:
    kept = [c for c in frame.columns if any(value not in (None, 0) for value in frame[c])]
    head = "".join(f"<th>{escape(c)}</th>" for c in kept)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(_shown(value))}</td>" for value in row) + "</tr>"
        for row in zip(*(frame[c] for c in kept), strict=True)
    )
    return f"<table><caption>{escape(title)}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _shown(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:,.4f}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)
