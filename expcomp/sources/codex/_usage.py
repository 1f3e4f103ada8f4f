"""Token counters of a rollout: cumulative, repeated, replayed; what each response added to them (R3)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from expcomp.sources._values import count, obj, text

if TYPE_CHECKING:
    from expcomp.sources._chat import Row
    from expcomp.sources.codex._lines import Record, Rollout

_FIELDS = {
    "input_tokens": "input_tokens",
    "cached_input_tokens": "cached_input_tokens",
    "cache_write_input_tokens": "cache_write_tokens",
    "output_tokens": "output_tokens",
    "reasoning_output_tokens": "reasoning_tokens",
}


_MOST = 10**15
"""A larger number is damage: sums of it fit no column."""


class Counter:
    """The cumulative counter of a thread.

    Attributes:
        late: What the counter held before the first response of the file, if it did not start there.
    """

    def __init__(self) -> None:
        self._before: Row | None = None
        self._raw: Any = None
        self.late: Row | None = None

    def change(self, total: Any, last: Any) -> Row | None:
        """Usage of the response that moved the counter; null when it did not move."""
        if total == self._raw:
            return None
        self._raw = total
        now, said, before = _read(total), _read(last), self._before
        if not any(now.values()):
            # Set back, or filled up by the program without a call.
            self._before = now
            return None
        if before is None:
            used = said if any(said.values()) else now
            if used is said and _moved(said, now):
                self.late = _difference(now, said)
        else:
            used = _difference(now, before)
            if any((v or 0) < 0 for v in used.values()) or (
                _same(now, said) and _moved(before, now) and any(before.values())
            ):
                # The counter began again.
                used = said if any(said.values()) else now
        self._before = now
        return used if used["input_tokens"] or used["output_tokens"] else None


def responses(rollout: Rollout) -> tuple[dict[int, Row], Counter]:
    """Index of each record that tells of a new response -> its usage columns and, where known, its `llm_call_id`."""
    found: dict[int, Row] = {}
    counter = Counter()
    for index, record in enumerate(rollout.records):
        kind = record.kind
        if kind == "token_usage_record" or (kind == "event_msg" and record.payload.get("type") == "token_count"):
            used = _of(record, counter, replay=index < rollout.replayed, own=rollout.thread)
            if used is not None:
                found[index] = used
        if index + 1 == rollout.replayed:
            counter.late = None
    return found, counter


def _of(record: Record, counter: Counter, *, replay: bool, own: str | None) -> Row | None:
    if record.kind == "token_usage_record":
        total, last = record.payload.get("thread_token_usage"), record.payload.get("usage")
        counted = counter.change(total, last) if isinstance(total, dict) else None
        if not replay and record.payload.get("thread_id") not in (own, None):
            return None
        said = _read(last)
        used = said if any(said.values()) else counted
        return used and used | {"llm_call_id": text(record.payload.get("response_id"))}
    info = obj(record.payload.get("info"))
    return counter.change(info.get("total_token_usage"), info.get("last_token_usage")) if info else None


def _read(raw: Any) -> Row:
    values = obj(raw)
    found: Row = {}
    for name, column in _FIELDS.items():
        number = values.get(name)
        if number.__class__ is not int:
            number = count(number)
        found[column] = number if number is not None and 0 <= number <= _MOST else None
    return found


def _difference(now: Row, before: Row) -> Row:
    return {k: None if v is None else v - (before[k] or 0) for k, v in now.items()}


def _same(one: Row, other: Row) -> bool:
    return all(v == other[k] for k, v in one.items() if v is not None or other[k] is not None)


def _moved(before: Row, now: Row) -> bool:
    """Whether the counter stands elsewhere than before."""
    return any((now[k] or 0) != (before[k] or 0) for k in ("input_tokens", "output_tokens"))
