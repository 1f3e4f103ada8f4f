"""OpenTelemetry GenAI: spans as OTLP/JSON, with messages on the spans, in their events, or in log records of another file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from expcomp.sources._chat import Note
from expcomp.sources._contract import Batch, Found, Frames, ReadOptions, Unit
from expcomp.sources._units import file_unit, relative
from expcomp.sources.telemetry._otlp import MARKS, read_export, report_orphans
from expcomp.sources.telemetry._otlp_dialects import DEFAULTS, tags_of, traces_of
from expcomp.sources.telemetry._phoenix import take
from expcomp.sources.telemetry._rows import write

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from expcomp.sources._look import Look

_OPENINFERENCE = (b'"openinference.span.kind"', b'"openinference.instrumentation', b'"llm.input_messages.')


class Otel:
    """Reader of OTLP files with GenAI spans."""

    name = "otel"
    summary = "OpenTelemetry GenAI spans and log records: OTLP/JSON, one export request a line"
    carries = {  # noqa: RUF012 - read only, by contract of the protocol
        "system_prompt": "opt-in",
        "tools": "opt-in",
        "reasoning": "parts",
        "verdict": "evaluation event",
        "trial": "test.* if set",
        "tokens": "yes",
        "cost": "no",
        "times": "yes",
        "token_ids": "no",
    }

    def claims_folder(self, folder: Path, names: frozenset[str]) -> bool:
        """Never: exports are files."""
        return False

    def claims_file(self, look: Look) -> bool:
        """An OTLP export request; spans of OpenInference are left to its reader."""
        return is_otlp(look) and not is_openinference(look)

    def units(self, path: Path, root: Path, found: Found) -> None:
        """One unit a file; files of a folder are one group, since spans and log records of a trace may be in several."""
        file_unit(self.name, path, root, found, folder_group(self.name, path, root))

    def read(self, units: Sequence[Unit], options: ReadOptions) -> Frames:
        """Read exports; spans, and the log records that hold their messages, are joined over all units."""
        return read_otlp(self.name, units, options)


def is_otlp(look: Look) -> bool:
    """Whether a file holds export requests of spans or logs."""
    return bool(MARKS & look.keys) or bool(MARKS & look.at("trace")) or {"resource", "scopeSpans"} <= look.at("batches")


def is_openinference(look: Look) -> bool:
    """Whether the spans are of OpenInference."""
    return any(mark in look.head for mark in _OPENINFERENCE)


def folder_group(name: str, path: Path, root: Path) -> str:
    """Group of all files of one folder."""
    return f"{name}/{relative(path.parent, root) if path.parent != root else ''}"


def read_otlp(name: str, units: Sequence[Unit], options: ReadOptions) -> Frames:
    """Frames of exports in OTLP, whichever of the two dialects their spans are in."""
    batch = Batch()
    export = read_export(batch, units, options, take)
    traces = traces_of(export)
    report_orphans(batch, export.logs)
    for trace in traces:
        trace.tags = tags_of(trace)
        twice = trace.header.pop("twice", 0)
        if twice:
            detail = f"{twice} spans of trace {trace.ident} come more than once; the last of each counts"
            trace.notes.append(Note("duplicate_span", detail))
        if trace.ident in export.naive:
            trace.notes.append(Note("naive_time", "times without a zone were read as UTC", "info"))
        trace.header["advice"] = export.advice.get(trace.ident)
    write(batch, name, traces, options, defaults=DEFAULTS)
    return batch.frames()


SOURCE = Otel()
