"""Families of review loops: one row for each document of an iteration, decoded with the dtypes of that document."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import polars as pl

from expcomp.io.wording import worded
from expcomp.rows.family import RowFamily
from expcomp.tables.families import BY_NAME

if TYPE_CHECKING:
    from expcomp.rows.context import Context

S, B, F = pl.String(), pl.Boolean(), pl.Float64()
L, N = pl.List(pl.String()), pl.Int64()
_DIFF = ("added_refs", "removed_refs")


@dataclass(frozen=True, slots=True)
class LoopFamily:
    """Which documents an iteration must hold, and which field of which document each column takes.

    Attributes:
        name: Family.
        documents: Documents that must be there.
        take: Column -> (document, field, dtype).
        inside: Column -> (document, field, key) of a JSON object that says the same where `take` finds nothing.
        judged: Whether the row carries a reviewer's judgement, so that a stand-in's is gated.
    """

    name: str
    documents: tuple[str, ...]
    take: Mapping[str, tuple[str, str, Any]]
    judged: bool = False
    row: Mapping[str, str] = field(default_factory=dict)
    inside: Mapping[str, tuple[str, str, str]] = field(default_factory=dict)


LOOPS: tuple[LoopFamily, ...] = (
    LoopFamily(
        "loop_review_row",
        ("review_packet",),
        {
            **{
                n: ("review_packet", n, S)
                for n in ("mode", "current_goal", "current_attempt_summary", "rubric_status", "verifier_status")
            },
            **{n: ("review_packet", n, L) for n in ("known_failures", "missing_outputs", "recommended_review_focus")},
            "changed_summary": ("diff_report", "changed_summary", S),
        },
        inside={"changed_summary": ("review_packet", "diff_from_previous_iteration", "changed_summary")},
    ),
    LoopFamily(
        "feedback_revision_pair",
        ("reviewer_feedback", "revision_plan"),
        {
            "feedback": ("reviewer_feedback", "feedback", S),
            "blocking_issues": ("reviewer_feedback", "blocking_issues", L),
            "revision_instructions": ("reviewer_feedback", "revision_instructions", L),
            "issues_to_fix": ("revision_plan", "issues_to_fix", L),
            "verification_steps": ("revision_plan", "verification_steps", L),
            "feedback_applied": ("revision_plan", "feedback_applied", B),
        },
        judged=True,
        row={"next_attempt_id": "next_attempt_id"},
    ),
    LoopFamily(
        "reviewer_decision_row",
        ("loop_decision",),
        {
            "current_attempt_summary": ("review_packet", "current_attempt_summary", S),
            **{
                n: ("loop_decision", n, S)
                for n in ("decision", "verdict", "stop_condition", "termination_reason", "training_value_notes")
            },
            "score": ("loop_decision", "score", F),
            "continue_loop": ("loop_decision", "continue_loop", B),
        },
        judged=True,
    ),
    LoopFamily(
        "contract_verification_row",
        ("contract_verification",),
        {
            "passed": ("contract_verification", "contract_verification_passed", B),
            "actual_outputs_ok": ("contract_verification", "actual_outputs_json_ok", B),
            "failures": ("contract_verification", "failures", S),
            "failure_count": ("contract_verification", "failure_count", N),
            "semantic_warnings": ("contract_verification", "semantic_warnings", S),
            "semantic_warning_count": ("contract_verification", "semantic_warning_count", N),
            "checked": ("contract_verification", "checked", S),
        },
    ),
    LoopFamily(
        "repair_loop_row",
        ("contract_repair_plan",),
        {
            "repair_id": ("contract_repair_plan", "repair_id", S),
            "repair_required": ("contract_repair_plan", "repair_required", B),
            "issues_to_fix": ("contract_repair_plan", "issues_to_fix", S),
            "files_to_modify": ("contract_repair_plan", "files_to_modify", L),
            "files_to_preserve": ("contract_repair_plan", "files_to_preserve", L),
            "preserve_passing_items": ("contract_repair_plan", "preserve_passing_items", B),
            "risk_of_regression": ("contract_repair_plan", "risk_of_regression", S),
            "repair_steps": ("contract_repair_plan", "repair_steps", L),
            "before_score": ("contract_repair_result", "before_score", F),
            "after_score": ("contract_repair_result", "after_score", F),
            "regression_detected": ("contract_repair_result", "regression_detected", B),
        },
        row={"changed_refs": "changed_refs"},
    ),
)


def loop_rows(spec: LoopFamily, c: Context) -> pl.DataFrame:
    """Rows of one loop family."""
    used = tuple(dict.fromkeys((*spec.documents, *(d for d, _, _ in spec.take.values()))))
    # What the next iteration added or removed is what this repair changed.
    diff = pl.col("diff_report").shift(-1).over("package_id").str.json_decode(pl.Struct(dict.fromkeys(_DIFF, L)))
    changed = pl.concat_list(diff.struct.field(r).fill_null([]) for r in _DIFF)
    loops = c.tables["loops"].with_columns(changed_refs=pl.when(changed.list.len() > 0).then(changed))
    rows = loops.filter(pl.all_horizontal(pl.col(d).is_not_null() for d in spec.documents))
    read = [*spec.take.values(), *((doc, f, S) for doc, f, _ in spec.inside.values())]
    dtypes = {
        d: pl.Struct({f: t for doc, f, t in read if doc == d}) for d in used if any(doc == d for doc, _, _ in read)
    }
    taken = {column: pl.col(f"_{doc}").struct.field(f) for column, (doc, f, _) in spec.take.items()}
    for column, (doc, f, key) in spec.inside.items():
        other = pl.col(f"_{doc}").struct.field(f).str.json_path_match(f"$.{key}")
        taken[column] = pl.coalesce(taken[column], other)
    rows = rows.with_columns(pl.col(d).str.json_decode(t).alias(f"_{d}") for d, t in dtypes.items())
    task = c.attempts.select("attempt_id", "task_id")
    return rows.join(task, on="attempt_id", how="left", maintain_order="left").select(
        "package_id",
        "task_id",
        "attempt_id",
        "loop_id",
        "loop_iteration",
        "reviewer_type",
        "simulated_review",
        **taken,
        **{column: pl.col(source) for column, source in spec.row.items()},
        _refs=pl.concat_list(pl.col(f"{d}_ref") for d in used).list.drop_nulls(),
        _simulated=pl.col("simulated_review") if spec.judged else pl.lit(value=False),
        _discriminator=worded("{}:{}", pl.col("loop_id").fill_null(""), "loop_iteration"),
    )


LOOP_FAMILIES: tuple[RowFamily, ...] = tuple(
    RowFamily(BY_NAME[s.name], ("loops", "attempts"), partial(loop_rows, s)) for s in LOOPS
)
