"""Logs of requests to a model: every request holds the whole history, so a conversation is its longest request and the answer to it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from expcomp.io.digest import sha256_hex
from expcomp.sources._json import canonical
from expcomp.sources._values import items, obj, text
from expcomp.sources.chat._parts import parsed, usage_of
from expcomp.sources.chat._responses import is_item

if TYPE_CHECKING:
    from collections.abc import Callable

    from expcomp.sources.chat._parquet import Record

_REQUEST = ("request", "request_body", "req", "body", "params", "kwargs", "payload", "data", "input")
_RESPONSE = ("response", "response_body", "resp", "body", "payload", "data", "output", "completion", "result")
_ASKED = frozenset({"request", "request_body", "req", "body"})
_INNER = ("body", "json", "data", "params", "content")
_IDS = ("id", "request_id", "requestId", "custom_id", "call_id", "correlation_id", "trace_id", "uuid")
_OWN = frozenset({"messages", "input", "system", "instructions", "tools", "functions", "model"})


@dataclass(slots=True)
class Exchange:
    """A request and the answer to it.

    Attributes:
        pos: Position of the request's record.
        key: Unique key of that record.
        record: The record, without the request and the answer, for columns and metadata.
        request: The request.
        response: The answer; none if there is none.
    """

    pos: int
    key: str
    record: dict[str, Any]
    request: dict[str, Any]
    response: dict[str, Any] | None = None


@dataclass(slots=True)
class Conversation:
    """Exchanges that continue each other; the last is the longest."""

    exchanges: list[Exchange] = field(default_factory=list)

    @property
    def last(self) -> Exchange:
        """The longest request."""
        return self.exchanges[-1]


def is_log(head: list[Any]) -> bool:
    """Whether the first records of a file are requests and answers, or requests inside of something else."""
    for record in head:
        if not isinstance(record, dict) or record.keys() & {"chosen", "preferred_output"}:
            continue
        request, response = sides(record)
        if response is not None or (request is not None and request is not record and record.keys() & _ASKED):
            return True
    return False


def sides(record: dict[str, Any]) -> tuple[dict[str, Any] | None, dict[str, Any] | None]:
    """The request and the answer in a record."""
    response = record if is_response(record) else _find(record, _RESPONSE, is_response)
    request = _find(record, _REQUEST, is_request)
    if request is None and response is not record and is_request(record):
        request = record
    return request, response


def is_request(value: dict[str, Any]) -> bool:
    """Whether an object asks a model."""
    if isinstance(value.get("messages"), list):
        return True
    return isinstance(value.get("input"), list | str) and isinstance(value.get("model"), str)


def is_response(value: dict[str, Any]) -> bool:
    """Whether an object is what a model's API answers."""
    choices = value.get("choices")
    if isinstance(choices, list) and choices:
        first = choices[0]
        # Choices of a question have texts too; only an answer says why it ended.
        return isinstance(first, dict) and ("message" in first or bool({"finish_reason", "delta"} & first.keys()))
    if value.get("object") == "response":
        return isinstance(value.get("output"), list)
    return (
        value.get("type") == "message"
        and value.get("role") == "assistant"
        and isinstance(value.get("content"), list)
        and bool(value.keys() & {"usage", "stop_reason"})
        and not is_item(value)
    )


def _find(
    record: dict[str, Any], keys: tuple[str, ...], test: Callable[[dict[str, Any]], bool]
) -> dict[str, Any] | None:
    for key in keys:
        value = record.get(key)
        if isinstance(value, str) and value[:1] == "{":
            value = parsed(value)
        if not isinstance(value, dict):
            continue
        if test(value):
            return value
        for name in _INNER:
            inner = value.get(name)
            if isinstance(inner, str) and inner[:1] == "{":
                inner = parsed(inner)
            if isinstance(inner, dict) and test(inner):
                return inner
    return None


def pair(records: list[Record], tell: Callable[[str, str, int | None, str], None]) -> list[Exchange]:
    """Requests with their answers: by an id they share, else each answer to the last open request."""
    out: list[Exchange] = []
    waiting: dict[tuple[str, str], Exchange] = {}
    order: list[Exchange] = []
    by_position = 0
    for pos, key, record in records:
        request, response = sides(record) if isinstance(record, dict) else (None, None)
        if request is None and response is None:
            found = ", ".join(list(record)[:5]) if isinstance(record, dict) else type(record).__name__
            tell("bad_row", f"expected a request or an answer, found {found}; left out", pos, "warning")
            continue
        if request is not None:
            one = Exchange(pos, key, _rest(record, request, response), request, response)
            out.append(one)
            if response is None:
                order.append(one)
                for name in _IDS:
                    if isinstance(record.get(name), str | int):
                        waiting[name, str(record[name])] = one
            continue
        owner = next(
            (w for n in _IDS if isinstance(record.get(n), str | int) and (w := waiting.get((n, str(record[n]))))), None
        )
        if owner is None or owner.response is not None:
            while order and order[-1].response is not None:
                order.pop()
            owner = order.pop() if order else None
            by_position += owner is not None
        if owner is None:
            tell(
                "orphan_response", "no request asks for this answer; read as a conversation without one", pos, "warning"
            )
            out.append(Exchange(pos, key, _rest(record, {}, response), {}, response))
        else:
            owner.response = response
    if by_position:
        detail = f"{by_position} answers share no id with a request; taken as answers to the last open request"
        tell("matched_by_position", detail, None, "warning")
    return out


def _rest(record: dict[str, Any], request: dict[str, Any], response: dict[str, Any] | None) -> dict[str, Any]:
    """What the record says besides: the request's own fields are parameters and are read from it."""
    out = {} if record is response or record is request else dict(record)
    for key in (*_REQUEST, *_RESPONSE):
        value = out.get(key)
        if isinstance(value, dict | str) and (
            value is request or value is response or _wraps(value, request, response)
        ):
            del out[key]
    return out


def _wraps(value: Any, request: dict[str, Any], response: dict[str, Any] | None) -> bool:
    if isinstance(value, str):
        return value[:1] == "{" and (
            request == (again := parsed(value)) or response == again or _wraps(again, request, response)
        )
    return isinstance(value, dict) and any(
        inner is request
        or inner is response
        or (isinstance(inner, str) and inner[:1] == "{" and parsed(inner) in (request, response))
        for inner in value.values()
        if isinstance(inner, dict | str)
    )


def history(request: dict[str, Any]) -> list[Any]:
    """The turns of a request."""
    turns = request.get("messages", request.get("input"))
    if isinstance(turns, str):
        return [{"role": "user", "content": turns}]
    return turns if isinstance(turns, list) else [] if turns is None else [turns]


def converse(exchanges: list[Exchange], tell: Callable[[str, str, int | None, str], None]) -> list[Conversation]:
    """Conversations: a request whose history begins with another's, under the same system prompt, continues it.

    Requests that were sent through a batch interface (`custom_id`) are each their own conversation.
    """
    out: list[Conversation] = []
    ends: dict[bytes, Conversation] = {}
    within: dict[bytes, Conversation] = {}
    for one in exchanges:
        chain = _chain(one.request)
        if not chain or "custom_id" in one.record:
            out.append(Conversation([one]))
            continue
        known = within.get(chain[-1])
        if known is not None:
            longer = known.last
            if len(history(longer.request)) == len(history(one.request)):
                if one.response is not None or longer.response is None:
                    known.exchanges[-1] = one
                    kept, left = one, longer
                else:
                    kept, left = longer, one
                detail = f"the same request as record {kept.pos}; the later answer counts, this one was left out"
                tell("repeated_request", detail, left.pos, "warning")
            else:
                detail = f"its history begins the request of record {longer.pos}; read as part of that conversation"
                tell("prefix_request", detail, one.pos, "info")
                known.exchanges.insert(0, one)
                known.exchanges.sort(key=lambda e: len(history(e.request)))
            continue
        home = next((c for link in reversed(chain[:-1]) if (c := ends.pop(link, None)) is not None), None)
        if home is None:
            home = Conversation()
            out.append(home)
        else:
            detail = f"its history begins the request of record {one.pos}; read as part of that conversation"
            tell("prefix_request", detail, home.last.pos, "info")
        home.exchanges.append(one)
        ends[chain[-1]] = home
        for link in chain:
            within.setdefault(link, home)
        within[chain[-1]] = home
    return out


def _chain(request: dict[str, Any]) -> list[bytes]:
    """Digests of the history up to each turn that is no system turn, over the system prompt."""
    head = canonical([request.get("system"), request.get("instructions")])
    out: list[bytes] = []
    running = sha256_hex(head)
    for turn in history(request):
        running = sha256_hex(running.encode() + _sign(turn))
        if obj(turn).get("role") not in ("system", "developer"):
            out.append(running.encode())
    return out


def _sign(turn: Any) -> bytes:
    """What of a turn stays the same when it is sent again: who speaks, the calls or results, else the words."""
    entry = obj(turn)
    role = text(entry.get("role")) or text(entry.get("type"))
    content = entry.get("content", entry.get("output", entry.get("arguments")))
    parts = items(content)
    calls = [text(c.get("id")) for c in items(entry.get("tool_calls")) if isinstance(c, dict)]
    calls += [
        text(p.get("id", p.get("tool_use_id")))
        for p in parts
        if isinstance(p, dict) and ("id" in p or "tool_use_id" in p)
    ]
    calls += [text(entry.get("call_id")), text(entry.get("tool_call_id"))]
    if any(calls):
        # Old results may have been cleared since: the id says which it is.
        return canonical([role, calls])
    words = (
        content
        if isinstance(content, str)
        else [text(p.get("text")) for p in parts if isinstance(p, dict) and p.get("text")]
    )
    if isinstance(words, list):
        words = "".join(w for w in words if w)
    return canonical([role, words.strip() if isinstance(words, str) else None])


def answer(response: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """The turns an answer adds, and what it says of its model call: id, model, stop_reason, usage, further choices."""
    about: dict[str, Any] = {
        "id": text(response.get("id")),
        "model": text(response.get("model")),
        "usage": usage_of(response.get("usage")),
    }
    choices = [c for c in items(response.get("choices")) if isinstance(c, dict)]
    if choices:
        first = choices[0]
        said = first.get("message", first.get("delta"))
        turn = dict(said) if isinstance(said, dict) else {"content": text(first.get("text"))}
        turn["role"] = "assistant"
        about["stop_reason"] = text(first.get("finish_reason"))
        about["others"] = choices[1:]
        return [turn], about
    if isinstance(response.get("output"), list):
        status = text(response.get("status"))
        about["stop_reason"] = text(obj(response.get("incomplete_details")).get("reason")) or status
        return response["output"], about
    about["stop_reason"] = text(response.get("stop_reason"))
    return [{"role": "assistant", "content": response.get("content")}], about


def parameters(request: dict[str, Any]) -> dict[str, Any]:
    """What a request asks for besides its history, prompt and tools."""
    return {k: v for k, v in request.items() if k not in _OWN and v is not None}
