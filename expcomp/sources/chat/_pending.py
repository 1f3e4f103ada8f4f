"""Calls of one chat that wait for a result."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from expcomp.sources._chat import Note

if TYPE_CHECKING:
    from expcomp.sources.chat._parts import Call


class Pending:
    """Calls that wait for a result, by id and in order; the same rule as `_chat.CallLog`, in constant time."""

    def __init__(self) -> None:
        self._by_id: dict[str, list[tuple[int, list[Any]]]] = {}
        self._steps: list[tuple[int, deque[list[Any]]]] = []
        self._named = 0
        self._open = 0
        self._by_position = 0
        self._orphans: list[str] = []

    def add(self, row: int, calls: list[Call]) -> None:
        """Open the calls of a turn; those of a server never wait for a result."""
        waiting: deque[list[Any]] = deque()
        for ident, name, _, _, kind in calls:
            if kind == "server":
                continue
            entry = [ident, name, True]
            waiting.append(entry)
            self._open += 1
            if ident is not None:
                self._named += 1
                self._by_id.setdefault(ident, []).append((row, entry))
        self._steps.append((row, waiting))

    def match(self, call_id: str | None) -> tuple[int | None, str | None]:
        """Turn and id of the call that a result answers: by id, by position when no open call has one, else none."""
        if call_id is not None:
            stack = self._by_id.get(call_id)
            while stack:
                row, entry = stack.pop()
                if entry[2]:
                    self._close(entry)
                    return row, entry[0]
            if self._named or not self._open:
                self._orphans.append(call_id)
                return None, None
        while self._steps:
            row, waiting = self._steps[-1]
            while waiting:
                entry = waiting.popleft()
                if entry[2]:
                    self._by_position += 1
                    self._close(entry)
                    return row, entry[0]
            self._steps.pop()
        self._orphans.append("no id")
        return None, None

    def _close(self, entry: list[Any]) -> None:
        entry[2] = False
        self._open -= 1
        self._named -= entry[0] is not None

    def open_of(self, row: int | None) -> list[str | None]:
        """Names of the calls of a turn that nobody answered."""
        return [e[1] for r, waiting in self._steps if r == row for e in waiting if e[2]]

    def notes(self) -> list[Note]:
        """What was matched by position, what answered nothing and what was never answered."""
        out = []
        if self._by_position:
            detail = f"{self._by_position} results carry no call id that occurs; matched with calls by position"
            out.append(Note("matched_by_position", detail))
        if self._orphans:
            shown = ", ".join(self._orphans[:3])
            detail = f"{len(self._orphans)} results answer no open call ({shown}); kept with the step before them"
            out.append(Note("orphan_result", detail))
        if self._open:
            shown = ", ".join([str(e[1]) for _, waiting in self._steps for e in waiting if e[2]][:3])
            out.append(Note("unanswered_call", f"{self._open} calls have no result ({shown})", "info"))
        return out
