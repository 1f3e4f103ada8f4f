"""One attempt of a package: trace, outputs, grade, verdict, feedback."""

from __future__ import annotations

import math
import mimetypes
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec

from expcomp.evidence.refs import is_hidden
from expcomp.sources._contract import attempt_id
from expcomp.sources._values import whole
from expcomp.sources.packages import _coerce as co
from expcomp.sources.packages import _documents as docs
from expcomp.sources.packages import _foreign, _step

if TYPE_CHECKING:
    from expcomp.sources.packages._package import Cited, Package

TEXT_LIMIT = 1 << 18
"""Deliverables up to this many bytes are kept as text in `artifacts.content`."""

_outer = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


@dataclass(slots=True)
class StepRows:
    """Steps of many attempts, as tuples in the order of `COLUMNS`; turned into columns once."""

    rows: list[tuple[Any, ...]] = field(default_factory=list)
    systems: dict[str, str] = field(default_factory=dict)
    evidence: list[Cited] = field(default_factory=list)

    COLUMNS: ClassVar[tuple[str, ...]] = ("attempt_id", "step_index", "refs", "detail", *_step.CORE_ORDER)


class AttemptReader:
    """Reads `attempts/<kind>` and what belongs to it."""

    def __init__(self, package: Package, kind: str, task_id: str, steps: StepRows) -> None:
        self.p = package
        self.kind = kind
        self.task_id = task_id
        self.base = f"attempts/{kind}"
        self.id = attempt_id("package", package.id, task_id, kind)
        self.steps = steps
        self.trace: dict[str, Any] = {}
        self.native_ids: set[str] = set()

    def read(self) -> None:
        """Read everything and add the rows."""
        outputs_ref = f"{self.base}/actual_outputs.json"
        outputs = self.p.read_json(outputs_ref)
        if not self.p.has(outputs_ref):
            self.p.note("missing_file", outputs_ref, "is absent; the attempt has no output list", attempt_id=self.id)
        declared = co.typed(outputs or {}, docs.OUTPUTS, self.p.reporter(outputs_ref))
        produced = self._output_refs(declared, outputs_ref)
        trace_ref = self._trace()
        grade = self._grade()
        self._verdict()
        self._feedback()
        self._artifacts(produced)
        trace = self.trace
        self.native_ids = {x for x in (declared["attempt_id"], trace.get("attempt_id")) if x}
        config = msgspec.json.decode(trace["agent_config"]) if trace.get("agent_config") else {}
        config = config if isinstance(config, dict) else {}
        summary = declared["output_summary"] or trace.get("final_output_summary") or trace.get("output_summary")
        system = trace.get("system_prompt") or self.p.options.system
        if system:
            self.steps.systems[self.id] = system
        self.p.batch.add(
            "attempts",
            attempt_id=self.id,
            package_id=self.p.id,
            attempt_kind=self.kind,
            native_attempt_id=declared["attempt_id"] or trace.get("attempt_id"),
            task_id=self.task_id,
            run_id=trace.get("run_id"),
            arm=self.p.options.arm or self.kind,
            seed=config.get("seed") if isinstance(config.get("seed"), int) else None,
            agent=_text(config.get("agent")),
            model=_text(config.get("model")),
            params=co.json_text(config) if config else None,
            status=self._status(trace, declared),
            stop_reason=trace.get("termination_reason") or declared["status"],
            error_type=declared["error_type"],
            error_message=declared["error_message"],
            started_at=trace.get("started_at"),
            ended_at=trace.get("ended_at"),
            trace_id=trace.get("trace_id"),
            relation="root",
            output_summary=summary,
            trace_ref=trace_ref,
            outputs_ref=self.p.cite(outputs_ref) if outputs is not None else None,
            has_tools=bool(self.p.options.tools),
            has_system_prompt=bool(system),
            source_version=trace.get("schema_version"),
            source_uri=trace_ref or self.base,
            metadata=trace.get("rest"),
            **grade,
        )

    def _status(self, trace: dict[str, Any], outputs: dict[str, Any]) -> str:
        for name, table in docs.STATUS:
            word = (outputs if name == "status" else trace).get(name)
            if isinstance(word, str) and word in table:
                return table[word]
        return "unknown"

    # -- outputs ---------------------------------------------------------------------------------------------------------
    def _output_refs(self, declared: dict[str, Any], file: str) -> list[str]:
        produced: dict[str, None] = {}
        for name in docs.OUTPUT_REFS:
            value = declared[name]
            for raw in value if isinstance(value, list) else [value] if value else []:
                ref = self.p.ref(raw, self.kind, file, name)
                if ref is not None and name in docs.PRODUCED:
                    produced[ref] = None
                elif (
                    ref is not None
                    and name.endswith(("log_refs", "out_ref", "err_ref", "message_ref"))
                    and self.p.has(ref)
                ):
                    self.p.read_text(ref)
        return list(produced)

    def _artifacts(self, produced: list[str]) -> None:
        for ref in produced:
            if not self.p.has(ref) or is_hidden(ref):
                continue
            mime = mimetypes.guess_type(ref)[0]
            text = self.p.read_text(ref) if _is_text(ref, mime) else None
            if text is None:
                self.p.read(ref)  # for its facts; a text was read above
            if not self.p.has(ref):
                continue
            size, digest = self.p.facts(ref)
            self.p.batch.add(
                "artifacts",
                attempt_id=self.id,
                kind="file",
                name=ref.rsplit("/", 1)[-1],
                uri=ref,
                mime=mime,
                bytes=size,
                digest=digest,
                content=text if text is not None and size is not None and size <= TEXT_LIMIT else None,
            )

    # -- trace -----------------------------------------------------------------------------------------------------------
    def _trace(self) -> str | None:
        ref = f"{self.base}/agent_trace.json"
        data = self.p.read(ref)
        if data is not None and self._fast_trace(data, ref):
            return self.p.cite(ref)
        value = self.p.parse(data, ref, expected=(dict, list)) if data is not None else None
        if data is None:
            self.p.note(
                "missing_file", ref, "is absent or unreadable; the attempt has no recorded steps", attempt_id=self.id
            )
        if value is None:
            raw_ref = f"{self.base}/agent_trace.raw.json"
            data = self.p.read(raw_ref)
            value = self.p.parse(data, raw_ref, expected=(dict, list)) if data is not None else None
            if value is None:
                return None
            self.p.note("raw_trace_used", raw_ref, f"stands in for {ref}, which cannot be read", attempt_id=self.id)
            ref = raw_ref
        self._slow_trace(value, ref)
        return self.p.cite(ref)

    def _fast_trace(self, data: bytes, ref: str) -> bool:
        """A well-formed trace, decoded in C. False: nothing was taken, read it the slow way."""
        try:
            outer = _outer(data)
            steps = _step.decode_steps(outer["steps"])
            head = {k: msgspec.json.decode(v) for k, v in outer.items() if k != "steps"}
        except (msgspec.DecodeError, KeyError, RecursionError):
            return False
        if any(action not in _foreign.OURS for action in {_step.action(s) for s in steps}):
            return False
        self._head(head, ref)
        self._add(steps, range(len(steps)), ref)
        return True

    def _slow_trace(self, value: Any, ref: str) -> None:
        if isinstance(value, list):
            self.p.note(
                "trace_is_list",
                ref,
                "is a bare list of steps, expected an object with steps; read as one",
                attempt_id=self.id,
            )
            head: dict[str, Any] = {}
            raw: Any = value
        else:
            key, raw = _foreign.steps_of(value)
            head = {k: v for k, v in value.items() if k != key}
            if key is None:
                self.p.note("no_steps", ref, "holds no list of steps", attempt_id=self.id, severity="error")
                raw = []
        self._head(head, ref)
        steps, positions = [], []
        for pos, item in enumerate(raw):
            if not isinstance(item, dict):
                self.p.note(
                    "not_an_object",
                    ref,
                    f"element {pos + 1} of the steps is a {type(item).__name__}, expected an object; skipped",
                    source_pos=pos + 1,
                    attempt_id=self.id,
                )
                continue
            number = next((n for k in _foreign.NUMBERS if (n := whole(item.get(k))) is not None), pos)
            report = self.p.reporter(ref, number)
            steps.append(_step.lenient(_foreign.normalise(item, report) if _foreign.is_foreign(item) else item, report))
            positions.append(pos)
        self._add(steps, positions, ref)

    def _head(self, head: dict[str, Any], ref: str) -> None:
        self.trace = co.typed(head, docs.TRACE, self.p.reporter(ref))
        known = {*docs.TRACE, "steps", "actual_outputs"}
        self.trace["rest"] = co.rest(
            {k: v for k, v in head.items() if v not in (None, [], {})}, dict.fromkeys(known, "")
        )

    def _add(self, steps: list[Any], positions: Any, file: str) -> None:
        if not steps:
            self.p.note("empty_trace", file, "holds no steps", attempt_id=self.id)
        known, rows = self.p.paths, self.steps.rows
        for pos, step in zip(positions, steps, strict=True):
            refs: dict[str, None] = {}
            for value in _step.ref_values(step):
                if not value:
                    continue
                for raw in (value,) if type(value) is str else value:
                    if raw in known and "hidden" not in raw:
                        self.p.cited[raw] = None
                        refs[raw] = None
                    else:
                        number = pos if step.step is None else step.step
                        ref = self.p.ref(raw, self.kind, file, "ref", number)
                        if ref is not None:
                            refs[ref] = None
            core = _step.core_values(step)
            rows.append((self.id, pos, list(refs), _step.detail(step), *core))

    # -- judgements ------------------------------------------------------------------------------------------------------
    def _grade(self) -> dict[str, Any]:
        ref = f"grading/{self.kind}_grader_result.json"
        doc = self.p.read_json(ref)
        if doc is None:
            return {}
        cited = self.p.cite(ref)
        report = self.p.reporter(ref)
        grade = co.typed(doc, docs.GRADE, report)
        # A scale that nobody states is not guessed at: `--score-scale` gives it.
        raw = next((doc[k] for k in ("final_score", "score") if doc.get(k) is not None), None)
        low, high = grade["min_score"] or 0.0, grade["max_score"]
        value, issue = usable_score(raw, low, high, report)
        word = grade["grader_kind"] or grade["score_source"]
        kind = docs.GRADE_KIND.get(word or "", "heuristic")
        reliability = docs.RELIABILITY.get(grade["score_reliability"] or grade["verifier_status"] or "")
        if grade["hidden_reference_leaked"]:
            self.p.note(
                "hidden_reference_leaked", ref, "the grader says that the hidden reference leaked", attempt_id=self.id
            )
        refs = [r for raw_ref in grade["evidence_refs"] if (r := self.p.ref(raw_ref, self.kind, ref, "evidence_refs"))]
        shared = {"kind": kind, "grader": grade["model"] or word, "reliability": reliability, "source_ref": cited}
        self.p.batch.add(
            "grades",
            attempt_id=self.id,
            name="final_score",
            value=value,
            passed=grade["passed"] if issue is None else None,
            rationale=grade["reasoning_summary"] or grade["grader_notes"],
            is_primary=True,
            valid=issue is None,
            invalid_reason=issue,
            score_min=low,
            score_max=high,
            failed_criteria=grade["failed_criteria"],
            refs=refs,
            metadata=co.rest(doc, {**docs.GRADE, "rubric_item_scores": "", "final_score": "", "score": ""}),
            **shared,
        )
        self._criteria(doc.get("rubric_item_scores"), ref, shared)
        usable = issue is None and value is not None and high is not None
        return {
            "score": value,
            "score_min": low,
            "score_max": high,
            "score_norm": (value - low) / (high - low) if usable and value is not None and high is not None else None,
            "passed": grade["passed"] if issue is None else None,
            "score_valid": issue is None,
            "score_issue": issue,
            "grade_kind": kind,
            "reliability": reliability,
            "grade_ref": cited,
        }

    def _criteria(self, items: Any, ref: str, shared: dict[str, Any]) -> None:
        for pos, item in enumerate(items if isinstance(items, list) else []):
            report = self.p.reporter(ref, pos)
            if not isinstance(item, dict):
                report(
                    "rubric_item_scores", "not_an_object", f"found {type(item).__name__}, expected an object; skipped"
                )
                continue
            c = co.typed(item, docs.CRITERION, report)
            value, issue = usable_score(item.get("score"), 0.0, c["max_score"], report)
            self.p.batch.add(
                "grades",
                attempt_id=self.id,
                name=c["rubric_item_id"] or f"criterion_{pos}",
                value=value,
                label=c["failure_mode"],
                passed=c["passed"],
                rationale=c["reasoning_summary"] or c["notes"],
                is_primary=False,
                valid=issue is None,
                invalid_reason=issue,
                score_min=0.0,
                score_max=c["max_score"],
                rubric_item_id=c["rubric_item_id"],
                refs=[r for raw in c["evidence_refs"] if (r := self.p.ref(raw, self.kind, ref, "evidence_refs", pos))],
                metadata=co.rest(item, docs.CRITERION),
                **shared,
            )

    def _verdict(self) -> None:
        ref = f"grading/{self.kind}_verifier_result.json"
        doc = self.p.read_json(ref)
        if doc is None:
            return
        cited = self.p.cite(ref)
        v = co.typed(doc, docs.VERDICT, self.p.reporter(ref))
        status = v["verification_status"]
        self.p.batch.add(
            "grades",
            attempt_id=self.id,
            name="verification",
            value=v["confidence"],
            label=status,
            passed={"verified": True, "failed": False}.get(status or ""),
            kind="verifier",
            grader=v["model"],
            rationale=v["verifier_notes"],
            is_primary=False,
            valid=status not in (None, "not_run"),
            invalid_reason=None if status not in (None, "not_run") else "label_not_run",
            score_min=0.0,
            score_max=1.0,
            reliability=docs.RELIABILITY.get(status or ""),
            refs=[],
            source_ref=cited,
            metadata=co.json_text({k: x for k, x in v.items() if x not in (None, [])}),
        )

    def _feedback(self) -> None:
        ref = f"feedback/{self.kind}_evaluator_feedback.json"
        doc = self.p.read_json(ref)
        if doc is None:
            return
        cited = self.p.cite(ref)
        f = co.typed(doc, docs.FEEDBACK, self.p.reporter(ref))
        self.p.batch.add(
            "feedback",
            package_id=self.p.id,
            attempt_id=self.id,
            kind="evaluator",
            reviewer_type=f["feedback_type"],
            simulated=f["mentor_evaluator_status"] == "unavailable",
            content=f["feedback_summary"],
            suggestions=f["actionable_feedback"],
            failed_items=f["failed_rubric_items"],
            source_ref=cited,
            metadata=co.rest(doc, docs.FEEDBACK),
        )


def usable_score(raw: Any, low: float, high: float | None, report: co.Report) -> tuple[float | None, str | None]:
    """A score and, when it must not be used, why: score_not_finite, score_out_of_scale, label_missing, scale_unknown."""
    if isinstance(raw, float) and not math.isfinite(raw):
        report("final_score", "score_not_finite", f"found {raw}, expected a finite number; no label")
        return None, "score_not_finite"
    value = co.as_real(raw, "final_score", report)
    if value is None:
        return None, "label_missing"
    if high is None:
        return value, "scale_unknown"
    if not low < high or not low <= value <= high or not math.isfinite(high - low):
        report("final_score", "score_out_of_scale", f"found {value}, the scale is {low}..{high}; no label")
        return value, "score_out_of_scale"
    return value, None


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _is_text(ref: str, mime: str | None) -> bool:
    known = (
        ".csv",
        ".tsv",
        ".json",
        ".jsonl",
        ".md",
        ".txt",
        ".py",
        ".sh",
        ".sql",
        ".svg",
        ".html",
        ".xml",
        ".yaml",
        ".yml",
        ".toml",
    )
    return bool(mime and mime.startswith("text/")) or ref.lower().endswith(known)
