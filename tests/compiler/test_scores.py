"""The parts of quality, against numbers computed by hand from the table of scores in the design."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

import expcomp as xc
from expcomp.rows import labels
from expcomp.tables import vocab as v
from tests.helpers import package


def rows(folder: Path, family: str) -> pl.DataFrame:
    """Accepted and rejected rows of a family, quality unpacked."""
    found = xc.compile(xc.read_traces(folder))
    return pl.concat([found.rows[family], found.rejected[family]]).unnest("quality")


@pytest.mark.parametrize(
    ("scores", "top", "difficulty", "learnability"),
    [
        ({"baseline": 0.4, "revised": 0.9}, 1.0, 0.35, 1.0),
        ({"baseline": 2.0, "revised": 5.0}, 5.0, 0.3, 1.0),
        ({"baseline": 80.0, "revised": 90.0}, 100.0, 0.15, 0.0),
        ({"baseline": 0.0, "revised": 0.0}, 1.0, 1.0, 0.0),
        ({"baseline": 0.3, "revised": 0.6, "third": 0.9}, 1.0, 0.4, 8 / 9),
    ],
)
def test_difficulty_and_learnability_over_the_attempts_of_the_task(
    tmp_path: Path, scores: dict[str, float], top: float, difficulty: float, learnability: float
) -> None:
    package(tmp_path, scores=scores, max_score=top)
    found = rows(tmp_path, "agentic_rl_rollout")
    assert found["difficulty"].to_list() == pytest.approx([difficulty] * len(scores))
    assert found["learnability"].to_list() == pytest.approx([learnability] * len(scores))


@pytest.mark.parametrize(
    ("scores", "faults"),
    [
        ({"baseline": 0.4}, []),
        ({"baseline": 0.4, "revised": None}, []),
        ({"baseline": 0.4, "revised": 0.9}, ["nan_score"]),
    ],
)
def test_difficulty_and_learnability_are_unknown_below_two_valid_attempts(
    tmp_path: Path, scores: dict[str, Any], faults: list[str]
) -> None:
    package(tmp_path, scores=scores, faults=faults)
    found = rows(tmp_path, "agentic_rl_rollout")
    assert found.select(pl.col("difficulty", "learnability").is_null().all()).row(0) == (True, True)


@pytest.mark.parametrize("fault", ["nan_score", "over_scale", "no_scale"])
def test_an_attempt_without_a_usable_score_counts_in_neither(tmp_path: Path, fault: str) -> None:
    package(tmp_path, scores={"baseline": 0.4, "revised": 0.9, "third": 0.7}, faults=[fault])
    found = rows(tmp_path, "agentic_rl_rollout")
    assert found["difficulty"].to_list() == pytest.approx([1 - (0.9 + 0.7) / 2] * 3)
    assert found["learnability"].to_list() == [0.0] * 3


@pytest.mark.parametrize(
    ("kind", "reliability", "strength"),
    [
        ("model_judge", "verified", 1.0),
        ("human", "verified", 1.0),
        ("verifier", None, 1.0),
        ("test", None, 1.0),
        ("environment", None, 1.0),
        ("human", None, 0.75),
        ("model_judge", "needs_review", 0.75),
        ("model_judge", None, 0.5),
        ("user_feedback", None, 0.5),
        ("heuristic", None, 0.25),
        ("heuristic", "verified", 0.25),
        ("simulated", None, 0.0),
        ("simulated", "verified", 0.0),
        ("human", "not_run", 0.0),
        ("verifier", "failed_verification", 0.0),
        (None, None, None),
        (None, "verified", None),
    ],
)
def test_label_strength(kind: str | None, reliability: str | None, strength: float | None) -> None:
    frame = pl.DataFrame(
        {"grade_kind": [kind], "reliability": [reliability]},
        schema={"grade_kind": v.GRADE_KIND, "reliability": v.RELIABILITY},
    )
    assert frame.select(labels.strength()).item() == strength


@pytest.mark.parametrize("kind", v.GRADE_KIND.categories.to_list())
def test_every_kind_of_grade_has_a_strength_between_0_and_1(kind: str) -> None:
    words = [None, *v.RELIABILITY.categories.to_list()]
    frame = pl.DataFrame(
        {"grade_kind": [kind] * len(words), "reliability": words},
        schema={"grade_kind": v.GRADE_KIND, "reliability": v.RELIABILITY},
    )
    assert frame.select(labels.strength().is_between(0, 1).alias("ok"))["ok"].to_list() == [True] * len(words)


@pytest.mark.parametrize(
    ("score", "norm", "valid", "issue", "found"),
    [
        (0.5, 0.5, True, None, None),
        (None, None, True, None, "label_missing"),
        (0.5, 0.5, None, None, "label_missing"),
        (None, None, False, "score_not_finite", "score_not_finite"),
        (0.5, 0.5, False, "score_out_of_scale", "score_out_of_scale"),
        (None, None, False, "infrastructure", "label_missing"),
        (7.0, None, True, None, "scale_unknown"),
        (7.0, None, False, "crashed", "label_missing"),
        (None, None, None, None, "unlabelled"),
    ],
)
def test_issue_says_why_a_grade_is_no_label(
    score: float | None, norm: float | None, valid: bool | None, issue: str | None, found: str | None
) -> None:
    schema = {
        "score": pl.Float64,
        "score_norm": pl.Float64,
        "score_valid": pl.Boolean,
        "passed": pl.Boolean,
        "score_issue": pl.String,
    }
    values = {"score": score, "score_norm": norm, "score_valid": valid, "passed": None, "score_issue": issue}
    frame = pl.DataFrame({name: [value] for name, value in values.items()}, schema=schema)
    assert frame.select(labels.issue()).item() == found


@pytest.mark.parametrize(
    ("grader", "reliability", "strength"),
    [("model_judge", "verified", 1.0), ("heuristic", "unverified", 0.25), ("human", "not_run", 0.0)],
)
def test_label_strength_reaches_the_rows(tmp_path: Path, grader: str, reliability: str, strength: float) -> None:
    package(tmp_path, grader=grader, reliability=reliability)
    assert rows(tmp_path, "reward_model_row")["label_strength"].to_list() == [strength] * 2


def test_label_strength_of_a_step_is_that_of_its_outcome(tmp_path: Path) -> None:
    package(tmp_path)
    found = rows(tmp_path, "process_supervision").filter(pl.col("step_index") == 2)
    assert found.select("label", "label_source", "label_strength").unique(maintain_order=True).rows() == [
        (-1, "outcome", 0.25)
    ]


def test_fidelity_counts_the_refs_of_the_row_before_repair(tmp_path: Path) -> None:
    package(tmp_path, scores={"baseline": 0.4}, faults=["missing_ref"])
    found = rows(tmp_path, "environment_response_pair").sort("step_index")
    by_step = dict(zip(found["step_index"], found["fidelity"], strict=True))
    # Step 1 cites the trace, which is there, and a file, which is not; the others cite the trace.
    assert by_step == {1: 0.5, 2: 1.0, 3: 1.0, 4: 1.0}


def test_completeness_is_the_share_of_core_fields_that_are_there(tmp_path: Path) -> None:
    package(tmp_path, scores={"baseline": 0.4})
    found = rows(tmp_path, "environment_response_pair")
    by_step = dict(zip(found["step_index"], found["completeness"], strict=True))
    # agent_action, response, state_before, state_after, success, started_at: steps 2 and 3 have no states, step 4 no action either.
    assert by_step == pytest.approx({1: 1.0, 2: 4 / 6, 3: 4 / 6, 4: 3 / 6})


def test_quality_score_is_the_product_of_the_parts_that_exist(tmp_path: Path) -> None:
    package(tmp_path, scores={"baseline": 0.4}, faults=["missing_ref"], grader="human", reliability="unverified")
    unlabelled = rows(tmp_path, "environment_response_pair").filter(pl.col("step_index") == 1)
    assert unlabelled.select("quality_score", "fidelity", "completeness", "label_strength").row(0) == (
        0.5,
        0.5,
        1.0,
        None,
    )
    labelled = rows(tmp_path, "reward_model_row")
    assert labelled.select("quality_score", "fidelity", "completeness", "label_strength").row(0) == (
        0.75,
        1.0,
        1.0,
        0.75,
    )


def test_novelty_is_not_computed(tmp_path: Path) -> None:
    package(tmp_path)
    assert rows(tmp_path, "training_example")["novelty"].null_count() == 4


def test_redactions_are_counted_on_the_row_that_holds_them(tmp_path: Path) -> None:
    root = package(tmp_path, scores={"baseline": 0.4})
    trace = root / "attempts/baseline/agent_trace.json"
    trace.write_text(
        trace.read_text("utf-8").replace("12 gauges.csv", "12 ghp_" + "a1B2c3D4e5F6g7H8i9J0" * 2), encoding="utf-8"
    )
    found = rows(tmp_path, "environment_response_pair")
    assert dict(zip(found["step_index"], found["redactions"], strict=True)) == {1: 1, 2: 0, 3: 0, 4: 0}


def test_the_report_states_the_distribution_of_every_measured_part(compiled: Path) -> None:
    scores = xc.open_compilation(compiled).report["scores"]["environment_response_pair"]
    rows = xc.open_compilation(compiled).rows["environment_response_pair"].height
    assert {part: sum(d["bins"]) + d["null"] for part, d in scores.items()} == dict.fromkeys(scores, rows)
    assert "label_strength" not in scores
    # One accepted row has fidelity 0.5, all the others 1.
    assert (scores["fidelity"]["bins"][5], scores["fidelity"]["bins"][9]) == (1, rows - 1)
