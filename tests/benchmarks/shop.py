"""A shop whose rules the benchmark knows, as chats: accounts with a balance, goods with a price, a calculator."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

TURNS = 10
"""Calls of an episode."""
TRIALS = 4
"""Episodes of a task."""
GOODS = {f"p{i:03d}": {"item_id": f"p{i:03d}", "name": f"thing {i}", "price": 5 + (i * 37) % 200} for i in range(200)}


def _turns(draw: random.Random, user: str) -> Iterator[tuple[str, dict[str, Any], str]]:
    """Calls of one episode: action, arguments, answer."""
    balance, held = draw.randrange(50, 500, 5), set[str]()
    for turn in range(TURNS):
        kind = draw.choices(["account", "item", "buy", "top_up", "calculate"], [20, 30, 25, 15, 10])[0]
        item = draw.choice(sorted(GOODS))
        if turn == 0 or kind == "account":
            yield (
                "get_account",
                {"user_id": user},
                json.dumps({"user_id": user, "balance": balance, "items": sorted(held)}),
            )
        elif kind == "item":
            yield "get_item", {"item_id": item}, json.dumps(GOODS[item])
        elif kind == "buy" and balance >= (price := int(GOODS[item]["price"])):
            balance -= price
            held.add(item)
            paid = {"user_id": user, "item_id": item, "paid": price, "balance": balance}
            yield "buy", {"user_id": user, "item_id": item}, json.dumps(paid)
        elif kind == "buy":
            yield "buy", {"user_id": user, "item_id": item}, "Error: not enough money"
        elif kind == "top_up":
            amount = draw.randrange(5, 100, 5)
            balance += amount
            yield "top_up", {"user_id": user, "amount": amount}, json.dumps({"user_id": user, "balance": balance})
        else:
            a = draw.randrange(1, 50)
            yield "calculate", {"expression": f"{a} * 2"}, str(a * 2)


def write_shop(path: Path, transitions: int, *, seed: int = 0, first: int = 0) -> None:
    """Write chats of an agent in the shop, one episode a line; a multiple of TURNS calls in all. Tasks are numbered from `first`."""
    draw = random.Random(seed)
    with path.open("w", encoding="utf-8") as file:
        for episode in range(transitions // TURNS):
            user = f"u{first + episode // TRIALS:06d}"
            messages: list[dict[str, Any]] = [{"role": "user", "content": f"Please shop for {user}."}]
            for place, (action, arguments, answer) in enumerate(_turns(draw, user)):
                call = {"name": action, "arguments": json.dumps(arguments)}
                calls = [{"id": f"c{place}", "type": "function", "function": call}]
                messages.append({"role": "assistant", "content": "", "tool_calls": calls})
                messages.append({"role": "tool", "tool_call_id": f"c{place}", "content": answer})
            file.write(json.dumps({"id": f"e{episode:07d}", "task_id": user, "messages": messages}) + "\n")
