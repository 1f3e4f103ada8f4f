"""Targets that know roles and text alone: verl, OpenRLHF SFT and RL, NeMo-RL prompts.

Calls and results are written in the layout of Hermes: `<tool_call>` in the assistant turn, `<tool_response>` in a user
turn, one user turn for all results of a turn, since a second one would break templates that want roles in turn.
"""

from __future__ import annotations

import polars as pl

from expcomp.datasets.wire import (
    TEXT_MESSAGE,
    call_texts,
    filled,
    gather,
    paragraphs,
    runs,
    spread,
    system_text,
    thought,
    tools_text,
    without_system,
)

__all__ = ["nemo_prompts", "openrlhf_prompts", "sft", "verl_prompts"]


def sft(rows: pl.DataFrame) -> pl.DataFrame:
    """Conversations as text, tools in the system text."""
    return rows.with_columns(_texts(rows, "messages", tools=True))


def openrlhf_prompts(rows: pl.DataFrame) -> pl.DataFrame:
    """Prompts as text with a reference answer and the benchmark."""
    return rows.with_columns(
        _texts(rows, "prompt", tools=True), pl.col("benchmark").fill_null("default").alias("datasource")
    )


def verl_prompts(rows: pl.DataFrame) -> pl.DataFrame:
    """Prompts as text. Tools are left to verl, which shows those of its own configuration file."""
    source = pl.concat_str(pl.lit("expcomp/"), pl.col("benchmark").fill_null("unknown"))
    info = ("task_id", "pass_rate", "n_attempts", "verifier", "row_id")
    return rows.with_columns(
        _texts(rows, "prompt", tools=False),
        source.alias("data_source"),
        pl.lit("agent").alias("ability"),
        pl.struct(pl.lit("rule").alias("style"), "ground_truth").alias("reward_model"),
        pl.struct(pl.col("_split").alias("split"), pl.col("_index").alias("index"), *info).alias("extra_info"),
    )


def nemo_prompts(rows: pl.DataFrame) -> pl.DataFrame:
    """Prompts as one text, which becomes a single user message."""
    texts = _texts(rows, "prompt", tools=True)
    one = pl.col("prompt").list.eval(pl.element().struct.field("content")).list.join("\n\n")
    return rows.with_columns(texts).with_columns(one.alias("input"), pl.col("ground_truth").alias("output"))


def _texts(rows: pl.DataFrame, column: str, *, tools: bool) -> pl.Series:
    """A column of chats as text messages."""
    chat = pl.col(column)
    parts = [system_text(chat), *([tools_text(pl.col("tools"), form=True)] if tools else [])]
    system = rows.select(paragraphs(*parts).alias("content"))
    flat = spread(rows.select(without_system(chat)).to_series())
    flat = flat.select("line", "role", runs("tool"), text=_said())
    flat = (
        flat.group_by("run", maintain_order=True)
        .agg(pl.col("line").first(), pl.col("role").first(), "text")
        .select(
            "line",
            pl.col("role").replace("tool", "user"),
            pl.col("text").list.join("\n").alias("content"),
        )
    )
    body = gather(flat, pl.struct("role", "content"), rows.height)
    leading = (
        pl.when(pl.col("content").is_not_null())
        .then(pl.concat_list(pl.struct(pl.lit("system").alias("role"), "content")))
        .otherwise(pl.lit([], pl.List(TEXT_MESSAGE)))
    )
    return system.select(pl.concat_list(leading, body).alias(column)).to_series()


def _said() -> pl.Expr:
    """What a message says, on one line a message."""
    calls = call_texts(pl.col("tool_calls")).list.eval(
        pl.concat_str(pl.lit("<tool_call>\n"), pl.element(), pl.lit("\n</tool_call>"))
    )
    spoken = pl.concat_str(filled(pl.col("content")), filled(calls.list.join("\n")), separator="\n", ignore_nulls=True)
    result = pl.concat_str(pl.lit("<tool_response>\n"), "content", pl.lit("\n</tool_response>"))
    role = pl.col("role")
    return (
        pl.when(role == "tool")
        .then(result)
        .when(role == "assistant")
        .then(pl.concat_str(thought(pl.col("reasoning")), spoken, ignore_nulls=True))
        .otherwise("content")
    )
