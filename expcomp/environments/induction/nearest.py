"""Nearest recorded turns: the recorded calls of an action that share the most arguments, with the same outcome.

Of each argument value only the most frequent answer is kept, and of values that occurred in one call none: what is unlike everything
else has no neighbours, and the table stays short. An answer of this route is a form to follow; its values are those of another turn,
and its confidence says how often they held all the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

if TYPE_CHECKING:
    from expcomp.environments.induction.prepared import Prepared

__all__ = ["counted", "most_frequent", "nearest"]

_CALL = ("action_type", "failed", "key", "value")


def counted(p: Prepared, learn: pl.DataFrame) -> pl.DataFrame:
    """How often calls with an argument value were answered how: `action_type`, `failed`, `key`, `value`, `answer`, `n`."""
    return (
        p.args.lazy()
        .join(learn.lazy().select("t", "action_type", "failed", "answer"), on="t", how="inner", maintain_order="left")
        .group_by(*_CALL, "answer", maintain_order=True)
        .agg(n=pl.len().cast(pl.Int64))
        .collect(engine="in-memory")
    )


def most_frequent(counts: pl.DataFrame) -> pl.DataFrame:
    """Of each argument value of several calls the most frequent answer; of equals the first in the order of its text."""
    total = counts.group_by(*_CALL, "answer", maintain_order=True).agg(pl.col("n").sum())
    ordered = total.filter(pl.col("n").sum().over(_CALL) > 1).sort(
        ["n", "answer"], descending=[True, False], maintain_order=True
    )
    return ordered.unique(_CALL, keep="first", maintain_order=True)


def nearest(table: pl.DataFrame, p: Prepared, wanted: pl.LazyFrame) -> pl.LazyFrame:
    """The answer that the most arguments of a call speak for: `t`, `answer`, `failed`.

    Args:
        table: `most_frequent`.
        p: Prepared transitions.
        wanted: `t`, `action_type`, `wanted` (the outcome that is predicted).
    """
    return (
        p.args.lazy()
        .join(wanted, on="t", how="inner", maintain_order="left")
        .join(
            table.lazy(), left_on=["action_type", "wanted", "key", "value"], right_on=list(_CALL),
            how="inner", maintain_order="left",
        )
        .group_by("t", "answer", "wanted", maintain_order=True)
        .agg(votes=pl.len(), n=pl.col("n").sum())
        .sort(["votes", "n", "answer"], descending=[True, True, False], maintain_order=True)
        .unique("t", keep="first", maintain_order=True)
        .select("t", "answer", failed="wanted")
    )  # fmt: skip
