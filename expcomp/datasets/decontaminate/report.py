"""What was found, by held-out task and by row, and what the manifest says about it."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import polars as pl

from expcomp.datasets.decontaminate.index import Index
from expcomp.datasets.options import Policy
from expcomp.tables.decontamination import DECONTAMINATION_ROWS, DECONTAMINATION_TASKS, LEVEL, VERDICT

ROW_HITS: dict[str, pl.DataType] = {
    "kind": pl.String(),
    "row_id": pl.String(),
    "task_id": pl.String(),
    "level": pl.String(),
    "heldout": pl.UInt32(),
    "field": pl.String(),
    "coverage": pl.Float64(),
    "longest_run": pl.Int64(),
    "verdict": pl.String(),
}


def row_hits(rows: pl.DataFrame, hits: pl.DataFrame) -> pl.DataFrame:
    """Hits of tasks as hits of their rows (`ROW_HITS`): all of them drop.

    Args:
        rows: row_id, task_id, and kind if there is one.
        hits: `chain.task_hits`.
    """
    found = rows.join(hits, on="task_id", how="inner", maintain_order="left").with_columns(verdict=pl.lit("drop"))
    return _complete(found)


def _complete(hits: pl.DataFrame) -> pl.DataFrame:
    """Hits with all columns of `ROW_HITS`; what comes without a level was found by its n-grams."""
    given = dict(hits.schema)
    filled = [
        pl.col(n).cast(t) if n in given else pl.lit("ngram" if n == "level" else None, t).alias(n)
        for n, t in ROW_HITS.items()
    ]
    return hits.select(filled)


def task_report(held: pl.DataFrame, tasks: pl.DataFrame, hits: pl.DataFrame) -> pl.DataFrame:
    """Every held-out task with what was found of it (`DECONTAMINATION_TASKS`).

    Args:
        held: Held-out tasks.
        tasks: `chain.task_hits`.
        hits: Columns of `ROW_HITS`, of which kind, task_id and level may be missing.
    """
    found = _complete(hits)
    levels = pl.concat([tasks.select("heldout", "level"), found.select("heldout", "level")])
    row = pl.struct("kind", "row_id")

    def rows(verdict: str) -> pl.Expr:
        return row.filter(pl.col("verdict") == verdict).n_unique().cast(pl.Int64)

    by_row = found.group_by("heldout", maintain_order=True).agg(
        rows_dropped=rows("drop"),
        # A row that one field drops is not on the list for another.
        rows_review=row.n_unique().cast(pl.Int64) - rows("drop"),
        max_coverage=pl.col("coverage").max(),
        longest_run=pl.col("longest_run").max(),
    )
    by_task = tasks.group_by("heldout", maintain_order=True).agg(n_tasks=pl.col("task_id").n_unique().cast(pl.Int64))
    by_level = levels.group_by("heldout", maintain_order=True).agg(levels=pl.col("level").unique().sort())
    report = held.select("benchmark", "task", "content_digest").with_columns(
        heldout=pl.int_range(pl.len(), dtype=pl.UInt32)
    )
    for part in (by_level, by_task, by_row):
        report = report.join(part.cast({"heldout": pl.UInt32}), on="heldout", how="left", maintain_order="left")
    return report.with_columns(
        pl.col("levels").fill_null([]), pl.col("n_tasks", "rows_dropped", "rows_review").fill_null(0)
    ).select(pl.col(n).cast(t) for n, t in DECONTAMINATION_TASKS.schema.items())


def row_report(held: pl.DataFrame, hits: pl.DataFrame) -> pl.DataFrame:
    """Every row in which something was found, with the worst of it (`DECONTAMINATION_ROWS`), in the order of the hits."""
    name = held.select("benchmark", "task").with_columns(heldout=pl.int_range(pl.len(), dtype=pl.UInt32))
    worst = (
        _complete(hits)
        .with_row_index("at")
        .with_columns(
            pl.col("verdict").cast(VERDICT),
            first=pl.col("at").min().over("kind", "row_id"),
            n_heldout=pl.col("heldout").n_unique().over("kind", "row_id"),
        )
        .with_columns(pl.col("level").cast(LEVEL))
        # The task itself is worse than any text of it, and has no coverage.
        .sort(
            *("first", "verdict", "coverage", "longest_run", "level", "heldout"),
            descending=[False, True, True, True, False, False],
            nulls_last=False,
        )
        .unique("first", keep="first", maintain_order=True)
        .join(name, on="heldout", how="left", maintain_order="left")
    )
    return worst.select(pl.col(n).cast(t) for n, t in DECONTAMINATION_ROWS.schema.items())


def manifest_entry(policy: Policy, index: Index | None) -> dict[str, Any]:
    """Thresholds and counts, as the manifest keeps them."""
    return {"policy": asdict(policy), "index": {} if index is None else dict(index.counts)}
