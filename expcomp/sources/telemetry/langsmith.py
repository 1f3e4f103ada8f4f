"""LangSmith: runs as rows of JSON lines or of the Parquet bulk export, and feedback as rows of another file."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from expcomp.sources._chat import Note
from expcomp.sources._contract import Batch, Found, Frames, ReadOptions, Unit
from expcomp.sources._units import file_unit
from expcomp.sources._values import items, moment, obj, text
from expcomp.sources.telemetry._chat import schemas
from expcomp.sources.telemetry._otlp import load_records, shown, tell
from expcomp.sources.telemetry._rows import write
from expcomp.sources.telemetry._spans import LLM, TOOL, Dialect, Grade, Span, Trace, clean, merge
from expcomp.sources.telemetry._tables import columns
from expcomp.sources.telemetry._turns import unwrap
from expcomp.sources.telemetry.otel import folder_group

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from expcomp.sources._chat import Row
    from expcomp.sources._look import Look
    from expcomp.sources.telemetry._spans import Path as Place

_META = ("extra", "metadata")
_ERROR = re.compile(r"\s*(?:[A-Za-z_]\w*\.)*([A-Za-z_]\w*)\(")


def _usage(*names: str) -> tuple[Place, ...]:
    holders = (
        ("outputs", "usage_metadata"),
        (*_META, "usage_metadata"),
        ("outputs", "llm_output", "token_usage"),
        ("outputs", "usage"),
    )
    return tuple((*holder, *name.split("/")) for holder in holders for name in names)


LANGSMITH = Dialect(
    fields={
        "kind": ("run_type",),
        "input": ("inputs",),
        "output": ("outputs",),
        "tools": ((*("extra", "invocation_params"), "tools"), (*_META, "ls_invocation_params", "tools")),
        "params": (("extra", "invocation_params"), (*_META, "ls_invocation_params")),
        "model": (
            ("outputs", "model"),
            ("outputs", "llm_output", "model_name"),
            ("outputs", "response_metadata", "model_name"),
        ),
        "request_model": (("inputs", "model"), (*_META, "ls_model_name"), ("extra", "invocation_params", "model")),
        "provider": ((*_META, "ls_provider"),),
        "response_id": (("outputs", "id"),),
        "input_tokens": (*_usage("input_tokens", "prompt_tokens"), "prompt_tokens"),
        "output_tokens": (*_usage("output_tokens", "completion_tokens"), "completion_tokens"),
        "total_tokens": (*_usage("total_tokens"), "total_tokens"),
        "cached_input_tokens": _usage("input_token_details/cache_read", "prompt_tokens_details/cached_tokens"),
        "cache_write_tokens": _usage("input_token_details/cache_creation"),
        "reasoning_tokens": _usage("output_token_details/reasoning", "completion_tokens_details/reasoning_tokens"),
        "cost_usd": (*_usage("total_cost"), "total_cost"),
        "tool": ("name",),
        "call_id": (
            ("outputs", "tool_call_id"),
            ("outputs", "output", "tool_call_id"),
            ("extra", "tool_call_id"),
            (*_META, "tool_call_id"),
        ),
        "arguments": ("inputs",),
        "result": ("outputs",),
        "session": ((*_META, "thread_id"), (*_META, "session_id"), (*_META, "conversation_id")),
        "run": ("session_name", "session_id"),
        "version": ((*_META, "revision_id"),),
    },
    kinds={"llm": LLM, "chat_model": LLM, "tool": TOOL},
)
"""A run."""

_KINDS = {"app": "human", "model": "model_judge", "auto_eval": "model_judge", "user": "user_feedback"}
_DEFAULTS = {"task_id": "reference_example_id"}


class LangSmith:
    """Reader of LangSmith runs and feedback."""

    name = "langsmith"
    summary = "LangSmith runs and feedback: JSONL, as sent by the SDK or exported, and the Parquet bulk export"
    carries = {  # noqa: RUF012 - read only, by contract of the protocol
        "system_prompt": "yes",
        "tools": "yes",
        "reasoning": "some",
        "verdict": "feedback",
        "trial": "metadata",
        "tokens": "yes",
        "cost": "some",
        "times": "yes",
        "token_ids": "no",
    }

    def claims_folder(self, folder: Path, names: frozenset[str]) -> bool:
        """Never: exports are files."""
        return False

    def claims_file(self, look: Look) -> bool:
        """Rows that are runs, or feedback on runs."""
        keys = columns(look)
        if "run_type" in keys and keys & {"dotted_order", "parent_run_id", "trace_id"}:
            return True
        if keys and not look.keys:
            # Columns of a table: a data set may have a score by run and key too.
            return keys >= {"run_id", "key", "feedback_source"}
        if {"run_id", "key"} <= keys and keys & {"feedback_source", "score", "value"}:
            return True
        return any("run_type" in look.at(place) and "dotted_order" in look.at(place) for place in ("post", "patch"))

    def units(self, path: Path, root: Path, found: Found) -> None:
        """One unit a file; files of a folder are one group, since feedback stands in a file of its own."""
        file_unit(self.name, path, root, found, folder_group(self.name, path, root))

    def read(self, units: Sequence[Unit], options: ReadOptions) -> Frames:
        """Read runs and feedback; both are joined over all units."""
        batch = Batch()
        runs: dict[str, tuple[Unit, int, str, Row]] = {}
        feedback: list[tuple[Unit, int, Row]] = []
        for unit in units:
            loaded = load_records(batch, unit, options)
            if loaded is None:
                continue
            for pos, record in loaded[0]:
                _take(batch, unit, pos, record, loaded[1], runs, feedback)
        traces = _traces(runs)
        _join(batch, traces, feedback)
        write(batch, self.name, list(traces.values()), options, defaults=_DEFAULTS)
        return batch.frames()


def _take(
    batch: Batch,
    unit: Unit,
    pos: int,
    record: Any,
    digest: str,
    runs: dict[str, tuple[Unit, int, str, Row]],
    feedback: list[tuple[Unit, int, Row]],
) -> None:
    entry = obj(record)
    batched = [r for name in ("post", "patch") for r in items(entry.get(name)) if isinstance(r, dict)]
    if not batched and isinstance(entry.get("run"), dict):
        entry = entry["run"]
    for run in batched or [entry]:
        ident = text(run.get("id"))
        if "run_id" in run and "key" in run and "run_type" not in run:
            feedback.append((unit, pos, run))
        elif ident is not None and ("run_type" in run or ident in runs):
            # A run is sent twice: when it starts, and again with what came out.
            old = runs.get(ident)
            runs[ident] = (unit, pos, digest, run) if old is None else (*old[:3], merge(old[3], run))
        else:
            detail = f"record {pos} is {shown(run or record)}, expected a run or feedback; left out"
            tell(batch, unit, pos, "bad_record", detail)


def _traces(runs: dict[str, tuple[Unit, int, str, Row]]) -> dict[str, Trace]:
    out: dict[str, Trace] = {}
    for ident, (unit, pos, digest, run) in runs.items():
        order = text(run.get("dotted_order")) or ""
        path = [p[-36:] for p in order.split(".")]
        key = text(run.get("trace_id")) or (path[0] if order else None) or _topmost(runs, ident)
        parent = text(run.get("parent_run_id")) or (path[-2] if len(path) > 1 else None)
        trace = out.setdefault(key, Trace(key))
        span, naive = _span(run, unit, pos, digest, key, ident, parent)
        trace.spans.append(span)
        trace.tags += [t for t in items(unwrap(run.get("tags"))) if isinstance(t, str) and t not in trace.tags]
        if naive and not any(n.code == "naive_time" for n in trace.notes):
            trace.notes.append(Note("naive_time", "times without a zone were read as UTC", "info"))
    return out


def _topmost(runs: dict[str, tuple[Unit, int, str, Row]], ident: str) -> str:
    seen = {ident}
    while True:
        parent = text(runs[ident][3].get("parent_run_id"))
        if parent is None or parent not in runs or parent in seen:
            return ident
        seen.add(parent)
        ident = parent


def _span(run: Row, unit: Unit, pos: int, digest: str, trace: str, ident: str, parent: str | None) -> tuple[Span, bool]:
    extra = obj(unwrap(run.get("extra")))
    meta = obj(extra.get("metadata"))
    entry = run | {"extra": extra, "inputs": unwrap(run.get("inputs")), "outputs": unwrap(run.get("outputs"))}
    kind = LANGSMITH.kind(entry)
    data = LANGSMITH.read(entry)
    if kind == LLM:
        data["tools"] = schemas(data.get("tools"))
        settings = {k.removeprefix("ls_"): meta[k] for k in ("ls_temperature", "ls_max_tokens", "ls_stop") if k in meta}
        data["params"] = settings | {
            k: v for k, v in obj(data.get("params")).items() if k not in ("tools", "functions")
        }
    name = text(run.get("name")) or ""
    if parent is None and kind not in (LLM, TOOL):
        data["agent"] = name or None
    start, naive = moment(run.get("start_time"))
    end, also = moment(run.get("end_time"))
    error = text(run.get("error"))
    word = text(run.get("status")) or ("error" if error else "success" if end is not None else "pending")
    found = _ERROR.match(error) if error else None
    span = Span(
        trace, ident, parent, name, kind, unit, pos, data, start, end, word,
        error_type=found.group(1) if found else None, error_message=error,
        labels=[meta, run], digest=digest,
    )  # fmt: skip
    if kind not in (LLM, TOOL):
        kept = {
            k: v
            for k, v in run.items()
            if k in ("feedback_stats", "reference_dataset_id", "reference_example_id") and v
        }
        span.rest = clean(meta) | kept
    return span, naive or also


def _join(batch: Batch, traces: dict[str, Trace], feedback: list[tuple[Unit, int, Row]]) -> None:
    """Put feedback on the runs it speaks of; that on runs which are not there is reported."""
    spans = {s.ident: s for t in traces.values() for s in t.spans}
    for unit, pos, raw in feedback:
        target = spans.get(text(raw.get("run_id")) or "")
        trace = traces.get(text(raw.get("trace_id")) or "")
        grade = _grade(raw, unit)
        if target is not None and target.parent is not None:
            target.grades.append(grade)
        elif target is not None:
            traces[target.trace].grades.append(grade)
        elif trace is not None:
            trace.grades.append(grade)
        else:
            detail = f"feedback {raw.get('key')!r} is on run {raw.get('run_id')!r}, which is not among the files read; left out"
            batch.diagnose(
                "feedback_without_run", detail, package_id=unit.package_id, source_uri=unit.package_id, source_pos=pos
            )


def _grade(raw: Row, unit: Unit) -> Grade:
    source = obj(unwrap(raw.get("feedback_source")))
    value, label = raw.get("score"), raw.get("value")
    name = text(raw.get("key")) or "feedback"
    who = "user_feedback" if "user" in name.lower() and "feedback" in name.lower() else None
    known = {
        "id",
        "run_id",
        "trace_id",
        "key",
        "score",
        "value",
        "comment",
        "created_at",
        "modified_at",
        "feedback_source",
    }
    rest = {k: v for k, v in raw.items() if k not in known and v is not None}
    if isinstance(label, dict | list):
        rest["value"], label = label, None
    return Grade(
        name,
        value,
        text(label) if isinstance(label, str) or label is None else str(label),
        who or _KINDS.get(text(source.get("type")) or "", "verifier"),
        grader=text(source.get("type")),
        rationale=text(raw.get("comment")),
        created_at=moment(raw.get("created_at"))[0],
        ref=unit.path.name,
        metadata=rest | ({"feedback_source": source["metadata"]} if source.get("metadata") else {}),
    )


SOURCE = LangSmith()
