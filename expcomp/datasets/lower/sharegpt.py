"""Targets of LLaMA-Factory, formatting sharegpt.

Its function formatter takes two forms of a value (release 0.9.5): optional thinking before a JSON list of calls, and any
text before a JSON list between `<tool_call>` tags. The first needs no tags of the model's template; the second is the
only one that keeps text beside a call. Both find their marks with the first match of a pattern, so a mark inside of
arguments is escaped, and a row with a mark in its own words cannot be told apart and is left out.
"""

from __future__ import annotations

import polars as pl

from expcomp.datasets.wire import (
    call_texts,
    filled,
    gather,
    json_text,
    runs,
    spread,
    system_text,
    thought,
    without_system,
)

__all__ = ["judged", "pairs", "sft"]

_MARKS = ["<tool_call>", "</tool_call>", "<think>", "</think>"]
_ESCAPED = ["\\u003c" + m[1:] for m in _MARKS]
_ANSWERS = ("gpt", "function_call")
_FROM = {"user": "human", "tool": "observation", "assistant": "gpt"}


def sft(rows: pl.DataFrame) -> pl.DataFrame:
    """Conversations, human or observation and gpt or function_call in turn."""
    return _built(rows, pl.col("messages"), answers=True)


def judged(rows: pl.DataFrame) -> pl.DataFrame:
    """The history with its answer and the verdict; an empty answer means the opposite verdict to the trainer."""
    built = _built(rows, pl.concat_list("prompt", "completion"), answers=True)
    last = pl.col("conversations").list.last().struct.field("value")
    return built.with_columns(
        pl.col("label").alias("kto_tag"), pl.coalesce("_reason", pl.when(last == "").then(pl.lit("empty_answer")))
    )


def pairs(rows: pl.DataFrame) -> pl.DataFrame:
    """The shared history and one message a side."""
    built = _built(rows, pl.col("prompt"), answers=False)
    for side in ("chosen", "rejected"):
        one = _built(rows, pl.col(side), answers=None)
        built = built.with_columns(
            one["conversations"].list.first().alias(side),
            pl.coalesce("_reason", one["_reason"].alias("_other")).alias("_reason"),
        )
    return built


def _built(rows: pl.DataFrame, chat: pl.Expr, *, answers: bool | None) -> pl.DataFrame:
    """The rows with `conversations`, `system`, `tools` and `_reason`.

    Args:
        rows: Logical rows.
        chat: The messages.
        answers: Whether the last message is an answer; None for a single answer.
    """
    flat = spread(rows.select(without_system(chat)).to_series())
    flat = flat.select("line", runs("user", "tool"), pl.col("role"), _speaker(), value=_value(), marked=_marked())
    flat = (
        flat.group_by("run", maintain_order=True)
        .agg(pl.col("line", "role", "from").first(), pl.col("marked").any(), "value")
        .with_columns(value=_joined())
    )
    line, answer = pl.col("line"), pl.col("from").is_in(_ANSWERS)
    begins, ends = (line != line.shift()).fill_null(True), (line != line.shift(-1)).fill_null(True)
    wrong = pl.when(begins).then(answer if answers is not None else ~answer).otherwise(answer == answer.shift())
    last = answer if answers is False else ~answer
    checks = (
        flat.select("line", "marked", wrong=(wrong | (ends & last)).fill_null(True))
        .group_by("line", maintain_order=True)
        .agg(pl.col("marked", "wrong").any())
    )
    reason = (
        pl.when(pl.col("wrong").fill_null(True))
        .then(pl.lit("role_order"))
        .when(pl.col("marked"))
        .then(pl.lit("marker_in_text"))
    )
    every = pl.DataFrame({"line": pl.int_range(rows.height, dtype=pl.UInt32(), eager=True)})
    reasons = every.join(checks, on="line", how="left", maintain_order="left").select(reason.alias("_reason"))
    return rows.with_columns(
        gather(flat, pl.struct("from", "value"), rows.height).alias("conversations"),
        (system_text(chat) if answers is not None else pl.lit(None, pl.String())).fill_null("").alias("system"),
        pl.col("tools").fill_null(""),
        reasons.to_series(),
    )


def _speaker() -> pl.Expr:
    calls = pl.col("tool_calls").list.len() > 0
    tag = pl.col("role").replace_strict(_FROM, default=None, return_dtype=pl.String())
    return pl.when(calls).then(pl.lit("function_call")).otherwise(tag).alias("from")


def _value() -> pl.Expr:
    calls = call_texts(pl.col("tool_calls")).list.join(", ").str.replace_many(_MARKS, _ESCAPED)
    said = filled(pl.col("content"))
    listed = pl.concat_str(pl.lit("["), filled(calls), pl.lit("]"))
    tagged = pl.concat_str(said, pl.lit("\n<tool_call>\n"), listed, pl.lit("\n</tool_call>"))
    answer = pl.coalesce(tagged, listed, said)
    spoken = pl.concat_str(thought(pl.col("reasoning")), answer, ignore_nulls=True)
    return pl.when(pl.col("role") == "assistant").then(spoken).otherwise("content")


def _marked() -> pl.Expr:
    """Marks in the words of a turn with calls."""
    words = pl.any_horizontal(pl.col(c).str.contains_any(_MARKS).fill_null(False) for c in ("content", "reasoning"))
    return (pl.col("tool_calls").list.len() > 0).fill_null(False) & words


def _joined() -> pl.Expr:
    """Questions in a row are one with blank lines between; results in a row are a JSON list of their texts."""
    texts = pl.col("value")
    listed = json_text(pl.when(texts.list.len() > 1).then(texts))
    return pl.when((pl.col("role") == "tool") & (texts.list.len() > 1)).then(listed).otherwise(texts.list.join("\n\n"))
