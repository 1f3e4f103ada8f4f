"""One response of the model while it is read, and where a version of the program puts its usage."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from expcomp.sources.codex._items import RESULTS, SILENT

if TYPE_CHECKING:
    from datetime import datetime

    from expcomp.sources._chat import Row
    from expcomp.sources.codex._lines import Rollout


class Response:
    """What one call of the model brought, as far as it was read."""

    __slots__ = (
        "calls",
        "counted_first",
        "first",
        "key",
        "last",
        "native",
        "opaque",
        "parts",
        "plain",
        "reasoning",
        "results",
        "spaces",
        "texts",
        "usage",
    )

    def __init__(self, first: datetime | None, key: int | None = None) -> None:
        self.first = self.last = first
        self.key = key
        self.texts: list[str] = []
        self.parts: list[Any] = []
        self.plain = True
        self.reasoning: list[str] = []
        self.opaque: bool | None = None
        self.calls: list[Row] = []
        self.spaces: dict[str, str] = {}
        self.results: list[tuple[str | None, str | None, str | None, datetime | None, Row]] = []
        self.usage: Row | None = None
        self.counted_first = False
        self.native: str | None = None

    def empty(self) -> bool:
        """Whether nothing was recorded of it but its usage."""
        return not (self.texts or self.parts or self.reasoning or self.calls or self.opaque is not None)


def counted_first(rollout: Rollout, fresh: dict[int, Row]) -> dict[int, bool]:
    """For each response whether its usage stands before its items: so in some versions, which a file may mix.

    Decided for each session in the file, by what comes first after a user's message: usage or an item of the model. Usage
    right before a compaction is that of the summary and decides nothing.
    """
    out: dict[int, bool] = {}
    if not fresh:
        return out
    votes, pending, waiting = 0, False, True
    members: list[int] = []
    replayed = rollout.replayed
    for index, (_, kind, item, payload, _, _) in enumerate(rollout.records):
        if index == replayed or kind == "session_meta":
            out |= dict.fromkeys(members, votes > 0)
            votes, pending, waiting, members = 0, False, True, []
        if index in fresh:
            members.append(index)
            pending = waiting
        elif kind == "response_item":
            if item == "message" and payload.get("role") != "assistant":
                pending, waiting = False, True
            elif waiting and item not in RESULTS and item not in SILENT:
                votes += 1 if pending else -1
                pending = waiting = False
        elif kind == "compacted":
            pending, waiting = False, True
    return out | dict.fromkeys(members, votes > 0)
