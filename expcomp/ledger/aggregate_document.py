"""The current aggregate as a document, in the shape of the ancestor."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from expcomp.ledger.aggregate import LANES
from expcomp.ledger.documents import entry_documents

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from expcomp.ledger.aggregate import Aggregate
    from expcomp.ledger.pack import Pack

_NOT_RECORDED = {"raw_logs_recorded": False, "raw_task_text_recorded": False, "source_paths_recorded": False}


def aggregate_document(found: Aggregate, pack: Pack, *, sources: int = 1) -> dict[str, Any]:
    """The document of an aggregate.

    Args:
        found: The aggregate.
        pack: Names of schemas, texts.
        sources: How many ledgers it was made from.
    """
    spec = pack.data("aggregate")
    buckets = spec["buckets"]
    sets = _sets(found, buckets)
    by_bucket = {b: _cases(found, pl.col("bucket") == b) for b in buckets["order"]}
    return {
        "schema_version": spec["schemas"]["aggregate"],
        "benchmark_id": found.benchmark,
        "source_ledger_files": sources,
        "canonical_total": found.cases.height,
        "canonical_covered": found.cases.height - len(by_bucket[buckets["missing"]]),
        "deduped_run_count": found.run_count,
        "distribution": {b: len(cases) for b, cases in by_bucket.items()},
        "cases_by_bucket": by_bucket,
        "countable_score_summary": _summary(found, spec),
        **sets,
        "standard_case_sets": {
            "schema_version": spec["schemas"]["sets"],
            "policy": spec["texts"]["sets"],
            **sets,
            **_NOT_RECORDED,
        },
        "case_best": _best(found, spec),
        "selection_policy": _policy(found, spec),
    }


def _cases(found: Aggregate, which: pl.Expr) -> list[str]:
    return found.cases.filter(which).get_column("case").to_list()


def _sets(found: Aggregate, buckets: Mapping[str, Any]) -> dict[str, list[str]]:
    active = list(found.active_cases)
    accepted = sorted(_cases(found, pl.col("bucket").is_in(buckets["accepted"])))
    missing = sorted(_cases(found, pl.col("bucket") == buckets["missing"]))
    blocked = sorted(_cases(found, pl.col("bucket").is_in(buckets["blocked"])))
    open_missing = [c for c in missing if c not in set(active)]
    open_blocked = [c for c in blocked if c not in set(active)]
    return {
        "accepted_case_ids": accepted,
        "missing_case_ids": missing,
        "blocked_uncountable_case_ids": blocked,
        "active_case_ids": sorted(active),
        "runnable_missing_case_ids": open_missing,
        "runnable_blocked_uncountable_case_ids": open_blocked,
        "runnable_case_ids": sorted(open_missing + open_blocked),
    }


def _summary(found: Aggregate, spec: Mapping[str, Any]) -> dict[str, Any]:
    counts = found.cases.filter(pl.col("bucket").is_in(spec["buckets"]["accepted"]))
    score = counts.get_column("score")
    numeric = found.cases.filter(pl.col("score").is_not_null() & ~pl.col("bucket").is_in(spec["buckets"]["accepted"]))
    return {
        "schema_version": spec["schemas"]["summary"],
        "countable_case_count": counts.height,
        "countable_case_ids": sorted(counts.get_column("case").to_list()),
        "countable_score_sum": round(score.sum(), 6) if counts.height else 0,
        "countable_score_mean": round(score.sum() / counts.height, 6) if counts.height else None,
        "pass_count": int((score >= 1).sum()),
        "partial_count": int(((score > 0) & (score < 1)).sum()),
        "official_zero_count": int((score == 0).sum()),
        "uncountable_numeric_case_count": numeric.height,
        "uncountable_numeric_case_ids": sorted(numeric.get_column("case").to_list()),
    }


def _best(found: Aggregate, spec: Mapping[str, Any]) -> dict[str, Any]:
    """What the run that stands for each case says."""
    keys = spec["summary"]["keys"]
    told = [{k: e[k] for k in keys if k in e} for e in entry_documents(found.best)]
    names = ("filed_case", "bucket", "effective_failure_class", "lane")
    columns = [found.best.get_column(n).to_list() for n in names]
    out: dict[str, Any] = {}
    for case, bucket in zip(found.cases.get_column("case"), found.cases.get_column("bucket"), strict=True):
        out[case] = {"bucket": bucket} | ({"target_lane_source": "missing"} if found.lane.enabled else {})
    for whole, (case, bucket, effective, lane) in zip(told, zip(*columns, strict=True), strict=True):
        hidden = () if bucket in spec["buckets"]["accepted"] else spec["summary"]["accepted_only"]
        entry = {k: v for k, v in whole.items() if k not in hidden}
        entry["bucket"] = bucket
        if effective:
            entry["effective_failure_class"] = effective
        if found.lane.enabled:
            entry["target_lane_source"] = lane
        out[case] = entry
    return out


def _policy(found: Aggregate, spec: Mapping[str, Any]) -> dict[str, Any]:
    lane, texts = found.lane, spec["texts"]
    lanes = found.cases.get_column("lane")
    return {
        "schema_version": spec["schemas"]["policy"],
        "rule": texts["lane_rule" if lane.enabled else "rule"],
        "bucket_precedence": spec["buckets"]["order"],
        "target_lane": {
            "enabled": lane.enabled,
            "lane_id": lane.name,
            "target_run_group_contains": list(lane.target),
            "current_run_group_contains": list(lane.current),
            "backfill_run_group_contains": list(lane.backfill),
            "case_source_counts": {n: int((lanes == n).sum()) if lane.enabled else 0 for n in LANES},
            "current_evidence_rule": texts["current_evidence_rule"],
            "duplicate_case_rule": texts["duplicate_case_rule"],
        },
        **_NOT_RECORDED,
    }
