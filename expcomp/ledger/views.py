"""Frames made of the runs of a ledger, and small values its calls share."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import polars as pl

from expcomp.errors import UsageError
from expcomp.ledger.cases import ARCHIVE_COLUMNS, CASE, RUN, active

if TYPE_CHECKING:
    from collections.abc import Mapping

    from expcomp.ledger.archive import Filter


def cases_of(runs: pl.LazyFrame) -> pl.LazyFrame:
    """One row a case: its runs, and of the active ones how many are scored, passed and infrastructure, and of how many arms."""
    live = active()
    return (
        runs.group_by(CASE, maintain_order=True)
        .agg(
            pl.len().cast(pl.Int64).alias("runs"),
            live.sum().cast(pl.Int64).alias("active"),
            pl.col("arm_id").filter(live).n_unique().cast(pl.Int64).alias("arms"),
            (live & pl.col("score").is_not_null()).sum().cast(pl.Int64).alias("scored"),
            (live & pl.col("passed").fill_null(value=False)).sum().cast(pl.Int64).alias("passed"),
            (live & pl.col("infra").fill_null(value=False)).sum().cast(pl.Int64).alias("infra"),
            pl.col("score_norm").filter(live).mean().alias("mean_score_norm"),
            pl.col("run_at").filter(live).max().alias("latest_run_at"),
        )
        .sort(CASE)
    )


def roled(runs: pl.LazyFrame, roles: Mapping[str, str]) -> pl.LazyFrame:
    """Runs with the declared role of their arm over the one they were filed with."""
    if not roles:
        return runs
    declared = pl.col("arm_id").replace_strict(dict(roles), default=None, return_dtype=pl.String)
    role = pl.coalesce(declared, "role")
    return runs.with_columns(
        role=role,
        role_source=pl.when(declared.is_not_null()).then(pl.lit("declared")).otherwise("role_source"),
        is_baseline=(role == "baseline").fill_null(value=False),
        is_treatment=(role == "treatment").fill_null(value=False),
    )


def between(runs: pl.LazyFrame, baseline: str, treatment: str) -> pl.LazyFrame:
    """The runs of two arms, in the roles they are named for.

    Raises:
        UsageError: One arm for both.
    """
    if baseline == treatment:
        msg = f"baseline and treatment are both {baseline!r}; expected two arms"
        raise UsageError(msg)
    pair = {baseline: "baseline", treatment: "treatment"}
    return roled(runs.filter(pl.col("arm_id").is_in(list(pair))), pair)


def narrow(runs: pl.LazyFrame, which: Filter) -> pl.DataFrame:
    """The columns an archive looks at, of the runs of a benchmark."""
    columns = dict.fromkeys((*RUN, *ARCHIVE_COLUMNS, "run_group_id", "arm_id", "recorded_at", "case_id", "run_id"))
    columns |= dict.fromkeys(("failure_class", "official_score"))
    return runs.filter(pl.col("filed_benchmark") == which.benchmark).select(list(columns)).collect()


def instant(at: str | datetime) -> datetime:
    """A time with a zone, in UTC.

    Raises:
        UsageError: It is none.
    """
    try:
        found = datetime.fromisoformat(at) if isinstance(at, str) else at
    except ValueError as error:
        msg = f"recorded_at is {at!r}; expected an ISO 8601 time"
        raise UsageError(msg) from error
    if found.tzinfo is None:
        msg = f"recorded_at is {found.isoformat()}, which has no time zone"
        raise UsageError(msg)
    return found.astimezone(UTC)
