"""Targets that take messages in OpenAI's shape: TRL, Axolotl, prime-rl, OpenRLHF pairs, NeMo-RL, world models."""

from __future__ import annotations

import polars as pl

from expcomp.datasets.wire import paragraphs, system_text, tools_text, wire_chat, without_system
from expcomp.tables.family import CHAT

__all__ = ["flagged", "nemo_pairs", "passed_on", "told", "typed"]


def typed(rows: pl.DataFrame) -> pl.DataFrame:
    """Every chat in OpenAI's shape; other columns as they are."""
    return rows.with_columns(wire_chat(pl.col(c)) for c, t in rows.schema.items() if t == CHAT)


def flagged(rows: pl.DataFrame) -> pl.DataFrame:
    """Conversations that say of each assistant turn whether it carries loss (Axolotl)."""
    return rows.with_columns(wire_chat(pl.col("messages"), flag="training"))


def told(rows: pl.DataFrame) -> pl.DataFrame:
    """Pairs whose tools stand in the system text, for a trainer that applies templates without tools (OpenRLHF)."""
    text = paragraphs(system_text(pl.col("prompt")), tools_text(pl.col("tools"), form=False))
    wired = rows.with_columns(
        wire_chat(without_system(pl.col("prompt"))).alias("prompt"),
        wire_chat(pl.col("chosen")),
        wire_chat(pl.col("rejected")),
        text.alias("_system"),
    )
    message = wired.schema["prompt"].inner  # type: ignore[attr-defined]
    first = pl.struct(
        pl.lit("system").alias("role"),
        pl.col("_system").alias("content"),
        *(pl.lit(None, f.dtype).alias(f.name) for f in message.fields[2:]),
    )
    leading = (
        pl.when(pl.col("_system").is_not_null()).then(pl.concat_list(first)).otherwise(pl.lit([], pl.List(message)))
    )
    return wired.with_columns(pl.concat_list(leading, "prompt").alias("prompt"))


def nemo_pairs(rows: pl.DataFrame) -> pl.DataFrame:
    """Pairs as a context with ranked completions; rank 0 is the better one."""
    wired = typed(rows)
    ranked = [
        pl.struct(pl.lit(rank, pl.Int64()).alias("rank"), pl.col(side).alias("completion"))
        for rank, side in enumerate(("chosen", "rejected"))
    ]
    return wired.with_columns(pl.col("prompt").alias("context"), pl.concat_list(ranked).alias("completions"))


def passed_on(rows: pl.DataFrame) -> pl.DataFrame:
    """Rows that have their final form already (process reward)."""
    return rows
