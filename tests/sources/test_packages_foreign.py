"""Traces of other recorders inside a package: their names become ours, nothing is invented and nothing is lost."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import expcomp as xc
from tests.helpers import edit, package, put

BASH = {"action": "bash", "inputs": {"cmd": "ls"}, "outputs": {"stdout": "a b", "exit_code": "0"}}


def read(folder: Path, trace: Any) -> tuple[list[dict[str, Any]], list[str]]:
    """Steps of the first attempt with the values they have, and the codes of what was reported."""
    root = package(folder, "pkg_a", scores={"baseline": 0.9}, loops=False)
    put(root / "attempts/baseline/agent_trace.json", trace)
    ts = xc.read_traces(folder)
    steps = [{k: v for k, v in row.items() if v is not None} for row in ts.steps.to_dicts()]
    return steps, ts.diagnostics["code"].to_list()


@pytest.mark.parametrize(
    "trace",
    [
        [BASH],
        *({key: [BASH]} for key in ("steps", "trace_steps", "trace", "records", "events", "actions")),
        *({"steps": {key: [BASH]}} for key in ("steps", "events", "actions")),
    ],
    ids=lambda t: "list" if isinstance(t, list) else json.dumps(t)[:24],
)
def test_steps_are_found_and_taken_wherever_they_lie(trace: Any, tmp_path: Path) -> None:
    (step,), _ = read(tmp_path, trace)
    assert (step["tool"], step["operation"], step["input"], step["output"]) == ("bash", "execute", "ls", "a b")
    assert json.loads(step["detail"])["exit_code"] == 0


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ({"action": "run", "input": "make"}, {"operation": "execute", "input": "make"}),
        ({"action": "frobnicate", "input": "x"}, {"operation": "other", "tool": "frobnicate"}),
        ({"action": "agent_step", "operation": "shell", "index": 4}, {"operation": "execute", "step_number": 4}),
        ({"action": "think", "decision_summary": "because"}, {"operation": "analyze", "reasoning": "because"}),
        ({"action": "bash", "outputs": {"stderr": "boom", "exit_code": 2}}, {"output": "boom"}),
        ({"action": "bash", "outputs": {"stdout": "a", "stderr": "b"}}, {"output": '{"stderr":"b","stdout":"a"}'}),
        ({"action": "bash", "stdout_summary": "ten lines"}, {"output": "ten lines"}),
        ({"action": "bash", "inputs": {"commands": ["a", "b"]}}, {"input": "a\nb"}),
        ({"action": "bash", "inputs": {"cmd": "a", "cwd": "b"}}, {"input": '{"cmd":"a","cwd":"b"}'}),
        ({"action": "finalize", "output": {"answer": 7}}, {"operation": "answer", "output": '{"answer":7}'}),
        ({"action": "run", "state_changes": ["one", {"two": 2}]}, {"state_after": 'one\n{"two":2}'}),
        ({"action": "run", "status": "OK", "success": "true"}, {"outcome": "completed", "success": True}),
        ({"action": "run", "outcome": "odd"}, {"outcome": "neutral"}),
        ({"action": "run", "actor": {"role": "helper", "agent_id": "a9"}}, {"actor": "helper"}),
        ({"action": "run", "artifacts": ["artifacts/report.md"]}, {"refs": ["attempts/baseline/artifacts/report.md"]}),
    ],
)
def test_a_name_of_theirs_means_one_of_ours(raw: dict[str, Any], expected: dict[str, Any], tmp_path: Path) -> None:
    (step,), _ = read(tmp_path, [raw])
    assert {k: step.get(k) for k in expected} == expected


def test_what_has_no_counterpart_is_kept_under_its_own_name(tmp_path: Path) -> None:
    raw = {
        "action": "create_file",
        "operation": "conjure",
        "inputs": "x",
        "decision_summary": "d",
        "reasoning": "r",
        "artifacts": [{"path": "p1"}],
        "status": "halfway",
        "actor": {"role": "helper", "mood": "calm"},
        "stdout_summary": "s1",
        "outputs": "o1",
        "mystery": {"deep": [1]},
    }
    (step,), codes = read(tmp_path, [raw])
    extra = json.loads(json.loads(step["detail"])["extra"])
    assert extra == {
        "native_action": "create_file",
        "native_operation": "conjure",
        "decision_summary": "d",
        "artifacts": [{"path": "p1"}],
        "status": "halfway",
        "actor_object": {"mood": "calm"},
        "stdout_summary": "s1",
        "mystery": {"deep": [1]},
    }
    assert (step["operation"], step["input"], step["output"], step["reasoning"]) == ("other", "x", "o1", "r")
    assert "unknown_field" in codes


def test_nothing_is_invented_for_a_bare_step(tmp_path: Path) -> None:
    (step,), _ = read(tmp_path, [{"action": "run"}])
    invented = {
        "input",
        "output",
        "tool",
        "reasoning",
        "outcome",
        "success",
        "state_before",
        "caused_by",
        "step_number",
    }
    assert not invented & step.keys()


def test_causes_that_are_no_earlier_step_are_dropped_of_theirs_and_kept_of_ours(tmp_path: Path) -> None:
    steps, codes = read(tmp_path / "theirs", [{**BASH, "index": n, "caused_by": [1, 2, 9]} for n in (1, 2, 3)])
    assert [s.get("caused_by") for s in steps] == [[], [1], [1, 2]]
    assert codes.count("forward_cause") == 3

    root = package(tmp_path / "ours", "pkg_a", scores={"baseline": 0.9}, loops=False)
    edit(root / "attempts/baseline/agent_trace.json", lambda d: d["steps"][1].update(caused_by=[1, 4]))
    ts = xc.read_traces(tmp_path / "ours")
    assert ts.steps["caused_by"].to_list()[1] == [1, 4]
    assert ts.diagnostics["code"].to_list() == ["forward_cause"]


@pytest.mark.parametrize("steps", [[{"step": 1, "action": "bash", "input": "ls", "output": "a"}]])
def test_free_words_in_a_well_formed_trace_are_read_as_well(steps: list[dict[str, Any]], tmp_path: Path) -> None:
    (step,), _ = read(tmp_path, {"trace_id": "t", "steps": steps})
    assert (step["tool"], step["operation"], step["surface"]) == ("bash", "execute", "cli")


def test_odd_folders_of_iterations_cost_only_themselves(tmp_path: Path) -> None:
    root = package(tmp_path, "pkg_a")
    loops = root / "loops/iterations"
    for name in ("1", "²", "x", "9" * 30, "10"):
        put(loops / name / "review_packet.json", {"loop_id": "loop_a", "current_goal": name})
    ts = xc.read_traces(tmp_path)
    assert ts.loops["loop_iteration"].to_list() == [1, 2, 10]
    odd = ts.diagnostics.filter(pl.col("code") == "odd_folder")["source_uri"].to_list()
    assert sorted(odd) == sorted(f"loops/iterations/{n}" for n in ("1", "²", "x", "9" * 30))


@pytest.mark.parametrize(
    ("given", "norm", "issue"),
    [
        ({"final_score": None, "score": 0.4}, 0.4, None),
        ({"final_score": 1.7e308, "min_score": -1.7e308, "max_score": 1.7e308}, None, "score_out_of_scale"),
    ],
)
def test_a_score_stands_under_either_name_and_needs_a_scale_with_a_width(
    given: dict[str, Any], norm: float | None, issue: str | None, tmp_path: Path
) -> None:
    root = package(tmp_path, "pkg_a", scores={"baseline": 0.9})
    edit(root / "grading/baseline_grader_result.json", lambda d: d.update(given))
    found = xc.read_traces(tmp_path).attempts.select("score_norm", "score_issue").row(0)
    assert found == (norm, issue)
