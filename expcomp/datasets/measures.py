"""What is measured of rows only when the user asks: tokens, rendering under chat templates, the text that near duplicates share."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import polars as pl

from expcomp.datasets.contract import LEFT
from expcomp.datasets.flat import explode_chat
from expcomp.datasets.templates import render_all
from expcomp.datasets.tokens import Counter
from expcomp.tables.family import CHAT

if TYPE_CHECKING:
    from expcomp.datasets.contract import Kind
    from expcomp.datasets.options import DatasetOptions

NEAR_CHARS = 4_000
"""Characters of a row that likeness is judged by; a bound, so that a million rows fit in memory."""

MEASURES = ("_tokens", "_near")


@lru_cache(maxsize=1)
def counter(path: str) -> Counter:
    """The tokenizer of a path, loaded once a process."""
    return Counter(path)


def measured(kind: Kind, rows: pl.DataFrame, options: DatasetOptions) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Rows with the measures asked for, and rows that a named chat template does not take.

    `_tokens`: tokens as the tokenizer's own template renders them. `_near`: the first user text and what the agent wrote, calls
    included; what tools answered is left out, it would swamp both.
    """
    left = pl.DataFrame(schema=LEFT)
    chats = any(rows.schema.get(c) == CHAT for c in kind.chats)
    if options.templates is not None and chats and rows.height:
        failed = render_all(rows, options.templates).unique("row", keep="first", maintain_order=True)
        numbered = rows.with_columns(row=pl.int_range(pl.len(), dtype=pl.UInt32))
        left = (
            failed.join(numbered.select("row", "row_id", "task_id"), on="row", how="left", maintain_order="left")
            .select(
                "row_id",
                "task_id",
                reason=pl.lit("template_refused"),
                detail=pl.concat_str("template", "error", separator=": "),
            )
            .cast(pl.Schema(LEFT))
        )
        rows = numbered.join(failed, on="row", how="anti", maintain_order="left").drop("row")
    if options.tokenizer is not None:
        rows = rows.with_columns(_tokens=counter(options.tokenizer).count(rows).cast(pl.Int64))
    if options.near is not None:
        rows = rows.with_columns(_near=_near(kind, rows))
    return rows, left


def _near(kind: Kind, rows: pl.DataFrame) -> pl.Series:
    parts = []
    for place, column in enumerate(c for c in kind.chats if c in rows.columns):
        if rows.schema[column] != CHAT:
            text = pl.col(column).list.join("\n") if isinstance(rows.schema[column], pl.List) else pl.col(column)
            parts.append(rows.select(row=pl.int_range(pl.len(), dtype=pl.UInt32), place=pl.lit(place), text=text))
            continue
        flat = explode_chat(rows, column)
        asked = (pl.col("role") == "user") & (pl.col("role").eq("user").cum_sum().over("row") == 1) & (place == 0)
        calls = pl.col("tool_calls").list.eval(
            pl.concat_str(pl.element().struct.field("name"), pl.element().struct.field("arguments"), separator=" ")
        )
        said = flat.filter(
            asked | ((pl.col("role") == "assistant") & (pl.lit(place > 0) | pl.col("trainable")))
        ).select(
            "row",
            place=pl.lit(place),
            text=pl.concat_str("content", "reasoning", calls.list.join("\n"), separator="\n", ignore_nulls=True),
        )
        parts.append(said)
    if not parts:
        return pl.Series("_near", [None], dtype=pl.String).new_from_index(0, rows.height)
    joined = (
        pl.concat(parts)
        .sort("row", "place", maintain_order=True)
        .group_by("row", maintain_order=True)
        .agg(text=pl.col("text").str.join("\n").str.slice(0, NEAR_CHARS))
    )
    numbers = pl.DataFrame({"row": pl.int_range(rows.height, dtype=pl.UInt32, eager=True)})
    return numbers.join(joined, on="row", how="left", maintain_order="left")["text"].alias("_near")
