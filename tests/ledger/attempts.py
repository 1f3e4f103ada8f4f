"""Frames of made-up attempts, with knobs."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import polars as pl

START = datetime(2026, 1, 1, tzinfo=UTC)


def many(n: int, *, cases: int = 10, seed: int = 0) -> pl.DataFrame:
    """`n` attempts: the arms `control` and `new` at each case, one attempt after the other."""
    i = pl.col("i")
    score = (i * 7919) % 100 / 100
    label = pl.lit(f"{seed}-") + i.cast(pl.String)
    return pl.DataFrame({"i": pl.int_range(n, eager=True)}).select(
        attempt_id=pl.lit("attempt_") + label,
        native_attempt_id=label,
        task_id=pl.lit("bench/case-") + (i % cases).cast(pl.String),
        arm=pl.when(i // cases % 2 == 0).then(pl.lit("control")).otherwise(pl.lit("new")),
        run_id=pl.lit("night"),
        trial=(i // cases // 2).cast(pl.Int32),
        trial_source=pl.lit("native"),
        seed=pl.lit(seed),
        status=pl.lit("completed"),
        score=score,
        score_min=pl.lit(0.0),
        score_max=pl.lit(1.0),
        score_norm=score,
        passed=i % 3 == 0,
        score_valid=pl.lit(True),
        cost_usd=pl.lit(0.01),
        input_tokens=i,
        output_tokens=pl.lit(20),
        duration_s=pl.lit(1.5),
        model=pl.lit("a-model"),
        agent=pl.lit("an-agent"),
        started_at=pl.lit(START) + pl.duration(seconds="i"),
        source_format=pl.lit("harbor"),
    )


def one(**changes: Any) -> pl.DataFrame:
    """One attempt, with other values in some columns."""
    return many(1).with_columns(**{k: pl.lit(v, many(1).schema.get(k)) for k, v in changes.items()})
