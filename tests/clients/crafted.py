"""Rollouts made up so that every trap of the loaders is in them: JSON-like texts, times, nulls, `{}`, parallel calls, shared histories."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

Message = dict[str, Any]
ISO = "2026-11-29T11:45:00Z"
# Texts that a loader which guesses would turn into a number, an object, a null, a list, a boolean, a time.
LOOKALIKES = ("42", '{"t": 21}', "null", "[1, 2]", "true", ISO)
WIDE = 9007199254740993  # past 2**53: a reader that goes through floats changes it


def _tool(name: str, properties: dict[str, Any], required: list[str]) -> dict[str, Any]:
    parameters = {"type": "object", "properties": properties, "required": required}
    return {"type": "function", "function": {"name": name, "description": f"The {name}.", "parameters": parameters}}


SEARCH = _tool(
    "search",
    {
        "query": {"type": "string", "description": "Words."},
        "filters": {"type": "object", "description": "Limits.", "properties": {"max": {"type": "number"}}},
    },
    ["query"],
)
REFUND = _tool(
    "refund",
    {
        "order": {"type": "integer", "description": "Number."},
        "amount": {"type": ["number", "null"], "description": "Null for all."},
    },
    ["order"],
)
CLOCK = _tool("clock", {}, [])
PROBE = _tool("probe", {"kind": {"type": "string", "description": "What to read."}}, ["kind"])


def said(role: str, content: str, **more: Any) -> Message:
    """A message."""
    return {"role": role, "content": content} | more


def called(*calls: tuple[str, str, Any], content: str = "", **more: Any) -> Message:
    """An assistant turn with calls, each `(id, name, arguments)`."""
    made = [
        {"id": i, "type": "function", "function": {"name": n, "arguments": json.dumps(a, ensure_ascii=False)}}
        for i, n, a in calls
    ]
    return said("assistant", content, tool_calls=made) | more


def result(call_id: str, name: str, content: str) -> Message:
    """A tool message."""
    return said("tool", content, tool_call_id=call_id, name=name)


def _shop() -> tuple[list[Message], list[dict[str, Any]], list[Message], list[Message]]:
    prompt = [said("system", "You run the desk of a shop."), said("user", "Refund the kettle of Zoë Ångström, please.")]
    start = [
        called(
            ("call_a1", "search", {"query": "kettle Zoë", "filters": {"max": 99.5}}),
            reasoning_content="The number of the order comes first.",
        ),
        result("call_a1", "search", f'[{{"order": {WIDE}}}]'),
    ]
    good = [
        called(("call_a2", "refund", {"order": WIDE, "amount": None}), content="Found it, refunding all of it."),
        result("call_a2", "refund", "39.9"),
        said("assistant", "Done: 39.90 EUR are on their way back to you, for the kettle you ordered in autumn."),
    ]
    bad = [
        called(("call_a2", "refund", {"order": 1}), content="I take the first order there is, that will do."),
        result("call_a2", "refund", "no such order"),
        said("assistant", "Done: the refund is on its way to you, for all I can tell from this desk, have a good day."),
    ]
    return prompt, [SEARCH, REFUND, CLOCK], start + good, start + bad


def _parallel() -> tuple[list[Message], list[dict[str, Any]], list[Message], list[Message]]:
    prompt = [said("user", "Read the probes and the clock, then tell me which probe is warmer today.")]
    start = [
        called(
            ("call_b1", "probe", {"kind": "north"}), ("call_b2", "probe", {"kind": "south"}), ("call_b3", "clock", {})
        ),
        result("call_b1", "probe", '{"t": 21}'),
        result("call_b2", "probe", "12"),
        result("call_b3", "clock", ISO),
    ]
    good = [said("assistant", "The north probe is warmer: 21 degrees against 12 degrees, read a moment ago.")]
    bad = [said("assistant", "The south probe is warmer, by a wide margin, and it has been so for all of the week.")]
    return prompt, [PROBE, CLOCK], start + good, start + bad


def _lookalikes() -> tuple[list[Message], list[dict[str, Any]], list[Message], list[Message]]:
    prompt = [said("user", "Read every probe once, in order, and tell me in a word whether they all answered.")]
    reads = [
        m
        for i, text in enumerate(LOOKALIKES)
        for m in (called((f"call_c{i}", "probe", {"kind": text})), result(f"call_c{i}", "probe", text))
    ]
    good = [said("assistant", "All six probes answered, each of them in its own form, and none of them twice.")]
    bad = [said("assistant", "None of the probes answered at all, so there is nothing that I could tell you here.")]
    return prompt, [PROBE], reads + good, reads + bad


def _plain() -> tuple[list[Message], None, list[Message], list[Message]]:
    prompt = [said("user", ISO)]
    good = [
        said("assistant", "That is a quarter to twelve on the 29th of November 2026, in coordinated universal time.")
    ]
    bad = [
        said("assistant", "I have no idea what that might be, it looks like a mistake of your keyboard, I would say.")
    ]
    return prompt, None, good, bad


def rollouts() -> list[dict[str, Any]]:
    """Rows of a trajectory set: four tasks, for each two rollouts that passed and two that did not."""
    out = []
    for number, (prompt, tools, good, bad) in enumerate((_shop(), _parallel(), _lookalikes(), _plain())):
        for trial, (completion, passed) in enumerate(((good, True), (bad, False), (good, True), (bad, False))):
            out.append(
                {
                    "messages": prompt + completion,
                    "instance_id": f"desk-{number}",
                    "resolved": passed,
                    "model": "made-up",
                    "traj_id": f"desk-{number}.{trial}",
                    "answer": f"answer {number}",
                    "tools": tools,
                }
            )
    return out


def write(folder: Path) -> Path:
    """Write the rollouts as a Hub dataset of trajectories."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = "".join(json.dumps(r, ensure_ascii=False) + "\n" for r in rollouts())
    (folder / "desk.jsonl").write_text(lines, encoding="utf-8")
    return folder
