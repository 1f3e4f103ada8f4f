"""MLflow: traces as `Trace.to_dict` writes them, rows of `search_traces` (JSON lines, Parquet), and the span artifact alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from expcomp.sources._contract import Batch, Found, Frames, ReadOptions, Unit
from expcomp.sources._units import file_unit
from expcomp.sources._values import items, moment, obj, text
from expcomp.sources.telemetry._chat import schemas
from expcomp.sources.telemetry._otlp import load_records, shown, tell
from expcomp.sources.telemetry._rows import write
from expcomp.sources.telemetry._spans import (
    AGENT,
    EVALUATOR,
    LLM,
    OTHER,
    TOOL,
    Dialect,
    Grade,
    Span,
    Trace,
    identifier,
    integer,
    nanoseconds,
    real,
)
from expcomp.sources.telemetry._tables import columns
from expcomp.sources.telemetry._turns import unwrap
from expcomp.sources.telemetry.otel import folder_group

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from expcomp.sources._chat import Row
    from expcomp.sources._look import Look
    from expcomp.sources.telemetry._spans import Path as Place


def _usage(*names: str) -> tuple[Place, ...]:
    return tuple(("mlflow.chat.tokenUsage", name) for name in names)


MLFLOW = Dialect(
    fields={
        "kind": ("mlflow.spanType",),
        "input": ("mlflow.spanInputs", "mlflow.chat.messages"),
        "output": ("mlflow.spanOutputs",),
        "tools": ("mlflow.chat.tools", "tools"),
        "model": ("mlflow.llm.model",),
        "request_model": ("model",),
        "provider": ("mlflow.llm.provider",),
        "input_tokens": _usage("input_tokens"),
        "output_tokens": _usage("output_tokens"),
        "total_tokens": _usage("total_tokens"),
        "cached_input_tokens": _usage("cache_read_input_tokens", "cached_input_tokens"),
        "cache_write_tokens": _usage("cache_creation_input_tokens"),
        "reasoning_tokens": _usage("reasoning_tokens"),
        "cost_usd": (("mlflow.llm.cost", "total_cost"),),
        "call_id": ("tool_call_id", "call_id"),
        "arguments": ("mlflow.spanInputs",),
        "result": ("mlflow.spanOutputs",),
    },
    kinds={"agent": AGENT, "chat_model": LLM, "llm": LLM, "tool": TOOL, "evaluator": EVALUATOR}
    | dict.fromkeys("chain retriever parser embedding reranker memory workflow task guardrail unknown".split(), OTHER),
)
"""A span, its attributes parsed: each is JSON text."""

_CODES = {
    "STATUS_CODE_OK": "OK",
    "STATUS_CODE_ERROR": "ERROR",
    "STATUS_CODE_UNSET": "UNSET",
    "OK": "OK",
    "ERROR": "ERROR",
}
_KINDS = {"HUMAN": "human", "LLM_JUDGE": "model_judge", "AI_JUDGE": "model_judge", "CODE": "verifier"}
_SPAN = frozenset({"span_id", "context"})
_HEADERS = ("trace_metadata", "request_metadata")
_ROW_IDS = frozenset({"trace_id", "request_id"})
_ROW_SPANS = frozenset({"spans", "trace"})
_ROW_HEADERS = frozenset({*_HEADERS, "execution_time_ms", "execution_duration"})
"""Columns of `search_traces`, one of each kind."""


class Mlflow:
    """Reader of MLflow traces."""

    name = "mlflow"
    summary = "MLflow traces: JSON or JSONL of {info, data}, or rows of search_traces as JSONL or Parquet"
    carries = {  # noqa: RUF012 - read only, by contract of the protocol
        "system_prompt": "yes",
        "tools": "yes",
        "reasoning": "some",
        "verdict": "assessments",
        "trial": "tags",
        "tokens": "yes",
        "cost": "yes",
        "times": "yes",
        "token_ids": "no",
    }

    def claims_folder(self, folder: Path, names: frozenset[str]) -> bool:
        """Never: traces are files."""
        return False

    def claims_file(self, look: Look) -> bool:
        """An object with `info` and `data` of a trace, a row with its spans, or the artifact that holds spans alone."""
        if {"info", "data"} <= look.keys and look.at("info") & {"trace_id", "request_id"}:
            return True
        keys = columns(look)
        if keys & _ROW_IDS and keys & _ROW_SPANS and keys & _ROW_HEADERS:
            return True
        spans = look.at("spans")
        return bool(spans & _SPAN) and "attributes" in spans and b"mlflow." in look.head

    def units(self, path: Path, root: Path, found: Found) -> None:
        """One unit a file; files of a folder are one group."""
        file_unit(self.name, path, root, found, folder_group(self.name, path, root))

    def read(self, units: Sequence[Unit], options: ReadOptions) -> Frames:
        """Read traces."""
        batch = Batch()
        traces: dict[str, Trace] = {}
        for unit in units:
            loaded = load_records(batch, unit, options)
            for pos, record in loaded[0] if loaded is not None else ():
                trace = _trace(unit, pos, record, loaded[1] if loaded is not None else "")
                if trace is None:
                    detail = f"record {pos} is {shown(record)}, expected a trace with spans; left out"
                    tell(batch, unit, pos, "bad_record", detail)
                elif trace.ident in traces:
                    tell(batch, unit, pos, "duplicate_trace", f"record {pos} repeats trace {trace.ident}; left out")
                else:
                    traces[trace.ident] = trace
        write(batch, self.name, list(traces.values()), options)
        return batch.frames()


def _pairs(value: Any) -> Row:
    """Tags or metadata: an object, or a list of key and value."""
    value = unwrap(value)
    if isinstance(value, list):
        return {str(obj(v).get("key")): obj(v).get("value") for v in value}
    return obj(value)


def _trace(unit: Unit, pos: int, record: Any, digest: str) -> Trace | None:
    entry = obj(record)
    entry = obj(unwrap(entry.get("trace"))) or entry
    info = obj(entry.get("info")) or {k: v for k, v in entry.items() if k not in ("spans", "data")}
    raw = unwrap(obj(unwrap(entry.get("data"))).get("spans", entry.get("spans")))
    spans = [s for s in map(unwrap, items(raw)) if isinstance(s, dict)]
    if not spans:
        return None
    ident = (
        text(info.get("trace_id"))
        or text(info.get("request_id"))
        or identifier(_of(spans[0], "trace_id"), 16)
        or f"record {pos}"
    )
    trace = Trace(ident)
    for span in spans:
        made = _span(span, unit, pos, digest, ident)
        if made is not None:
            trace.spans.append(made)
    if not trace.spans:
        return None
    meta: Row = {}
    for name in _HEADERS:
        meta |= _pairs(info.get(name))
    tags = _pairs(info.get("tags"))
    cost = obj(unwrap(meta.get("mlflow.trace.cost")))
    tokens = obj(unwrap(meta.get("mlflow.trace.tokenUsage")))
    trace.header = {
        "word": (text(info.get("state")) or text(info.get("status")) or "").rpartition(".")[2] or None,
        "session": text(meta.get("mlflow.trace.session")),
        "user": text(meta.get("mlflow.trace.user")),
        "name": text(tags.get("mlflow.traceName")),
        "run": text(meta.get("mlflow.sourceRun")),
        "version": text(meta.get("mlflow.trace_schema.version")),
        "sums": {
            "input_tokens": integer(tokens.get("input_tokens")),
            "output_tokens": integer(tokens.get("output_tokens")),
            "cost_usd": real(cost.get("total_cost")),
        },
    }
    skipped = ("mlflow.traceInputs", "mlflow.traceOutputs", "mlflow.trace.sizeStats", "mlflow.artifactLocation")
    trace.labels = [{k: v for k, v in found.items() if k not in skipped} for found in (tags, meta)]
    by_id = {s.ident: s for s in trace.spans}
    for raw_grade in map(unwrap, items(unwrap(info.get("assessments")))):
        if not isinstance(raw_grade, dict):
            continue
        expected = obj(raw_grade.get("expectation"))
        if expected and not obj(raw_grade.get("feedback")):
            # What the answer should have been belongs to the task; it grades nothing.
            target = trace.header.setdefault("target", {})
            target[str(raw_grade.get("assessment_name"))] = expected.get("value", expected.get("serialized_value"))
            continue
        on = by_id.get(identifier(raw_grade.get("span_id"), 8) or "")

        (on.grades if on is not None and on.parent is not None else trace.grades).append(_grade(raw_grade, unit))
    return trace


def _of(span: Row, name: str) -> Any:
    value = span.get(name)
    return value if value is not None else obj(span.get("context")).get(name)


def _span(raw: Row, unit: Unit, pos: int, digest: str, trace: str) -> Span | None:
    ident = identifier(_of(raw, "span_id"), 8)
    if ident is None:
        return None
    attrs = {
        k: unwrap(v) if k not in ("mlflow.spanOutputs", "mlflow.spanInputs") else v
        for k, v in _pairs(raw.get("attributes")).items()
    }
    kind = MLFLOW.kind(attrs)
    data = MLFLOW.read(attrs)
    name = text(raw.get("name")) or ""
    if kind == LLM:
        data["tools"] = schemas(data.get("tools"))
    if kind == AGENT:
        data["agent"] = name or None
    if kind == TOOL:
        data["tool"] = name
    status = raw.get("status")
    code = status.get("code") if isinstance(status, dict) else raw.get("status_code", status)
    word = (
        _CODES.get(code, "UNSET")
        if isinstance(code, str)
        else {1: "OK", 2: "ERROR"}.get(code if isinstance(code, int) else 0, "UNSET")
    )
    message = text(status.get("message")) if isinstance(status, dict) else text(raw.get("status_message"))
    span = Span(
        trace, ident, identifier(raw.get("parent_span_id", raw.get("parent_id")), 8), name, kind, unit, pos, data,
        nanoseconds(raw.get("start_time_unix_nano", raw.get("start_time", raw.get("start_time_ns")))),
        nanoseconds(raw.get("end_time_unix_nano", raw.get("end_time", raw.get("end_time_ns")))),
        word, labels=[attrs], digest=digest,
    )  # fmt: skip
    if word == "ERROR":
        span.error_message = message or None
        for event in map(obj, items(raw.get("events"))):
            if event.get("name") == "exception":
                found = obj(event.get("attributes"))
                span.error_type = text(unwrap(found.get("exception.type")))
                span.error_message = text(unwrap(found.get("exception.message"))) or span.error_message
    if kind not in (LLM, TOOL):
        span.rest = {k: v for k, v in attrs.items() if not k.startswith("mlflow.")}
    return span


def _grade(raw: Row, unit: Unit) -> Grade:
    feedback, source = obj(raw.get("feedback")), obj(raw.get("source"))
    value = feedback.get("value")
    error = obj(feedback.get("error"))
    label = value if isinstance(value, str) else None
    known = {
        "assessment_id",
        "assessment_name",
        "name",
        "trace_id",
        "span_id",
        "source",
        "create_time",
        "feedback",
        "rationale",
        "valid",
    }
    rest = {k: v for k, v in raw.items() if k not in known and v not in (None, {}, [])}
    if not isinstance(value, str | int | float | None):
        rest["value"], value = value, None
    valid = raw.get("valid") is not False and not error
    issue = "judge_error" if error else None
    if error:
        rest["error"] = error
    return Grade(
        text(raw.get("assessment_name")) or text(raw.get("name")) or "assessment",
        None if label is not None else value,
        label,
        _KINDS.get(text(source.get("source_type")) or "", "verifier"),
        grader=text(source.get("source_id")),
        rationale=text(raw.get("rationale")),
        created_at=moment(raw.get("create_time"))[0],
        valid=valid,
        issue=issue if issue else None if valid else "overridden",
        ref=unit.path.name,
        metadata=rest,
    )


SOURCE = Mlflow()
