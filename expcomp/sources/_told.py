"""Lines that are added to the load report over all attempts, and the formats they are about."""

from __future__ import annotations

import polars as pl

from expcomp.tables import vocab as v

CHAT_SETS = frozenset("openai_chat openai_responses anthropic_messages sharegpt hf_trajectories".split())
"""Formats of sets of chats, in which columns are guessed by their names."""

NAMED = CHAT_SETS | frozenset("otel openinference langfuse langsmith mlflow".split())
"""Formats whose readers take the options arm, task_id and trial themselves, as names of a column, attribute or tag."""


def lines(
    frame: pl.DataFrame, code: str, detail: pl.Expr, *, field: str | None = None, severity: str = "warning"
) -> pl.DataFrame:
    """A line of the load report for each row of attempts."""
    wanted = {
        "package_id": pl.col("package_id"),
        "source_uri": pl.col("source_uri"),
        "source_pos": pl.col("source_pos"),
        "byte_offset": pl.lit(None, dtype=pl.Int64),
        "attempt_id": pl.col("attempt_id"),
        "field": pl.lit(field, dtype=pl.String),
        "code": pl.lit(code),
        "severity": pl.lit(severity, dtype=v.SEVERITY),
        "detail": detail,
    }
    return frame.select(**wanted)
