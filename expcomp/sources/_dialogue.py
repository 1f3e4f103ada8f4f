"""Writes the steps and messages of one attempt in the order in which they happened, whatever the format they were read from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from expcomp.sources._chat import CallLog, Note, Row, Transcript, observation

if TYPE_CHECKING:
    from datetime import datetime

USAGE = (
    "input_tokens",
    "cached_input_tokens",
    "cache_write_tokens",
    "output_tokens",
    "reasoning_tokens",
    "cost_usd",
)
"""Usage columns of `steps` and `attempts`."""


class Dialogue:
    """A transcript in the making.

    Every turn that is said becomes a message; what a person or a simulated user says, and what the agent does, becomes a step too.
    Results are matched with open calls by id, by position only when there are no ids (R8).

    Attributes:
        context: Context of what follows; raised at a compaction (R5).
        copied: Whether what follows is replayed history: it is kept, and neither trained on nor counted (R4).
        branch: Branch of what follows; 0 is the path to the last leaf.
    """

    def __init__(self, *, user_origin: str = "human") -> None:
        self.out = Transcript()
        self.context = 0
        self.copied = False
        self.branch = 0
        self._user_origin = user_origin
        self._log = CallLog(self.out.notes)
        self._turn = -1
        self._agent: Row | None = None

    def note(self, code: str, detail: str, severity: str = "warning", pos: int | None = None) -> None:
        """Add a line to the load report."""
        self.out.notes.append(Note(code, detail, severity, pos))

    def say(
        self,
        role: str,
        content: str | None,
        *,
        origin: str | None = None,
        parts: str | None = None,
        at: datetime | None = None,
        **more: Any,
    ) -> Row:
        """A turn that is neither the agent's nor a result: system, developer or user.

        `origin` is `harness` for system and developer and the dialogue's own for user unless given. Only a human's or a simulated
        user's words become a step and begin a turn; text that the harness injected does not (R7).

        Args:
            role: system, developer or user.
            content: Text; null when the turn is not plain text, then `parts` holds it.
            origin: Who really wrote it.
            parts: JSON of the original parts.
            at: When.
            **more: Further columns of `messages`.
        """
        spoken = origin or (self._user_origin if role == "user" else "harness")
        message = self._message(role, spoken, content, parts, at, more)
        if role == "user" and spoken in ("human", "simulator"):
            self._turn += 1
            source = "simulator" if spoken == "simulator" else "user"
            step = self._step(source, content, at, trainable=False)
            message["step_index"] = step["step_index"]
        return message

    def act(
        self,
        content: str | None,
        *,
        calls: list[Row] | None = None,
        reasoning: str | None = None,
        source: str = "agent",
        origin: str = "model",
        role: str = "assistant",
        trainable: bool | None = None,
        parts: str | None = None,
        at: datetime | None = None,
        message: dict[str, Any] | None = None,
        **step: Any,
    ) -> Row:
        """One model call, or a scripted action: an assistant message and the step it belongs to; gives the step.

        Args:
            content: Text the actor wrote.
            calls: Tool calls, made by `_chat.call`.
            reasoning: Reasoning text.
            source: agent, simulator, system, environment.
            origin: Origin of the message: model, simulator, demo, synthetic, summary.
            role: Role of the message; `user` for the calls of a simulated user.
            trainable: By default whether the agent's own model wrote it now; false for demos, greetings, scripted actions (R6).
            parts: JSON of the original parts when not plain text.
            at: Start.
            message: Further columns of `messages`.
            **step: Further columns of `steps` (model, llm_call_id, ended_at, stop_reason, the usage columns, detail, ...).
        """
        calls = calls or []
        written = self._message(role, origin, content, parts, at, message or {})
        if source == "simulator" and role == "user":
            self._turn += 1
        own = source == "agent" and origin == "model" and not self.copied
        row = self._step(source, content, at, trainable=own if trainable is None else trainable and not self.copied)
        row["tool_calls"] = written["tool_calls"] = calls
        row["reasoning"] = written["reasoning"] = reasoning
        if step:
            row.update(step)
        written["step_index"] = row["step_index"]
        if calls:
            self._log.add(row)
        if source == "agent" or calls:
            self._agent = row
        return row

    def result(
        self,
        call_id: str | None,
        content: str | None,
        *,
        name: str | None = None,
        parts: str | None = None,
        at: datetime | None = None,
        said: bool = True,
        role: str = "tool",
        message: dict[str, Any] | None = None,
        **flags: Any,
    ) -> Row | None:
        """What a call brought back: a tool message, and an observation of the step that called; gives the observation.

        Args:
            call_id: Id of the call; null when the source has none.
            content: Text of the result; null when it is not plain text, then the observation is `parts`.
            name: Tool.
            parts: JSON of the original parts when not plain text.
            at: When.
            said: Whether the model saw it as a message of its own; false adds the observation only.
            role: Role of the message; `user` where the protocol returns output under the user's name.
            message: Further columns of `messages`.
            **flags: is_error, exit_code, truncated.
        """
        found = self._log.match(call_id)
        owner = found[0] if found else self._agent
        known = found[1]["id"] if found and call_id is None else call_id
        if said:
            written = self._message(role, "tool", content, parts, at, message or {})
            written["tool_call_id"] = call_id
            written["name"] = name
            if owner is not None:
                written["step_index"] = owner["step_index"]
        if owner is None:
            return None
        seen = observation(known, content if content is not None else parts)
        if flags:
            seen.update(flags)
        owner["observations"].append(seen)
        return seen

    def compact(self) -> None:
        """What follows is another context: the model saw a summary in place of the turns before (R5)."""
        self.context += 1

    def finish(self) -> Transcript:
        """The transcript, with what was matched by position, answers nothing or was never answered in its notes."""
        self._log.close()
        return self.out

    def _message(
        self, role: str, origin: str, content: str | None, parts: str | None, at: datetime | None, more: dict[str, Any]
    ) -> Row:
        row: Row = {
            "message_index": len(self.out.messages),
            "role": role,
            "origin": origin,
            "content": content,
            "parts": parts,
            "context_id": self.context,
            "branch": self.branch,
            "timestamp": at,
        }
        if more:
            row |= more
        self.out.messages.append(row)
        return row

    def _step(self, source: str, content: str | None, at: datetime | None, *, trainable: bool) -> Row:
        row: Row = {
            "step_index": len(self.out.steps),
            "source": source,
            "content": content,
            "started_at": at,
            "tool_calls": [],
            "observations": [],
            "context_id": self.context,
            "is_copied_context": self.copied,
            "trainable": trainable,
            "turn": max(self._turn, 0),
        }
        self.out.steps.append(row)
        return row
