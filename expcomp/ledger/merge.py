"""Merge of ledgers into one: every run of the sources that passes the filters is upserted, in order."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from expcomp.errors import UsageError
from expcomp.ledger.archive import words
from expcomp.ledger.cases import in_order, terminal
from expcomp.ledger.drift import signature
from expcomp.ledger.upsert import upsert

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from expcomp.ledger.pack import Pack


def merge(
    target: pl.DataFrame,
    sources: Sequence[pl.DataFrame | None],
    pack: Pack,
    *,
    benchmarks: Sequence[str] = (),
    groups: Sequence[str] = (),
    dry_run: bool = False,
) -> tuple[pl.DataFrame, dict[str, Any]]:
    """The target with the runs of the sources, and the report; on a dry run the target as it is.

    Args:
        target: Runs of the ledger that takes them.
        sources: Runs of each source; None for one that is missing.
        pack: Rules.
        benchmarks: Benchmarks that are taken, all by default.
        groups: Parts of the run group that are taken, all by default.
        dry_run: Count, change nothing.

    Raises:
        UsageError: No sources.
    """
    if not sources:
        raise UsageError("a merge needs at least one source")
    present = [in_order(s, ("recorded_at", "run_id")) for s in sources if s is not None]
    given = pl.concat([s.select(target.columns) for s in present]) if present else target.clear()
    benchmarks, groups = words(benchmarks), words(groups)
    why = (
        pl.when(pl.lit(bool(benchmarks)) & ~pl.col("filed_benchmark").is_in(benchmarks))
        .then(pl.lit("benchmark_filter"))
        .when(pl.lit(bool(groups)) & ~pl.any_horizontal(pl.lit(value=False), *(_part(g) for g in groups)))
        .then(pl.lit("run_group_filter"))
        .when(~terminal())
        .then(pl.lit("non_terminal"))
    )
    reasons = given.select(why.alias("why")).get_column("why")
    taken = given.filter(reasons.is_null()).with_columns(
        filed_benchmark=pl.coalesce("benchmark_id", "filed_benchmark"), filed_case=pl.coalesce("case_id", "filed_case")
    )
    merged, _ = upsert(target, taken, pack)
    counted = reasons.drop_nulls().value_counts(sort=True)
    report = {
        "ok": True,
        "schema_version": pack.data("operations")["merge"]["schema_version"],
        "dry_run": dry_run,
        "updated": not dry_run,
        "benchmark_ids": list(benchmarks),
        "run_group_contains": list(groups),
        "source_ledger_count": len(present),
        "missing_source_count": len(sources) - len(present),
        "source_paths_recorded": False,
        "source_run_count": given.height,
        "considered_run_count": taken.height,
        "merged_run_count": taken.height,
        "skipped_run_count": given.height - taken.height,
        "skipped_by_reason": dict(
            zip(counted.get_column("why").to_list(), counted.get_column("count").to_list(), strict=True)
        ),
        "new_run_id_count": _fresh(merged, target, pl.col("run_id")),
        "new_signature_count": _fresh(merged, target, signature(pack)),
        "target_run_count": merged.height,
    }
    return (target if dry_run else merged), report


def _part(group: str) -> pl.Expr:
    return pl.col("run_group_id").str.contains(group, literal=True).fill_null(value=False)


def _fresh(after: pl.DataFrame, before: pl.DataFrame, what: pl.Expr) -> int:
    """How many different values are new."""
    values, known = (f.select(what.alias("v")).get_column("v").drop_nulls() for f in (after, before))
    return int((~values.unique().is_in(known.unique().implode())).sum())
