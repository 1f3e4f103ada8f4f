"""What a package is made of, and how it becomes files: plain data in, a tree of documents out."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from garden.surfaces import File

Step = dict[str, Any]
Doc = dict[str, Any] | list[Any] | str | bytes
MIME = {"csv": "text/csv", "json": "application/json", "md": "text/markdown"}
START = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)


def user(text: str, role: str = "direct_request") -> Step:
    """A user turn."""
    return {"actor": "user", "action": "user_message", "message_role": role, "input": text}


def step(operation: str, surface: str | None, tool: str | None, given: str | None, came: Any, **more: Any) -> Step:
    """One agent step; `outcome`, `ok`, `why`, `change` and any step field by name."""
    known = {
        "ok": "success",
        "outcome": "step_outcome",
        "why": "reasoning",
        "change": "state_change",
        "obs": "observation",
    }
    base = {"operation": operation, "interaction_surface": surface, "tool": tool, "input": given, "output": came}
    defaults = {"success": True, "step_outcome": "progress"}
    made = base | defaults | {known.get(name, name): value for name, value in more.items()}
    return {"actor": "agent", "action": "agent_step", **{k: v for k, v in made.items() if v is not None}}


def failed(operation: str, surface: str, tool: str, given: str, came: str, **more: Any) -> Step:
    """A step that did not work."""
    return step(operation, surface, tool, given, came, ok=False, outcome="failed", **more)


@dataclass(slots=True)
class Attempt:
    """One attempt: its steps, what it delivered, and how it was judged."""

    steps: list[Step]
    marks: list[float]
    summary: str
    files: dict[str, str]
    passed: bool
    notes: list[str] = field(default_factory=list)
    verification: str = "verified"
    verifier_notes: str = "The figures follow from the files handed over."
    grader: str = "hybrid"
    feedback: tuple[str, str] | None = None
    termination: str = "task_complete"
    system: str | None = None


@dataclass(slots=True)
class Task:
    """One package before it is written."""

    id: str
    ending: str
    title: str
    instruction: str
    subdomain: str
    family: str
    criteria: list[tuple[str, str, float]]
    attempts: dict[str, Attempt]
    max_score: float = 1
    inputs: dict[str, str] = field(default_factory=dict)
    task_id: str = ""
    private: tuple[str, str] | None = None
    hidden: dict[str, str] = field(default_factory=dict)
    lesson: tuple[str, list[str]] | None = None
    labels: bool = False
    loops: list[dict[str, Any]] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.task_id = self.task_id or f"garden-{self.id}"


@dataclass(slots=True)
class Tree:
    """The files of a package, documents still open for change; links by name."""

    task: Task
    docs: dict[str, Doc] = field(default_factory=dict)
    links: dict[str, str] = field(default_factory=dict)

    def trace(self, kind: str) -> Any:
        """The trace document of an attempt."""
        return self.docs[f"attempts/{kind}/agent_trace.json"]

    def step(self, kind: str, number: int) -> Step:
        """A step by its number."""
        return next(s for s in self.trace(kind)["steps"] if s["step"] == number)

    def files(self) -> dict[str, bytes]:
        """All files as bytes."""
        return {ref: rendered(doc) for ref, doc in sorted(self.docs.items())}


def rendered(doc: Doc) -> bytes:
    """Bytes of a document; objects and lists as JSON."""
    if isinstance(doc, bytes):
        return doc
    return (doc if isinstance(doc, str) else json.dumps(doc, ensure_ascii=False, indent=1) + "\n").encode()


def lines(records: list[dict[str, Any]]) -> str:
    """JSON lines."""
    return "".join(json.dumps(r, ensure_ascii=False) + "\n" for r in records)


def build(task: Task) -> Tree:
    """All documents of a package."""
    tree = Tree(task)
    _task_docs(tree)
    _rubric_docs(tree)
    for place, (kind, attempt) in enumerate(task.attempts.items()):
        _attempt_docs(tree, kind, attempt, START + timedelta(hours=place))
        _judgement_docs(tree, kind, attempt)
    _signal_docs(tree)
    _loop_docs(tree)
    _index(tree)
    return tree


def native(task: Task, kind: str) -> str:
    """Attempt id used inside the files."""
    return f"{task.id}-{kind}"


def scored(task: Task, attempt: Attempt) -> float:
    """Weighted marks on the task's scale."""
    total = sum(w * m for (_, _, w), m in zip(task.criteria, attempt.marks, strict=True))
    return round(total * task.max_score, 4)


def _task_docs(tree: Tree) -> None:
    t = tree.task
    names = sorted({name for a in t.attempts.values() for name in a.files})
    tree.docs["task/task_intake_spec.json"] = {
        "task_id": t.task_id,
        "normalized_title": t.title,
        "normalized_instruction": t.instruction,
        "domain": "botanical garden",
        "subdomain": t.subdomain,
        "workflow_family": t.family,
        "output_requirements": [f"write {name}" for name in names],
        "input_requirements": [f"input/{name}" for name in t.inputs],
        "constraints": ["change nothing under input/"] if t.inputs else [],
        "difficulty_tier": "easy",
        "privacy_classification": "synthetic",
        "metadata_json": {"success_criteria": [text for _, text, _ in t.criteria]},
    }
    tree.docs |= {f"input/{name}": text for name, text in t.inputs.items()}
    tree.docs |= {f"hidden_reference/{name}": text for name, text in t.hidden.items()}


def _rubric_docs(tree: Tree) -> None:
    t = tree.task
    items = [
        {
            "rubric_item_id": f"{t.id}-c{n}",
            "criterion_name": name,
            "criterion_description": text,
            "weight": weight,
            "score_min": 0.0,
            "score_max": t.max_score,
            "pass_threshold": round(0.7 * t.max_score, 3),
            "scoring_method": "rubric",
            "worker_visible": not (t.private and n == len(t.criteria)),
            "verifier_only": bool(t.private and n == len(t.criteria)),
        }
        for n, (name, text, weight) in enumerate(t.criteria, 1)
    ]
    tree.docs["rubric/rubric.json"] = {
        "rubric_id": f"{t.id}-rubric",
        "rubric_items": items,
        "total_weight": 1.0,
        "pass_threshold": 0.7,
        "scoring_aggregation": "weighted_sum",
    }
    if t.private:
        tree.docs["rubric/verifier_private_rubric.json"] = {"expected": t.private[0], "note": t.private[1]}


def _opened(value: Any, base: str, tree: Tree) -> Any:
    """A field value with its evidence files replaced by refs, and the files put into the tree."""
    if isinstance(value, File):
        ref = f"{base}/evidence/{value.name}"
        tree.docs[ref] = value.content
        return ref
    return [_opened(v, base, tree) for v in value] if isinstance(value, list) else value


def _attempt_docs(tree: Tree, kind: str, a: Attempt, start: datetime) -> None:
    t, base = tree.task, f"attempts/{kind}"
    steps, turn, at = [], 0, start
    for number, raw in enumerate(a.steps, 1):
        turn += raw["action"] == "user_message"
        end = at + timedelta(seconds=4 + number)
        times = {"started_at": _stamp(at), "ended_at": _stamp(end)}
        steps.append({"step": number, "turn": turn} | {k: _opened(v, base, tree) for k, v in raw.items()} | times)
        at = end + timedelta(seconds=2)
    tree.docs[f"{base}/agent_trace.json"] = {
        "schema_version": "aa-trace-v0.1",
        "trace_id": f"trace-{native(t, kind)}",
        "task": t.instruction,
        "task_id": t.task_id,
        "attempt_id": native(t, kind),
        "attempt_kind": kind if kind in ("baseline", "revised") else "other",
        "attempt_status": "completed",
        "termination_reason": a.termination,
        "started_at": _stamp(start),
        "ended_at": _stamp(at),
        "agent_tools": sorted({s["tool"] for s in steps if "tool" in s}),
        "agent_config": {"agent": "garden-helper", "model": "example-model-1", "temperature": 0.2},
        "steps": steps,
    } | ({"system_prompt": a.system} if a.system else {})
    refs = [f"{base}/artifacts/{name}" for name in a.files]
    tree.docs |= {f"{base}/artifacts/{name}": text for name, text in a.files.items()}
    tree.docs[f"{base}/actual_outputs.json"] = {
        "attempt_id": native(t, kind),
        "attempt_kind": kind,
        "status": "success" if a.passed else "partial",
        "output_summary": a.summary,
        "deliverable_refs": refs,
        "primary_output_ref": refs[0] if refs else None,
        "input_artifact_refs": [f"input/{name}" for name in t.inputs],
    }
    tree.docs[f"{base}/attempt_manifest.json"] = {"attempt_id": native(t, kind), "step_count": len(steps)}


def _stamp(at: datetime) -> str:
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")


def _judgement_docs(tree: Tree, kind: str, a: Attempt) -> None:
    t = tree.task
    notes = a.notes + [""] * (len(t.criteria) - len(a.notes))
    marks = list(zip(t.criteria, a.marks, notes, strict=True))
    weak = [f"{t.id}-c{n}" for n, m in enumerate(a.marks, 1) if m < 0.7]
    refs = [f"attempts/{kind}/artifacts/{name}" for name in a.files]
    tree.docs[f"grading/{kind}_grader_result.json"] = {
        "attempt_id": native(t, kind),
        "final_score": scored(t, a),
        "max_score": t.max_score,
        "passed": a.passed,
        "grader_kind": a.grader,
        "score_reliability": "unverified"
        if a.grader == "structural_guardrail"
        else a.verification.replace("not_run", "unverified"),
        "failed_criteria": weak,
        "evidence_refs": refs,
        "rubric_item_scores": [
            {
                "rubric_item_id": f"{t.id}-c{n}",
                "criterion_name": name,
                "score": round(mark * t.max_score, 4),
                "max_score": t.max_score,
                "passed": mark >= 0.7,
                "reasoning_summary": note or ("Holds." if mark >= 0.7 else "Does not hold."),
                "evidence_refs": refs[:1],
            }
            for n, ((name, _, _), mark, note) in enumerate(marks, 1)
        ],
    }
    ran = a.verification != "not_run"
    tree.docs[f"grading/{kind}_verifier_result.json"] = {
        "attempt_id": native(t, kind),
        "verification_status": a.verification,
        "verifier_notes": a.verifier_notes if ran else "",
        "artifact_contract_ok": bool(refs) if ran else None,
        "evidence_grounding_ok": a.verification == "verified" if ran else None,
        "leakage_check_ok": True if ran else None,
        "issues": [note for note in a.notes if note] if a.verification != "verified" and ran else [],
        "unsupported_claims": [],
        "confidence": 0.9 if ran else None,
    }
    if a.feedback:
        tree.docs[f"feedback/{kind}_evaluator_feedback.json"] = {
            "attempt_id": native(t, kind),
            "feedback_type": "evaluator",
            "feedback_summary": a.feedback[0],
            "actionable_feedback": [a.feedback[1]],
            "failed_rubric_items": weak,
            "suggested_revision": a.feedback[1],
            "revision_priority": "medium",
            "confidence": 0.8,
        }


def _signal_docs(tree: Tree) -> None:
    t = tree.task
    kinds = list(t.attempts)
    tree.docs["package_manifest.json"] = {
        "task_id": t.task_id,
        "selected_attempt_id": native(t, max(kinds, key=lambda k: scored(t, t.attempts[k]))),
        "baseline_attempt_id": native(t, kinds[0]),
        "revised_attempt_ids": [native(t, k) for k in kinds[1:]],
        "loop_stop_reason": "done",
    }
    if t.lesson:
        tree.docs["signals/lesson_pack.json"] = {
            "lesson_summary": t.lesson[0],
            "strategy_lessons": t.lesson[1],
            "common_failure_modes": [n for n in t.attempts[kinds[0]].notes if n],
            "source_attempt_ids": [native(t, k) for k in kinds],
        }
    if t.labels:
        tree.docs["signals/process_supervision.jsonl"] = lines([r for k in kinds for r in _labels(tree, k)])
    if len(kinds) > 1:
        first, last = (scored(t, t.attempts[k]) for k in (kinds[0], kinds[-1]))
        tree.docs["signals/hillclimb_result.json"] = {
            "baseline_score": first,
            "revised_score": last,
            "revision_score_delta": round(last - first, 4),
        }


def _labels(tree: Tree, kind: str) -> list[dict[str, Any]]:
    words = {"failed": "negative", "blocked": "negative", "progress": "neutral", "neutral": "neutral"}
    return [
        {
            "trace_id": tree.trace(kind)["trace_id"],
            "attempt_kind": kind,
            "step": s["step"],
            "step_quality_label": words.get(s["step_outcome"], "positive"),
            "local_reward": {"failed": -0.5, "progress": 0.0}.get(s["step_outcome"], 0.5),
            "label_source": "evaluator",
        }
        for s in tree.trace(kind)["steps"]
        if "step_outcome" in s and s["step"] != 2
    ]


def _loop_docs(tree: Tree) -> None:
    for number, loop in enumerate(tree.task.loops, 1):
        base = f"loops/iterations/{number:03d}"
        for stem, doc in loop.items():
            tree.docs[f"{base}/{stem}.json"] = doc
    if tree.task.loops:
        last = tree.task.loops[-1]["loop_decision"]["verdict"]
        tree.docs["loops/loop_manifest.json"] = {"iterations": len(tree.task.loops), "final_loop_verdict": last}


def _index(tree: Tree) -> None:
    kept = [ref for ref in tree.docs if "/artifacts/" in ref]
    tree.docs["artifacts_index.json"] = [
        {
            "package_relative_path": ref,
            "size_bytes": len(rendered(tree.docs[ref])),
            "content_hash": hashlib.sha256(rendered(tree.docs[ref])).hexdigest(),
            "mime_type": MIME.get(ref.rsplit(".", 1)[-1], "text/plain"),
            "produced_by_attempt_kind": ref.split("/")[1],
        }
        for ref in sorted(kept)
    ]
