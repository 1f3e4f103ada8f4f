"""Facts, invariants and notes: only what was seen, with what shows it."""

from __future__ import annotations

import json

import polars as pl
import pytest

from expcomp.environments.expressions import expression
from expcomp.environments.frames import frames
from expcomp.environments.induction.experience import EXPERIENCE
from expcomp.environments.induction.invariants import invariants
from expcomp.environments.induction.known import facts_table
from expcomp.environments.induction.notes import notes
from expcomp.environments.induction.prepared import Prepared, operands
from expcomp.environments.scope import Scope

DECLARED = pl.Series(["world.tank_id"])


def shop(families: int = 8, *, worst: int = 0) -> Prepared:
    """Tanks that are filled and emptied: the level lies between `worst` and the capacity."""
    rows = []
    for family in range(families):
        level, tank = 4, f"TK-{family:02}"
        for turn in range(1, 9):
            action = ("look", "drain", "fill", "fill", "drain", "look", "drain", "drain")[turn - 1]
            by = {"look": 0, "fill": 3, "drain": 4}[action]
            if action == "drain" and level < 4:
                answer, failed = f"Error: tank {tank} holds {level} only", True
            else:
                level = worst if turn == 2 else min(10, level + by if action == "fill" else level - by)
                answer, failed = json.dumps({"tank_id": tank, "level": level, "capacity": 10}), False
            level = 10 if turn == 4 else level
            if turn == 4:
                answer = json.dumps({"tank_id": tank, "level": 10, "capacity": 10})
            rows.append(
                (
                    f"{family}-{turn}",
                    f"e{family}",
                    f"g{family}",
                    turn,
                    action,
                    json.dumps({"tank_id": tank}),
                    answer,
                    failed,
                )
            )
    names = ("transition_id", "episode_id", "group", "turn", "action_type", "arguments_json", "observation", "is_error")
    frame = pl.DataFrame(rows, schema={n: EXPERIENCE[n] for n in names}, orient="row")
    return operands(frame)


@pytest.fixture(scope="module")
def tanks() -> Prepared:
    return shop()


def test_facts_are_what_answers_show_and_rules_read(tanks: Prepared) -> None:
    found = facts_table(tanks, {"seen[arg.tank_id].level"}).filter(pl.col("evidence_id") == "evi_0-3")
    assert found.select(pl.col("role").cast(pl.String), "subject", "value_json").rows() == [
        ("precondition", "world.tank_id.TK-00.level", "0"),
        ("observation", "world.tank_id.TK-00.capacity", "10"),
        ("observation", "world.tank_id.TK-00.level", "3"),
        ("observation", "world.tank_id.TK-00.tank_id", '"TK-00"'),
    ]
    assert set(found["status"].cast(pl.String)) == {"observed"}
    assert found["confidence"].null_count() == found.height


def holds(condition: str, level: int) -> bool:
    world = {"tank_id": {"TK-00": {"level": level, "capacity": 10}}}
    return bool(expression(condition).value(Scope("look", {}, {"world": world})))


def test_invariants_are_those_that_could_have_failed(tanks: Prepared) -> None:
    tables, carried = invariants(tanks, DECLARED)
    words = sorted(tables["invariants"]["description"])
    assert [w.partition(":")[0] for w in words] == [
        "level of tank_id is never above capacity",
        "level of tank_id is never below 0",
    ]
    assert set(tables["invariants"]["severity"].cast(pl.String)) == {"warning"}
    assert set(carried["owner_id"]) == set(tables["invariants"]["invariant_id"])
    conditions = tables["conditions"]["left"].to_list()
    assert all(holds(c, 5) for c in conditions)
    assert [sum(not holds(c, level) for c in conditions) for level in (-1, 11)] == [1, 1]


def test_what_was_never_at_its_bound_is_none() -> None:
    tables, _ = invariants(shop(worst=1), DECLARED)
    assert [w.split(":")[0] for w in tables["invariants"]["description"]] == [
        "level of tank_id is never above capacity"
    ]
    assert invariants(shop(), pl.Series([], dtype=pl.String))[0]["invariants"].is_empty()


def test_notes_count_failures_and_tell_shapes(tanks: Prepared) -> None:
    table, carried = notes(tanks)
    told = table.select(pl.col("kind").cast(pl.String), "statement").sort("statement").rows()
    assert told == [
        ("constraint", "drain failed in 8 of 32 calls with: Error: tank … holds … only"),
        ("format", "tank_id of drain always has the shape AA-00 (A, a: letters; 0: digits): 32 calls, 8 values"),
    ]
    assert carried.group_by("owner_id", maintain_order=True).len()["len"].to_list() == [3, 3]
    assert frames({})["notes"].schema == table.schema
