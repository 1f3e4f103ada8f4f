"""A load on its way to disk: every table in part files, of which memory holds a few narrow columns of the attempts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from expcomp.sources.deciding import KEYS, Decided, decide
from expcomp.sources.finish import merged_tasks, settled_attempts, settled_table, settled_tasks, told_once
from expcomp.sources.swe.join import REPORTS, join_reports
from expcomp.tables.core import CORE

if TYPE_CHECKING:
    from expcomp.sources._contract import ReadOptions

LARGE = ("steps", "messages")
"""Tables that nothing but their own rows is needed for."""

ALL_JOBS = -1
"""Number of a part with the rows of all jobs."""

FOLD = 16
"""Parts whose tasks are merged at a time."""


@dataclass(frozen=True, slots=True)
class Part:
    """Rows of one table that one job wrote, or `ALL_JOBS`."""

    job: int
    path: Path


@dataclass(frozen=True)
class Streamed:
    """A load that is finished but for a pass over the parts.

    Attributes:
        parts: Table -> its parts in the order of the load.
        held: Tables in memory, finished.
        decided: What was decided over the attempts.
        gone: Attempts of each job that are left out there.
    """

    parts: Mapping[str, Sequence[Part]]
    held: Mapping[str, pl.DataFrame]
    decided: Decided
    gone: Mapping[int, pl.Series]

    def finished(self, name: str, part: Part) -> pl.LazyFrame:
        """The rows of a part as they are to be."""
        scan = pl.scan_parquet(part.path, glob=False)
        if name == "attempts" or "attempt_id" not in CORE[name].columns:
            return scan
        if part.job in self.gone:
            scan = scan.filter(~pl.col("attempt_id").is_in(self.gone[part.job].implode()).fill_null(value=False))
        return settled_table(name, scan, self.decided)

    def unchanged(self, name: str, part: Part) -> bool:
        """Whether a part may stay as it was written."""
        return part.job not in self.gone and not len(self.decided.dropped) and not self._marked(name)

    def _marked(self, name: str) -> bool:
        return name == "steps" and self.decided.copied.height > 0


def stream(
    written: Sequence[Mapping[str, Path]],
    calls: pl.DataFrame,
    discovered: pl.DataFrame,
    options: ReadOptions,
) -> Streamed:
    """Finish a load whose jobs wrote their tables.

    Args:
        written: Of each job, in the order of the load: table -> Parquet file.
        calls: As for `decide`.
        discovered: Diagnostics of the discovery.
        options: What the user supplies.
    """
    parts = {name: [Part(i, w[name]) for i, w in enumerate(written) if name in w] for name in CORE}
    if REPORTS in _read("attempts", parts, ["source_format"])["source_format"]:
        parts |= _joined(parts, Path(written[0]["attempts"]).parent)
    keys = [pl.read_parquet(p.path, columns=list(KEYS), glob=False) for p in parts["attempts"]]
    decided = decide(pl.concat([CORE["attempts"].empty().select(KEYS), *keys]), calls, options)
    jobs = pl.concat(
        [pl.Series([], dtype=pl.Int64)]
        + [pl.repeat(p.job, k.height, eager=True, dtype=pl.Int64) for p, k in zip(parts["attempts"], keys, strict=True)]
    )
    at = 0
    for part, own in zip(parts["attempts"], keys, strict=True):
        attempts = settled_attempts(pl.read_parquet(part.path, glob=False), decided.keys.slice(at, own.height), options)
        attempts.write_parquet(part.path, compression="zstd", compression_level=1)
        at += own.height
    held = {
        "tasks": settled_tasks(_tasks(parts["tasks"]), decided.keys["task_id"], options),
        "diagnostics": told_once(pl.concat([discovered, _read("diagnostics", parts), decided.diagnostics])),
    }
    # What is decided is asked for again only where an attempt was left out.
    rest = replace(decided, keys=decided.keys.filter(~pl.col("kept")))
    return Streamed({n: p for n, p in parts.items() if n not in held}, held, rest, _gone(decided.keys, jobs))


def _read(name: str, parts: Mapping[str, Sequence[Part]], columns: list[str] | None = None) -> pl.DataFrame:
    empty = CORE[name].empty() if columns is None else CORE[name].empty().select(columns)
    return pl.concat([empty, *(pl.read_parquet(p.path, columns=columns, glob=False) for p in parts[name])])


def _tasks(parts: Sequence[Part]) -> pl.DataFrame:
    """Each task once; merged as they are read, since every part names most of them again."""
    merged = CORE["tasks"].empty()
    for start in range(0, len(parts), FOLD):
        some = (pl.read_parquet(p.path, glob=False) for p in parts[start : start + FOLD])
        merged = merged_tasks(pl.concat([merged, *some]))
    return merged


def _joined(parts: Mapping[str, Sequence[Part]], folder: Path) -> dict[str, list[Part]]:
    """The small tables with what reports of other files say; that takes all of them in memory."""
    small = [name for name in CORE if name not in LARGE]
    frames = join_reports({name: _read(name, parts) for name in small} | {n: CORE[n].empty() for n in LARGE})
    out = {}
    for name in small:
        path = folder / f"{name}.joined.parquet"
        frames[name].write_parquet(path, compression="zstd", compression_level=1)
        out[name] = [Part(ALL_JOBS, path)]
    return out


def _gone(keys: pl.DataFrame, jobs: pl.Series) -> dict[int, pl.Series]:
    """Job -> attempts of which it has a copy that is left out, and not the one that stays."""
    if keys["kept"].all():
        return {}
    rows = keys.select("attempt_id", "kept", job=jobs).filter(pl.col("job") != ALL_JOBS)
    stay = rows.filter("kept").select("attempt_id", "job")
    left = rows.filter(~pl.col("kept")).join(stay, on=["attempt_id", "job"], how="anti", maintain_order="left")
    groups = left.partition_by("job", maintain_order=True)
    return {int(g["job"][0]): g["attempt_id"].unique(maintain_order=True) for g in groups}
