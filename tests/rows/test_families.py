"""The registry of row families, the shape of their candidates, and one row of each checked by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

import expcomp as xc
from expcomp.rows.context import Context
from expcomp.rows.registry import ROW_FAMILIES
from expcomp.tables.core import CORE
from expcomp.tables.envelope import ENVELOPE
from expcomp.tables.events import EVENTS
from expcomp.tables.families import FAMILIES
from tests.helpers import STEPS, package

# One step for each surface family: what it declares beside the common fields, and columns of the row that must say so.
SURFACES: dict[str, dict[str, Any]] = {
    "multi_agent_handoff": {"subagent_id": "sub-1", "delegation_id": "del-1", "handoff_reason": "too long"},
    "multimodal_artifact": {
        "interaction_surface": "multimodal",
        "modality": "image",
        "artifact_role": "input",
        "mime_type": "image/png",
    },
    "ui_interaction_event": {
        "interaction_surface": "browser",
        "ui_surface": "browser",
        "action_type": "click",
        "element_selector": "#go",
    },
    "physical_environment_event": {"interaction_surface": "device", "device_id": "dev-1", "safety_state": "safe"},
    "api_interaction_event": {
        "interaction_surface": "api",
        "api_endpoint": "/v1/x",
        "api_method": "GET",
        "http_status": 404,
    },
    "mcp_interaction_event": {"interaction_surface": "mcp_tool", "mcp_server": "ledger", "mcp_tool_name": "append"},
    "database_event": {"interaction_surface": "database", "database_type": "sqlite", "table_name": "t", "row_count": 7},
    "structured_table_event": {
        "interaction_surface": "spreadsheet",
        "sheet_name": "weekly",
        "cell_range": "A1:B2",
        "row_count": 2,
    },
    "software_execution_event": {"interaction_surface": "cli", "command": "make check", "exit_code": 2},
    "search_retrieval_event": {
        "interaction_surface": "search",
        "search_provider": "stacks",
        "query": "gauges",
        "result_count": 3,
    },
    "enterprise_app_event": {"interaction_surface": "saas_app", "app_name": "Desk", "ticket_id": "T-1"},
    "async_workflow_event": {
        "interaction_surface": "queue",
        "queue_name": "recounts",
        "message_id": "m-1",
        "trigger_type": "manual",
    },
    "collaboration_event": {
        "interaction_surface": "email",
        "platform_name": "Post",
        "message_type": "letter",
        "followup_required": True,
    },
    "document_event": {
        "interaction_surface": "pdf",
        "document_ref": "attempts/baseline/artifacts/report.md",
        "document_type": "memo",
    },
    "cross_system_event": {
        "interaction_surface": "mixed",
        "system_of_record": "ledger",
        "connected_surfaces": ["api", "database"],
    },
}


def test_the_registry_holds_every_declared_family_in_order() -> None:
    assert list(ROW_FAMILIES) == [f.name for f in FAMILIES]


def test_names_are_unique() -> None:
    assert len({f.name for f in FAMILIES}) == len(FAMILIES) == 32


def test_the_fifteen_event_families_are_in_the_registry() -> None:
    assert len(EVENTS) == 15
    assert {e.name for e in EVENTS} <= set(ROW_FAMILIES)


@pytest.mark.parametrize("name", list(ROW_FAMILIES))
def test_a_family_refers_to_its_own_columns_and_to_known_tables(name: str) -> None:
    row_family = ROW_FAMILIES[name]
    family = row_family.family
    assert row_family.name == name
    # An entry of `core` is a column, or alternatives of which one counts.
    core = {n for entry in family.core for n in ((entry,) if isinstance(entry, str) else entry)}
    assert {*core, *family.input, *family.target, *family.texts} <= set(family.columns)
    assert set(row_family.requires) <= set(CORE)
    assert not set(family.columns) & set(ENVELOPE)
    assert family.uses


@pytest.mark.parametrize("name", list(ROW_FAMILIES))
def test_a_family_that_cuts_texts_flags_it(name: str) -> None:
    family = ROW_FAMILIES[name].family
    assert bool(family.texts) == ("truncated" in family.columns)


@pytest.fixture(scope="module")
def context(tmp_path_factory: pytest.TempPathFactory) -> Context:
    """One package with every surface, two user turns and a loop."""
    folder = tmp_path_factory.mktemp("families")
    steps = [dict(s) for s in STEPS]
    for n, fields in enumerate(SURFACES.values(), 6):
        common = {
            "step": n,
            "turn": 1,
            "actor": "agent:worker",
            "action": "agent_step",
            "tool": f"tool_{n}",
            "input": f"do {n}",
            "output": f"did {n}",
            "success": True,
        }
        steps.append(common | fields)
    steps.append({"step": 99, "turn": 2, "actor": "user", "action": "user_message", "input": "Count them twice."})
    steps.append(
        {
            "step": 100,
            "turn": 2,
            "actor": "agent:worker",
            "action": "agent_step",
            "operation": "answer",
            "output": "Twelve.",
        }
    )
    package(folder, steps=steps, private_item=True)
    return Context.of(xc.read_traces(folder))


@pytest.mark.parametrize("name", list(ROW_FAMILIES))
def test_candidates_have_exactly_the_candidate_schema(context: Context, name: str) -> None:
    frame = ROW_FAMILIES[name].candidates(context)
    assert dict(frame.schema) == ROW_FAMILIES[name].candidate_schema
    assert list(frame.columns) == list(ROW_FAMILIES[name].candidate_schema)
    assert frame.height > 0


@pytest.mark.parametrize("name", list(ROW_FAMILIES))
def test_no_input_gives_no_candidates_in_the_same_schema(name: str) -> None:
    frame = ROW_FAMILIES[name].candidates(Context({n: t.empty() for n, t in CORE.items()}))
    assert frame.height == 0
    assert dict(frame.schema) == ROW_FAMILIES[name].candidate_schema


@pytest.mark.parametrize("name", list(ROW_FAMILIES))
def test_candidates_do_not_change_the_tables_they_come_from(context: Context, name: str) -> None:
    before = {
        n: f.hash_rows().sum() if f.width and f.height else 0
        for n, f in context.tables.items()
        if n in ("attempts", "grades", "loops")
    }
    ROW_FAMILIES[name].candidates(context)
    assert {
        n: f.hash_rows().sum() if f.width and f.height else 0 for n, f in context.tables.items() if n in before
    } == before


@pytest.mark.parametrize("name", list(SURFACES))
def test_a_surface_step_gives_one_row_with_its_fields(context: Context, name: str) -> None:
    fields = {k: v for k, v in SURFACES[name].items() if k != "interaction_surface"}
    number = 6 + list(SURFACES).index(name)
    frame = ROW_FAMILIES[name].candidates(context).filter(pl.col("step_number") == number)
    # One row in each of the two attempts.
    assert frame.height == 2
    row = frame.to_dicts()[0]
    assert {k: row[k] for k in fields} == fields
    assert (row["agent_action"], row["observed_result"], row["tool"]) == (
        f"do {number}",
        f"did {number}",
        f"tool_{number}",
    )


@pytest.mark.parametrize("name", list(SURFACES))
def test_a_surface_step_gives_no_row_in_families_of_other_surfaces(context: Context, name: str) -> None:
    number = 6 + list(SURFACES).index(name)
    # A PDF is a document and a multimodal artifact.
    shared = {"document_event": {"multimodal_artifact"}}.get(name, set())
    hit = {n for n in SURFACES if ROW_FAMILIES[n].candidates(context).filter(pl.col("step_number") == number).height}
    assert hit == {name} | shared


def first(context: Context, name: str, **where: Any) -> dict[str, Any]:
    frame = ROW_FAMILIES[name].candidates(context)
    for column, value in where.items():
        frame = frame.filter(pl.col(column) == value)
    return frame.to_dicts()[0]


def attempt(context: Context, kind: str) -> str:
    return context.tables["attempts"].filter(pl.col("attempt_kind") == kind)["attempt_id"].item()


BASE = "attempts/baseline/artifacts/report.md"
REVISED = "attempts/revised/artifacts/report.md"
TEXT = "# Report\n\nTwelve gauges, says {}.\n"

# Family -> (which row, what it says), checked by hand against the package that `context` reads.
BY_HAND: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "evaluation_example": (
        {"rubric_item_id": "secret_total"},
        {
            "verifier_only": True,
            "criterion_description": "The hidden total is matched.",
            "score": 0.4,
            "score_raw": 0.4,
            "score_max": 1.0,
            "passed": False,
            "rationale": "As the total.",
            "weight": 1.0,
            "pass_threshold": 0.7,
            "required_artifacts": ["report.md"],
        },
    ),
    "verifier_example": (
        {},
        {
            "claim": "Counted the gauges (baseline).",
            "evidence": [{"ref": BASE, "content": TEXT.format("baseline")}],
            "verdict": "verified",
            "notes": "Recounted.",
            "confidence": 0.9,
        },
    ),
    "reward_model_row": (
        {},
        {
            "reward": 0.4,
            "score_raw": 0.4,
            "score_min": 0.0,
            "score_max": 1.0,
            "passed": False,
            "failed_criteria": ["counted", "secret_total"],
        },
    ),
    "environment_response_pair": (
        {"step_index": 1},
        {
            "agent_action": "wc -l gauges.csv",
            "observed_environment_response": "12 gauges.csv",
            "response_source": "tool",
            "state_before": "The shell is idle.",
            "state_after": "The count is known.",
            "success": True,
            "outcome": "progress",
            "exit_code": 0,
            "duration_ms": 2000.0,
            "step_number": 2,
            "environment_domain": "terminal",
            "total_steps": 20,
        },
    ),
    "process_supervision": (
        {"step_index": 3},
        {
            "agent_action": "GET /v2/gauges?retry=1",
            "observed_result": '{"items": 12}',
            "label": 1,
            "label_source": "outcome",
            "outcome": "corrected",
            "retry_of_step_index": 2,
            "attempt_score": 0.4,
        },
    ),
    "agentic_rl_rollout": (
        {},
        {
            "terminal_reward": 0.4,
            "passed": False,
            "termination_reason": "task_complete",
            "status": "completed",
            "n_steps": 20,
        },
    ),
    "grpo_rollout_group": ({}, {"rewards": [0.4, 0.9], "group_size": 2, "pass_rate": 0.5, "n_without_transcript": 0}),
    "critique_revision_pair": (
        {"reviewer_type": "evaluator"},
        {
            "critique": "Feedback on baseline.",
            "suggestions": ["Count twice."],
            "simulated_review": False,
            "before": [{"ref": BASE, "content": TEXT.format("baseline")}],
            "after": [{"ref": REVISED, "content": TEXT.format("revised")}],
            "score_before": 0.4,
            "score_after": 0.9,
            "score_change": 0.5,
        },
    ),
    "task_variant": (
        {},
        {
            "variant_kind": "follow_up",
            "base_instruction": "Count the gauges and say how many there are.",
            "variant_instruction": "Count them twice.",
        },
    ),
    "loop_review_row": (
        {"loop_iteration": 1},
        {
            "loop_id": "loop_a",
            "mode": "review",
            "current_goal": "count",
            "current_attempt_summary": "Counted (baseline).",
            "known_failures": ["miscounted"],
            "rubric_status": '{"counted":false}',
            "reviewer_type": "human_expert",
            "simulated_review": False,
        },
    ),
    "feedback_revision_pair": (
        {"loop_iteration": 1},
        {
            "feedback": "Count twice.",
            "revision_instructions": ["again"],
            "issues_to_fix": ["miscounted"],
            "verification_steps": ["recount"],
            "feedback_applied": True,
        },
    ),
    "reviewer_decision_row": (
        {"loop_iteration": 2},
        {
            "decision": "continue",
            "verdict": "revise",
            "score": 0.5,
            "continue_loop": False,
            "current_attempt_summary": "Counted (revised).",
        },
    ),
    "contract_verification_row": (
        {"loop_iteration": 1},
        {"passed": True, "actual_outputs_ok": True, "failure_count": 0, "checked": '["report.md"]'},
    ),
    "repair_loop_row": (
        {"loop_iteration": 1},
        {
            "repair_id": "repair_1",
            "repair_required": True,
            "issues_to_fix": '["count"]',
            "files_to_modify": ["report.md"],
            "repair_steps": ["recount"],
            "before_score": 0.4,
            "after_score": 0.9,
            "regression_detected": False,
        },
    ),
}


@pytest.mark.parametrize("name", list(BY_HAND))
def test_a_row_by_hand(context: Context, name: str) -> None:
    where, says = BY_HAND[name]
    row = first(context, name, **where)
    assert {k: row[k] for k in says} == says


def test_a_failed_step_by_hand(context: Context) -> None:
    row = first(context, "failure_case", failure_kind="step")
    says = {
        "agent_action": "GET /v2/gauges",
        "observed_result": "no answer",
        "outcome": "failed",
        "error_type": "Timeout",
        "error_message": "no answer in time",
        "fixed_by_step_index": 3,
        "step_index": 2,
        "_label_strength": 0.25,
    }
    assert {k: row[k] for k in says} == says


def test_a_failed_criterion_by_hand(context: Context) -> None:
    frame = ROW_FAMILIES["failure_case"].candidates(context).filter(pl.col("failure_kind") == "criterion")
    # The private criterion failed too; it stays in the flagged evaluation rows.
    assert frame.select("criterion", "rationale", "feedback", "fixed_by_attempt_id").rows() == [
        ("counted", "As the total.", "Feedback on baseline.", attempt(context, "revised"))
    ]


def test_a_deliverable_by_hand(context: Context) -> None:
    row = first(context, "training_example", example_kind="deliverable", deliverable_ref=REVISED)
    assert [(m["role"], m["content"], m["trainable"]) for m in row["messages"]] == [
        ("user", "Count the gauges and say how many there are.\n\nreport.md", False),
        ("assistant", TEXT.format("revised"), True),
    ]
    assert (row["score"], row["passed"], row["n_messages"], row["n_tool_calls"]) == (0.9, True, 2, 0)


def test_a_pair_of_attempts_by_hand(context: Context) -> None:
    row = first(context, "preference_pair", pair_level="attempt")
    assert (row["chosen_attempt_id"], row["rejected_attempt_id"]) == (
        attempt(context, "revised"),
        attempt(context, "baseline"),
    )
    assert row["margin"] == pytest.approx(0.5)
    assert [m["role"] for m in row["prompt"][:2]] == ["system", "user"]
    assert row["chosen"][-1]["content"] == "Twelve. (revised)"
    assert row["rejected"][-1]["content"] == "Twelve. (baseline)"


def test_a_pair_shares_all_messages_up_to_the_first_that_differs(context: Context) -> None:
    row = first(context, "preference_pair", pair_level="attempt")
    whole = context.chats.filter(pl.col("attempt_id") == row["chosen_attempt_id"])["messages"].to_list()[0]
    assert row["prompt"] + row["chosen"] == whole
    assert row["chosen"][0] != row["rejected"][0]


def test_a_pair_of_steps_by_hand(context: Context) -> None:
    row = first(context, "preference_pair", pair_level="step")
    assert (row["chosen_step_index"], row["rejected_step_index"], row["margin"]) == (3, 2, None)
    assert [m["tool_calls"][0]["arguments"] for m in row["chosen"]] == ['{"input":"GET /v2/gauges?retry=1"}']
    assert [m["tool_calls"][0]["arguments"] for m in row["rejected"]] == ['{"input":"GET /v2/gauges"}']
    # The prompt ends before the step that failed: system, user, first call and its result.
    assert [m["role"] for m in row["prompt"]] == ["system", "user", "assistant", "tool"]


def test_a_reward_splits_the_conversation_at_the_first_word_of_the_agent(context: Context) -> None:
    row = first(context, "reward_model_row")
    assert [m["role"] for m in row["prompt"]] == ["system", "user"]
    assert row["completion"][0]["role"] == "assistant"
    assert row["criterion_rewards"] == [
        {"rubric_item_id": "counted", "reward": 0.4, "passed": False},
        {"rubric_item_id": "secret_total", "reward": 0.4, "passed": False},
    ]


def test_a_rollout_holds_the_steps_in_order(context: Context) -> None:
    row = first(context, "agentic_rl_rollout")
    assert [t["step_index"] for t in row["transitions"]] == [*range(1, 20), 21]
    assert row["transitions"][0] == {
        "step_index": 1,
        "observation": "The shell is idle.",
        "action": "wc -l gauges.csv",
        "response": "12 gauges.csv",
        "reward": None,
        "success": True,
    }


@pytest.mark.parametrize(
    ("change", "label", "source"),
    [
        ({"step_outcome": "neutral"}, 0, "outcome"),
        ({"step_outcome": "blocked"}, -1, "outcome"),
        ({"step_outcome": None}, None, None),
        ({"step_outcome": "odd word"}, None, None),
    ],
)
def test_a_step_label_follows_the_recorded_outcome(
    tmp_path: Path, change: dict[str, Any], label: int | None, source: str | None
) -> None:
    package(tmp_path, scores={"baseline": 0.4}, steps=[STEPS[0], STEPS[1] | change])
    row = first(Context.of(xc.read_traces(tmp_path)), "process_supervision")
    assert (row["label"], row["label_source"]) == (label, source)


def test_the_label_of_the_source_goes_before_the_outcome(tmp_path: Path) -> None:
    root = package(tmp_path, scores={"baseline": 0.4}, steps=STEPS[:2])
    (root / "signals").mkdir()
    line = '{"attempt_kind": "baseline", "step": 2, "step_quality_label": "negative", "label_source": "evaluator", "local_reward": -0.5}\n'
    (root / "signals/process_supervision.jsonl").write_text(line, encoding="utf-8")
    row = first(Context.of(xc.read_traces(tmp_path)), "process_supervision")
    assert (row["label"], row["label_source"], row["local_reward"], row["_label_strength"]) == (
        -1,
        "evaluator",
        -0.5,
        0.75,
    )


def test_a_row_per_ref_tells_whether_the_file_is_there(tmp_path: Path) -> None:
    refs = [BASE, "attempts/baseline/artifacts/gone.png", BASE]
    step = STEPS[1] | {"interaction_surface": "multimodal", "artifact_refs": refs}
    package(tmp_path, scores={"baseline": 0.4}, steps=[STEPS[0], step])
    frame = ROW_FAMILIES["multimodal_artifact"].candidates(Context.of(xc.read_traces(tmp_path)))
    assert frame.select("artifact_ref", "artifact_exists").rows() == [
        (BASE, True),
        ("attempts/baseline/artifacts/gone.png", False),
    ]


@pytest.mark.parametrize(
    ("loops", "after"),
    [
        (["baseline", "revised", "third"], {"baseline": "revised", "revised": "third"}),
        ([], {"baseline": "revised", "revised": "third"}),
    ],
    ids=["by the loop", "by time"],
)
def test_the_attempt_that_follows(tmp_path: Path, loops: list[str], after: dict[str, str]) -> None:
    package(tmp_path, scores={"baseline": 0.2, "revised": 0.5, "third": 0.9}, loops=bool(loops))
    context = Context.of(xc.read_traces(tmp_path))
    kind = dict(context.attempts.select("attempt_id", "attempt_kind").iter_rows())
    found = {kind[a]: kind[b] for a, b in context.next_attempt.select("attempt_id", "next_attempt_id").iter_rows() if b}
    assert found == after
