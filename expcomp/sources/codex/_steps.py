"""Steps of a rollout: one for each response of the model, with its usage, and the results after the calls they answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from expcomp.sources._dialogue import Dialogue
from expcomp.sources._json import dump_json
from expcomp.sources._values import text
from expcomp.sources.codex._items import agent_in, call_of, reasoning_of, result_of, said
from expcomp.sources.codex._response import Response

if TYPE_CHECKING:
    from datetime import datetime

    from expcomp.sources._chat import Row


class Steps:
    """Writes the responses of one rollout.

    Attributes:
        dialogue: What was written.
        pictures: Rows of `artifacts` for inline pictures, with their step.
        model: Model of what follows.
        models: Number of responses of each model in the thread's own part.
        spawned: Thread -> call that started it.
        exits: Call -> exit code that an event told.
    """

    def __init__(self, *, trainable: bool, marked: bool) -> None:
        """Start.

        Args:
            trainable: Whether the thread may be trained on.
            marked: Whether lines of the file mark where a response ends, as in the oldest layout.
        """
        self.dialogue = Dialogue()
        self.pictures: list[Row] = []
        self.model: str | None = None
        self.models: dict[str, int] = {}
        self.spawned: dict[str, str] = {}
        self.exits: dict[str, int] = {}
        self._trainable = trainable
        self._marked = marked
        self._open: Response | None = None
        self._unpaid: Row | None = None
        self._names: dict[str, str | None] = {}

    def restart(self) -> None:
        """What follows is the thread's own: it pays for nothing that was copied."""
        self.close()
        self._unpaid = None

    def mark(self) -> None:
        """A line that stands between responses, and inside one before its results."""
        if self._open is not None and self._open.results:
            self.close()

    def output(self, item: Row, key: int | None, at: datetime | None) -> None:
        """An item that the model wrote."""
        response = self._open
        if response is not None and self._ends(response, key):
            self.close()
            response = None
        if response is None:
            response = self._open = Response(at, key)
        if response.key is None:
            response.key = key
        if at is not None:
            response.first, response.last = response.first or at, at
        kind = item.get("type")
        if kind == "message":
            raw = item.get("content")
            content, parts = said(raw, self.pictures)
            response.native = response.native or text(item.get("id"))
            response.plain = response.plain and parts is None
            response.parts += raw if isinstance(raw, list) else [{"type": "output_text", "text": content}]
            if content is not None:
                response.texts.append(content)
        elif kind == "reasoning":
            written, opaque = reasoning_of(item)
            response.opaque = bool(response.opaque) or opaque
            if written:
                response.reasoning.append(written)
        else:
            made = call_of(item)
            response.calls.append(made)
            if made["id"] is not None:
                self._names[made["id"]] = made["name"]
                space = item.get("namespace")
                if space and isinstance(space, str):
                    response.spaces[made["id"]] = space

    def _ends(self, response: Response, key: int | None) -> bool:
        """Whether the next item of the model belongs to another response."""
        if key is not None and response.key is not None and key != response.key:
            return True
        if response.usage is not None:
            return not response.counted_first
        if self._marked:
            return False
        return bool(response.results) and (key is None or key != response.key)

    def result(self, item: Row, at: datetime | None) -> None:
        """What a call brought back; it is written after the response that called."""
        found: list[Row] = []
        content, parts, flags = result_of(item, found)
        call_id = text(item.get("call_id"))
        if call_id is not None:
            if call_id in self.exits and "exit_code" not in flags:
                flags["exit_code"] = self.exits[call_id]
            if self._names.get(call_id) == "spawn_agent":
                child = agent_in(content)
                if child is not None:
                    self.spawned.setdefault(child, call_id)
        if found:
            self.keep(found, len(self.dialogue.out.steps))
        if self._open is not None:
            self._open.results.append((call_id, content, parts, at, flags))
        else:
            self._bring(call_id, content, parts, at, flags)

    def _bring(
        self, call_id: str | None, content: str | None, parts: str | None, at: datetime | None, flags: Row
    ) -> None:
        name = self._names.get(call_id) if call_id is not None else None
        self.dialogue.result(call_id, content, name=name, parts=parts, at=at, **flags)

    def keep(self, found: list[Row], step: int | None) -> None:
        """Keep pictures of the thread itself, with the step they were seen at."""
        if found and not self.dialogue.copied:
            self.pictures += [row | {"step_index": step} for row in found]

    def used(self, usage: Row, at: datetime | None, *, counted_first: bool) -> None:
        """The counter moved: a response is complete, or (in versions that count first) about to be written."""
        if not counted_first:
            if self._open is not None and self._open.usage is None:
                self._open.usage, self._open.last = usage, at or self._open.last
                return
            if self._open is None and self._unpaid is not None:
                self._pay(self._unpaid, usage)
                self._unpaid = None
                return
        self.close()
        self._open = Response(at)
        self._open.usage, self._open.counted_first = usage, counted_first
        if not counted_first:
            self.close()

    def close(self) -> None:
        """The response is complete: write it."""
        response = self._open
        if response is None:
            return
        self._open = None
        if response.empty():
            if not self.dialogue.copied:
                self._silent(response)
        else:
            step = self._act(response)
            self._unpaid = step if response.usage is None else None
            if response.usage is not None:
                self._pay(step, response.usage)
        for call_id, content, parts, at, flags in response.results:
            self._bring(call_id, content, parts, at, flags)

    def _pay(self, step: Row, usage: Row) -> None:
        if not step["is_copied_context"]:
            step |= usage

    def _act(self, response: Response) -> Row:
        many = len(response.texts) > 1
        parts = None if response.plain and not many else dump_json(response.parts)
        if self.model is not None and not self.dialogue.copied:
            self.models[self.model] = self.models.get(self.model, 0) + 1
        return self.dialogue.act(
            "\n\n".join(response.texts) if response.texts else None,
            calls=response.calls,
            reasoning="\n\n".join(response.reasoning) or None,
            parts=parts,
            at=response.first,
            trainable=None if self._trainable else False,
            message={"native_id": response.native},
            model=self.model,
            ended_at=response.last,
            reasoning_opaque=response.opaque,
            detail=dump_json({"namespaces": response.spaces}) if response.spaces else None,
        )

    def _silent(self, response: Response) -> None:
        """A call of the model of which only the usage was recorded, such as the one that writes a summary."""
        written = len(self.dialogue.out.messages)
        step = self.dialogue.act(
            None,
            trainable=False,
            at=response.first,
            model=self.model,
            ended_at=response.last,
            detail=dump_json({"output": "not recorded"}),
        )
        del self.dialogue.out.messages[written:]
        self._pay(step, response.usage or {})
        self._unpaid = None
