"""Targets of ms-swift: OpenAI's shape with string arguments; reasoning stands in the content, for its own field is dropped."""

from __future__ import annotations

import polars as pl

from expcomp.datasets.wire import wire_chat

__all__ = ["grpo", "judged", "pairs", "sft"]


def sft(rows: pl.DataFrame) -> pl.DataFrame:
    """Conversations with a `loss` flag on each assistant turn."""
    return rows.with_columns(wire_chat(pl.col("messages"), flag="loss", inline=True))


def pairs(rows: pl.DataFrame) -> pl.DataFrame:
    """The history with the better answer, and with the worse one."""
    return rows.with_columns(
        _whole("chosen").alias("messages"),
        _whole("rejected").alias("rejected_messages"),
    )


def judged(rows: pl.DataFrame) -> pl.DataFrame:
    """The history with its answer."""
    return rows.with_columns(_whole("completion").alias("messages"))


def grpo(rows: pl.DataFrame) -> pl.DataFrame:
    """Prompts with what a reward function compares with."""
    return rows.with_columns(
        wire_chat(pl.col("prompt"), inline=True).alias("messages"), pl.col("ground_truth").alias("solution")
    )


def _whole(answer: str) -> pl.Expr:
    return wire_chat(pl.concat_list("prompt", answer), inline=True)
