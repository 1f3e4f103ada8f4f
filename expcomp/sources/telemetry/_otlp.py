"""OTLP in JSON: export requests, one a line or one a file, to spans and log records."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import orjson

from expcomp.sources._json import load_lines, load_rows
from expcomp.sources._units import open_unit, report
from expcomp.sources._values import items, obj, text
from expcomp.sources.telemetry._spans import identifier, nanoseconds
from expcomp.sources.telemetry._tables import is_table, table_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from datetime import datetime

    from expcomp.sources._chat import Row
    from expcomp.sources._contract import Batch, ReadOptions, Unit
    from expcomp.sources._json import Problem

_SPANS = ("resourceSpans", "resource_spans", "batches")
_LOGS = ("resourceLogs", "resource_logs")
_METRICS = ("resourceMetrics", "resource_metrics")
_SCOPES = ("scopeSpans", "scope_spans", "instrumentationLibrarySpans", "scopeLogs", "scope_logs")
_RECORDS = ("spans", "logRecords", "log_records")
_OF_SCOPE = frozenset((*_RECORDS, "scope", "instrumentationLibrary", "schemaUrl", "schema_url"))
_CODES = {
    "STATUS_CODE_OK": "OK",
    "STATUS_CODE_ERROR": "ERROR",
    "STATUS_CODE_UNSET": "UNSET",
    0: "UNSET",
    1: "OK",
    2: "ERROR",
}
MARKS = frozenset((*_SPANS[:2], *_LOGS))
"""Keys of an export request."""


@dataclass(slots=True)
class Event:
    """A span event or a log record."""

    name: str
    attrs: Row
    body: Any = None
    at: datetime | None = None
    unit: Unit | None = None
    pos: int | None = None


@dataclass(slots=True)
class RawSpan:
    """One span as it stands in the file, with decoded attributes."""

    trace: str
    ident: str
    parent: str | None
    name: str
    start: datetime | None
    end: datetime | None
    word: str
    message: str | None
    attrs: Row
    resource: Row
    scope: Row
    events: list[Event]
    cut: bool
    unit: Unit
    pos: int
    digest: str


@dataclass(slots=True)
class Export:
    """All spans and log records of the units that are read.

    Attributes:
        logged: Number of log records.
        naive: Traces with times that have no zone.
        advice: Trace to what helps when it holds no content.
    """

    spans: list[RawSpan] = field(default_factory=list)
    logs: dict[tuple[str, str], list[Event]] = field(default_factory=dict)
    logged: int = 0
    naive: set[str] = field(default_factory=set)
    advice: dict[str, str] = field(default_factory=dict)


def load_records(batch: Batch, unit: Unit, options: ReadOptions) -> tuple[list[tuple[int, Any]], str] | None:
    """Records of a JSON, JSONL, Parquet or CSV file with 0-based positions, and its digest; what is broken is reported."""
    opened = open_unit(batch, unit, options.max_file_bytes)
    if opened is None:
        return None
    rows, problems = table_rows(opened[0]) if is_table(opened[0]) else split(opened[0])
    report(batch, unit, problems)
    return rows, opened[1]


def split(data: bytes) -> tuple[list[tuple[int, Any]], list[Problem]]:
    """Records of JSON lines, of one document or of an array; a glued or cut line costs no other."""
    first, _, rest = data.partition(b"\n")
    try:
        is_lines = bool(rest.strip()) and isinstance(orjson.loads(first), dict)
    except orjson.JSONDecodeError:
        is_lines = False
    if is_lines:
        good, bad = load_lines(data)
        if not any(p.code == "bad_json" for p in bad):
            return [(number - 1, value) for number, value in good], bad
    found = load_rows(data)
    return found.rows, found.problems


def read_export(
    batch: Batch,
    units: Sequence[Unit],
    options: ReadOptions,
    take: Callable[[Batch, Unit, int, Any, str, Export], bool],
) -> Export:
    """Read the spans and log records of all units; what is neither is reported. `take` reads records of another layout."""
    out = Export()
    for unit in units:
        loaded = load_records(batch, unit, options)
        if loaded is None:
            continue
        rows, digest = loaded
        before = _told(batch, out)
        for pos, record in rows:
            if not take(batch, unit, pos, record, digest, out):
                _request(batch, unit, pos, record, digest, out)
        if _told(batch, out) == before:
            detail = "the file holds no spans and no log records"
            batch.diagnose("no_spans", detail, package_id=unit.package_id, source_uri=unit.package_id, severity="info")
    return out


def _told(batch: Batch, out: Export) -> tuple[int, int, int]:
    """How much was made of the files so far."""
    return len(out.spans), out.logged, len(batch.rows["diagnostics"])


def report_orphans(batch: Batch, logs: dict[tuple[str, str], list[Event]]) -> None:
    """Report the log records of a message whose span is not in the load, by file."""
    counts: dict[str, int] = {}
    for events in logs.values():
        for event in events:
            if event.unit is not None:
                counts[event.unit.package_id] = counts.get(event.unit.package_id, 0) + 1
    for name, number in counts.items():
        detail = f"{number} log records name a span that is not among the files read; load both together; left out"
        batch.diagnose("log_without_span", detail, package_id=name, source_uri=name)


def _request(batch: Batch, unit: Unit, pos: int, record: Any, digest: str, out: Export) -> None:
    entry = obj(record)
    entry = obj(entry.get("trace")) or entry
    groups = [(name, g) for name in (*_SPANS, *_LOGS) for g in _objects(batch, unit, pos, entry, name)]
    if not any(name in entry for name in (*_SPANS, *_LOGS)):
        metrics = any(name in entry for name in _METRICS)
        code, level = ("metrics_skipped", "info") if metrics else ("bad_record", "warning")
        detail = f"record {pos} is {shown(record)}, expected an export request of spans or logs; left out"
        tell(batch, unit, pos, code, detail, level)
        return
    for name, group in groups:
        if not any(scopes in group for scopes in _SCOPES):
            detail = f"an entry of '{name}' in record {pos} is {shown(group)}, expected '{_SCOPES[0]}'; left out"
            tell(batch, unit, pos, "bad_record", detail)
        resource = attributes(obj(group.get("resource")).get("attributes"))
        for scope, found in _records(batch, unit, pos, group):
            if name in _LOGS:
                _log(batch, unit, pos, found, out)
            else:
                _span(batch, unit, pos, found, resource, scope, digest, out)


def _objects(batch: Batch, unit: Unit, pos: int, entry: Row, name: str) -> list[Row]:
    """The objects of a list; what else is in its place is reported."""
    value = entry.get(name)
    if value is None:
        return []
    found = [v for v in items(value) if isinstance(v, dict)]
    if not isinstance(value, list) or len(found) < len(value):
        odd = value if not isinstance(value, list) else next(v for v in value if not isinstance(v, dict))
        tell(batch, unit, pos, "bad_record", f"'{name}' in record {pos} holds {shown(odd)}, expected objects; left out")
    return found


def _records(batch: Batch, unit: Unit, pos: int, group: Row) -> Iterator[tuple[Row, Any]]:
    for name in _SCOPES:
        for holder in _objects(batch, unit, pos, group, name):
            scope = obj(holder.get("scope") or holder.get("instrumentationLibrary"))
            if holder and not _OF_SCOPE & holder.keys():
                detail = f"an entry of '{name}' in record {pos} is {shown(holder)}, expected '{_RECORDS[0]}'; left out"
                tell(batch, unit, pos, "bad_record", detail)
            for kind in _RECORDS:
                value = holder.get(kind)
                if value is not None and not isinstance(value, list):
                    detail = f"'{kind}' in record {pos} holds {shown(value)}, expected a list; left out"
                    tell(batch, unit, pos, "bad_record", detail)
                for found in items(value):
                    yield scope, found


def shown(record: Any) -> str:
    """What a record is, in a few words."""
    if isinstance(record, dict):
        return f"an object with {', '.join(sorted(map(str, record))[:5])}" if record else "an empty object"
    return type(record).__name__


def tell(batch: Batch, unit: Unit, pos: int, code: str, detail: str, severity: str = "warning") -> None:
    """Report something about one record of a file."""
    batch.diagnose(
        code, detail, package_id=unit.package_id, source_uri=unit.package_id, source_pos=pos, severity=severity
    )


def _either(entry: Row, camel: str, snake: str) -> Any:
    value = entry.get(camel)
    return value if value is not None else entry.get(snake)


def _span(batch: Batch, unit: Unit, pos: int, raw: Any, resource: Row, scope: Row, digest: str, out: Export) -> None:
    entry = obj(raw)
    trace = identifier(_either(entry, "traceId", "trace_id"), 16)
    ident = identifier(_either(entry, "spanId", "span_id"), 8)
    if trace is None or ident is None:
        tell(batch, unit, pos, "bad_span", f"a span in record {pos} has no trace id or no span id; left out")
        return
    status = obj(entry.get("status"))
    code = status.get("code")
    events = []
    for event in map(obj, items(entry.get("events"))):
        at = nanoseconds(_either(event, "timeUnixNano", "time_unix_nano"))
        events.append(Event(text(event.get("name")) or "", attributes(event.get("attributes")), None, at))
    dropped = [
        _either(entry, a, b)
        for a, b in (
            ("droppedAttributesCount", "dropped_attributes_count"),
            ("droppedEventsCount", "dropped_events_count"),
        )
    ]
    out.spans.append(
        RawSpan(
            trace,
            ident,
            identifier(_either(entry, "parentSpanId", "parent_span_id"), 8),
            text(entry.get("name")) or "",
            nanoseconds(_either(entry, "startTimeUnixNano", "start_time_unix_nano")),
            nanoseconds(_either(entry, "endTimeUnixNano", "end_time_unix_nano")),
            _CODES.get(code, "UNSET") if isinstance(code, str | int) else "UNSET",
            text(status.get("message")) or None,
            attributes(entry.get("attributes")),
            resource,
            scope,
            events,
            any(d not in (None, 0, "0", "") for d in dropped),
            unit,
            pos,
            digest,
        )
    )


def _log(batch: Batch, unit: Unit, pos: int, raw: Any, out: Export) -> None:
    entry = obj(raw)
    attrs = attributes(entry.get("attributes"))
    name = text(_either(entry, "eventName", "event_name")) or text(attrs.get("event.name")) or ""
    trace = identifier(_either(entry, "traceId", "trace_id"), 16)
    ident = identifier(_either(entry, "spanId", "span_id"), 8)
    if not name.startswith("gen_ai.") or trace is None or ident is None:
        detail = f"a log record in record {pos} ({name or 'no event name'}) is no GenAI event of a span; left out"
        tell(batch, unit, pos, "log_skipped", detail, "info")
        return
    at = nanoseconds(_either(entry, "timeUnixNano", "time_unix_nano"))
    at = at or nanoseconds(_either(entry, "observedTimeUnixNano", "observed_time_unix_nano"))
    body = any_value(entry.get("body"))
    out.logged += 1
    out.logs.setdefault((trace, ident), []).append(Event(name, attrs, body, at, unit, pos))


def attributes(raw: Any) -> Row:
    """Attributes as an object: a list of key and value, or an object already."""
    if isinstance(raw, dict):
        return raw
    out: Row = {}
    for entry in items(raw):
        if isinstance(entry, dict) and isinstance(entry.get("key"), str):
            value = entry.get("value")
            if isinstance(value, dict) and "stringValue" in value:
                out[entry["key"]] = value["stringValue"]
            else:
                out[entry["key"]] = any_value(value)
    return out


def any_value(raw: Any, depth: int = 0) -> Any:
    """The value of an AnyValue; whole numbers are written as text in JSON."""
    if not isinstance(raw, dict) or depth > 100:
        return raw
    for name, value in raw.items():
        kind = name.replace("_", "").lower()
        if kind == "intvalue":
            try:
                return int(value)
            except (TypeError, ValueError, OverflowError):
                return value
        if kind in ("stringvalue", "boolvalue", "doublevalue", "bytesvalue"):
            return value
        if kind == "arrayvalue":
            return [any_value(v, depth + 1) for v in items(obj(value).get("values"))]
        if kind == "kvlistvalue":
            pairs = [obj(p) for p in items(obj(value).get("values"))]
            return {str(p.get("key")): any_value(p.get("value"), depth + 1) for p in pairs}
    return None
