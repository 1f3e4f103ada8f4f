"""Token counters of a rollout: cumulative, repeated, replayed; what each response added to them (R3)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from expcomp.sources._values import count, obj, text

if TYPE_CHECKING:
    from expcomp.sources._chat import Row
    from expcomp.sources.codex._lines import Rollout

_COLUMNS = (
    ("input_tokens", "input_tokens"),
    ("cached_input_tokens", "cached_input_tokens"),
    ("cache_write_input_tokens", "cache_write_tokens"),
    ("output_tokens", "output_tokens"),
    ("reasoning_output_tokens", "reasoning_tokens"),
)
"""Names in the file and in the tables."""

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
        now, before = _read(total), self._before
        if not any(now.values()):
            # Set back, or filled up by the program without a call.
            self._before = now
            return None
        if before is None:
            used = _said(last) or now
            if used is not now and _moved(used, now):
                self.late = _difference(now, used)
        else:
            used, back = {}, False
            for column, number in now.items():
                moved = None if number is None else number - (before[column] or 0)
                used[column] = moved
                back = back or (moved is not None and moved < 0)
            if back or (
                _may_equal(total, last) and _same(now, _read(last)) and _moved(before, now) and any(before.values())
            ):
                # The counter began again.
                used = _said(last) or now
        self._before = now
        return used if used["input_tokens"] or used["output_tokens"] else None


def responses(rollout: Rollout) -> tuple[dict[int, Row], Counter]:
    """Index of each record that tells of a new response -> its usage columns and, where known, its `llm_call_id`."""
    found: dict[int, Row] = {}
    counter = Counter()
    replayed = rollout.replayed
    for index, (_, kind, item, payload, _, _) in enumerate(rollout.records):
        if kind == "event_msg":
            if item != "token_count":
                continue
            info = payload.get("info")
            if not info or type(info) is not dict:
                continue
            used = counter.change(info.get("total_token_usage"), info.get("last_token_usage"))
        elif kind == "token_usage_record":
            used = _recorded(payload, counter, replay=index < replayed, own=rollout.thread)
        else:
            continue
        if used is not None:
            found[index] = used
        if index < replayed:
            # Told by another thread, not by this one.
            counter.late = None
    return found, counter


def _recorded(payload: Row, counter: Counter, *, replay: bool, own: str | None) -> Row | None:
    total, last = payload.get("thread_token_usage"), payload.get("usage")
    counted = counter.change(total, last) if isinstance(total, dict) else None
    if not replay and payload.get("thread_id") not in (own, None):
        return None
    used = _said(last) or counted
    return used and used | {"llm_call_id": text(payload.get("response_id"))}


def _said(last: Any) -> Row | None:
    """Usage of one response as the line tells it; null when it tells of none."""
    said = _read(last)
    return said if any(said.values()) else None


def _may_equal(total: Any, last: Any) -> bool:
    """Whether two counters may be equal; most are told apart by one number, before anything is read."""
    if type(total) is not dict or type(last) is not dict:
        return True
    one, other = total.get("input_tokens"), last.get("input_tokens")
    return one == other or type(one) is not int or type(other) is not int or not 0 <= one <= _MOST


def _read(raw: Any) -> Row:
    values = obj(raw)
    found: Row = {}
    for name, column in _COLUMNS:
        number = values.get(name)
        if type(number) is not int:
            number = None if number is None else count(number)
        found[column] = number if number is not None and 0 <= number <= _MOST else None
    return found


def _difference(now: Row, before: Row) -> Row:
    return {k: None if v is None else v - (before[k] or 0) for k, v in now.items()}


def _same(one: Row, other: Row) -> bool:
    return all(v == other[k] for k, v in one.items() if v is not None or other[k] is not None)


def _moved(before: Row, now: Row) -> bool:
    """Whether the counter stands elsewhere than before."""
    return any((now[k] or 0) != (before[k] or 0) for k in ("input_tokens", "output_tokens"))
