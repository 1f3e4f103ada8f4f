"""Snapshots: rules speak of the places in which the snapshot keeps things, and a state may be given as it was recorded."""

from __future__ import annotations

import json
import random

import polars as pl
import pytest

from expcomp.environments.induction.experience import EXPERIENCE
from expcomp.environments.induction.homes import homes, moved
from expcomp.environments.induction.prepared import operands
from expcomp.environments.induction.reconstruct import Reconstruction, reconstruct
from expcomp.environments.playing import Turn
from expcomp.environments.predictor import Predictor


def shop(episodes: int, *, seed: int = 0) -> pl.DataFrame:
    """Parts that are looked at and ordered; the snapshot keeps them in a map of another name, and the cash inside an object."""
    draw, rows = random.Random(seed), []
    for e in range(episodes):
        parts = {f"P-{n}": {"part_id": f"P-{n}", "stock": draw.randint(1, 9)} for n in draw.sample(range(100, 999), 3)}
        cash = draw.randint(50, 90)
        state = json.dumps({"shop": {"cash": cash}, "parts": parts})
        for turn in range(1, 7):
            part = parts[draw.choice(sorted(parts))]
            arguments: dict[str, object] = {"part_id": part["part_id"]}
            if turn % 2:
                action, answer = "look", dict(part)
            else:
                action, qty = "order", draw.randint(1, 4)
                part["stock"], cash, arguments = part["stock"] + qty, cash - qty, {**arguments, "qty": qty}
                answer = {**part, "cash": cash}
            name = (f"{seed}-{e:02}-{turn}", f"{seed}-{e:02}", f"{seed}-{e:02}", turn, action)
            told = state if turn == 1 else None
            rows.append((*name, json.dumps(arguments), json.dumps(answer), False, told))
    names = ("transition_id", "episode_id", "group", "turn", "action_type", "arguments_json", "observation", "is_error")
    schema = {n: EXPERIENCE[n] for n in (*names, "state_before_json")}
    return pl.DataFrame(rows, schema=schema, orient="row")


@pytest.fixture(scope="module")
def learned() -> Reconstruction:
    return reconstruct(shop(24))


def test_maps_and_scalars_of_the_snapshot_are_found() -> None:
    assert homes(operands(shop(4))) == {"part_id": "parts", "cash": "shop.cash"}
    assert homes(operands(shop(4).drop("state_before_json"))) == {}


def test_rules_name_the_places_of_the_snapshot(learned: Reconstruction) -> None:
    texts = [
        *learned.tables["renderers"]["template"].drop_nulls(),
        *learned.tables["mutations"]["path"],
        *learned.tables["mutations"]["value_json"].drop_nulls(),
    ]
    assert any("world.parts[arg.part_id].stock" in t for t in texts)
    assert not any("world.part_id" in t for t in texts)
    assert set(learned.tables["state_schema"]["path"]) <= {"world.parts", "world.shop"}


def test_tables_without_a_place_stay_as_they_are(learned: Reconstruction) -> None:
    assert moved(learned.tables, {}) == learned.tables


def test_what_nobody_has_looked_at_is_known_from_the_state(learned: Reconstruction) -> None:
    # In play there are few turns: which fields are those of a part is what was learned, not what these turns show.
    world = {
        "shop": {"cash": 60},
        "parts": {"P-7": {"part_id": "P-7", "stock": 5}, "P-8": {"part_id": "P-8", "stock": 2}},
    }
    turns = [Turn("look", {"part_id": "P-7"}, '{"part_id":"P-7","stock":5}', "success")]
    said = Predictor(learned).reply("look", {"part_id": "P-8"}, {"world": world}, turns)
    assert said is not None
    assert json.loads(said.observation) == {"part_id": "P-8", "stock": 2}
    assert said.world == {"parts": world["parts"]}
