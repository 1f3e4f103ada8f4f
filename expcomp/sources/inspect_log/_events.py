"""Events of an inspect sample: which model calls are the agent's, what tools brought back, who judged and when."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from expcomp.sources._values import items, obj, text
from expcomp.sources.inspect_log._log import short

if TYPE_CHECKING:
    from collections.abc import Iterator

_GRADER = ("grader", "judge", "scorer", "monitor")


@dataclass(slots=True)
class ModelCall:
    """A model call before scoring.

    Attributes:
        event: The event.
        message: The first choice.
        own: Whether the model under study made it.
        actor: Agent it was made for, where agents are nested.
    """

    event: dict[str, Any]
    message: dict[str, Any]
    own: bool
    actor: str | None


@dataclass(slots=True)
class Events:
    """What the events of a sample tell.

    Attributes:
        calls: Model calls before scoring that gave an answer, in order.
        foreign: How many of them are of other models or roles.
        failed: Calls that gave no answer.
        tools: Tool events by the id of the call.
        judges: Scorer -> model that judged.
        scored_at: Scorer -> time of its score.
        intermediate: Scores taken before the end.
        first: First time stamp.
        last: Last time stamp.
        typed: Whether a person typed something in.
    """

    calls: list[ModelCall] = field(default_factory=list)
    foreign: int = 0
    failed: int = 0
    tools: dict[str, dict[str, Any]] = field(default_factory=dict)
    judges: dict[str, str | None] = field(default_factory=dict)
    scored_at: dict[str, str] = field(default_factory=dict)
    intermediate: int = 0
    first: str | None = None
    last: str | None = None
    typed: bool = False


def scan(sample: dict[str, Any], study: str | None) -> Events:
    """Read the events of a sample.

    A call belongs to scoring when it lies in the span or step of a scorer, or after a score; calls of other models and roles are told
    apart by name.
    """
    out = Events()
    spans: dict[str, tuple[str | None, str | None]] = {}
    steps: list[str | None] = []
    candidates: list[tuple[dict[str, Any], dict[str, Any], str | None]] = []
    over = False
    for event in _flat(events_of(sample)):
        kind = event.get("event")
        stamp = event.get("timestamp")
        if isinstance(stamp, str):
            out.first = out.first or stamp
            out.last = stamp
        if kind == "span_begin":
            _open(spans, event)
            continue
        if kind == "step":
            _step(steps, event)
            continue
        if kind not in ("model", "score", "tool", "input"):
            continue
        span = event.get("span_id")
        scorer, actor = spans.get(span, (None, None)) if isinstance(span, str) else (None, None)
        if scorer is None and steps:
            scorer = next((s for s in reversed(steps) if s is not None), None)
        if kind == "model":
            if scorer is not None or over:
                out.judges[scorer or ""] = text(event.get("model"))
            elif event.get("pending") is not True:
                message = _answer(event)
                if message is None:
                    out.failed += 1
                else:
                    candidates.append((event, message, actor))
        elif kind == "score":
            if event.get("intermediate") is True:
                out.intermediate += 1
            else:
                over = True
                name = text(event.get("scorer")) or scorer
                if name and isinstance(stamp, str):
                    out.scored_at[short(name)] = stamp
        elif kind == "tool":
            call_id = text(event.get("id"))
            if call_id is not None:
                out.tools.setdefault(call_id, event)
        else:
            out.typed = True
    replied = any(
        m.get("role") == "assistant" and m.get("source") != "input"
        for m in items(sample.get("messages"))
        if isinstance(m, dict)
    )
    _sort_out(out, candidates, study, replied=replied)
    return out


def events_of(sample: dict[str, Any]) -> list[Any]:
    """The events; the oldest logs have them in a transcript."""
    found = sample.get("events")
    return items(found) if found is not None else items(obj(sample.get("transcript")).get("events"))


def _flat(events: list[Any]) -> Iterator[dict[str, Any]]:
    """All events; old logs keep those of a tool or a subtask inside it."""
    for event in events:
        if isinstance(event, dict):
            yield event
            if event.get("events"):
                yield from _flat(items(event["events"]))


def _open(spans: dict[str, tuple[str | None, str | None]], event: dict[str, Any]) -> None:
    ident, kind, name = event.get("id"), event.get("type"), text(event.get("name"))
    above = event.get("parent_id")
    scorer, actor = spans.get(above, (None, None)) if isinstance(above, str) else (None, None)
    if kind == "scorer":
        scorer = short(name or "")
    elif kind == "scorers" and scorer is None:
        scorer = ""
    elif kind == "agent":
        actor = name
    if isinstance(ident, str):
        spans[ident] = (scorer, actor)


def _step(steps: list[str | None], event: dict[str, Any]) -> None:
    if event.get("action") == "begin":
        steps.append(short(text(event.get("name")) or "") if event.get("type") == "scorer" else None)
    elif steps:
        steps.pop()


def _answer(event: dict[str, Any]) -> dict[str, Any] | None:
    if event.get("error"):
        return None
    choices = items(obj(event.get("output")).get("choices"))
    message = obj(choices[0]).get("message") if choices else None
    return message if isinstance(message, dict) else None


def _sort_out(
    out: Events,
    candidates: list[tuple[dict[str, Any], dict[str, Any], str | None]],
    study: str | None,
    *,
    replied: bool,
) -> None:
    """Tell the calls of the model under study from others, by role and model.

    Where none fits the name and yet somebody `replied`, by role alone: the log names the model otherwise than its calls do.
    """
    name = short(study) if study else None
    plain = [not event.get("role") for event, _, _ in candidates]
    fits = [name is None or short(text(event.get("model")) or name) == name for event, _, _ in candidates]
    own = [p and f for p, f in zip(plain, fits, strict=True)]
    if replied and not any(own):
        own = plain if any(plain) else [event.get("role") not in _GRADER for event, _, _ in candidates]
    out.calls = [ModelCall(e, m, mine, actor) for (e, m, actor), mine in zip(candidates, own, strict=True)]
    out.foreign = len(own) - sum(own)
