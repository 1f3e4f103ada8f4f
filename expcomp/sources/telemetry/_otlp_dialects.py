"""The two dialects that travel in OTLP, as tables, and from exported spans to traces. One attribute decides the dialect of a span."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from expcomp.sources._values import items, obj, text
from expcomp.sources.telemetry._chat import prompt_text, schemas
from expcomp.sources.telemetry._otlp import Event, Export, RawSpan
from expcomp.sources.telemetry._spans import AGENT, EVALUATOR, LLM, OTHER, TOOL, Dialect, Grade, Span, Trace
from expcomp.sources.telemetry._turns import unwrap

if TYPE_CHECKING:
    from collections.abc import Iterable

    from expcomp.sources._chat import Row

KIND = "openinference.span.kind"
_USAGE = "gen_ai.usage."
GENAI = Dialect(
    fields={
        "kind": ("gen_ai.operation.name", "traceloop.span.kind", "llm.request.type"),
        "input": ("gen_ai.input.messages", "gen_ai.prompt"),
        "output": ("gen_ai.output.messages", "gen_ai.completion"),
        "system": ("gen_ai.system_instructions",),
        "tools": ("gen_ai.tool.definitions", "model_request_parameters"),
        "model": ("gen_ai.response.model",),
        "request_model": ("gen_ai.request.model",),
        "provider": ("gen_ai.provider.name", "gen_ai.system"),
        "response_id": ("gen_ai.response.id",),
        "stop": ("gen_ai.response.finish_reasons", "gen_ai.response.finish_reason"),
        "input_tokens": (_USAGE + "input_tokens", _USAGE + "prompt_tokens"),
        "output_tokens": (_USAGE + "output_tokens", _USAGE + "completion_tokens"),
        "cached_input_tokens": (
            _USAGE + "cache_read.input_tokens",
            _USAGE + "cache_read_input_tokens",
            _USAGE + "details.cache_read_tokens",
        ),
        "cache_write_tokens": (
            _USAGE + "cache_creation.input_tokens",
            _USAGE + "cache_creation_input_tokens",
            _USAGE + "details.cache_write_tokens",
        ),
        "reasoning_tokens": (
            _USAGE + "reasoning.output_tokens",
            _USAGE + "reasoning_tokens",
            _USAGE + "details.reasoning_tokens",
        ),
        "total_tokens": (_USAGE + "total_tokens", "llm.usage.total_tokens"),
        "cost_usd": (_USAGE + "cost", "operation.cost"),
        "tool": ("gen_ai.tool.name", "traceloop.entity.name"),
        "call_id": ("gen_ai.tool.call.id",),
        "arguments": ("gen_ai.tool.call.arguments", "traceloop.entity.input", "tool_arguments"),
        "result": ("gen_ai.tool.call.result", "traceloop.entity.output", "tool_response"),
        "agent": ("gen_ai.agent.name", "agent_name"),
        "agent_version": ("gen_ai.agent.version",),
        "session": ("gen_ai.conversation.id", "session.id"),
        "run": ("test.suite.run.id",),
        "error": ("error.type",),
    },
    kinds={
        "chat": LLM,
        "text_completion": LLM,
        "completion": LLM,
        "generate_content": LLM,
        "invoke_agent": AGENT,
        "agent": AGENT,
        "execute_tool": TOOL,
        "tool": TOOL,
    }
    | dict.fromkeys(
        "create_agent embeddings embedding retrieval rerank invoke_workflow workflow task chain".split(), OTHER
    ),
    hints=(
        ("agent_name", AGENT),
        ("gen_ai.tool.name", TOOL),
        ("gen_ai.agent.name", AGENT),
        ("gen_ai.response.model", LLM),
        ("gen_ai.output.messages", LLM),
    ),
)
"""OpenTelemetry's own conventions, with the older and the widespread names."""

_COUNT = "llm.token_count."
OPENINFERENCE = Dialect(
    fields={
        "kind": (KIND,),
        "input": ("input.value",),
        "output": ("output.value",),
        "tools": ("llm.tools",),
        "params": ("llm.invocation_parameters",),
        "model": ("llm.model_name",),
        "provider": ("llm.provider", "llm.system"),
        "stop": ("llm.finish_reason",),
        "input_tokens": (_COUNT + "prompt",),
        "output_tokens": (_COUNT + "completion",),
        "cached_input_tokens": (_COUNT + "prompt_details.cache_read",),
        "cache_write_tokens": (_COUNT + "prompt_details.cache_write",),
        "reasoning_tokens": (_COUNT + "completion_details.reasoning",),
        "total_tokens": (_COUNT + "total",),
        "cost_usd": ("llm.cost.total",),
        "tool": ("tool.name",),
        "call_id": ("tool_call.id", "tool.id", "tool_call.function.id"),
        "arguments": ("tool_call.function.arguments", "input.value"),
        "result": ("output.value",),
        "agent": ("agent.name",),
        "session": ("session.id",),
        "user": ("user.id",),
        "error": ("error.type",),
    },
    kinds={"agent": AGENT, "llm": LLM, "tool": TOOL, "evaluator": EVALUATOR}
    | dict.fromkeys("chain retriever reranker embedding guardrail prompt unknown".split(), OTHER),
)
"""OpenInference, as Phoenix and others read it."""

DEFAULTS = {"task_id": "test.case.id"}
_FLAT = {
    "input": ("llm.input_messages", "gen_ai.prompt"),
    "output": ("llm.output_messages", "gen_ai.completion"),
    "tools": ("llm.tools", "llm.request.functions"),
}
_PREFIXES = tuple(p + "." for names in _FLAT.values() for p in names)
_MAPPED = {
    id(d): frozenset(p for places in d.fields.values() for p in places if isinstance(p, str))
    for d in (GENAI, OPENINFERENCE)
}
_ROLES = {f"gen_ai.{role}.message": role for role in ("system", "user", "assistant", "tool")}
_EVALUATION = "gen_ai.evaluation."
_DEEP = 12


def traces_of(export: Export) -> list[Trace]:
    """Traces in the order in which they begin in the load; spans that come twice count once."""
    traces: dict[str, Trace] = {}
    seen: dict[tuple[str, str], RawSpan] = {}
    twice: dict[str, int] = {}
    for raw in export.spans:
        key = (raw.trace, raw.ident)
        twice[raw.trace] = twice.get(raw.trace, 0) + (key in seen)
        seen[key] = raw
    for key, raw in seen.items():
        trace = traces.setdefault(raw.trace, Trace(raw.trace))
        trace.spans.append(_span(raw, export.logs.pop(key, [])))
    for ident, number in twice.items():
        if number:
            traces[ident].header["twice"] = number
    return list(traces.values())


def _span(raw: RawSpan, logs: list[Event]) -> Span:
    attrs = raw.attrs
    dialect = OPENINFERENCE if KIND in attrs else GENAI
    kind = dialect.kind(attrs)
    data = dialect.read(attrs)
    span = Span(
        raw.trace, raw.ident, raw.parent, raw.name, kind, raw.unit, raw.pos, data, raw.start, raw.end, raw.word,
        labels=[attrs], resource=raw.resource, truncated=raw.cut, digest=raw.digest,
    )  # fmt: skip
    if kind == LLM:
        _flattened(attrs, span)
        if _USAGE + "input_tokens" not in attrs and data.get("provider") is None:
            data["provider"] = attrs.get("gen_ai.system")
    _events(span, [*raw.events, *logs])
    if kind == LLM:
        data["system"] = prompt_text(data.get("system"))
        data["params"] = data.get("params") or _request(attrs)
    if "tools" in data:
        data["tools"] = schemas(data["tools"])
    if kind == AGENT and "agent" not in data:
        data["agent"] = raw.name or None
    if isinstance(attrs.get("metadata"), str | dict):
        span.labels.append(obj(unwrap(attrs["metadata"])))
    if raw.word == "ERROR":
        span.error_type = text(data.get("error")) or span.error_type
        span.error_message = raw.message or span.error_message
    else:
        span.error_type = span.error_message = None
    if kind not in (LLM, TOOL):
        mapped = _MAPPED[id(dialect)]
        span.rest = {k: v for k, v in attrs.items() if k not in mapped and not k.startswith(_PREFIXES)}
    return span


def _flattened(attrs: Row, span: Span) -> None:
    """Lists of messages that are flattened into attributes, one a leaf, win over the raw value, unless some were cut."""
    flat = {k: v for k, v in attrs.items() if k.startswith(_PREFIXES)}
    if not flat:
        return
    for meaning, prefixes in _FLAT.items():
        for prefix in prefixes:
            found, gaps = unflatten(flat, prefix)
            if not found:
                continue
            span.truncated = span.truncated or gaps
            if meaning == "tools" or not (gaps and meaning in span.data):
                span.data[meaning] = found
            break


def unflatten(attrs: Row, prefix: str) -> tuple[list[Any], bool]:
    """The list under `prefix.N.…`, and whether numbers are missing in it."""
    tree: Row = {}
    start = len(prefix) + 1
    for key, value in attrs.items():
        if not key.startswith(prefix) or key[start - 1 : start] != ".":
            continue
        node, parts = tree, key[start:].split(".", _DEEP)
        for part in parts[:-1]:
            inner = node.get(part)
            if not isinstance(inner, dict):
                inner = node[part] = {}
            node = inner
        node[parts[-1]] = value
    numbers = sorted(int(k) for k in tree if k.isascii() and k.isdigit() and len(k) < 9)
    found = [_lists(tree[str(n)]) for n in numbers if str(n) in tree]
    return found, bool(numbers) and numbers != list(range(len(numbers)))


def _lists(node: Any) -> Any:
    if not isinstance(node, dict):
        return node
    if node and all(k.isascii() and k.isdigit() for k in node):
        return [_lists(node[k]) for k in sorted(node, key=lambda k: (len(k), k))]
    return {k: _lists(v) for k, v in node.items()}


def _request(attrs: Row) -> Row:
    return {
        k.removeprefix("gen_ai.request."): v
        for k, v in attrs.items()
        if k.startswith("gen_ai.request.") and k not in ("gen_ai.request.model", "gen_ai.request.tools")
    }


def _events(span: Span, events: Iterable[Event]) -> None:
    """Messages, grades and errors that stand in events of the span or in log records."""
    given: list[Row] = []
    made: list[Row] = []
    for event in events:
        name, attrs = event.name, event.attrs
        if name == "exception":
            span.error_type = text(attrs.get("exception.type"))
            span.error_message = text(attrs.get("exception.message"))
        elif name == _EVALUATION + "result":
            span.grades.append(_grade(event))
        elif name in _ROLES:
            given.append({"role": _ROLES[name]} | _body(event))
        elif name == "gen_ai.choice":
            body = _body(event)
            message = obj(unwrap(body.get("message"))) or {
                k: v for k, v in body.items() if k not in ("index", "finish_reason")
            }
            made.append({"role": "assistant"} | message | {"finish_reason": body.get("finish_reason")})
        elif name.startswith("gen_ai.content.") or name == "gen_ai.client.inference.operation.details":
            found = GENAI.read(attrs)
            for meaning in ("input", "output", "system", "tools"):
                if meaning in found:
                    span.data.setdefault(meaning, found[meaning])
    # Without the opt-in flag there are events too, with roles and call names but without any text.
    if any(m.get("content") is not None or m.get("parts") for m in (*given, *made)):
        span.data.setdefault("input", given)
        span.data.setdefault("output", made)


def _body(event: Event) -> Row:
    body = unwrap(event.body)
    if isinstance(body, dict):
        return body
    whole = obj(unwrap(event.attrs.get("gen_ai.event.content")))
    own = {k: v for k, v in event.attrs.items() if not k.startswith(("gen_ai.", "event."))}
    listed = own.get("tool_calls")
    if isinstance(listed, str):
        own["tool_calls"] = unwrap(listed)
    return ({"content": body} if isinstance(body, str) else {}) | own | whole


def _grade(event: Event) -> Grade:
    attrs = event.attrs
    known = {_EVALUATION + k for k in ("name", "score.value", "score.label", "explanation")}
    return Grade(
        text(attrs.get(_EVALUATION + "name")) or "evaluation",
        attrs.get(_EVALUATION + "score.value"),
        text(attrs.get(_EVALUATION + "score.label")),
        rationale=text(attrs.get(_EVALUATION + "explanation")),
        created_at=event.at,
        ref=event.unit.path.name if event.unit is not None else None,
        metadata={k: v for k, v in attrs.items() if k not in known},
    )


def tags_of(trace: Trace) -> list[str]:
    """Tags on the spans of a trace."""
    found = (t for s in trace.spans for label in s.labels[:1] for t in items(unwrap(label.get("tag.tags"))))
    return list(dict.fromkeys(t for t in found if isinstance(t, str)))
