"""What is learned of an attempt while the messages of a Claude Code thread are read."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime

    from expcomp.sources._chat import Row, Transcript


@dataclass(slots=True)
class Told:
    """What the messages of a thread say of its attempt.

    Attributes:
        transcript: Steps, messages and notes.
        artifacts: Rows of artifacts, without the attempt's id.
        models: Names of models, in the order of their first message.
        last_model: Name on the last model message.
        versions: Program versions, in order.
        sessions: Session ids, in order.
        started_at: First time that is not copied history's.
        ended_at: Last such time.
        naive: Whether a time had no zone.
        stop_reason: Native word of the last model message of the main path.
        ending: Word for how the main path ends: `interrupted`, an API error, or none.
        error: Type and text of an API error that ends the main path.
        last: What the main path ends with: assistant, user, result, error.
        calls: Ids of the calls made, with the name of the tool.
        spawned: Sub-agents that results speak of: agent id -> what is said.
        forked_from: Session whose history the file begins with.
        first: Fields of the first message line.
        prompts: Prompts of calls that start sub-agents: call id -> prompt.
        first_text: Text of the first user message.
        has_summary: Whether a summary of earlier turns is among the messages.
        thinking: Settings of the model's reasoning, from the first turn that has any.
    """

    transcript: Transcript
    artifacts: list[Row] = field(default_factory=list)
    models: dict[str, None] = field(default_factory=dict)
    last_model: str | None = None
    versions: dict[str, None] = field(default_factory=dict)
    sessions: dict[str, None] = field(default_factory=dict)
    started_at: datetime | None = None
    ended_at: datetime | None = None
    naive: bool = False
    stop_reason: str | None = None
    ending: str | None = None
    error: tuple[str, str | None] | None = None
    last: str | None = None
    calls: dict[str, str | None] = field(default_factory=dict)
    spawned: dict[str, Row] = field(default_factory=dict)
    forked_from: str | None = None
    first: Row = field(default_factory=dict)
    prompts: dict[str, str] = field(default_factory=dict)
    first_text: str | None = None
    has_summary: bool = False
    thinking: Row = field(default_factory=dict)
