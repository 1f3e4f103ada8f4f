"""A SWE-agent trajectory and its history, put together: history entries are the messages, trajectory entries the steps."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from expcomp.sources._chat import call
from expcomp.sources._dialogue import Dialogue
from expcomp.sources._json import dump_json
from expcomp.sources._media import lighten, spoken
from expcomp.sources._values import amount, items, obj, text

if TYPE_CHECKING:
    from expcomp.sources._chat import Row, Transcript

_ROLES = frozenset({"system", "user", "assistant", "tool"})


class Walk:
    """One pass over both lists.

    The history holds what was said, the trajectory what was done: format errors are asked again and stand in the trajectory only, the
    last answer of some versions too. An assistant entry belongs to the next step with the same words; steps before it were asked again.

    Attributes:
        pictures: Rows of `artifacts` for pictures in messages, without their attempt.
        last_words: Text of the last step.
    """

    def __init__(
        self, trajectory: list[Any], history: list[Any], status: str | None, *, scripted: bool = False
    ) -> None:
        self.dialogue = Dialogue()
        self.pictures: list[Row] = []
        self.last_words: str | None = None
        self._steps = trajectory
        self._history = history
        self._status = status
        self._scripted = scripted
        self._next = 0
        self._open: tuple[Row, Row] | None = None
        self._asked = False
        self._answers = sum(
            isinstance(h, dict) and h.get("role") == "assistant" and not h.get("is_demo") for h in history
        )
        self._places = _places(trajectory)
        self._prompt = _Prompt(self.pictures)

    def read(self) -> Transcript:
        """Steps, messages and notes."""
        agents = {text(obj(h).get("agent")) for h in self._history}
        for pos, entry in enumerate(self._history):
            if not isinstance(entry, dict):
                detail = f"history entry {pos} is {type(entry).__name__}, expected an object; left out"
                self.dialogue.note("bad_message", detail, pos=pos)
                continue
            role = entry.get("role")
            if not isinstance(role, str) or role not in _ROLES:
                self.dialogue.note(
                    "unknown_role", f"history entry {pos} has role {role!r}; kept as a user message", pos=pos
                )
                role = "user"
            more: Row = {"name": text(entry.get("agent")) if len(agents) > 1 else None}
            content, parts = spoken(entry.get("content"), self.pictures)
            if entry.get("is_demo"):
                self._demo(str(role), entry, content, parts, more)
            elif role == "assistant":
                self._answer(entry, content, parts, more)
            else:
                self._told(str(role), entry, content, parts, more)
            self._prompt.said(self.dialogue.out.messages[-1]["message_index"], entry.get("content"))
        self._close()
        while self._next < len(self._steps):
            self._unsaid(last=True)
        return self.dialogue.finish()

    def _demo(self, role: str, entry: Row, content: str | None, parts: str | None, more: Row) -> None:
        """A demonstration: seen by the model, neither done nor asked in this attempt (R6)."""
        calls = self._calls(entry)
        if calls:
            more["tool_calls"] = calls
        self.dialogue.say(role, content, origin="demo", parts=parts, tool_call_id=_answered(entry), **more)

    def _answer(self, entry: Row, content: str | None, parts: str | None, more: Row) -> None:
        self._close()
        found = self._find(entry)
        if found is None:
            row = self.dialogue.say("assistant", content, origin="model", parts=parts, **more)
            row |= {"tool_calls": self._calls(entry), "reasoning": _reasoning(entry)}
            detail = "an assistant entry of the history has no step in the trajectory; kept as a message"
            self.dialogue.note("message_without_step", detail, pos=row["message_index"])
            return
        while self._next < found:
            self._unsaid(last=False)
        step = self._steps[found]
        self._next = found + 1
        calls = self._calls(entry) or self._action(step)
        row = self._act(step, content, calls, _reasoning(entry) or text(step.get("reasoning_content")), parts, more)
        self._open = (row, step)

    def _told(self, role: str, entry: Row, content: str | None, parts: str | None, more: Row) -> None:
        """System text, the task, or what came back."""
        if self._open is not None and role != "system":
            row, step = self._open
            self._open = None
            name = row["tool_calls"][0]["name"] if row["tool_calls"] and role == "tool" else more["name"]
            self._result(row, step, content, said=True, call_id=_answered(entry), name=name, parts=parts, role=role)
            return
        origin = None
        if role == "user":
            origin = "harness" if self._asked else "human"
            self._asked = True
        elif role == "tool":
            origin = "tool"
        self.dialogue.say(role, content, origin=origin, parts=parts, tool_call_id=_answered(entry), **more)

    def _find(self, entry: Row) -> int | None:
        """The next step with the action and the words of a history entry.

        Where the words were trimmed in one of the two the action alone tells, and where as many answers as steps are left the place.
        """
        left, self._answers = self._answers, self._answers - 1
        said, action = entry.get("content"), entry.get("action")
        keys = [(action, said), (action,)] if isinstance(action, str) and action.strip() else [(action, said)]
        for key in keys:
            found = self._places.get(key, ()) if all(isinstance(part, str) for part in key) else ()
            at = bisect_left(found, self._next)
            if at < len(found):
                return found[at]
        fits = len(self._steps) - self._next == left and isinstance(self._steps[self._next], dict)
        return self._next if fits else None

    def _unsaid(self, *, last: bool) -> None:
        """A step that is in no message: asked again, or the last one."""
        pos = self._next
        self._next += 1
        step = self._steps[pos]
        if not isinstance(step, dict):
            detail = f"trajectory entry {pos} is {type(step).__name__}, expected an object; left out"
            self.dialogue.note("bad_step", detail, pos=pos)
            return
        content = text(step.get("response")) or text(step.get("thought"))
        row = self._act(step, content, self._action(step), text(step.get("reasoning_content")), None, {})
        # The dialogue writes a message for all that is said; this was not.
        self.dialogue.out.messages.pop()
        if text(step.get("observation")) or (last and row["tool_calls"]):
            self._result(row, step, None, said=False)

    def _calls(self, entry: Row) -> list[Row]:
        given = entry.get("tool_calls")
        if given and not (isinstance(given, list) and all(isinstance(one, dict) for one in given)):
            self.dialogue.note("bad_tool_call", f"tool_calls holds {str(given)[:80]}, expected objects; left out")
        out = []
        for raw in items(given):
            one = obj(raw)
            inner = obj(one.get("function")) or one
            out.append(call(one.get("id"), inner.get("name"), inner.get("arguments"), text(one.get("type"))))
        return out

    def _action(self, step: Row) -> list[Row]:
        """The action as a call of the shell it ran in, where the model wrote it as text."""
        given = step.get("action")
        if not isinstance(given, str | None):
            self.dialogue.note("bad_tool_call", f"an action is {type(given).__name__}, expected a text; left out")
        action = text(given)
        return [call(None, "bash", {"command": action}, "custom")] if action and action.strip() else []

    def _act(
        self, step: Row, content: str | None, calls: list[Row], reasoning: str | None, parts: str | None, more: Row
    ) -> Row:
        self.last_words = content
        written = not (self._scripted or self._by_harness(step))
        return self.dialogue.act(
            content,
            calls=calls,
            reasoning=reasoning,
            origin="model" if written else "synthetic",
            trainable=written,
            parts=parts,
            message=more,
            state_after=_plain(step.get("state")),
            detail=self._detail(step, content),
        )

    def _by_harness(self, step: Row) -> bool:
        """Whether the harness wrote the step when it ended the attempt: the words give its reason, the action is none or an exit word."""
        action = (text(step.get("action")) or "").strip()
        words = text(step.get("response")) or text(step.get("thought")) or ""
        if self._status is None or "exit" not in self._status or not (action == "" or action.startswith("exit_")):
            return False
        return action in self._status if action else words.startswith(("Exit due to ", "Exiting due to "))

    def _close(self) -> None:
        """The result of a step that no message tells of."""
        if self._open is not None:
            row, step = self._open
            self._open = None
            if row["tool_calls"] or text(step.get("observation")):
                self._result(row, step, None, said=False)

    def _result(
        self, row: Row, step: Row, content: str | None, *, said: bool, call_id: str | None = None, **message: Any
    ) -> None:
        """What came back: the message holds it as the model saw it, the observation as the environment gave it."""
        raw = text(step.get("observation"))
        if not row["tool_calls"]:
            # Nothing was called: the words of the harness on a malformed answer, or at the end.
            if said:
                role, more = message.pop("role"), {k: v for k, v in message.items() if k in ("name", "parts")}
                spoke = self.dialogue.say(role, content, origin="harness", tool_call_id=call_id, **more)
                spoke["step_index"] = row["step_index"]
            return
        seen = self.dialogue.result(call_id, content if said else raw, said=said, **message)
        if seen is not None and raw is not None:
            seen["content"] = raw

    def _detail(self, step: Row, content: str | None) -> str | None:
        detail: Row = {}
        seconds = amount(step.get("execution_time"))
        if seconds is not None:
            detail["execution_time"] = seconds
        thought = text(step.get("thought"))
        if thought and thought != content and thought not in (content or ""):
            detail["thought"] = thought
        if step.get("extra_info"):
            detail["extra_info"] = step["extra_info"]
        detail |= self._prompt.changes(step.get("query"), step.get("messages"))
        return dump_json(detail) if detail else None


class _Prompt:
    """What the model saw where history processors were on: the history with some entries elided.

    A step tells in `detail.prompt_changes` which messages stood in its prompt with other text than in the messages table, as far as
    that was not so in the prompt before (a null content: the text of the table again), and in `detail.prompt_added` what the prompt held
    besides. Whole prompts would make a file as large as the square of its turns.
    """

    def __init__(self, pictures: list[Row]) -> None:
        self._pictures = pictures
        self._said: list[tuple[int, Any]] = []
        self._changed: dict[int, Any] = {}
        self._coming: list[Any] = []

    def said(self, index: int, content: Any) -> None:
        """An entry of the history became the message with this index."""
        self._said.append((index, content))

    def changes(self, query: Any, after: Any) -> Row:
        """How the prompt of a step differs; `after`, of 1.0 files, is the prompt of the step that comes."""
        prompt, self._coming = items(query) or self._coming, items(after)
        if not any(isinstance(entry, dict) and "content" in entry for entry in prompt):
            return {}
        if len(prompt) < len(self._said):
            # Entries were taken out: which ones is not told.
            return {"prompt_entries": len(prompt)}
        changed = []
        for (index, content), entry in zip(self._said, prompt, strict=False):
            shown = obj(entry).get("content")
            if shown == self._changed.get(index, content):
                continue
            if shown == content:
                del self._changed[index]
                changed.append({"message_index": index, "content": None})
            else:
                self._changed[index] = shown
                changed.append({"message_index": index, "content": lighten(shown, self._pictures)})
        added = [
            {"role": obj(e).get("role"), "content": lighten(obj(e).get("content"), self._pictures)}
            for e in prompt[len(self._said) :]
        ]
        return ({"prompt_changes": changed} if changed else {}) | ({"prompt_added": added} if added else {})


def _places(steps: list[Any]) -> dict[tuple[Any, ...], list[int]]:
    """Where steps stand, by action and words, and by action."""
    out: dict[tuple[Any, ...], list[int]] = defaultdict(list)
    for index, step in enumerate(steps):
        action = step.get("action") if isinstance(step, dict) else None
        if isinstance(action, str):
            for words in {w for w in (step.get("response"), step.get("thought")) if isinstance(w, str)}:
                out[action, words].append(index)
            out[action,].append(index)
    return out


def _answered(entry: Row) -> str | None:
    return text(next(iter(items(entry.get("tool_call_ids"))), None)) or text(entry.get("tool_call_id"))


def _reasoning(entry: Row) -> str | None:
    blocks = [text(obj(b).get("thinking")) for b in items(entry.get("thinking_blocks"))]
    return "\n".join(b for b in blocks if b) or text(entry.get("reasoning_content"))


def _plain(state: Any) -> str | None:
    if state is None or state in ({}, ""):
        return None
    return state if isinstance(state, str) else dump_json(state)
