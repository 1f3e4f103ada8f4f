"""Files of rows against held-out tasks: what is found, and the files without it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from expcomp.datasets.decontaminate.chain import check_levels, task_hits
from expcomp.datasets.decontaminate.heldout import held_out
from expcomp.datasets.decontaminate.index import Index
from expcomp.datasets.decontaminate.report import ROW_HITS, manifest_entry, row_report, task_report
from expcomp.datasets.options import Policy
from expcomp.io.digest import sha256_file
from expcomp.io.documents import write_json
from expcomp.io.heldout_files import task_file
from expcomp.io.publish import publish
from expcomp.io.row_files import IDS, Shard, check_out, copy_without, portions, replacing, row_shards
from expcomp.io.sinks import write_parquet

_INVENTORY = {"benchmark": "dataset", "task": "native_id", "content_digest": "task_digest"}
_POSITIONS = {"kind": pl.String(), "row": pl.UInt32(), "verdict": pl.String()}


@dataclass(frozen=True)
class Checked:
    """What was found in rows.

    Attributes:
        tasks: By held-out task (`DECONTAMINATION_TASKS`).
        rows: By row (`DECONTAMINATION_ROWS`).
        manifest: Thresholds and counts.
        n_rows: Rows that were looked at.
        shards: Their files.
        positions: kind, row (0-based position in its file), verdict.
    """

    tasks: pl.DataFrame
    rows: pl.DataFrame
    manifest: dict[str, Any]
    n_rows: int
    shards: tuple[Shard, ...]
    positions: pl.DataFrame

    @property
    def n_dropped(self) -> int:
        """Rows that hold a held-out task."""
        return self.rows.filter(pl.col("verdict") == "drop").height


def check_rows(
    path: Path, held: pl.DataFrame, policy: Policy, *, seen: Callable[[int], None] = lambda n: None
) -> Checked:
    """Look for held-out tasks in a dataset folder, a compile output or a file of rows.

    Args:
        path: Of the rows.
        held: Held-out tasks (`held_out`).
        policy: Levels and thresholds.
        seen: Hears the number of rows so far.

    Raises:
        SourceError: The rows cannot be read.
        ConfigError: The policy names a level that there is not.
    """
    check_levels(policy)
    index = Index.build(held, policy) if "ngram" in policy.levels else None
    known = _tasks(path)
    shards = row_shards(path)
    columns = ROW_HITS | {"row": pl.UInt32()}
    hits, rows = [pl.DataFrame(schema=columns)], [pl.DataFrame(schema={"kind": pl.String(), **IDS})]
    count = 0
    for shard in shards:
        for ids, texts in portions(shard.files[0]):
            # Foreign rows may have no id of their own; their place is one.
            here = ids.with_columns(
                row_id=pl.coalesce("row_id", pl.col("row").cast(pl.String)), kind=pl.lit(shard.kind)
            )
            rows.append(here.select(rows[0].columns))
            if index is not None:
                found = index.scan(texts).join(here, on="row", how="left", maintain_order="left")
                found = found.with_columns(level=pl.lit("ngram"))
                hits.append(found.select(pl.col(n).cast(t) for n, t in columns.items()))
            count += ids.height
            seen(count)
    every = pl.concat(rows)
    named = task_hits(_named(every, known), held, policy)
    by_task = every.join(named, on="task_id", how="inner", maintain_order="left").with_columns(verdict=pl.lit("drop"))
    hits.append(
        by_task.select(
            pl.col(n).cast(t) if n in by_task.columns else pl.lit(None, t).alias(n) for n, t in columns.items()
        )
    )
    found = pl.concat(hits)
    entry = manifest_entry(policy, index) | {"rows": count}
    positions = found.select(*_POSITIONS).unique(maintain_order=True)
    return Checked(task_report(held, named, found), row_report(held, found), entry, count, tuple(shards), positions)


def _tasks(path: Path) -> pl.DataFrame | None:
    """The tasks of a folder of ours, in the columns of the table `tasks`."""
    if not path.is_dir():
        return None
    file = task_file(path)
    frame = pl.read_parquet(file)
    if file.name == "inventory.parquet":
        frame = frame.rename(_INVENTORY, strict=False)
    return frame.select(
        c for c in ("task_id", "dataset", "native_id", "instruction", "target", "task_digest") if c in frame.columns
    ).unique("task_id", keep="first", maintain_order=True)


def _named(rows: pl.DataFrame, known: pl.DataFrame | None) -> pl.DataFrame:
    """The tasks of the rows; of those that no table describes the names are all there is."""
    ours = rows.select("task_id", "dataset").drop_nulls("task_id").unique("task_id", keep="first", maintain_order=True)
    if known is None:
        return ours.with_columns(native_id="task_id")
    described = known.join(ours, on="task_id", how="semi", maintain_order="left")
    others = ours.join(known, on="task_id", how="anti", maintain_order="left").with_columns(native_id="task_id")
    return pl.concat([described, others], how="diagonal")


def write_report(rows: pl.DataFrame, out: Path, *, force: bool = False) -> None:
    """Write the report by row as Parquet, in one step."""
    with replacing(out, force=force) as beside:
        write_parquet(rows, beside, {})


def write_clean(path: Path, checked: Checked, out: Path, *, force: bool = False) -> int:
    """Write the rows that pass, in the format they came in, in one step; returns their number.

    Of a dataset folder the files of rows are written, with a manifest of their own: card and side tables speak of all rows.

    Raises:
        UsageError: `out` is where the rows are.
        OutputError: `out` cannot be written.
    """
    check_out(path, out)
    if path.is_file():
        with replacing(out, force=force) as beside:
            return copy_without(path, beside, _gone(checked, checked.shards[0]))
    left = 0
    with publish(out, force=force) as staging:
        files = []
        for shard in checked.shards:
            for file in shard.files:
                there = staging / file.relative_to(path)
                there.parent.mkdir(parents=True, exist_ok=True)
                kept = copy_without(file, there, _gone(checked, shard))
                files.append(
                    {"path": there.relative_to(staging).as_posix(), "rows": kept, "sha256": sha256_file(there)}
                )
            left += kept
        dropped = {"rows": checked.n_rows, "rows_kept": left}
        write_json(staging / "manifest.json", {"decontamination": checked.manifest | dropped, "files": files})
    return left


def _gone(checked: Checked, shard: Shard) -> pl.Series:
    return checked.positions.filter((pl.col("kind") == shard.kind) & (pl.col("verdict") == "drop"))["row"]


__all__ = ["Checked", "check_rows", "held_out", "write_clean", "write_report"]
