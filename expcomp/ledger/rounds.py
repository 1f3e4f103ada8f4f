"""Rounds of an attempt: the last, the best and the first that passed."""

from __future__ import annotations

import polars as pl

REACHED = 1.0


def reached(column: str | pl.Expr) -> pl.Expr:
    """True for a number of 1 or more; NaN is none."""
    value = pl.col(column) if isinstance(column, str) else column
    return (value >= REACHED) & value.is_not_nan()


def round_columns(records: pl.DataFrame) -> pl.DataFrame:
    """The fields of rounds of each record, in the order of the records.

    Args:
        records: With `rounds` and the `trace_*` columns of the pack.
    """
    at = pl.int_range(pl.len(), dtype=pl.UInt32).alias("_at")
    own = records.with_columns(at)
    long = (
        own.filter(pl.col("rounds").list.len() > 0)
        .select("_at", "rounds")
        .explode("rounds", empty_as_null=True)
        .unnest("rounds")
    )
    rewarded = long.filter(pl.col("reward").is_not_null()).with_columns(passed=pl.coalesce("passed", reached("reward")))
    per = (
        long.group_by("_at", maintain_order=True)
        .agg(
            n=pl.len().cast(pl.Int64),
            first=pl.col("agent_round").filter(pl.col("passed").fill_null(value=False)).first(),
        )
        .join(
            rewarded.group_by("_at", maintain_order=True).agg(
                final_round=pl.col("agent_round").last(),
                final_reward=pl.col("reward").last(),
                final_passed=pl.col("passed").last(),
                best_round=pl.col("agent_round").get(pl.col("reward").arg_max()),
                best_reward=pl.col("reward").max(),
                best_passed=pl.col("passed").get(pl.col("reward").arg_max()),
            ),
            on="_at",
            how="left",
            maintain_order="left",
        )
    )
    joined = own.join(per, on="_at", how="left", maintain_order="left")
    first = pl.coalesce("trace_first_success", "first")
    return joined.select(
        round_reward_count=pl.col("n").fill_null(0),
        first_success_round=first,
        final_round=pl.coalesce("trace_final_round", "final_round"),
        final_round_reward=pl.coalesce("trace_final_reward", "final_reward"),
        final_round_passed=pl.coalesce("trace_final_passed", "final_passed"),
        best_reward_round=pl.coalesce("trace_best_round", "best_round"),
        best_round_reward=pl.coalesce("trace_best_reward", "best_reward"),
        best_round_passed=pl.coalesce("trace_best_passed", "best_passed"),
        best_round_is_final=pl.coalesce("trace_best_is_final", pl.col("best_reward") == pl.col("final_reward")),
        round_success_observed=pl.coalesce("trace_success", first.is_not_null()),
        agent_declared_done=pl.col("trace_done").fill_null(value=False),
    )
