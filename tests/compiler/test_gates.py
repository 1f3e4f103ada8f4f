"""Every gate: a minimal row that it rejects, and the same row whole, which no gate rejects."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from expcomp.compiler.assemble import assemble
from expcomp.compiler.gates import GATES, REASONS
from expcomp.config import CompileOptions
from expcomp.rows.context import Context
from expcomp.rows.family import RowFamily
from expcomp.tables.core import CORE
from expcomp.tables.families import BY_NAME
from expcomp.tables.family import CHAT

EMPTY = Context({name: table.empty() for name, table in CORE.items()})
TOKEN = "ghp_" + "a1B2c3D4e5F6g7H8i9J0" * 2
HELPERS: dict[str, Any] = {
    "package_id": "pkg_a",
    "_evidence_ids": ["evidence_1"],
    "_evidence_ok": ["evidence_1"],
    "_n_refs": 1,
    "_n_there": 1,
    "_n_hidden": 0,
    "_label_strength": 1.0,
    "_passed": True,
    "_margin": 0.5,
    "_group_n": 2,
    "_group_std": 0.1,
    "_simulated": False,
    "_duplicate": False,
    "_contexts": 1,
    "_unreadable": False,
}


def said(role: str, content: str) -> dict[str, Any]:
    return {"role": role, "content": content, "trainable": role == "assistant"}


def value(dtype: pl.DataType) -> Any:
    """Something plain for a content column."""
    if dtype == CHAT:
        return [said("user", "how many?"), said("assistant", "twelve")]
    if dtype == pl.List(CHAT):
        return [[said("assistant", "twelve")]]
    if isinstance(dtype, pl.List):
        return [value(dtype.inner)]
    if isinstance(dtype, pl.Struct):
        return {f.name: value(f.dtype) for f in dtype.fields}
    if isinstance(dtype, pl.Boolean):
        return True
    if dtype.is_integer():
        return 1
    return 0.5 if dtype.is_float() else "twelve gauges" if dtype == pl.String() else None


def rows_of(name: str, *changes: dict[str, Any], options: CompileOptions | None = None) -> pl.DataFrame:
    """What becomes of candidate rows of a family, each whole but for its changes."""
    family = BY_NAME[name]
    schema = RowFamily(family, (), lambda _: pl.DataFrame()).candidate_schema
    whole = HELPERS | {n: value(c.dtype) for n, c in family.columns.items()}
    frame = pl.DataFrame([{n: (whole | change).get(n) for n in schema} for change in changes], schema=schema)
    found = assemble(RowFamily(family, (), lambda _: frame), EMPTY, options or CompileOptions())
    return pl.concat([found.accepted, found.rejected])


@dataclass(frozen=True)
class Case:
    family: str
    change: dict[str, Any]
    options: dict[str, Any] = field(default_factory=dict)


CASES: dict[str, Case] = {
    "unreadable_source": Case("agentic_rl_rollout", {"_unreadable": True}),
    "missing_input": Case("environment_response_pair", {"agent_action": None}),
    "missing_target": Case("environment_response_pair", {"observed_environment_response": None}),
    "empty_text": Case("task_variant", {"variant_instruction": " \n\t"}),
    "placeholder_text": Case("task_variant", {"variant_instruction": "TODO"}),
    "label_missing": Case("evaluation_example", {"_issue": "label_missing"}),
    "label_not_run": Case("evaluation_example", {"_issue": "label_not_run"}),
    "score_not_finite": Case("evaluation_example", {"_issue": "score_not_finite"}),
    "score_out_of_scale": Case("evaluation_example", {"_issue": "score_out_of_scale"}),
    "scale_unknown": Case("evaluation_example", {"_issue": "scale_unknown"}),
    "weak_label": Case("reward_model_row", {"_label_strength": 0.25}),
    "attempt_failed": Case("training_example", {"_passed": False}),
    "verdict_unknown": Case("training_example", {"_passed": None}),
    "tie_or_small_margin": Case("preference_pair", {"_margin": 0.05}),
    "single_attempt": Case("grpo_rollout_group", {"_group_n": 1}),
    "zero_variance_group": Case("grpo_rollout_group", {"_group_std": 0.0}),
    "several_contexts": Case("reward_model_row", {"_contexts": 2}),
    "no_evidence": Case(
        "task_variant",
        {"_evidence_ids": None, "_evidence_ok": None, "_n_refs": None, "_n_there": None, "_n_hidden": None},
    ),
    "unresolved_ref": Case("task_variant", {"_evidence_ok": [], "_n_there": 0}),
    "hidden_evidence": Case("task_variant", {"_n_there": 0, "_n_hidden": 1}),
    "duplicate_exact": Case("environment_response_pair", {"_duplicate": True}),
    "simulated_review": Case("reviewer_decision_row", {"_simulated": True}),
    "too_long": Case("task_variant", {"variant_instruction": "x" * 600}, {"max_row_bytes": 500}),
    "secret_after_redaction": Case("task_variant", {"variant_instruction": f"use <secret:token> or {TOKEN}"}),
    "private_path_after_redaction": Case(
        "task_variant", {"variant_instruction": "see <path:home>/a and /home/marta/private/b.txt"}
    ),
    "pii_after_redaction": Case(
        "task_variant", {"variant_instruction": "ask <pii:email> or marta@example.org"}, {"pii": True}
    ),
}


def test_every_gate_has_a_case_here() -> None:
    assert set(CASES) == {g.name for g in GATES}


@pytest.mark.parametrize("gate", list(CASES))
def test_gate_rejects_its_minimal_case_and_no_other_gate_does(gate: str) -> None:
    case = CASES[gate]
    row = rows_of(case.family, case.change, options=CompileOptions(**case.options))
    assert row.select("accepted", "reject_reasons").to_dicts() == [{"accepted": False, "reject_reasons": [gate]}]


@pytest.mark.parametrize("gate", list(CASES))
def test_gate_is_silent_on_the_whole_row(gate: str) -> None:
    case = CASES[gate]
    row = rows_of(case.family, {}, options=CompileOptions(**case.options))
    assert row.select("accepted", "reject_reasons").to_dicts() == [{"accepted": True, "reject_reasons": []}]


@pytest.mark.parametrize("family", list(BY_NAME))
def test_a_whole_row_of_every_family_is_accepted(family: str) -> None:
    assert rows_of(family, {})["reject_reasons"].to_list() == [[]]


@pytest.mark.parametrize("family", list(BY_NAME))
def test_null_helpers_are_no_objection_but_missing_evidence_is(family: str) -> None:
    row = rows_of(family, {n: None for n in HELPERS if n.startswith("_") and n != "_passed"})
    assert row["reject_reasons"].to_list() == [["no_evidence"]]


def test_all_reasons_are_kept_in_the_order_of_the_gates() -> None:
    bad = {
        "_passed": False,
        "_label_strength": 0.0,
        "_issue": "label_not_run",
        "_contexts": 3,
        "_duplicate": True,
        "messages": None,
    }
    (reasons,) = rows_of("training_example", bad)["reject_reasons"].to_list()
    assert reasons == [
        "missing_input",
        "missing_target",
        "label_not_run",
        "weak_label",
        "attempt_failed",
        "several_contexts",
        "duplicate_exact",
    ]


def test_rows_are_judged_one_by_one() -> None:
    rows = rows_of(
        "task_variant", {"variant_instruction": "a"}, {"variant_instruction": ""}, {"variant_instruction": "b"}
    )
    assert dict(zip(rows["variant_instruction"], rows["accepted"], strict=True)) == {"a": True, "b": True, "": False}


def test_the_list_of_reasons_is_closed_and_described() -> None:
    assert list(REASONS) == [g.name for g in GATES]
    assert all(len(text) > 10 for text in REASONS.values())


def test_the_manifest_states_the_closed_list(compiled: Path) -> None:
    assert json.loads((compiled / "manifest.json").read_text("utf-8"))["reject_reasons"] == list(REASONS)


@pytest.mark.parametrize(("margin", "rejected"), [(0.1, False), (0.09999, True), (0.5, False), (0.0, True)])
def test_margin_is_the_least_difference_that_passes(margin: float, rejected: bool) -> None:
    reasons = rows_of("preference_pair", {"_margin": margin})["reject_reasons"].to_list()
    assert reasons == [["tie_or_small_margin"] if rejected else []]


def test_margin_is_an_option() -> None:
    assert rows_of("preference_pair", {"_margin": 0.3}, options=CompileOptions(margin=0.4))["accepted"].to_list() == [
        False
    ]


@pytest.mark.parametrize(("strength", "accepted"), [(0.5, True), (0.49, False), (0.0, False), (None, True)])
def test_label_strength_gates_at_its_option(strength: float | None, accepted: bool) -> None:
    assert rows_of("reward_model_row", {"_label_strength": strength})["accepted"].to_list() == [accepted]


def test_a_weak_label_does_not_gate_a_family_that_only_records_it() -> None:
    assert rows_of("process_supervision", {"_label_strength": 0.0})["accepted"].to_list() == [True]


def test_simulated_reviews_pass_when_they_are_allowed() -> None:
    row = rows_of("reviewer_decision_row", {"_simulated": True}, options=CompileOptions(allow_simulated=True))
    assert row["accepted"].to_list() == [True]


def test_personal_data_is_no_reason_unless_asked_for() -> None:
    assert rows_of("task_variant", {"variant_instruction": "ask <pii:email> or marta@example.org"})[
        "accepted"
    ].to_list() == [True]


def test_a_pair_needs_both_sides() -> None:
    assert rows_of("preference_pair", {"rejected": None})["reject_reasons"].to_list() == [["missing_target"]]


def test_a_conversation_in_which_the_model_says_nothing_has_no_target() -> None:
    silent = [said("user", "how many?"), {"role": "assistant", "content": "twelve", "trainable": False}]
    assert rows_of("training_example", {"messages": silent})["reject_reasons"].to_list() == [["missing_target"]]


def test_a_command_that_prints_nothing_is_an_observation() -> None:
    assert rows_of("environment_response_pair", {"observed_environment_response": ""})["accepted"].to_list() == [True]


@pytest.mark.parametrize("text", ["n/a", "N/A", " none ", "...", "<your answer>", "[insert name]", "Lorem ipsum dolor"])
def test_placeholders_are_rejected(text: str) -> None:
    assert rows_of("task_variant", {"variant_instruction": text})["reject_reasons"].to_list() == [["placeholder_text"]]


@pytest.mark.parametrize(
    "text", ["none of the gauges moved", "the todo list is done", "a <b> tag", "wait ... then go", "<b>bold</b>"]
)
def test_texts_that_only_mention_a_placeholder_pass(text: str) -> None:
    assert rows_of("task_variant", {"variant_instruction": text})["accepted"].to_list() == [True]


def test_an_exact_copy_inside_a_package_is_a_duplicate_of_the_first() -> None:
    rows = rows_of("training_example", {}, {}, {"package_id": "pkg_b"})
    assert sorted(zip(rows["package_id"], rows["reject_reasons"].to_list(), strict=True)) == [
        ("pkg_a", []),
        ("pkg_a", ["duplicate_exact"]),
        ("pkg_b", []),
    ]


def test_the_length_limit_counts_bytes_of_the_content() -> None:
    assert rows_of("task_variant", {}, options=CompileOptions(max_row_bytes=50))["reject_reasons"].to_list() == [
        ["too_long"]
    ]
