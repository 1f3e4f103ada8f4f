"""Langfuse: a trace with its observations and scores as one object, or observations, traces and scores as rows (JSON, CSV)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from expcomp.sources._contract import Batch, Found, Frames, ReadOptions, Unit
from expcomp.sources._units import file_unit
from expcomp.sources._values import items, obj, text
from expcomp.sources.telemetry._langfuse_table import trace_of
from expcomp.sources.telemetry._otlp import load_records, shown, tell
from expcomp.sources.telemetry._rows import write
from expcomp.sources.telemetry._tables import columns
from expcomp.sources.telemetry._turns import unwrap
from expcomp.sources.telemetry.otel import folder_group

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from expcomp.sources._chat import Row
    from expcomp.sources._look import Look
    from expcomp.sources.telemetry._spans import Trace

_TYPES = frozenset("GENERATION SPAN EVENT AGENT TOOL CHAIN RETRIEVER EVALUATOR EMBEDDING GUARDRAIL".split())
_OBSERVATION = (
    frozenset({"traceId", "type", "startTime"}),
    frozenset({"trace_id", "type", "start_time", "parent_observation_id"}),
)
_SCORE = (
    frozenset({"traceId", "name", "value", "dataType", "source"}),
    frozenset({"trace_id", "name", "value", "data_type", "source"}),
)
_TRACE = frozenset({"timestamp", "observations"})
_OF_TRACE = {
    "traceName": "name", "trace_name": "name", "userId": "userId", "user_id": "userId", "sessionId": "sessionId",
    "session_id": "sessionId", "traceTags": "tags", "tags": "tags", "release": "release",
}  # fmt: skip
"""What exported observations say of their trace, to the names in a trace."""


@dataclass(slots=True)
class _Held:
    """What the files of a load hold of one trace."""

    unit: Unit
    digest: str
    header: Row = field(default_factory=dict)
    observations: list[tuple[int, Row]] = field(default_factory=list)
    scores: list[Row] = field(default_factory=list)


class Langfuse:
    """Reader of Langfuse traces."""

    name = "langfuse"
    summary = "Langfuse traces: JSON {trace, observations, scores}, or exported observations as JSONL or CSV"
    carries = {  # noqa: RUF012 - read only, by contract of the protocol
        "system_prompt": "if sent",
        "tools": "if sent",
        "reasoning": "if sent",
        "verdict": "scores",
        "trial": "no",
        "tokens": "yes",
        "cost": "yes",
        "times": "yes",
        "token_ids": "no",
    }

    def claims_folder(self, folder: Path, names: frozenset[str]) -> bool:
        """Never: traces are files."""
        return False

    def claims_file(self, look: Look) -> bool:
        """A trace with observations, or rows that are observations or scores, also of a table."""
        if {"trace", "observations"} <= look.keys or (look.keys >= _TRACE and {"id", "projectId"} & look.keys):
            return True
        keys = columns(look)
        if any(names <= keys for names in _SCORE):
            return True
        if not any(names <= keys for names in _OBSERVATION):
            return False
        return not look.rows or text(look.rows[0].get("type")) in _TYPES

    def units(self, path: Path, root: Path, found: Found) -> None:
        """One unit a file; files of a folder are one group, since rows of a trace may be in several."""
        file_unit(self.name, path, root, found, folder_group(self.name, path, root))

    def read(self, units: Sequence[Unit], options: ReadOptions) -> Frames:
        """Read traces; rows are joined over all units."""
        batch = Batch()
        held: dict[str, _Held] = {}
        for unit in units:
            loaded = load_records(batch, unit, options)
            for pos, record in loaded[0] if loaded is not None else ():
                if not _take(held, unit, pos, record, loaded[1] if loaded is not None else ""):
                    detail = f"record {pos} is {shown(record)}, expected a trace, an observation or a score; left out"
                    tell(batch, unit, pos, "bad_record", detail)
        write(batch, self.name, list(_traces(batch, held)), options)
        return batch.frames()


def _take(held: dict[str, _Held], unit: Unit, pos: int, record: Any, digest: str) -> bool:
    """Put a record where it belongs; false when it is none."""
    entry = obj(record)
    header = obj(unwrap(entry.get("trace")))
    inside = unwrap(entry.get("observations"))
    if header or (isinstance(inside, list) and any(isinstance(o, dict) for o in inside)):
        header = header or {k: v for k, v in entry.items() if k not in ("observations", "scores")}
        ident = text(header.get("id")) or next((i for i in map(_trace_id, items(inside)) if i), None) or f"record {pos}"
        one = held.setdefault(ident, _Held(unit, digest))
        one.header = header | one.header
        # Exports of the interface list the observations twice, once without input and output.
        one.observations += [
            (pos, o) for o in (*items(header.get("observations")), *items(inside)) if isinstance(o, dict)
        ]
        one.scores += [s for s in (*items(header.get("scores")), *items(entry.get("scores"))) if isinstance(s, dict)]
        return True
    of = _trace_id(entry)
    if of is not None and text(entry.get("type")) in _TYPES:
        one = held.setdefault(of, _Held(unit, digest))
        one.observations.append((pos, entry))
        for name, meaning in _OF_TRACE.items():
            if entry.get(name):
                one.header.setdefault(meaning, entry[name])
        return True
    if of is not None and "name" in entry and {"value", "stringValue", "string_value"} & entry.keys():
        held.setdefault(of, _Held(unit, digest)).scores.append(entry)
        return True
    own = text(entry.get("id"))
    if own is not None and "timestamp" in entry and "type" not in entry:
        one = held.setdefault(own, _Held(unit, digest))
        one.header = entry | one.header
        return True
    return False


def _trace_id(entry: Any) -> str | None:
    return text(obj(entry).get("traceId")) or text(obj(entry).get("trace_id"))


def _traces(batch: Batch, held: dict[str, _Held]) -> Iterator[Trace]:
    for ident, one in held.items():
        scores = list({(text(s.get("id")) or str(i)): s for i, s in enumerate(one.scores)}.values())
        trace = trace_of(one.header, one.observations, scores, one.unit, one.digest, ident)
        if trace.spans:
            yield trace
            continue
        detail = f"trace {ident} has no observations in this load ({len(scores)} scores); no attempt"
        unit = one.unit.package_id
        batch.diagnose("no_observations", detail, package_id=unit, source_uri=unit)


SOURCE = Langfuse()
