"""Signals of a solution's quality for records that bring none: made of public counts, for the benchmarks the pack names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from expcomp.ledger.build import apply, constant

if TYPE_CHECKING:
    from collections.abc import Mapping

    from expcomp.ledger.pack import Pack


def with_quality(frame: pl.DataFrame, pack: Pack) -> pl.DataFrame:
    """The frame with `solution_quality_signals`: those given, else those made up."""
    spec: Mapping[str, Any] = pack.settings["quality"]
    active = pl.any_horizontal(
        pl.col("event_operations").is_not_null(),
        pl.col("event_successes").is_not_null(),
        pl.col("event_calls").is_not_null(),
        pl.col("worker_connected").fill_null(value=False),
        pl.col("event_status").is_in(spec["active"]).fill_null(value=False),
    )
    frame = frame.with_columns(active=active)
    frame = apply(frame, pack, "quality_passed", "quality_passed")
    for rules in ("quality_outcome", "quality_label", "quality_recovery", "quality_partial", "quality_rubric"):
        frame = apply(frame, pack, rules, rules)
    frame = apply(frame, pack, "quality_unavailable", "quality_unavailable")
    labels = ("quality_label", "quality_recovery", "quality_partial", "quality_unavailable")
    made = pl.struct(
        schema_version=pl.lit(spec["schema_version"]),
        source=pl.lit(spec["source"]),
        outcome_class=pl.col("quality_outcome"),
        solution_action_labels=pl.concat_list(pl.col(c).cast(pl.String) for c in labels).list.drop_nulls(),
        rubric_miss_label_status=pl.col("quality_rubric"),
        worker_activity=pl.struct(
            task_facing_activity_observed="active",
            worker_turn_or_bridge_observed="active",
            tool_call_count=pl.col("event_calls").fill_null(0),
            bridge_task_facing_operation_count=pl.col("event_operations").fill_null(0),
            bridge_task_facing_success_count=pl.col("event_successes").fill_null(0),
        ),
        public_limits=constant(spec["public_limits"]),
    ).struct.json_encode()
    wanted = pl.col("benchmark_id").str.starts_with(spec["benchmark_prefix"])
    return frame.with_columns(
        solution_quality_signals=pl.coalesce("given_quality", pl.when(wanted).then(made)),
    )
