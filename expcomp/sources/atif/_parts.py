"""Calls and metrics of an ATIF step."""

from __future__ import annotations

from typing import Any

from expcomp.sources._chat import Row, call
from expcomp.sources._values import amount, count, finite, items, obj, small, text

_COUNTS = (
    ("prompt_tokens", "input_tokens"),
    ("cached_tokens", "cached_input_tokens"),
    ("completion_tokens", "output_tokens"),
)
_EXTRA_COUNTS = (
    ("cache_write_input_tokens", "cache_write_tokens"),
    ("reasoning_output_tokens", "reasoning_tokens"),
)
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
