"""The history of a ledger: one row a commit, with what its writer said of it."""

from __future__ import annotations

import polars as pl

_COUNTS = (
    "inserted",
    "updated",
    "identical",
    "conflicting",
    "refused",
    "appended",
    "replaced",
    "filled",
    "skipped",
    "archived",
    "restored",
)
_NOTE = pl.Struct({"action": pl.String, "reason": pl.String, **dict.fromkeys(_COUNTS, pl.Int64)})
SCHEMA = pl.Schema(
    {
        "version": pl.Int64(),
        "committed_at": pl.Datetime("us", "UTC"),
        "action": pl.String(),
        "reason": pl.String(),
        **{name: pl.Int64() for name in _COUNTS},
    }
)
_BY_ENGINE = {"CREATE TABLE": "create", "ADD COLUMN": "add columns"}


def history_frame(commits: pl.DataFrame) -> pl.DataFrame:
    """Commits with their notes as columns, newest first; of a commit by another engine only its operation is known."""
    said = commits.select(
        "version", "committed_at", "operation", pl.col("note").str.json_decode(_NOTE).alias("said")
    ).unnest("said")
    native = pl.col("operation").replace_strict(_BY_ENGINE, default=pl.col("operation"), return_dtype=pl.String)
    return said.with_columns(action=pl.coalesce("action", native)).select(SCHEMA.names()).cast(dict(SCHEMA))  # type: ignore[arg-type]
