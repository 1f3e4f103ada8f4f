"""What is counted on held-out families, and the recorded turns that are nearest to a call."""

from __future__ import annotations

import json
import random

import polars as pl
import pytest

from expcomp.environments.induction.experience import EXPERIENCE
from expcomp.environments.induction.nearest import counted, most_frequent, nearest
from expcomp.environments.induction.prepared import operands
from expcomp.environments.induction.reconstruct import reconstruct

NAMES = (
    "transition_id", "episode_id", "group", "turn", "action_type", "arguments_json", "observation", "is_error",
    "state_before_json", "state_after_json",
)  # fmt: skip
Row = tuple[object, ...]


def frame(rows: list[Row]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema={n: EXPERIENCE[n] for n in NAMES}, orient="row")


def dice(*, fair: bool) -> pl.DataFrame:
    """Every throw is answered `done`; the state holds what was thrown, or what the call said."""
    draw, rows = random.Random(1), []
    for e in range(12):
        value = 1
        for turn in range(1, 7):
            asked = draw.randint(1, 10_000)
            after = draw.randint(1, 10_000) if fair else asked
            states = (json.dumps({"die": {"value": v}}) for v in (value, after))
            arguments = json.dumps({"value": asked})
            rows.append((f"{e:02}-{turn}", f"{e:02}", f"{e:02}", turn, "throw", arguments, '"done"', False, *states))
            value = after
    return frame(rows)


@pytest.mark.parametrize(("fair", "hits"), [(False, 72), (True, 0)])
def test_a_rule_is_right_when_answer_and_next_state_are(fair: bool, hits: int) -> None:
    learned = reconstruct(dice(fair=fair))
    counts = learned.learned.counts.filter(pl.col("case").is_not_null())
    assert (counts["n"].sum(), counts["hits"].sum()) == (72, hits)
    # What the answer alone is worth is another figure: it is right in either world.
    assert learned.learned.heldout.filter(pl.col("case").is_not_null())["hit"].all()
    statuses = learned.tables["rules"]["status"].cast(pl.String).to_list()
    assert ("supported" in statuses) is not fair


def test_what_is_empty_says_why() -> None:
    told = reconstruct(dice(fair=False)).tables["unresolved"].filter(pl.col("stage") == "knowledge")["message"]
    assert [m.partition(":")[0] for m in told] == ["no fact", "no invariant", "no note"]


def test_the_nearest_turn_shares_the_most_arguments() -> None:
    calls = [
        ({"a": 1, "b": 1}, "x"),
        ({"a": 1, "b": 2}, "x"),
        ({"a": 2, "b": 2}, "y"),
        ({"a": 2, "b": 3}, "y"),
        ({"a": 9, "b": 9}, "z"),
    ]
    rows: list[Row] = [
        (f"{i}", f"{i}", f"{i}", 1, "ask", json.dumps(a), json.dumps(o), False, None, None)
        for i, (a, o) in enumerate(calls)
    ]
    p = operands(frame(rows))
    table = most_frequent(counted(p, p.rows))
    assert sorted(table.select("key", "value", "answer").rows()) == [
        ("a", "1", '"x"'),
        ("a", "2", '"y"'),
        ("b", "2", '"x"'),
    ]
    wanted = p.rows.lazy().select("t", "action_type", wanted=pl.lit(value=False))
    found = nearest(table, p, wanted).collect().sort("t")
    assert found.select("t", "answer").rows() == [(0, '"x"'), (1, '"x"'), (2, '"y"'), (3, '"y"')]
