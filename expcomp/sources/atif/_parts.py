"""Calls and metrics of an ATIF step, and the fields that are not of the format."""

from __future__ import annotations

from collections import Counter
from typing import Any

from expcomp.sources._chat import Row, call
from expcomp.sources._json import dump_json
from expcomp.sources._values import amount, count, finite, items, obj, redact, small, text

_COUNTS = (
    ("prompt_tokens", "input_tokens"),
    ("cached_tokens", "cached_input_tokens"),
    ("completion_tokens", "output_tokens"),
)
_EXTRA_COUNTS = (
    ("cache_write_input_tokens", "cache_write_tokens"),
    ("reasoning_output_tokens", "reasoning_tokens"),
)
FIELDS = {
    "": frozenset(
        "schema_version session_id trajectory_id agent steps notes final_metrics continued_trajectory_ref "
        "subagent_trajectories extra".split()
    ),
    "agent": frozenset("name version model_name tool_definitions extra".split()),
    "steps": frozenset(
        "step_id timestamp source message model_name reasoning_effort reasoning_content tool_calls metrics observation "
        "is_copied_context llm_call_count extra".split()
    ),
    "steps.metrics": frozenset(
        "prompt_tokens completion_tokens cached_tokens cost_usd prompt_token_ids completion_token_ids logprobs extra".split()
    ),
    "steps.tool_calls": frozenset("tool_call_id function_name arguments extra".split()),
}
"""Fields of the format by their place, versions 1.0 to 1.8."""

_MAPPED_EXTRA = frozenset({"api_call_id", "tool_call_details"})
_USUAL = 1 << 62
_IDS = ("prompt_token_ids", "completion_token_ids")


def read_call(raw: Any, extra: Row) -> Row:
    """A call of a step that has this `extra`."""
    entry = obj(raw)
    call_id = entry.get("tool_call_id")
    detail = obj(obj(extra.get("tool_call_details")).get(call_id)) if isinstance(call_id, str) else {}
    # Adapters that parse the arguments keep the model's own text beside them; that text is what was written.
    written = text(detail.get("raw_arguments"))
    kind = "custom" if detail.get("item_type") == "custom_tool_call" else "function"
    arguments = entry.get("arguments") if written is None or kind == "custom" else written
    return call(call_id, entry.get("function_name"), arguments, kind)


def read_metrics(metrics: Row, row: Row) -> None:
    """Put what a model call used into its step, as far as it is known."""
    _counts(metrics, _COUNTS, row)
    if isinstance(extra := metrics.get("extra"), dict):
        _counts(extra, _EXTRA_COUNTS, row)
    cost = amount(metrics.get("cost_usd"))
    if cost is not None:
        row["cost_usd"] = cost
    for name in _IDS:
        if raw := items(metrics.get(name)):
            ids = [small(n) for n in raw]
            if None not in ids:
                row[name] = ids
    probs = items(metrics.get("logprobs"))
    numbers = [number for p in probs if (number := finite(p)) is not None]
    if probs and len(numbers) == len(probs):
        row["logprobs"] = numbers


def _counts(said: Row, columns: tuple[tuple[str, str], ...], row: Row) -> None:
    for key, column in columns:
        value = said.get(key)
        # Nearly all are plain numbers of a usual size: no call for those.
        number = value if type(value) is int and 0 <= value <= _USUAL else count(value)
        if number is not None:
            row[column] = number


def unknown_fields(doc: Row) -> dict[str, int]:
    """Fields that the format does not have, as `steps.cost`, and how often each occurs; nothing reads them."""
    steps = [s for s in items(doc.get("steps")) if isinstance(s, dict)]
    places = {
        "": [doc],
        "agent": [obj(doc.get("agent"))],
        "steps": steps,
        "steps.metrics": [obj(s.get("metrics")) for s in steps],
        "steps.tool_calls": [obj(c) for s in steps for c in items(s.get("tool_calls"))],
    }
    found = Counter(
        f"{place}.{name}" if place else name
        for place, objects in places.items()
        for one in objects
        if not FIELDS[place].issuperset(one)  # holds of nearly all
        for name in sorted(one.keys() - FIELDS[place])
    )
    return dict(found)


def detail_of(entry: Row, extra: Row) -> str | None:
    """What a step says beyond the columns, as JSON."""
    kept: Row = {"extra": redact({k: v for k, v in extra.items() if k not in _MAPPED_EXTRA})} if extra else {}
    if entry.get("reasoning_effort") is not None:
        kept["reasoning_effort"] = entry["reasoning_effort"]
    kept = {k: v for k, v in kept.items() if v not in ({}, "")}
    return dump_json(kept) if kept else None
