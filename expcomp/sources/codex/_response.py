"""One response of the model while it is read, and where a version of the program puts its usage."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from expcomp.sources.codex._items import RESULTS, SILENT

if TYPE_CHECKING:
    from datetime import datetime

    from expcomp.sources._chat import Row
    from expcomp.sources.codex._lines import Rollout


@dataclass(slots=True)
class Response:
    """What one call of the model brought, as far as it was read."""

    first: datetime | None = None
    last: datetime | None = None
    texts: list[str] = field(default_factory=list)
    parts: list[Any] = field(default_factory=list)
    plain: bool = True
    reasoning: list[str] = field(default_factory=list)
    opaque: bool | None = None
    calls: list[Row] = field(default_factory=list)
    spaces: dict[str, str] = field(default_factory=dict)
    results: list[tuple[str | None, str | None, str | None, datetime | None, Row]] = field(default_factory=list)
    usage: Row | None = None
    counted_first: bool = False
    key: int | None = None
    native: str | None = None

    def empty(self) -> bool:
        """Whether nothing was recorded of it but its usage."""
        return not (self.texts or self.parts or self.reasoning or self.calls or self.opaque is not None)


def counted_first(rollout: Rollout, fresh: dict[int, Row]) -> dict[int, bool]:
    """For each response whether its usage stands before its items: so in some versions, which a file may mix.

    Decided for each session in the file, by what comes first after a user's message: usage or an item of the model. Usage
    right before a compaction is that of the summary and decides nothing.
    """
    out: dict[int, bool] = {}
    votes, pending, waiting = 0, False, True
    members: list[int] = []
    for index, record in enumerate(rollout.records):
        if index == rollout.replayed or record.kind == "session_meta":
            out |= dict.fromkeys(members, votes > 0)
            votes, pending, waiting, members = 0, False, True, []
        if index in fresh:
            members.append(index)
            pending = waiting
        elif record.kind == "compacted":
            pending, waiting = False, True
        elif record.kind == "response_item":
            kind = record.item()
            if kind == "message" and record.payload.get("role") != "assistant":
                pending, waiting = False, True
            elif waiting and kind not in RESULTS and kind not in SILENT:
                votes += 1 if pending else -1
                pending = waiting = False
    return out | dict.fromkeys(members, votes > 0)
