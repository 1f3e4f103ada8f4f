"""Compilation: rows of a TraceSet in memory, for notebooks; and an output folder opened as one."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from expcomp.compiler.layout import table_file
from expcomp.compiler.owners import CELL, Owners
from expcomp.compiler.plan import REST
from expcomp.compiler.report import build_report
from expcomp.compiler.shard import compiled, redacted
from expcomp.config import CompileOptions
from expcomp.errors import SourceError, TableError, UsageError
from expcomp.io.counts import Count
from expcomp.io.documents import read_json
from expcomp.io.nearest import nearest
from expcomp.rows.registry import ROW_FAMILIES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from expcomp.sources.traceset import TraceSet


class Rows:
    """Frames by family name, read when they are asked for."""

    def __init__(self, frames: Mapping[str, pl.DataFrame] | None = None, folder: Path | None = None) -> None:
        self._frames = dict(frames or {})
        self._folder = folder

    def __getitem__(self, family: str) -> pl.DataFrame:
        if family not in ROW_FAMILIES:
            msg = f"there is no family '{family}'; known are {', '.join(ROW_FAMILIES)}{nearest(family, ROW_FAMILIES)}"
            raise KeyError(msg)
        if family not in self._frames and self._folder is not None:
            self._frames[family] = _frame(self._folder / f"{family}.parquet")
        return self._frames[family]

    def __iter__(self) -> Iterator[str]:
        return iter(ROW_FAMILIES)

    def __len__(self) -> int:
        return len(ROW_FAMILIES)

    def __repr__(self) -> str:
        return f"Rows({', '.join(self)})"

    def _ipython_key_completions_(self) -> list[str]:
        return list(self)


@dataclass(frozen=True)
class Compilation:
    """What a compile gave.

    Attributes:
        rows: Accepted rows by family, as frames.
        rejected: Rejected rows by family, with all reasons.
        tables: The tables the rows were made from.
        report: Counts, reasons, redactions, score distributions, rounds.
        options: What the compile was told.
    """

    rows: Rows
    rejected: Rows
    tables: Mapping[str, pl.DataFrame]
    report: Mapping[str, Any]
    options: CompileOptions = field(default_factory=CompileOptions)

    def write(self, out: str | Path, *, force: bool = False) -> None:
        """Publish as a folder, in the layout of `compile_paths`; `force` replaces an earlier output in one step.

        Raises:
            OutputError: `out` exists or cannot be written.
        """
        from expcomp.compiler.build import write_compilation

        write_compilation(self, out, force=force)

    @cached_property
    def summary(self) -> pl.DataFrame:
        """One line for each family: generated, accepted, rejected and the reasons."""
        families = self.report["families"]
        return pl.DataFrame(
            {
                "family": list(families),
                "generated": [f["generated"] for f in families.values()],
                "accepted": [f["accepted"] for f in families.values()],
                "rejected": [f["rejected"] for f in families.values()],
                "reasons": [", ".join(f"{r} {n}" for r, n in f["reasons"].items()) for f in families.values()],
            }
        )

    def __repr__(self) -> str:
        t = self.report["total"]
        return f"Compilation({t['accepted']:,} rows accepted, {t['rejected']:,} rejected, {len(self.report['packages']):,} packages)"

    def _repr_html_(self) -> str:
        cells = "".join(
            "<tr>" + "".join(f"<td>{escape(str(v))}</td>" for v in row) + "</tr>"
            for row in zip(*(self.summary[c].to_list() for c in self.summary.columns), strict=True)
            if row[1]
        )
        head = "".join(f"<th>{c}</th>" for c in self.summary.columns)
        return f"<p>{escape(repr(self))}</p><table><thead><tr>{head}</tr></thead><tbody>{cells}</tbody></table>"


def compile(ts: TraceSet, *, options: CompileOptions | None = None) -> Compilation:  # noqa: A001 - the verb of the package
    """Compile a TraceSet in memory.

    Every text is redacted first, whatever the TraceSet comes from. For input that does not fit in memory use
    `compile_paths`, which writes a folder shard by shard.

    Raises:
        TableError: A table of the TraceSet does not hold to its contract, or speaks of attempts that are not there.
        UsageError: It is no TraceSet.
    """
    from expcomp.tables import models

    given: Any = ts
    if not hasattr(given, "collect") or isinstance(given, pl.LazyFrame):
        msg = f"compile takes a TraceSet, as read_traces gives it, not {type(given).__name__}; for paths there is compile_paths"
        raise UsageError(msg)
    options = options or CompileOptions()
    frames = ts.collect()
    for name, frame in frames.items():
        models.validate(name, frame)
    _of_known_attempts(frames)
    frames, hits = redacted(frames, pii=options.pii)
    made = compiled(frames, hits, Owners((REST,), {}), options)
    rows = {name: made.frames[f"rows/{name}.parquet"].drop(CELL) for name in ROW_FAMILIES}
    rejected = {name: made.frames[f"rejected/{name}.parquet"].drop(CELL) for name in ROW_FAMILIES}
    packages = sorted({*ts.packages, *frames["attempts"]["package_id"].to_list()})
    tables = {name: frame.height for name, frame in frames.items()}
    report = build_report(made.tally.frame(), tables, packages, Counter())
    return Compilation(Rows(rows), Rows(rejected), frames, report, options)


def _of_known_attempts(frames: Mapping[str, pl.DataFrame]) -> None:
    """Refuse lines of attempts that are not there: whoever filters one table has to filter the others alike."""
    known = frames["attempts"].select("attempt_id")
    for name in ("steps", "messages", "grades", "artifacts"):
        given = frames[name].select("attempt_id").drop_nulls()
        lost = given.join(known, on="attempt_id", how="anti", maintain_order="left")["attempt_id"]
        if lost.len():
            msg = (
                f"{name} holds {Count(lost.len()):line|lines} of {Count(lost.n_unique()):attempt|attempts} that attempts does not hold, "
                f"the first {lost[0]}; filter it alike, as {name}.join(attempts, on='attempt_id', how='semi')"
            )
            raise TableError(msg)


def open_compilation(folder: str | Path) -> Compilation:
    """Open a published folder; frames are read when they are asked for.

    Raises:
        SourceError: The folder is no output of a compile.
    """
    root = Path(folder)
    if not (root / "manifest.json").is_file() or not (root / "report.json").is_file():
        msg = f"{folder} is no output of a compile: it has no manifest.json and report.json"
        raise SourceError(msg)
    report = read_json(root / "report.json")
    return Compilation(Rows(folder=root / "rows"), Rows(folder=root / "rejected"), _Tables(root), report)


def _frame(path: Path) -> pl.DataFrame:
    try:
        return pl.read_parquet(path, glob=False)
    except (pl.exceptions.PolarsError, OSError) as error:
        msg = f"{path} cannot be read: {error}"
        raise SourceError(msg) from error


class _Tables(dict[str, pl.DataFrame]):
    """Tables of a folder, read when they are asked for."""

    def __init__(self, root: Path) -> None:
        super().__init__()
        self._root = root

    def __missing__(self, name: str) -> pl.DataFrame:
        path = self._root / table_file(name)
        if not path.is_file():
            raise KeyError(name)
        self[name] = _frame(path)
        return self[name]
