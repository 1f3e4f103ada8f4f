"""Langfuse observations: names to meanings, in the spelling of the interface and of the batch export, and from records to spans."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from expcomp.sources._chat import Note
from expcomp.sources._values import finite, items, moment, obj, text
from expcomp.sources.telemetry._chat import schemas
from expcomp.sources.telemetry._otlp_dialects import unflatten
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
    merge,
    real,
)
from expcomp.sources.telemetry._turns import unwrap

if TYPE_CHECKING:
    from expcomp.sources._chat import Row
    from expcomp.sources._contract import Unit
    from expcomp.sources.telemetry._spans import Path

_A = ("metadata", "attributes")


def _usage(*names: str) -> tuple[Path, ...]:
    return tuple((holder, name) for holder in ("usageDetails", "usage_details", "usage") for name in names)


LANGFUSE = Dialect(
    fields={
        "kind": ("type", (*_A, "openinference.span.kind"), (*_A, "gen_ai.operation.name")),
        "input": ("input", (*_A, "gen_ai.input.messages"), (*_A, "input.value")),
        "output": ("output", (*_A, "gen_ai.output.messages"), (*_A, "output.value")),
        "tools": (
            "toolDefinitions",
            "tool_definitions",
            (*_A, "gen_ai.tool.definitions"),
            (*_A, "model_request_parameters"),
            (*_A, "llm.tools"),
        ),
        "params": ("modelParameters", "model_parameters"),
        "model": ("model", "providedModelName", "provided_model_name", (*_A, "gen_ai.response.model")),
        "request_model": ((*_A, "gen_ai.request.model"), ("metadata", "ls_model_name")),
        "provider": (
            (*_A, "gen_ai.provider.name"),
            (*_A, "gen_ai.system"),
            (*_A, "llm.system"),
            ("metadata", "ls_provider"),
        ),
        "response_id": ((*_A, "gen_ai.response.id"),),
        "stop": ((*_A, "gen_ai.response.finish_reasons"), (*_A, "llm.finish_reason")),
        "input_tokens": (*_usage("input", "input_tokens", "prompt_tokens"), "promptTokens"),
        "output_tokens": (*_usage("output", "output_tokens", "completion_tokens"), "completionTokens"),
        "total_tokens": (*_usage("total", "total_tokens"), "totalTokens"),
        "cached_input_tokens": _usage(
            "input_cache_read", "cache_read_input_tokens", "input_cached_tokens", "prompt_details.cache_read"
        ),
        "cache_write_tokens": _usage(
            "input_cache_creation", "cache_creation_input_tokens", "prompt_details.cache_write"
        ),
        "reasoning_tokens": _usage("output_reasoning", "output_reasoning_tokens", "completion_details.reasoning"),
        "cost_usd": (("costDetails", "total"), ("cost_details", "total"), "calculatedTotalCost"),
        "tool": ((*_A, "gen_ai.tool.name"), (*_A, "tool.name")),
        "call_id": ((*_A, "gen_ai.tool.call.id"), (*_A, "tool_call.id"), ("metadata", "tool_call_id")),
        "arguments": ("input", (*_A, "gen_ai.tool.call.arguments")),
        "result": ("output", (*_A, "gen_ai.tool.call.result")),
        "agent": ((*_A, "gen_ai.agent.name"), (*_A, "agent_name")),
        "parent": ("parentObservationId", "parent_observation_id"),
        "trace": ("traceId", "trace_id"),
        "start": ("startTime", "start_time"),
        "end": ("endTime", "end_time"),
        "message": ("statusMessage", "status_message"),
    },
    kinds={
        "generation": LLM,
        "agent": AGENT,
        "invoke_agent": AGENT,
        "tool": TOOL,
        "execute_tool": TOOL,
        "evaluator": EVALUATOR,
    }
    | dict.fromkeys("event chain retriever embedding guardrail".split(), OTHER),
    hints=(((*_A, "agent_name"), AGENT), ((*_A, "gen_ai.agent.name"), AGENT)),
)
"""An observation; what OTel instrumentations said stands in its metadata."""

_JSON = (
    *("usageDetails", "usage_details", "costDetails", "cost_details"),
    *("toolDefinitions", "tool_definitions", "modelParameters", "model_parameters"),
)
_TRACE = {
    "session": ("sessionId", "session_id"),
    "user": ("userId", "user_id"),
    "name": ("name",),
    "run": ("datasetRunName", "dataset_run_name", "datasetRunId", "dataset_run_id"),
    "input": ("input",),
    "output": ("output",),
    "version": ("release", "version"),
}
_KINDS = {"EVAL": "model_judge", "ANNOTATION": "human", "API": "verifier"}


def span_of(record: Row, unit: Unit, pos: int, digest: str, trace: str) -> tuple[Span | None, bool]:
    """The span of an observation, and whether a time in it had no zone; none without an id."""
    ident = text(record.get("id"))
    if ident is None:
        return None, False
    meta = unwrap(record.get("metadata"))
    meta = obj(meta)
    if isinstance(meta.get("attributes"), str):
        meta = meta | {"attributes": obj(unwrap(meta["attributes"]))}
    entry = record | {"metadata": meta}
    for name in _JSON:
        if isinstance(entry.get(name), str):
            entry[name] = unwrap(entry[name])
    for name in ("toolDefinitions", "tool_definitions"):
        entry[name] = entry.get(name) or None
    attrs = obj(meta.get("attributes"))
    kind = LANGFUSE.kind(entry)
    data = LANGFUSE.read(entry)
    if kind == OTHER and "tool_call_id" in obj(unwrap(entry.get("output"))):
        # LangGraph's tools are plain spans that give back a tool message.
        kind = TOOL
    if kind == LLM:
        tools = schemas(data.get("tools")) or unflatten(attrs, "llm.tools")[0]
        data["tools"] = schemas(tools)
        paid = real(record.get("totalCost", record.get("total_cost")))
        if "cost_usd" not in data and paid:
            data["cost_usd"] = paid
        if not any(real(data.get(n)) for n in ("input_tokens", "output_tokens", "total_tokens")):
            data.pop("input_tokens", None)
            data.pop("output_tokens", None)
    name = text(record.get("name")) or ""
    if kind == AGENT:
        data.setdefault("agent", name or None)
    if kind == TOOL:
        data.setdefault("tool", name.removeprefix("running tool: "))
    start, naive = moment(data.get("start"))
    end, also = moment(data.get("end"))
    failed = record.get("level") == "ERROR"
    span = Span(
        trace, ident, text(data.get("parent")), name, kind, unit, pos, data, start, end, "ERROR" if failed else "DEFAULT",
        error_message=text(data.get("message")) if failed else None,
        labels=[meta, attrs, record], resource=obj(meta.get("resourceAttributes")), digest=digest,
    )  # fmt: skip
    if kind not in (LLM, TOOL):
        span.rest = {k: v for k, v in meta.items() if k not in ("resourceAttributes", "scope")}
    return span, naive or also


def trace_of(
    raw: Row, observations: list[tuple[int, Row]], scores: list[Row], unit: Unit, digest: str, ident: str
) -> Trace:
    """A trace from its header, its observations with their positions, and its scores."""
    trace = Trace(ident)
    whole: dict[str, tuple[int, Row]] = {}
    bad = 0
    for pos, record in observations:
        key = text(record.get("id"))
        if key is None:
            bad += 1
        else:
            old = whole.get(key)
            whole[key] = (pos, record) if old is None else (old[0], merge(old[1], record))
    naive = False
    for pos, record in whole.values():
        span, assumed = span_of(record, unit, pos, digest, ident)
        naive = naive or assumed
        if span is not None:
            trace.spans.append(span)
    if bad:
        trace.notes.append(Note("bad_observation", f"{bad} observations have no id; left out"))
    if naive:
        trace.notes.append(Note("naive_time", "times without a zone were read as UTC", "info"))
    meta = obj(unwrap(raw.get("metadata")))
    for name, places in _TRACE.items():
        value = next((raw[p] for p in places if raw.get(p) not in (None, "")), None)
        trace.header[name] = unwrap(value) if name in ("input", "output") else text(value)
    prompt = trace.header.get("input")
    spans = {s.ident: s for s in trace.spans}
    for span in trace.spans:
        inner = obj(unwrap(span.data.get("input")))
        if span.kind != LLM and span.parent not in spans and isinstance(inner.get("system"), str):
            prompt = inner
    system = obj(prompt).get("system")
    for span in trace.spans:
        if span.kind == LLM and isinstance(system, str):
            span.data.setdefault("system", system)
    mapped = {place for places in _TRACE.values() for place in places} | {"metadata", "tags"}
    plain = {k: v for k, v in raw.items() if isinstance(v, str | int | float) and k not in mapped}
    trace.labels = [meta, obj(unwrap(meta.get("attributes"))), plain]
    trace.tags = [t for t in items(unwrap(raw.get("tags"))) if isinstance(t, str)]
    for score in scores:
        grade = grade_of(score, unit)
        target = spans.get(text(score.get("observationId", score.get("observation_id"))) or "")
        (trace.grades if target is None else target.grades).append(grade)
    return trace


def grade_of(raw: Row, unit: Unit) -> Grade:
    """A score as a grade; of a boolean the words, of a category its name."""
    kind = text(raw.get("dataType", raw.get("data_type")))
    label = text(raw.get("stringValue", raw.get("string_value"))) or text(raw.get("longStringValue")) or None
    value: Any = raw.get("value")
    if isinstance(value, str) and kind in ("NUMERIC", "BOOLEAN"):
        # Cells of a table are texts.
        value = _real(value)
    if isinstance(value, str):
        label, value = label or value, None
    if kind == "BOOLEAN" and label is None and finite(value) is not None:
        label = str(bool(value)).lower()
    if kind in ("CATEGORICAL", "TEXT") and label is not None:
        value = value or None
    name = text(raw.get("name")) or "score"
    source = text(raw.get("source"))
    who = "user_feedback" if "feedback" in name.lower() else _KINDS.get(source or "", "verifier")
    known = {
        "name",
        "value",
        "stringValue",
        "longStringValue",
        "comment",
        "traceId",
        "timestamp",
        "createdAt",
        "updatedAt",
    }
    rest = {k: v for k, v in raw.items() if k not in known and v not in (None, "", "{}")}
    return Grade(
        name,
        value,
        label,
        who,
        grader=text(raw.get("authorUserId")) or text(raw.get("configId")) or source,
        rationale=text(raw.get("comment")),
        created_at=moment(raw.get("timestamp") or raw.get("createdAt"))[0],
        ref=unit.path.name,
        metadata=rest,
    )


def _real(value: str) -> float | str:
    try:
        return float(value)
    except ValueError:
        return value
