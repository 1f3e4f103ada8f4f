"""A small package folder for tests, with knobs; and what tests ask of an output folder again and again."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
SCORES = {"baseline": 0.4, "revised": 0.9}
RUN_CLI = (sys.executable, "-m", "expcomp.cli.main")

# One step of each kind that the tests look at: a user turn, a shell call, an API call that fails, its retry, a closing word.
STEPS: tuple[dict[str, Any], ...] = (
    {
        "step": 1,
        "turn": 1,
        "actor": "user",
        "action": "user_message",
        "input": "Count the gauges.",
        "started_at": "2026-01-02T03:04:00Z",
    },
    {
        "step": 2,
        "turn": 1,
        "actor": "agent:worker",
        "action": "agent_step",
        "tool": "bash",
        "operation": "execute",
        "interaction_surface": "cli",
        "environment_domain": "terminal",
        "observation": "The shell is idle.",
        "input": "wc -l gauges.csv",
        "output": "12 gauges.csv",
        "state_change": "The count is known.",
        "command": "wc -l gauges.csv",
        "exit_code": 0,
        "success": True,
        "step_outcome": "progress",
        "started_at": "2026-01-02T03:04:01Z",
        "ended_at": "2026-01-02T03:04:03Z",
    },
    {
        "step": 3,
        "turn": 1,
        "actor": "agent:worker",
        "action": "agent_step",
        "tool": "http",
        "operation": "read",
        "interaction_surface": "api",
        "environment_domain": "api",
        "input": "GET /v2/gauges",
        "output": "no answer",
        "api_endpoint": "/v2/gauges",
        "api_method": "GET",
        "http_status": 500,
        "success": False,
        "step_outcome": "failed",
        "error_type": "Timeout",
        "error_message": "no answer in time",
        "started_at": "2026-01-02T03:04:04Z",
        "ended_at": "2026-01-02T03:04:05Z",
    },
    {
        "step": 4,
        "turn": 1,
        "actor": "agent:worker",
        "action": "agent_step",
        "tool": "http",
        "operation": "read",
        "interaction_surface": "api",
        "environment_domain": "api",
        "input": "GET /v2/gauges?retry=1",
        "output": '{"items": 12}',
        "api_endpoint": "/v2/gauges",
        "api_method": "GET",
        "http_status": 200,
        "success": True,
        "step_outcome": "corrected",
        "retry_of": 3,
        "started_at": "2026-01-02T03:04:06Z",
        "ended_at": "2026-01-02T03:04:07Z",
    },
    {
        "step": 5,
        "turn": 1,
        "actor": "agent:worker",
        "action": "agent_step",
        "operation": "answer",
        "output": "There are twelve gauges.",
        "success": True,
        "step_outcome": "completed",
        "started_at": "2026-01-02T03:04:08Z",
        "ended_at": "2026-01-02T03:04:09Z",
    },
)


def put(path: Path, value: Any) -> Path:
    """Write a JSON document (NaN allowed, as sloppy writers do) or a text."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(value if isinstance(value, str) else json.dumps(value, indent=1), encoding="utf-8")
    return path


def edit(path: Path, change: Callable[[Any], Any]) -> None:
    """Read a JSON document, change it in place (or return another), write it."""
    value = json.loads(path.read_text("utf-8"))
    put(path, value if (new := change(value)) is None else new)


def package(
    parent: Path,
    name: str = "pkg_a",
    *,
    task_id: str = "task_a",
    scores: Mapping[str, float | None] = SCORES,
    passed: Mapping[str, bool] | None = None,
    max_score: float = 1.0,
    steps: Sequence[Mapping[str, Any]] = STEPS,
    step_count: int | None = None,
    instruction: str = "Count the gauges and say how many there are.",
    grader: str = "model_judge",
    reliability: str = "verified",
    private_item: bool = False,
    loops: bool = True,
    faults: Sequence[str] = (),
) -> Path:
    """Write one package below `parent` and return its folder.

    Args:
        parent: Where the package folder goes.
        name: Folder name, which is the package id.
        task_id: Task the package declares.
        scores: Raw score by attempt kind; None writes no grade.
        passed: Verdict by kind; by default a score of at least 0.7 of the scale.
        max_score: Upper end of the scale.
        steps: Steps of every attempt; the revised one says what it is in its last word.
        step_count: Repeat the agent steps, renumbered, up to this many.
        instruction: What was asked.
        grader: Kind of grader.
        reliability: What the verifier said of the grade.
        private_item: Add a second rubric item that only the verifier may see.
        loops: Add two loop iterations.
        faults: Names in FAULTS; each is applied to the attempt `baseline` (or the first).
    """
    root = parent / name
    put(
        root / "task/task_intake_spec.json",
        {
            "task_id": task_id,
            "normalized_title": "Gauges",
            "normalized_instruction": instruction,
            "domain": "field work",
            "subdomain": "gauges",
            "workflow_family": "counting",
            "output_requirements": ["report.md"],
        },
    )
    items = [_item("counted", "The count is right.", hidden=False)]
    if private_item:
        items.append(_item("secret_total", "The hidden total is matched.", hidden=True))
    put(root / "rubric/rubric.json", {"rubric_id": "rubric_a", "rubric_items": items})
    for number, (kind, score) in enumerate(scores.items()):
        ok = (passed or {}).get(kind, score is not None and score >= 0.7 * max_score)
        _attempt(root, kind, number, task_id, _grown(steps, step_count, kind))
        if score is not None:
            _judgement(root, kind, score, max_score, items, ok=ok, grader=grader, reliability=reliability)
    if loops:
        _loops(root, list(scores))
    first = "baseline" if "baseline" in scores else next(iter(scores))
    for fault in faults:
        FAULTS[fault](root, first)
    return root


def _item(name: str, text: str, *, hidden: bool) -> dict[str, Any]:
    return {
        "rubric_item_id": name,
        "criterion_name": name,
        "criterion_description": text,
        "weight": 1.0,
        "score_min": 0.0,
        "score_max": 1.0,
        "pass_threshold": 0.7,
        "worker_visible": not hidden,
        "verifier_only": hidden,
        "required_artifacts": ["report.md"],
    }


def _grown(steps: Sequence[Mapping[str, Any]], count: int | None, kind: str) -> list[dict[str, Any]]:
    out = [dict(s) for s in steps]
    body = [s for s in out if s["action"] != "user_message"]
    number = len(out)
    while count is not None and len(out) < count:
        number += 1
        more = dict(body[number % len(body)])
        more |= {
            "step": number,
            "input": f"{more.get('input', 'say')} #{number}",
            "output": f"{more['output']} #{number}",
        }
        more.pop("retry_of", None)
        out.append(more)
    if out and out[-1]["action"] != "user_message":
        out[-1]["output"] = f"{out[-1]['output']} ({kind})"
    return out


def _attempt(root: Path, kind: str, number: int, task_id: str, steps: Sequence[Mapping[str, Any]]) -> None:
    base = f"attempts/{kind}"
    report = f"{base}/artifacts/report.md"
    put(root / report, f"# Report\n\nTwelve gauges, says {kind}.\n")
    put(
        root / base / "agent_trace.json",
        {
            "schema_version": "1",
            "trace_id": f"trace_{task_id}_{kind}",
            "attempt_id": f"{task_id}_{kind}",
            "attempt_kind": kind,
            "termination_reason": "task_complete",
            "started_at": f"2026-01-02T{3 + number:02}:04:00Z",
            "ended_at": f"2026-01-02T{3 + number:02}:30:00Z",
            "system_prompt": "Work in small recorded steps.",
            "agent_config": {"agent": "worker", "model": "model-1"},
            "steps": list(steps),
        },
    )
    put(
        root / base / "actual_outputs.json",
        {
            "attempt_id": f"{task_id}_{kind}",
            "attempt_kind": kind,
            "status": "success",
            "output_summary": f"Counted the gauges ({kind}).",
            "deliverable_refs": [report],
        },
    )


def _judgement(
    root: Path,
    kind: str,
    score: float,
    top: float,
    items: list[dict[str, Any]],
    *,
    ok: bool,
    grader: str,
    reliability: str,
) -> None:
    failed = [] if ok else [i["rubric_item_id"] for i in items]
    put(
        root / f"grading/{kind}_grader_result.json",
        {
            "grader_kind": grader,
            "score_reliability": reliability,
            "final_score": score,
            "max_score": top,
            "passed": ok,
            "failed_criteria": failed,
            "reasoning_summary": "Looked at the report.",
            "evidence_refs": [f"attempts/{kind}/artifacts/report.md"],
            "rubric_item_scores": [
                {
                    "rubric_item_id": i["rubric_item_id"],
                    "score": score / top,
                    "max_score": 1.0,
                    "passed": ok,
                    "reasoning_summary": "As the total.",
                }
                for i in items
            ],
        },
    )
    put(
        root / f"grading/{kind}_verifier_result.json",
        {
            "verification_status": "verified",
            "confidence": 0.9,
            "verifier_notes": "Recounted.",
            "issues": [],
            "unsupported_claims": [],
        },
    )
    put(
        root / f"feedback/{kind}_evaluator_feedback.json",
        {
            "feedback_type": "evaluator",
            "feedback_summary": f"Feedback on {kind}.",
            "actionable_feedback": ["Count twice."],
            "failed_rubric_items": failed,
        },
    )


def _loops(root: Path, kinds: list[str]) -> None:
    for number, kind in enumerate(kinds, 1):
        base = root / f"loops/iterations/{number:04}"
        put(
            base / "review_packet.json",
            {
                "loop_id": "loop_a",
                "loop_iteration": number,
                "mode": "review",
                "current_goal": "count",
                "current_attempt_summary": f"Counted ({kind}).",
                "actual_outputs_ref": f"attempts/{kind}/actual_outputs.json",
                "rubric_status": {"counted": number > 1},
                "verifier_status": {"status": "verified"},
                "known_failures": ["miscounted"],
            },
        )
        put(
            base / "reviewer_feedback.json",
            {
                "reviewer_type": "human_expert",
                "verdict": "revise",
                "feedback": "Count twice.",
                "score": 0.5,
                "revision_instructions": ["again"],
            },
        )
        put(
            base / "revision_plan.json",
            {
                "loop_id": "loop_a",
                "issues_to_fix": ["miscounted"],
                "verification_steps": ["recount"],
                "feedback_applied": True,
            },
        )
        put(
            base / "loop_decision.json",
            {
                "loop_id": "loop_a",
                "loop_iteration": number,
                "decision": "continue",
                "verdict": "revise",
                "score": 0.5,
                "continue_loop": number == 1,
            },
        )
        put(
            base / "contract_verification.json",
            {
                "contract_verification_passed": True,
                "actual_outputs_json_ok": True,
                "failure_count": 0,
                "checked": ["report.md"],
            },
        )
        put(
            base / "contract_repair_plan.json",
            {
                "repair_id": f"repair_{number}",
                "repair_required": True,
                "issues_to_fix": ["count"],
                "files_to_modify": ["report.md"],
                "repair_steps": ["recount"],
            },
        )
        put(
            base / "contract_repair_result.json",
            {"repair_id": f"repair_{number}", "before_score": 0.4, "after_score": 0.9, "regression_detected": False},
        )


def _on_trace(change: Callable[[dict[str, Any]], Any]) -> Callable[[Path, str], None]:
    return lambda root, kind: edit(root / f"attempts/{kind}/agent_trace.json", change)


def _on_grade(**fields: Any) -> Callable[[Path, str], None]:
    return lambda root, kind: edit(root / f"grading/{kind}_grader_result.json", lambda doc: doc.update(fields))


def _cut(root: Path, kind: str) -> None:
    path = root / f"attempts/{kind}/agent_trace.json"
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 10])


def _cites(ref: str) -> Callable[[Path, str], None]:
    return _on_trace(lambda doc: doc["steps"][1].update(evidence_refs=[ref]))


FAULTS: Mapping[str, Callable[[Path, str], None]] = {
    "missing_ref": _cites("attempts/baseline/artifacts/not_there.csv"),
    "hidden_ref": _cites("hidden/reference.json"),
    "truncated_trace": _cut,
    "empty_trace": _on_trace(lambda doc: doc.update(steps=[])),
    "duplicate_step": _on_trace(lambda doc: doc["steps"].insert(3, dict(doc["steps"][1]))),
    "nan_score": _on_grade(final_score=float("nan")),
    "over_scale": _on_grade(final_score=7.5),
    "no_scale": _on_grade(max_score=None),
    "not_run": _on_grade(score_reliability="not_run"),
}


def compile_cli(
    *args: str | os.PathLike[str], env: Mapping[str, str] | None = None, cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run the command line in a process of its own."""
    return subprocess.run(
        [*RUN_CLI, *map(os.fspath, args)],
        capture_output=True,
        text=True,
        env=environment(env),
        cwd=cwd,
        check=False,
        timeout=120,
    )


def environment(more: Mapping[str, str] | None = None) -> dict[str, str]:
    """Environment of a child that imports this checkout."""
    return {**os.environ, "PYTHONPATH": os.fspath(ROOT), "COLUMNS": "200", **(more or {})}


def tree(folder: Path) -> dict[str, str]:
    """Digest of every file below a folder, by relative path."""
    return {
        p.relative_to(folder).as_posix(): hashlib.sha256(p.read_bytes()).hexdigest()
        for p in sorted(folder.rglob("*"))
        if p.is_file()
    }


def published(folder: Path) -> dict[str, str]:
    """`tree` without the clocks: report.json loses its `run`, and only that."""
    files = tree(folder)
    report = json.loads((folder / "report.json").read_text("utf-8"))
    del report["run"]
    files["report.json"] = hashlib.sha256(json.dumps(report).encode()).hexdigest()
    return files
