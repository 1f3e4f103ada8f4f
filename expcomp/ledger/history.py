"""The history of a ledger: one row a commit, with what its writer said of it."""

from __future__ import annotations

import polars as pl

from expcomp.tables.ledger_views import ACTIONS, HISTORY

_NOTE = pl.Struct({"action": pl.String, "reason": pl.String, **dict.fromkeys(ACTIONS, pl.Int64)})
_BY_ENGINE = {"CREATE TABLE": "create", "ADD COLUMN": "add columns"}


def history_frame(commits: pl.DataFrame) -> pl.DataFrame:
    """Commits with their notes as columns, newest first; of a commit by another engine only its operation is known."""
    said = commits.select(
        "version", "committed_at", "operation", pl.col("note").str.json_decode(_NOTE).alias("said")
    ).unnest("said")
    native = pl.col("operation").replace_strict(_BY_ENGINE, default=pl.col("operation"), return_dtype=pl.String)
    told = said.with_columns(action=pl.coalesce("action", native))
    return told.select(list(HISTORY.columns)).cast(HISTORY.schema)
