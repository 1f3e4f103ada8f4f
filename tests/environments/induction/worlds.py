"""Small worlds for tests, made by code whose rules the tests know."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

import polars as pl

from expcomp.environments.induction.experience import EXPERIENCE

Row = dict[str, Any]
Tool = Callable[[random.Random, dict[str, Any]], tuple[str, dict[str, Any], str, bool]]


def transitions(rows: list[Row]) -> pl.DataFrame:
    """Rows as EXPERIENCE; what is left out is null."""
    return pl.DataFrame([{c: r.get(c) for c in EXPERIENCE} for r in rows], schema=dict(EXPERIENCE))


def played(
    tool: Tool, *, episodes: int, steps: int, state: Callable[[random.Random], dict[str, Any]], seed: int = 0
) -> pl.DataFrame:
    """Episodes of a world: a tool draws a call, changes the state in place and answers."""
    draw, rows = random.Random(seed), []
    for e in range(episodes):
        world = state(draw)
        for turn in range(1, steps + 1):
            before = json.dumps(world)
            action, arguments, answer, failed = tool(draw, world)
            rows.append(
                {
                    "transition_id": f"{e:03}-{turn:03}",
                    "episode_id": f"{e:03}",
                    "group": f"g{e:03}",
                    "turn": turn,
                    "action_type": action,
                    "arguments_json": json.dumps(arguments),
                    "observation": answer,
                    "is_error": failed,
                    "counterfactual": False,
                    "state_before_json": before,
                    "state_after_json": json.dumps(world),
                }
            )
    return transitions(rows)


def tank(draw: random.Random, world: dict[str, Any]) -> tuple[str, dict[str, Any], str, bool]:
    """Fill a tank that holds 50: an error when it would run over, a list of fillings, a named valve."""
    tank_ = world["tank"]
    if draw.random() < 0.3:
        name = draw.choice(["north", "south", "east", "west"])
        if name not in tank_["valves"]:
            return "turn", {"valve": name}, json.dumps({"error": f"valve {name} not found"}), True
        tank_["valves"][name] = "open"
        return "turn", {"valve": name}, json.dumps({"valve": name, "state": "open"}), False
    amount = draw.randint(1, 25)
    if amount + tank_["level"] > 50:
        return "fill", {"amount": amount}, json.dumps({"error": "the tank would run over"}), True
    tank_["level"] += amount
    tank_["log"].append({"added": amount})
    return "fill", {"amount": amount}, json.dumps({"level": tank_["level"], "unit": "litre"}), False


def tank_state(draw: random.Random) -> dict[str, Any]:
    """A tank with two valves."""
    valves = dict.fromkeys(sorted(draw.sample(["north", "south", "east", "west"], 2)), "shut")
    return {"tank": {"level": draw.randint(0, 30), "valves": valves, "log": []}}
