"""From the model and tool spans of one attempt to its transcript.

Every model span repeats the whole history. A history that goes on from an earlier one is the same context and only what is new
is written; another history is another context, in which replayed turns are copied context (R4, R5).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from expcomp.sources._chat import call
from expcomp.sources._dialogue import Dialogue
from expcomp.sources._harness import injected
from expcomp.sources._json import dump_json
from expcomp.sources._values import items, obj, text
from expcomp.sources.telemetry._chat import Chat, Memo, read_input, read_output
from expcomp.sources.telemetry._media import Media
from expcomp.sources.telemetry._spans import LAST, LLM, TOOL, Group, Span, integer, real
from expcomp.sources.telemetry._turns import Turn, flagged, is_cut, result_text, same_arguments, schema_key, unwrap

if TYPE_CHECKING:
    from expcomp.sources._chat import Row

_NO_PARAMS = frozenset({"id", "created_at", "instructions", "tools", "functions", "messages", "input", "system"})
_TOKENS = ("input_tokens", "cached_input_tokens", "cache_write_tokens", "output_tokens", "reasoning_tokens")


@dataclass(slots=True)
class Context:
    """One history: keys of its turns, how many of them were input, and the messages of the last output."""

    ident: int
    seen: list[tuple[Any, ...]] = field(default_factory=list)
    base: int = 0
    mark: int = 0
    last: list[Row] = field(default_factory=list)
    lost: bool = False


@dataclass(slots=True)
class Talk:
    """What the spans of an attempt say, beyond the transcript."""

    media: Media = field(default_factory=Media)
    tools: dict[Any, Any] = field(default_factory=dict)
    system: str | None = None
    params: Row = field(default_factory=dict)
    stop: str | None = None
    steps: dict[str, int] = field(default_factory=dict)
    recorded: int = 0
    silent: int = 0
    lost: int = 0
    dropped: int = 0
    named: int = 0
    unknown: int = 0
    aside: int = 0


class Talker:
    """Writes the transcript of one group of spans."""

    def __init__(self, group: Group) -> None:
        self.talk = Talk()
        self.dialogue = Dialogue()
        self._spans = sorted((s for s in group.spans if s.kind in (LLM, TOOL)), key=lambda s: s.start or LAST)
        self._contexts: list[Context] = []
        # By a running hash of the keys, so that a trace of many contexts is not searched from end to end.
        self._index: dict[int, Context] = {}
        self._memo = Memo()
        self._produced: set[tuple[Any, ...]] = set()
        self._open: list[tuple[Row, Row]] = []
        self._waiting: list[Span] = []
        self._bare: Row | None = None
        idents = [text(s.data.get("response_id")) for s in self._spans if s.kind == LLM]
        # Proxies and replays give every response one id; usage is counted once per id, so such ids are no ids.
        self._unique = len(set(idents)) == len(idents) and None not in idents

    def run(self) -> Talk:
        """Write everything; the transcript is in `dialogue`."""
        for span in self._spans:
            if span.kind == TOOL:
                self._waiting.append(span)
                continue
            self._model(span)
        self._flush(said=bool(self._contexts) and self._contexts[-1].lost)
        self._number()
        return self.talk

    def _model(self, span: Span) -> None:
        for name in ("input", "output"):
            # A limit of the exporter cut the JSON text: it is no message, and what is in it is not the whole.
            if is_cut(span.data.get(name)):
                span.truncated = True
                span.rest = span.rest | {f"{name}_cut": span.data.pop(name)}
        chat = read_input(span.data.get("input"), self._memo, self.talk.media)
        answer = read_output(span.data.get("output"), self.talk.media)
        self._settings(span, chat, answer)
        if chat is not None:
            context = self._enter(chat.turns)
        else:
            context = self._follow(lost=answer is not None)
            self._flush(said=context.lost)
        self.dialogue.context = context.ident
        self._answer(span, chat, answer, context)

    def _settings(self, span: Span, chat: Chat | None, answer: Chat | None) -> None:
        talk = self.talk
        for found in (chat, answer):
            if found is None:
                continue
            talk.unknown += not found.known
            talk.system = talk.system or found.system
            talk.tools.update((schema_key(s), s) for s in found.tools if schema_key(s) not in talk.tools)
        for schema in items(span.data.get("tools")):
            talk.tools.setdefault(schema_key(schema), schema)
        talk.system = talk.system or text(span.data.get("system"))
        if not talk.params:
            asked = span.data.get("request_model")
            given = (chat.params if chat is not None else {}) | obj(unwrap(span.data.get("params")))
            talk.params = {k: v for k, v in given.items() if k not in _NO_PARAMS}
            if asked is not None and "model" not in talk.params:
                talk.params = talk.params | {"model": asked}

    def _enter(self, turns: list[Turn]) -> Context:
        """Find the context that the history goes on from, else open one; write what is new in it."""
        keys = [t.key for t in turns]
        marks = _marks(keys)
        best: Context | None = None
        start = 0
        for size in range(len(keys), 0, -1):
            context = self._index.get(marks[size])
            if context is None or context.lost or keys[:size] != context.seen[:size]:
                continue
            if size in (len(context.seen), context.base):
                best, start = context, size
                break
        if best is None and self._contexts and not self._contexts[-1].seen:
            best = self._contexts[-1]
        elif best is None:
            best = Context(len(self._contexts))
            self._contexts.append(best)
        elif start < len(best.seen):
            for row in best.last:
                row["_dropped"] = True
            self.talk.dropped += 1
        self.dialogue.context = best.ident
        for turn in turns[start:]:
            self.dialogue.copied = best.ident > 0 and turn.key in self._produced
            self._say(turn)
            self.dialogue.copied = False
        best.seen, best.base, best.last, best.mark = keys, len(keys), [], marks[-1]
        self._index[best.mark] = best
        self._produced.update(keys)
        return best

    def _follow(self, *, lost: bool) -> Context:
        """The context of a call whose history was not recorded: that of the call before."""
        if not self._contexts:
            self._contexts.append(Context(0))
        context = self._contexts[-1]
        if lost:
            context.lost = True
            self.talk.lost += 1
        return context

    def _say(self, turn: Turn) -> None:
        """A turn of the history that no span of this attempt wrote."""
        if turn.role == "tool":
            self._returned(turn)
        elif turn.role == "assistant":
            self._open_calls(self._replayed(turn))
        else:
            harness = turn.role == "user" and injected(turn.content or "")
            self.dialogue.say(
                turn.role,
                turn.content,
                origin="harness" if harness else None,
                parts=turn.parts,
                name=turn.name,
                native_id=turn.native_id,
            )

    def _replayed(self, turn: Turn) -> Row:
        copied, self.dialogue.copied = self.dialogue.copied, True
        step = self.dialogue.act(
            turn.content,
            calls=turn.calls,
            reasoning=turn.reasoning,
            parts=turn.parts,
            message={"native_id": turn.native_id, "name": turn.name},
        )
        self.dialogue.copied = copied
        return step

    def _returned(self, turn: Turn) -> None:
        """A result in the history: matched with its call, and with the tool span that recorded it."""
        same = [f for f in self._open if turn.call_id is not None and f[1]["id"] == turn.call_id]
        if turn.call_id is None:
            same = self._open[:1]
        found = same[0] if same else None
        self._open = [f for f in self._open if not any(f is s for s in same)]
        span = self._span_of(turn, found[1] if found else None)
        error = turn.is_error
        if span is not None:
            self._waiting.remove(span)
            flag = _output(span)[2]
            flag = _failed(span) if flag is None else flag
            error = flag if error is None else error
            self._place(span, found[0] if found else None)
        seen = turn.parts if turn.content is None else turn.content
        written = self.dialogue.out.messages
        self.dialogue.result(
            turn.call_id,
            seen,
            name=turn.name or (found[1]["name"] if found else None),
            parts=turn.parts,
            at=span.end if span is not None else None,
            is_error=error,
            message={"native_id": turn.native_id},
        )
        written[-1]["content"] = turn.content
        for _ in same[1:]:
            # The call was replayed in a new context before its result came: the step that made it gets the result too.
            self.dialogue.result(turn.call_id, seen, said=False, is_error=error)

    def _span_of(self, turn: Turn, made: Row | None) -> Span | None:
        ident = turn.call_id or (made["id"] if made else None)
        if ident is not None:
            exact = next((s for s in self._waiting if s.data.get("call_id") == ident), None)
            if exact is not None:
                return exact
        open_spans = [s for s in self._waiting if text(s.data.get("call_id")) is None]
        name = turn.name or (made["name"] if made else None)
        same = [s for s in open_spans if _tool_name(s) == name]
        if made is not None:
            alike = next((s for s in same if same_arguments(made["arguments"], _input(s))), None)
            same = [alike] if alike is not None else same
        return same[0] if same else None

    def _answer(self, span: Span, chat: Chat | None, answer: Chat | None, context: Context) -> None:
        """The model's own turn, and its step."""
        turns = answer.turns if answer is not None else []
        own = next((t for t in turns if t.role == "assistant"), None)
        columns = self._columns(span, answer, own)
        self.talk.stop = columns["stop_reason"] or self.talk.stop
        if own is None:
            # The step is known, the message is not.
            step = self.dialogue.act(None, at=span.start, **columns)
            self.dialogue.out.messages.pop()
            if span.error_type is None and span.word != "ERROR":
                self.talk.silent += 1
            self._bare = step
        else:
            self.talk.recorded += 1
            step = self.dialogue.act(
                own.content,
                calls=own.calls,
                reasoning=own.reasoning,
                parts=own.parts,
                at=span.start,
                message={"native_id": own.native_id, "name": own.name},
                reasoning_opaque=own.opaque or None,
                **columns,
            )
            self._open_calls(step)
            self._bare = None
        first = len(self.dialogue.out.messages) - (own is not None)
        if chat is not None and answer is None and not self.talk.recorded:
            self.talk.recorded += 1
        self.talk.steps[span.ident] = step["step_index"]
        for turn in turns:
            if turn.role == "tool":
                self._returned(turn)
            if turn.role == "tool" or turn is own:
                context.seen.append(turn.key)
                context.mark = hash((context.mark, turn.key))
                self._index[context.mark] = context
                self._produced.add(turn.key)
        context.last = self.dialogue.out.messages[first:]

    def _columns(self, span: Span, answer: Chat | None, own: Turn | None) -> Row:
        data = span.data
        stop = data.get("stop")
        stop = (
            next((s for s in items(stop) if isinstance(s, str)), None) if isinstance(stop, list) else text(unwrap(stop))
        )
        served = text(data.get("model")) or (answer.model if answer is not None else None)
        response = text(data.get("response_id")) or (answer.ident if answer is not None else None)
        detail = {"response_id": response, "span_id": span.ident, "name": span.name}
        if answer is not None:
            rest = [t for t in answer.turns if t.role == "assistant" and t is not own]
            other = [*answer.others, *({"content": t.content, "tool_calls": t.calls} for t in rest)]
            if other:
                detail["other_choices"] = self.talk.media.part(other)
            if not answer.known:
                detail["output"] = self.talk.media.part(data.get("output"))
        detail["output_cut"] = span.rest.get("output_cut")
        return {
            **usage(data),
            "llm_call_id": response if self._unique and text(data.get("response_id")) else span.ident,
            "model": served or text(data.get("request_model")),
            "ended_at": span.end,
            "stop_reason": stop or (own.stop if own is not None else None),
            "error_type": span.error_type,
            "error_message": span.error_message,
            "detail": dump_json({k: v for k, v in detail.items() if v is not None}),
        }

    def _open_calls(self, step: Row) -> None:
        self._open += [(step, c) for c in step["tool_calls"]]

    def _flush(self, *, said: bool) -> None:
        """Results that only tool spans recorded; `said` where the history that held them is lost."""
        waiting, self._waiting = self._waiting, []
        for span in waiting:
            given = text(span.data.get("call_id"))
            found = self._call_of(span, given)
            value, ident, flag = _output(span)
            content, parts = result_text(value, self.talk.media)
            content = content if content is not None or parts is not None else span.error_message
            error = _failed(span) if flag is None else flag
            if found is not None:
                self._open.remove(found)
                self._place(span, found[0])
                matched = found[1]["id"] or given or ident
                seen = parts if content is None else content
                self.dialogue.result(
                    matched, seen, name=_tool_name(span), parts=parts, at=span.end, said=said, is_error=error
                )
                continue
            self._alone(span, given or ident, parts if content is None else content, error=error)

    def _call_of(self, span: Span, given: str | None) -> tuple[Row, Row] | None:
        if given is not None:
            exact = next((f for f in reversed(self._open) if f[1]["id"] == given), None)
            if exact is not None:
                return exact
        name = _tool_name(span)
        same = [f for f in self._open if f[1]["name"] == name and (given is None or f[1]["id"] is None)]
        given_in = _input(span)
        alike = next((f for f in same if same_arguments(f[1]["arguments"], given_in)), None)
        found = alike or next(iter(same), None)
        if found is not None and found[1]["id"] is not None:
            self.talk.named += 1
        return found

    def _alone(self, span: Span, call_id: str | None, content: str | None, *, error: bool | None) -> None:
        """A tool span that answers no recorded call: the call is the span's own."""
        made = call(call_id, _tool_name(span), _input(span))
        seen = {"call_id": call_id, "content": content, "is_error": error, "exit_code": None, "truncated": None}
        if self._bare is not None:
            # The answer of the model was not recorded, so the calls in it are known from the tools alone.
            self._bare["tool_calls"].append(made)
            self._bare["observations"].append(seen)
            self._place(span, self._bare)
            return
        self.talk.aside += 1
        step = self.dialogue.act(
            None, source="environment", origin="synthetic", at=span.start, ended_at=span.end, tool=made["name"]
        )
        self.dialogue.out.messages.pop()
        step["tool_calls"] = [made]
        step["observations"].append(seen)
        self._place(span, step)

    def _place(self, span: Span, step: Row | None) -> None:
        if step is not None:
            self.talk.steps[span.ident] = step["step_index"]

    def _number(self) -> None:
        """Leave out messages that the history did not keep, and count the others."""
        kept = [m for m in self.dialogue.out.messages if not m.pop("_dropped", False)]
        for index, message in enumerate(kept):
            message["message_index"] = index
        self.dialogue.out.messages = kept


def _marks(keys: list[tuple[Any, ...]]) -> list[int]:
    """Running hash of the keys, from none to all of them."""
    out = [0]
    for key in keys:
        out.append(hash((out[-1], key)))
    return out


def usage(data: Row) -> Row:
    """Usage columns of a model span; the input holds cached tokens too, also where the source counts them apart."""
    found: Row = {name: integer(data.get(name)) for name in _TOKENS}
    cached = (found["cached_input_tokens"] or 0) + (found["cache_write_tokens"] or 0)
    total, given, made = integer(data.get("total_tokens")), found["input_tokens"], found["output_tokens"]
    if given is not None and cached:
        apart = cached > given or (
            total is not None and total != given + (made or 0) and total >= given + (made or 0) + cached
        )
        if apart:
            found["input_tokens"] = given + cached
    thought = found["reasoning_tokens"]
    if made is not None and thought and total is not None and total == (found["input_tokens"] or 0) + made + thought:
        found["output_tokens"] = made + thought
    found["cost_usd"] = real(data.get("cost_usd"))
    return found


def _tool_name(span: Span) -> str:
    return text(span.data.get("tool")) or span.name


def _input(span: Span) -> Any:
    """Arguments of a tool span; a lone wrapper `input` is taken off."""
    given = unwrap(span.data.get("arguments"))
    if isinstance(given, dict) and set(given) == {"input"}:
        inner = unwrap(given["input"])
        if isinstance(inner, dict):
            return inner
    return span.data.get("arguments") if isinstance(given, dict | list) or given is None else given


def _output(span: Span) -> tuple[Any, str | None, bool | None]:
    """Result of a tool span, the call id and the flag that it holds."""
    value = span.data.get("result")
    inner = unwrap(value)
    ident, flag = None, None
    for _ in range(2):
        if not isinstance(inner, dict):
            break
        if inner.get("type") == "constructor" and isinstance(inner.get("kwargs"), dict):
            inner = inner["kwargs"]
        if "tool_call_id" in inner and "content" in inner:
            ident, flag = text(inner["tool_call_id"]), flagged(inner)
            return inner["content"], ident, flag
        if set(inner) <= {"content", "is_error", "isError"} and isinstance(inner.get("content"), list):
            error = inner.get("is_error", inner.get("isError"))
            return inner["content"], None, error if isinstance(error, bool) else None
        if set(inner) != {"output"}:
            break
        value, inner = inner["output"], unwrap(inner["output"])
    return value, ident, flag


def _failed(span: Span) -> bool | None:
    if span.word in ("ERROR", "error") or span.error_type is not None:
        return True
    return False if span.word in ("OK", "success") else None
