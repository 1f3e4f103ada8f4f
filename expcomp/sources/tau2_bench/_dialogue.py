"""The dialogue of a tau2-bench simulation: agent, simulated user, and the tools of both."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from expcomp.sources._chat import Transcript, call
from expcomp.sources._dialogue import Dialogue
from expcomp.sources._json import dump_json
from expcomp.sources._values import amount, count, items, moment, obj, text

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from expcomp.sources._chat import Row

_CALLED = (
    ("agent_chunk", "agent_tool_calls", "agent_tool_results"),
    ("user_chunk", "user_tool_calls", "user_tool_results"),
)
_DETAIL = ("errors", "generation_time_seconds", "context_truncation")


def read_dialogue(simulation: Row, model: str | None) -> tuple[Transcript, int]:
    """Steps and messages of a simulation, and how many raw provider responses were left out.

    The agent never sees what the simulated user's own tools say: those calls and results are on branch 1 of the messages.
    """
    talk = Dialogue(user_origin="simulator")
    raw_data = spoken = 0
    naive = False
    rows = list(_flat(simulation, talk))
    for pos, written in enumerate(rows):
        entry = written
        if not isinstance(entry, dict):
            talk.note("bad_message", f"message {pos} is {type(entry).__name__}, expected an object; left out", pos=pos)
            continue
        at, assumed = moment(entry.get("timestamp"))
        naive = naive or assumed
        raw_data += entry.get("raw_data") is not None
        if entry.get("is_audio") is True:
            # The content of a spoken turn is the sound in base64; the script says the same in words.
            entry = entry | {"content": entry.get("audio_script_gold")}
            spoken += 1
        role = entry.get("role")
        if role == "assistant":
            _agent(talk, entry, at, model, greeting=pos == 0 and _is_greeting(entry, rows))
        elif role == "user":
            _user(talk, entry, at)
        elif role == "tool":
            _result(talk, entry, at)
        elif role == "system":
            talk.say("system", text(entry.get("content")), at=at)
        else:
            talk.note("unknown_role", f"message {pos} has role {role!r}; kept as a user message", pos=pos)
            talk.say("user", text(entry.get("content")), origin="harness", at=at)
    if spoken:
        talk.note(
            "audio_dropped", f"the sound of {spoken} turns was left out; their text is the script, if any", "info"
        )
    if naive:
        talk.note("naive_time", "times without a zone were read as UTC", "info")
    return talk.finish(), raw_data


def _flat(simulation: Row, talk: Dialogue) -> Iterator[Any]:
    """Messages in order, with the results of parallel calls apart; of a full-duplex run the turns of its ticks."""
    messages, ticks = simulation.get("messages"), simulation.get("ticks")
    if messages is None and not isinstance(ticks, list | None):
        talk.note("bad_transcript", f"expected a list of ticks, found {type(ticks).__name__}; read as empty")
    elif messages is None and ticks is not None:
        messages = [m for pos, tick in enumerate(ticks) for m in _tick(tick, pos, talk)]
        if messages:
            talk.note("from_ticks", "there are no messages; the turns were taken from the ticks", "info")
    if not isinstance(messages, list | None):
        detail = f"expected a list of messages, found {type(messages).__name__}; read as empty"
        talk.note("bad_transcript", detail)
    for entry in items(messages):
        if isinstance(entry, dict) and isinstance(entry.get("tool_messages"), list):
            yield from entry["tool_messages"]
        else:
            yield entry


def _tick(raw: Any, pos: int, talk: Dialogue) -> Iterator[Any]:
    tick = obj(raw)
    if not isinstance(raw, dict):
        talk.note("bad_message", f"tick {pos} is {type(raw).__name__}, expected an object; left out", pos=pos)
    for role, (chunk, calls, results) in zip(("assistant", "user"), _CALLED, strict=True):
        said = obj(tick.get(chunk))
        if not isinstance(tick.get(chunk), dict | None) or not isinstance(said.get("content"), str | None):
            talk.note("bad_message", f"{chunk} of tick {pos} holds no text; left out", pos=pos)
        made = items(tick.get(calls))
        if text(said.get("content")) or made:
            yield {"timestamp": tick.get("timestamp")} | said | {"role": role, "tool_calls": made}
        yield from items(tick.get(results))


def _is_greeting(entry: Row, rows: list[Any]) -> bool:
    """Whether the first turn is the fixed greeting: no model call stands behind it."""
    if entry.get("usage") or entry.get("tool_calls") or entry.get("cost"):
        return False
    return obj(rows[1]).get("role") == "user" if len(rows) > 1 else True


def _agent(talk: Dialogue, entry: Row, at: datetime | None, model: str | None, *, greeting: bool) -> None:
    content = text(entry.get("content"))
    if greeting:
        # A step of the system, not of the agent: counts of model calls and sums of their usage are not to see it.
        talk.act(content, source="system", origin="synthetic", trainable=False, at=at)
        return
    raw = obj(entry.get("raw_data"))
    usage = _usage(entry.get("usage"))
    cost = amount(entry.get("cost"))
    detail = {k: entry[k] for k in _DETAIL if entry.get(k) not in (None, [], {})}
    talk.act(
        content,
        calls=_calls(entry),
        reasoning=text(entry.get("reasoning")) or text(obj(raw.get("message")).get("reasoning_content")),
        parts=_parts(entry),
        at=at,
        model=text(raw.get("model")) or model,
        stop_reason=text(raw.get("finish_reason")),
        detail=dump_json(detail) if detail else None,
        # A provider without a price list reports 0 for what was not free.
        cost_usd=cost or None,
        **usage,
    )


def _user(talk: Dialogue, entry: Row, at: datetime | None) -> None:
    calls = _calls(entry)
    content = text(entry.get("content"))
    if not calls:
        talk.say("user", content, at=at, parts=_parts(entry))
        return
    talk.branch = 1
    talk.act(content, calls=calls, source="simulator", origin="simulator", role="user", trainable=False, at=at)
    talk.branch = 0


def _result(talk: Dialogue, entry: Row, at: datetime | None) -> None:
    content = entry.get("content")
    error = entry.get("error")
    talk.branch = int(entry.get("requestor") == "user")
    talk.result(
        text(entry.get("id")) or text(entry.get("tool_call_id")),
        content if isinstance(content, str | None) else dump_json(content),
        name=text(entry.get("name")),
        at=at,
        is_error=error if isinstance(error, bool) else None,
    )
    talk.branch = 0


def _calls(entry: Row) -> list[Row]:
    out = []
    for raw in items(entry.get("tool_calls")):
        made = obj(raw)
        inner = obj(made.get("function")) or made
        out.append(call(made.get("id") or None, inner.get("name"), inner.get("arguments"), made.get("type")))
    return out


def _parts(entry: Row) -> str | None:
    """Content that is no text, which no version of the format writes, as it stands."""
    content = entry.get("content")
    return None if isinstance(content, str | None) else dump_json(content)


def _usage(raw: Any) -> Row:
    usage = obj(raw)
    prompt = obj(usage.get("prompt_tokens_details"))
    completion = obj(usage.get("completion_tokens_details"))
    read = count(prompt.get("cached_tokens"))
    return {
        "input_tokens": count(usage.get("prompt_tokens")),
        "cached_input_tokens": read if read is not None else count(usage.get("cache_read_input_tokens")),
        "cache_write_tokens": count(usage.get("cache_creation_input_tokens")),
        "output_tokens": count(usage.get("completion_tokens")),
        "reasoning_tokens": count(completion.get("reasoning_tokens")),
    }
