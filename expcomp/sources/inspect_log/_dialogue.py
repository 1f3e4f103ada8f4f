"""The transcript of an inspect sample: messages as the sample ends, steps as the model was called."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from expcomp.sources._chat import Transcript, call
from expcomp.sources._dialogue import Dialogue
from expcomp.sources._json import dump_json
from expcomp.sources._values import amount, count, finite, items, moment, obj, text

if TYPE_CHECKING:
    from expcomp.sources._chat import Row
    from expcomp.sources.inspect_log._content import Content, Reader
    from expcomp.sources.inspect_log._events import Events, ModelCall

_GIVEN = ("input", "operator")


class _Writer:
    """Writes one sample."""

    def __init__(self, sample: Row, events: Events, reader: Reader) -> None:
        self.talk = Dialogue()
        self.events = events
        self.reader = reader
        self.messages = [m for m in items(sample.get("messages")) if isinstance(m, dict)]
        self.answered = {text(m.get("tool_call_id")) for m in self.messages if m.get("role") == "tool"}
        self.owners: dict[str, Row] = {}
        self.naive = False
        self.made = match(self.messages, events.calls, reader)
        self._shown = set(self.made.values())
        self._next = 0
        self._logged = bool(events.calls) or events.failed > 0

    def write(self) -> None:
        """All messages in order; calls that left no message come in where they were made."""
        asked = False
        for pos, message in enumerate(self.messages):
            role = message.get("role")
            if obj(message.get("metadata")).get("summary") is True and pos:
                self.talk.compact()
                self._say(message, "user" if role == "assistant" else role, "summary")
            elif role == "assistant":
                self._assistant(message, self.made.get(pos))
            elif role == "tool":
                self._tool(message)
            elif role == "user":
                person = not asked or self.events.typed or message.get("source") in _GIVEN
                self._say(message, "user", "human" if person else "harness")
                asked = True
            elif role in ("system", "developer"):
                self._say(message, role, "harness")
            else:
                self.talk.note("unknown_role", f"message {pos} has role {role!r}; kept as a user message", pos=pos)
                self._say(message, "user", "harness")
        self._silent(len(self.events.calls))

    def _say(self, message: Row, role: Any, origin: str) -> None:
        content = self.reader.read(message.get("content"))
        said = role if role in ("system", "developer", "user") else "user"
        self.talk.say(said, content.text, origin=origin, parts=content.parts, native_id=text(message.get("id")))

    def _assistant(self, message: Row, index: int | None) -> None:
        if index is not None:
            self._silent(index)
            self._next = max(self._next, index + 1)
            self._act(message, self.events.calls[index])
        elif message.get("source") == "input":
            # Turns that the task brings along: replayed history, no work of this attempt.
            self.talk.copied = True
            self._act(message, None, source="agent", origin="demo", trainable=False)
            self.talk.copied = False
        elif self._logged:
            # There are events and none of them made this: a solver wrote it.
            self._act(message, None, source="system", origin="synthetic", trainable=False)
        else:
            self._act(message, None)

    def _silent(self, end: int) -> None:
        """Calls before `end` that no message shows: sub-agents, other branches, context that was cut away."""
        while self._next < end:
            index = self._next
            self._next += 1
            made = self.events.calls[index]
            if made.own and index not in self._shown:
                self._act(made.message, made)
                # The step stands; the last state of the sample does not hold the message.
                self.talk.out.messages.pop()

    def _act(self, message: Row, made: ModelCall | None, **more: Any) -> None:
        content = self.reader.read(message.get("content"))
        calls = [self._call(c) for c in items(message.get("tool_calls")) if isinstance(c, dict)]
        server = [call(p.get("id"), p.get("name"), p.get("arguments"), "server") for p in content.server]
        reasoning = content.reasoning or text(self.reader.resolve(message.get("reasoning")))
        if made is not None and not made.own:
            more = {"source": "simulator", "origin": "simulator", "trainable": False}
        step = self.talk.act(
            content.text,
            calls=calls + server,
            reasoning=reasoning,
            parts=content.parts,
            message={"native_id": text(message.get("id"))},
            reasoning_opaque=True if content.opaque else None,
            **self._columns(made),
            **more,
        )
        step["content"] = content.spoken if content.text is None else content.text
        self._bring(step, calls, content)

    def _bring(self, step: Row, calls: list[Row], content: Content) -> None:
        """Results that are no messages: of the provider's own tools, and of calls whose turn was cut away."""
        for part in content.server:
            result, error = part.get("result"), part.get("error")
            if result or error:
                told = result or error
                told = told if isinstance(told, str) else dump_json(told)
                self.talk.result(text(part.get("id")), told, said=False, is_error=bool(error))
        for made in calls:
            if made["id"] is None:
                continue
            self.owners[made["id"]] = step
            event = self.events.tools.get(made["id"])
            if event is not None and made["id"] not in self.answered:
                told = self.reader.read(event.get("result"))
                error = obj(event.get("error"))
                shown = told.spoken if told.spoken or not error else text(error.get("message"))
                self.talk.result(made["id"], shown, said=False, **self._flags(error, step))

    def _call(self, raw: Row) -> Row:
        made = call(raw.get("id"), raw.get("function"), self.reader.resolve(raw.get("arguments")), raw.get("type"))
        if raw.get("parse_error"):
            made["arguments_ok"] = False
        return made

    def _tool(self, message: Row) -> None:
        content = self.reader.read(message.get("content"))
        call_id = text(message.get("tool_call_id"))
        error = obj(message.get("error"))
        said = content.text
        if error and not content.spoken and content.parts is None:
            # What the model is shown then is the message of the error.
            said = text(error.get("message"))
        seen = self.talk.result(
            call_id,
            said,
            name=text(message.get("function")),
            parts=content.parts,
            message={"native_id": text(message.get("id"))},
            **self._flags(error, self.owners.get(call_id or "")),
        )
        if seen is not None and seen["content"] is None:
            seen["content"] = content.spoken

    def _flags(self, error: Row, step: Row | None) -> Row:
        if not error:
            return {"is_error": False}
        kind = text(error.get("type"))
        if step is not None and step.get("error_type") is None:
            step["error_type"], step["error_message"] = kind, text(error.get("message"))
        return {"is_error": True, "truncated": True if kind == "output_limit" else None}

    def _columns(self, made: ModelCall | None) -> Row:
        if made is None:
            return {}
        event = made.event
        output = obj(event.get("output"))
        choices = items(output.get("choices"))
        first = obj(choices[0]) if choices else {}
        start, assumed = moment(event.get("timestamp"))
        end, also = moment(event.get("completed"))
        self.naive = self.naive or assumed or also
        model, served = text(event.get("model")), text(output.get("model"))
        detail: Row = {}
        if served and served != model:
            detail["served_model"] = served
        if event.get("retries"):
            detail["retries"] = event["retries"]
        if event.get("cache"):
            detail["cache"] = event["cache"]
        if len(choices) > 1:
            detail["other_choices"] = self.reader.media(choices[1:])
        return {
            "llm_call_id": text(obj(obj(event.get("call")).get("response")).get("id")),
            "model": model,
            "at": start,
            "ended_at": end,
            "stop_reason": text(first.get("stop_reason")),
            "logprobs": _logprobs(first.get("logprobs")),
            "actor": made.actor,
            "detail": dump_json(detail) if detail else None,
            **usage_of(output.get("usage")),
        }


def match(messages: list[Row], calls: list[ModelCall], reader: Reader) -> dict[int, int]:
    """Message position -> call that made it: by the id of the message, else by what it says, else by order when the numbers agree."""
    by_id: dict[str, list[int]] = {}
    for index, made in enumerate(calls):
        ident = made.message.get("id")
        if isinstance(ident, str):
            by_id.setdefault(ident, []).append(index)
    out: dict[int, int] = {}
    left: list[int] = []
    for pos, message in enumerate(messages):
        if message.get("role") != "assistant":
            continue
        found = by_id.get(message["id"]) if isinstance(message.get("id"), str) else None
        if found:
            out[pos] = found.pop(0)
        elif message.get("source") != "input":
            left.append(pos)
    if not left:
        return out
    taken = set(out.values())
    free = [i for i, made in enumerate(calls) if i not in taken]
    said: dict[Any, list[int]] = {}
    for index in free:
        said.setdefault(_speech(calls[index].message, reader), []).append(index)
    for pos in list(left):
        same = said.get(_speech(messages[pos], reader))
        if same:
            out[pos] = same.pop(0)
            left.remove(pos)
            free.remove(out[pos])
    if len(left) == len(free):
        out |= dict(zip(left, free, strict=True))
    return out


def _speech(message: Row, reader: Reader) -> tuple[str | None, str]:
    calls = [[c.get("id"), c.get("function")] for c in items(message.get("tool_calls")) if isinstance(c, dict)]
    return reader.read(message.get("content")).spoken, dump_json(calls)


def _logprobs(raw: Any) -> list[float] | None:
    tokens = [obj(token).get("logprob") for token in items(obj(raw).get("content"))]
    found = [number for v in tokens if (number := finite(v)) is not None]
    return found if found and len(found) == len(tokens) else None


def usage_of(raw: Any) -> Row:
    """Usage columns. Input is the whole prompt: cached tokens are beside the others, in older logs of some providers among them."""
    usage = obj(raw)
    names = ("input_tokens", "output_tokens", "total_tokens", "input_tokens_cache_read", "input_tokens_cache_write")
    fresh, output, total, read, write = (count(usage.get(name)) for name in names)
    if not fresh and not output and not total:
        # Not one token: nothing was counted.
        return {}
    beside = (read or 0) + (write or 0)
    inside = beside > 0 and total is not None and total == (fresh or 0) + (output or 0)
    return {
        "input_tokens": fresh if fresh is None or inside else fresh + beside,
        "cached_input_tokens": read,
        "cache_write_tokens": write,
        "output_tokens": output,
        "reasoning_tokens": count(usage.get("reasoning_tokens")),
        "cost_usd": amount(usage.get("total_cost")),
    }


def read_sample(sample: Row, events: Events, reader: Reader) -> tuple[Transcript, bool]:
    """Steps and messages of a sample, and whether times lacked a zone."""
    writer = _Writer(sample, events, reader)
    writer.write()
    raw = sample.get("messages")
    talk = writer.talk
    if not isinstance(raw, list | None):
        talk.note("bad_transcript", f"messages is {type(raw).__name__}, expected a list; read as empty")
    elif len(writer.messages) < len(items(raw)):
        lost = len(items(raw)) - len(writer.messages)
        talk.note("bad_message", f"{lost} messages are no objects; left out")
    if events.foreign:
        detail = f"{events.foreign} model calls are of other models or roles; they are no steps of the agent"
        talk.note("other_model_calls", detail, "info")
    if events.failed:
        talk.note("failed_model_calls", f"{events.failed} model calls gave no answer; they are no steps", "info")
    if reader.missing:
        talk.note(
            "missing_attachment", f"{len(reader.missing)} references to attachments lead nowhere; kept as they are"
        )
    return talk.finish(), writer.naive
