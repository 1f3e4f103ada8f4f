"""Model calls that several attempts hold, because a session that is resumed copies its history (R3, R4)."""

from __future__ import annotations

import polars as pl

from expcomp.io.wording import worded
from expcomp.sources._dialogue import USAGE
from expcomp.sources._told import lines
from expcomp.tables import vocab as v

RESUMED = frozenset({"claude_code"})
"""Formats that copy history into a new file under the ids of the old model calls (R4)."""

CALLS = ("attempt_id", "step_index", "llm_call_id", "source", "is_copied_context", "tool_calls", *USAGE)
"""Columns of steps by which copies are found and sums are taken again."""

COUNTED = ("n_steps", "n_tool_calls", *USAGE)
"""Columns of attempts that are such sums."""


def copies_of(attempts: pl.DataFrame, calls: pl.DataFrame) -> pl.DataFrame:
    """Steps whose model call an earlier attempt holds already; earlier is what began first, then what ended first: a copy keeps the old
    times and goes on from there. Then the path decides.
    """
    known = calls.filter(pl.col("llm_call_id").is_not_null())
    if known.is_empty():
        return known.select("attempt_id", "step_index")
    order = attempts.select(
        "attempt_id",
        _order=pl.struct("started_at", "ended_at", "source_uri").rank("ordinal"),
        _home=home_folder("package_id"),
    )
    return (
        known.join(order, on="attempt_id", how="inner", maintain_order="left")
        .with_columns(_first=pl.col("_order").min().over("_home", "llm_call_id"))
        .filter(pl.col("_order") > pl.col("_first"))
        .select("attempt_id", "step_index")
    )


def home_folder(column: str) -> pl.Expr:
    """The folder of an id that is a path: the project."""
    return pl.col(column).str.extract(r"^(.*)/", 1).fill_null("")


def without_copies(
    attempts: pl.DataFrame, calls: pl.DataFrame, copied: pl.DataFrame, told: list[pl.DataFrame]
) -> pl.DataFrame:
    """Attempts that repeat model calls are continuations; what they used and did is counted without the copies (R3)."""
    if copied.is_empty():
        return attempts
    repeated = copied.group_by("attempt_id", maintain_order=True).len("_copied")
    own = (
        calls.join(copied, on=["attempt_id", "step_index"], how="anti", maintain_order="left")
        .filter(~pl.col("is_copied_context").fill_null(value=False) & (pl.col("source") == "agent"))
        .group_by("attempt_id", maintain_order=True)
        .agg(
            pl.len().cast(pl.Int32).alias("n_steps"),
            pl.col("tool_calls").list.len().sum().cast(pl.Int32).alias("n_tool_calls"),
            *(pl.when(pl.col(n).is_not_null().any()).then(pl.col(n).sum()).alias(n) for n in USAGE),
        )
    )
    joined = attempts.join(repeated, on="attempt_id", how="left", maintain_order="left").join(
        own, on="attempt_id", how="left", maintain_order="left", suffix="_own"
    )
    again = pl.col("_copied").is_not_null()
    detail = worded("{} model calls are copies of an earlier session's; marked as copied context", "_copied")
    told.append(lines(joined.filter(again), "copied_history", detail, severity="info"))
    return joined.with_columns(
        *(
            pl.when(again)
            .then(pl.col(f"{n}_own").fill_null(0) if n.startswith("n_") else f"{n}_own")
            .otherwise(n)
            .alias(n)
            for n in COUNTED
        ),
        relation=pl.when(again & (pl.col("relation") == "root"))
        .then(pl.lit("continuation", dtype=v.RELATION))
        .otherwise("relation"),
    ).drop("_copied", *(f"{n}_own" for n in COUNTED))
