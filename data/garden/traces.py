"""Traces of an order desk of the garden: chat messages with tool calls, one JSON object a line and one file an arm; and held-out orders."""

from __future__ import annotations

import json
import random
from typing import Any

from garden.runs import ARMS

SEED = 20260309
TASKS, TRIALS = 40, 2
SKILL = {"plain": 0.45, "with-skills": 0.7}
PLANTS = {  # shelf, price of a packet in cents, packets in stock
    "fern": ("north", 120, 40),
    "moss": ("north", 80, 25),
    "orchid": ("glass", 450, 6),
    "cactus": ("south", 310, 12),
    "palm": ("glass", 275, 9),
    "ivy": ("north", 95, 30),
    "lily": ("pond", 180, 18),
    "reed": ("pond", 60, 50),
}
HELD_OUT = (3, 11, 27)
"""Orders that stand in the set of held-out tasks, too."""


def _tool(name: str, text: str, **arguments: str) -> dict[str, Any]:
    properties = {a: {"type": kind} for a, kind in arguments.items()}
    parameters = {"type": "object", "properties": properties, "required": list(arguments)}
    return {"type": "function", "function": {"name": name, "description": text, "parameters": parameters}}


TOOLS = [
    _tool("find_plant", "Shelf, price in cents and stock of a plant.", plant="string"),
    _tool("quote", "Price in cents of packets of a plant.", plant="string", packets="integer"),
]


def files() -> dict[str, bytes]:
    """Every file below `traces`, by path, and the held-out set beside it."""
    dice = random.Random(SEED)  # noqa: S311 - example data
    orders = [_order(n, dice) for n in range(TASKS)]
    out = {}
    for arm in ARMS:
        rollouts = [_rollout(n, order, arm, t, dice) for n, order in enumerate(orders) for t in range(TRIALS)]
        out[f"{arm}/orders.jsonl"] = _lines(rollouts)
    return out


def held_out() -> bytes:
    """The orders that must not be trained on, one JSON object a line."""
    dice = random.Random(SEED)  # noqa: S311 - example data
    orders = [_order(n, dice) for n in range(TASKS)]
    return _lines([{"task_id": f"order-{n:02}", "prompt": _ask(n, orders[n])} for n in HELD_OUT])


def _lines(records: list[dict[str, Any]]) -> bytes:
    return "".join(json.dumps(r, ensure_ascii=False) + "\n" for r in records).encode()


def _order(n: int, dice: random.Random) -> list[tuple[str, int]]:
    return [(plant, dice.randint(1, 10)) for plant in dice.sample(list(PLANTS), 2 + n % 2)]


def _ask(n: int, order: list[tuple[str, int]]) -> str:
    wanted = " and ".join(f"{packets} packets of {plant}" for plant, packets in order)
    return f"Order {n + 1} of the spring fair: {wanted}. What does it cost, and from which shelves do I take it?"


def _rollout(n: int, order: list[tuple[str, int]], arm: str, trial: int, dice: random.Random) -> dict[str, Any]:
    """One attempt at an order; one that fails adds wrongly, or forgets to ask about the last plant and guesses."""
    passed, forgets = dice.random() < SKILL[arm], dice.random() < 0.5
    messages: list[dict[str, Any]] = [
        {
            "role": "system",
            "content": "You serve the order desk of a botanical garden. Look up every plant; never guess.",
        },
        {"role": "user", "content": _ask(n, order)},
    ]
    total, shelves = 0, []
    for plant, packets in order[:-1] if forgets and not passed else order:
        shelf, price, stock = PLANTS[plant]
        known = {"shelf": shelf, "price": price, "stock": stock}
        messages += _call(len(messages), "find_plant", {"plant": plant}, json.dumps(known))
        short = packets > stock
        told = f"error: only {stock} packets in stock" if short else json.dumps({"cents": packets * price})
        messages += _call(len(messages), "quote", {"plant": plant, "packets": packets}, told)
        total += min(packets, stock) * price
        shelves.append(shelf)
    if not passed:
        total, shelves = total + (100 * order[-1][1] if forgets else 1_000), [*shelves, "north"] if forgets else shelves
    answer = f"It costs {total / 100:.2f} together. Take it from the shelves {', '.join(dict.fromkeys(shelves))}."
    messages.append({"role": "assistant", "content": answer})
    return {
        "dataset": "garden-orders",
        "instance_id": f"order-{n:02}",
        "arm": arm,
        "trial": trial,
        "model": "fern-1",
        "tools": TOOLS,
        "messages": messages,
        "resolved": passed,
    }


def _call(n: int, name: str, arguments: dict[str, Any], told: str) -> list[dict[str, Any]]:
    call = {"id": f"call_{n}", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
    return [
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": f"call_{n}", "name": name, "content": told},
    ]
