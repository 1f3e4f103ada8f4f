"""Counting support: facts grouped into statements, with the attempts and files behind each, and what they are a part of."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def gather(
    facts: pl.DataFrame,
    keys: Sequence[str],
    *,
    unit: str = "attempt_id",
    more: Mapping[str, pl.Expr] | None = None,
) -> pl.DataFrame:
    """One line for each pack and combination of keys.

    Args:
        facts: pack_id, attempt_id, cites and the keys.
        keys: What makes one statement, beside the pack.
        unit: What `support` counts, distinct.
        more: Further aggregates by name.

    Returns:
        pack_id, the keys, support, attempt_ids and cites (sorted, each once), and `more`.
    """
    return facts.group_by("pack_id", *keys, maintain_order=True).agg(
        support=pl.col(unit).drop_nulls().n_unique(),
        attempt_ids=pl.col("attempt_id").drop_nulls().unique().sort(),
        cites=pl.col("cites").explode(empty_as_null=False, keep_nulls=False).unique().sort(),
        **(more or {}),
    )


def totals(found: pl.DataFrame, among: pl.DataFrame, unit: str = "attempt_id", name: str = "total") -> pl.DataFrame:
    """The lines with the number of distinct units that the pack has `among` its facts; 0 where it has none."""
    counts = among.group_by("pack_id", maintain_order=True).agg(pl.col(unit).drop_nulls().n_unique().alias(name))
    return found.join(counts, on="pack_id", how="left", maintain_order="left").with_columns(pl.col(name).fill_null(0))


def split_by_verdict(facts: pl.DataFrame, keys: Sequence[str], attempts: pl.DataFrame) -> pl.DataFrame:
    """The 2 x 2 counts of each pack and combination of keys, where both passing and failing attempts are there.

    Returns:
        pack_id, the keys, passing of all_passing, failing of all_failing (distinct attempts), attempt_ids, cites and gap:
        the difference of the two shares. The counts rest on all judged attempts, so their records and grades are cited, too.
    """
    judged = attempts.filter(pl.col("passed").is_not_null())
    cites = pl.concat_list("trace", "grade").list.drop_nulls()
    sides = judged.group_by("pack_id", maintain_order=True).agg(
        all_passing=pl.col("attempt_id").filter("passed").n_unique(),
        all_failing=pl.col("attempt_id").filter(~pl.col("passed")).n_unique(),
        attempt_ids=pl.col("attempt_id").unique().sort(),
        cites=cites.explode(empty_as_null=False, keep_nulls=False).unique().sort(),
    )
    found = (
        facts.filter(pl.col("passed").is_not_null())
        .group_by("pack_id", *keys, maintain_order=True)
        .agg(
            passing=pl.col("attempt_id").filter("passed").n_unique(),
            failing=pl.col("attempt_id").filter(~pl.col("passed")).n_unique(),
        )
    )
    return (
        found.join(sides, on="pack_id", how="inner", maintain_order="left")
        .filter((pl.col("all_passing") > 0) & (pl.col("all_failing") > 0))
        .with_columns(gap=pl.col("passing") / pl.col("all_passing") - pl.col("failing") / pl.col("all_failing"))
    )
