"""Hand-made logical rows of every kind, with what goes wrong most: parallel calls, nulls and nesting in arguments, reasoning, odd text."""

from __future__ import annotations

import json
from typing import Any

import polars as pl

from expcomp.datasets.contract import LOGICAL

Message = dict[str, Any]
ODD = 'Zoë 😀 "quoted" \\ back\ttab\nline\u2028\x01 <b>'


def message(role: str, content: str = "", **more: Any) -> Message:
    base: Message = dict.fromkeys(("reasoning", "tool_calls", "tool_call_id", "name", "trainable", "failed", "media"))
    if role == "assistant":
        base["trainable"] = True
    return {"role": role, "content": content, **base, **more}


def call(ident: str, name: str, arguments: Any) -> Message:
    return {"id": ident, "name": name, "arguments": json.dumps(arguments, ensure_ascii=False)}


def result(ident: str, name: str, content: str) -> Message:
    return message("tool", content, tool_call_id=ident, name=name)


FUNCTION = {
    "name": "find_gauge",
    "description": f"Look a gauge up. {ODD}",
    "parameters": {
        "type": "object",
        "properties": {
            "site": {"type": ["string", "null"]},
            "limit": {"type": "integer"},
            "within": {"type": "object", "properties": {"km": {"type": "number"}}},
        },
    },
}
LIST = {"name": "list_sites", "description": "All sites.", "parameters": {"type": "object", "properties": {}}}
TOOLS = json.dumps([{"type": "function", "function": f} for f in (FUNCTION, LIST)], ensure_ascii=False)
PARALLEL = [
    call("call_1", "find_gauge", {"site": None, "within": {"km": 2.5}, "limit": 3}),
    call("call_2", "list_sites", {}),
]
OPENING = [message("system", f"You mind river gauges. {ODD}"), message("user", f"Which gauge is highest? {ODD}")]
ASKED = [
    *OPENING,
    message("assistant", "", reasoning=f"Two calls at once. {ODD}", tool_calls=PARALLEL),
    result("call_1", "find_gauge", '{"level": 12}'),
    result("call_2", "list_sites", "2026-01-02"),
]
BESIDE = message(
    "assistant", "One more look.", tool_calls=[call("call_3", "find_gauge", {"site": ODD, "limit": 2**53 + 1})]
)
ANSWER = message("assistant", f"Gauge 12. {ODD}")
THOUGHT = message("assistant", "Gauge 12.", reasoning="Twelve is more than three.")
BARE = [message("user", "How many gauges?"), message("assistant", "Three.")]
CHATS: dict[str, list[Message]] = {
    "parallel": [*ASKED, ANSWER],
    "beside": [*ASKED, BESIDE, result("call_3", "find_gauge", "42"), THOUGHT],
    "bare": BARE,
    "two_users": [message("user", "First."), message("user", "Second."), message("assistant", "Both.")],
}


def shared(name: str) -> Message:
    return {"row_id": f"row-{name}", "task_id": f"task-{name}", "evidence_ids": [], "_hash": name, "_chars": 9}


def toolset(name: str) -> str | None:
    return TOOLS if name in ("parallel", "beside") else None


def frame(kind: str, rows: list[Message]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=LOGICAL[kind])


def conversations(chats: dict[str, list[Message]]) -> pl.DataFrame:
    return frame(
        "conversation",
        [
            {
                **shared(name),
                "attempt_id": f"attempt-{name}",
                "messages": chat,
                "tools": toolset(name),
                "_all_trainable": all(m["trainable"] for m in chat if m["role"] == "assistant"),
                "_n_turns": sum(m["role"] == "assistant" for m in chat),
            }
            for name, chat in chats.items()
        ],
    )


def turns(kind: str, chats: dict[str, list[Message]]) -> pl.DataFrame:
    """The last turn of each chat with its history, for the kinds turn and judged."""
    return frame(
        kind,
        [
            {
                **shared(name),
                "attempt_id": f"attempt-{name}",
                "prompt": chat[:-1],
                "completion": chat[-1:],
                "tools": toolset(name),
                **({"label": at % 2 == 0} if kind == "judged" else {}),
            }
            for at, (name, chat) in enumerate(chats.items())
        ],
    )


def pairs(chats: dict[str, list[Message]]) -> pl.DataFrame:
    return frame(
        "pair",
        [
            {
                **shared(name),
                "chosen_attempt_id": f"attempt-{name}-a",
                "rejected_attempt_id": f"attempt-{name}-b",
                "pair_level": "attempt",
                "prompt": chat[:-1],
                "chosen": chat[-1:],
                "rejected": [BESIDE if name == "parallel" else message("assistant", "No idea.")],
                "tools": toolset(name),
                "margin": None if name == "bare" else 0.5,
            }
            for name, chat in chats.items()
        ],
    )


def prompts() -> pl.DataFrame:
    stats = {"pass_rate": 0.25, "pass_rate_low": 0.1, "pass_rate_high": 0.5, "n_attempts": 8, "n_openings": 1}
    return frame(
        "prompt",
        [
            {
                **shared(name),
                "prompt": chat,
                "tools": toolset(name),
                "ground_truth": truth,
                "verifier": "checks",
                "benchmark": bench,
                **stats,
            }
            for name, chat, truth, bench in (
                ("parallel", OPENING, '{"gauge": 12}', "rivers"),
                ("bare", BARE[:1], "3", None),
                ("open", BARE[:1], None, "rivers"),
            )
        ],
    )


def process() -> pl.DataFrame:
    steps = {"completions": [f"look {ODD}", "answer"], "labels": [True, False], "label_sources": ["verifier", "error"]}
    return frame("process", [{**shared("bare"), "attempt_id": "attempt-bare", "prompt": f"Task. {ODD}", **steps}])


def worlds() -> pl.DataFrame:
    chat = [message("system", "You are a shell."), message("user", f"ls {ODD}"), message("assistant", f"a.txt {ODD}")]
    return frame("world", [{**shared("shell"), "attempt_id": "attempt-shell", "messages": chat}])


def rows_of(kind: str) -> pl.DataFrame:
    """Rows of a kind."""
    made = {"pair": pairs, "conversation": conversations}
    if kind in made:
        return made[kind](CHATS)
    if kind in ("turn", "judged"):
        return turns(kind, CHATS)
    return {"prompt": prompts, "process": process, "world": worlds}[kind]()
