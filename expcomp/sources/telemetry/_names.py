"""Task, arm and trial of a trace: values under names that a user gives, looked up in attributes, metadata and tags."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from expcomp.sources._contract import Batch, ReadOptions
    from expcomp.sources.telemetry._spans import Trace

OPTIONS = ("task_id", "arm", "trial")


@dataclass(frozen=True, slots=True)
class Names:
    """Values of task, arm and trial by trace id, and which of them the user named."""

    values: Mapping[str, Mapping[str, Any]]
    asked: frozenset[str]


def resolve(batch: Batch, traces: Sequence[Trace], options: ReadOptions, defaults: Mapping[str, str]) -> Names:
    """Values of the three options for every trace; a name that nothing has is itself the value."""
    values: dict[str, dict[str, Any]] = {}
    asked = set()
    for option in OPTIONS:
        name = getattr(options, option)
        given = name if name is not None else defaults.get(option)
        if given is None:
            continue
        found = {t.ident: v for t in traces if (v := find(t, str(given))) is not None} if isinstance(given, str) else {}
        if name is not None:
            asked.add(option)
            if not found and traces:
                found = dict.fromkeys((t.ident for t in traces), name)
                detail = f"no attribute, metadata key or tag is called {name!r}; taken as the {option} of all attempts"
                batch.diagnose("option_taken_as_value", detail, field=option, severity="info")
        values[option] = found
    return Names(values, frozenset(asked))


def find(trace: Trace, name: str) -> Any:
    """Value under a name: in the attributes of root spans, of any span, of the trace and the resource, in tags."""
    ids = {s.ident for s in trace.spans}
    spans = sorted(trace.spans, key=lambda s: s.parent is not None and s.parent in ids)
    places = [label for span in spans for label in span.labels] + trace.labels + [s.resource for s in spans]
    for label in places:
        value = label.get(name)
        if isinstance(value, str | int | float):
            return value
    for tag in trace.tags:
        for mark in (":", "="):
            key, separator, value = tag.partition(mark)
            if separator and key.strip() == name:
                return value.strip()
    return None
