"""Spans as Phoenix gives them out: JSON objects of its client and its API, and rows of its span frames."""

from __future__ import annotations

import ast
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import orjson

from expcomp.sources._values import count, items, moment, obj, text
from expcomp.sources.telemetry._otlp import Event, Export, RawSpan, attributes, tell
from expcomp.sources.telemetry._otlp_dialects import KIND
from expcomp.sources.telemetry._spans import EPOCH, identifier, real
from expcomp.sources.telemetry._tables import columns
from expcomp.sources.telemetry._turns import unwrap

if TYPE_CHECKING:
    from expcomp.sources._chat import Row
    from expcomp.sources._contract import Batch, Unit
    from expcomp.sources._look import Look

ADVICE = "Phoenix frames drop attributes (phoenix#10753): export the spans as JSON, with `get_spans` or over the API"
_COLUMN = "attributes."
_TRACE, _SPAN = "context.trace_id", "context.span_id"
_SPAN_PLACES = (_SPAN, f"{_SPAN}_duplicated_0", "span_id", "__index_level_0__")
"""The span id is the index of the frame too, which writers name in different ways."""
_CONTEXT = frozenset({"trace_id", "span_id"})
_LISTS = ("data", "spans")
_LISTED = frozenset({"llm.input_messages", "llm.output_messages", "llm.tools", "tag.tags", "metadata"})
"""Attributes that hold lists or objects, also where a cell can only hold text."""
_WHOLE = frozenset({"metadata", "input.value", "output.value", "llm.invocation_parameters"})
_WHOLE_ENDS = ("tool_call.function.arguments", "tool.json_schema")
"""Attributes whose objects are values, not more attributes."""
_NUMBERS = ("llm.token_count.", "llm.cost.")
_CODES = frozenset({"OK", "ERROR", "UNSET"})
_DEEP = 40
_LITERAL = 4 << 20
_SECOND, _MILLI, _MICRO = 10**11, 10**14, 10**17


def is_phoenix(look: Look) -> bool:
    """Whether a file holds spans of Phoenix: a frame, objects with `context` and `span_kind`, or an answer that lists such."""
    found = columns(look)
    if _TRACE in found and ("span_kind" in found or any(name.startswith(_COLUMN) for name in found)):
        return True
    if "span_kind" in found and look.at("context") >= _CONTEXT:
        return True
    return any("span_kind" in look.at(name) and look.at(f"{name}/context") >= _CONTEXT for name in _LISTS)


def take(batch: Batch, unit: Unit, pos: int, record: Any, digest: str, out: Export) -> bool:
    """Add the spans of a record; false when it is none of Phoenix."""
    entry = obj(record)
    if _is_span(entry):
        found: list[Any] = [entry]
    else:
        found = next((items(entry[n]) for n in _LISTS if any(_is_span(obj(s)) for s in items(entry.get(n)))), [])
    for raw in found:
        span = _span(unit, pos, obj(raw), digest, out)
        if span is None:
            tell(batch, unit, pos, "bad_span", f"a span in record {pos} has no trace id or no span id; left out")
        else:
            out.spans.append(span)
    return bool(found)


def _is_span(entry: Row) -> bool:
    if _TRACE in entry:
        return "span_kind" in entry or any(name.startswith(_COLUMN) for name in entry)
    return isinstance(entry.get("context"), dict | str) and "span_kind" in entry


def _span(unit: Unit, pos: int, entry: Row, digest: str, out: Export) -> RawSpan | None:
    context = obj(unwrap(entry.get("context")))
    trace = identifier(context.get("trace_id", entry.get(_TRACE)), 16)
    ident = identifier(context.get("span_id", next((entry[n] for n in _SPAN_PLACES if n in entry), None)), 8)
    if trace is None or ident is None:
        return None
    attrs: Row = {}
    for name, value in attributes(unwrap(entry.get("attributes"))).items():
        _flatten(name, value, attrs, 0)
    for name, value in entry.items():
        if name.startswith(_COLUMN):
            _flatten(name.removeprefix(_COLUMN), value, attrs, 0)
    kind = text(entry.get("span_kind"))
    if kind and (kind.upper() != "UNKNOWN" or not any(name.startswith("gen_ai.") for name in attrs)):
        attrs.setdefault(KIND, kind)
    start, naive = _moment(entry.get("start_time"))
    end, also = _moment(entry.get("end_time"))
    if naive or also:
        out.naive.add(trace)
    if _TRACE in entry:
        out.advice[trace] = ADVICE
    word = (text(entry.get("status_code")) or "").rpartition(".")[2].upper()
    return RawSpan(
        trace, ident, identifier(entry.get("parent_id"), 8), text(entry.get("name")) or "", start, end,
        word if word in _CODES else "UNSET", text(entry.get("status_message")) or None, attrs, {}, {},
        [_event(obj(e)) for e in items(_read(entry.get("events")))], cut=False, unit=unit, pos=pos, digest=digest,
    )  # fmt: skip


def _event(raw: Row) -> Event:
    attrs: Row = {}
    for name, value in attributes(unwrap(raw.get("attributes"))).items():
        _flatten(name, value, attrs, 0)
    return Event(text(raw.get("name")) or "", attrs, None, _moment(raw.get("timestamp"))[0])


def _flatten(name: str, value: Any, out: Row, depth: int) -> None:
    """Attributes as they were before Phoenix nested them: one a leaf, with numbers for the places in lists."""
    if isinstance(value, str):
        if name in _LISTED:
            value = _read(value)
        elif name.startswith(_NUMBERS):
            value = real(value)
    if value is None:
        return
    is_whole = name in _WHOLE or name.endswith(_WHOLE_ENDS) or depth > _DEEP
    if isinstance(value, dict) and not is_whole:
        for key, inner in value.items():
            _flatten(f"{name}.{key}", inner, out, depth + 1)
    elif isinstance(value, list) and not is_whole and any(isinstance(v, dict) for v in value):
        for number, inner in enumerate(value):
            _flatten(f"{name}.{number}", inner, out, depth + 1)
    else:
        out[name] = value


def _read(value: Any) -> Any:
    """A value that a cell may hold as JSON text, or as pandas writes lists to CSV: as Python writes them."""
    found = unwrap(value)
    if not isinstance(found, str) or found[:1] not in ("[", "{") or len(found) > _LITERAL:
        return found
    try:
        # What JSON does not know (sets, bytes, lone surrogates) is no value here either.
        return orjson.loads(orjson.dumps(ast.literal_eval(found)))
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return found


def _moment(value: Any) -> tuple[datetime | None, bool]:
    """A time as text, or as a number since 1970: pandas writes milliseconds, other programs what their columns hold."""
    number = count(value)
    if number is None:
        return moment(value)
    micro = (
        number * 1_000_000
        if number < _SECOND
        else number * 1000
        if number < _MILLI
        else number
        if number < _MICRO
        else number // 1000
    )
    try:
        return EPOCH + timedelta(microseconds=micro), False
    except OverflowError:
        return None, False
