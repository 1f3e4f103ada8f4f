"""Many questions at once: the answers are those to the questions one by one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from expcomp.environments.flatten import dump, members, objects, opened
from expcomp.environments.induction.reconstruct import reconstruct
from expcomp.environments.package import compile_package
from expcomp.environments.playing import Question, Reply, Turn
from expcomp.environments.recall import Recalled
from expcomp.environments.replay import replay
from expcomp.errors import SessionError
from tests.environments.induction.worlds import played, tank, tank_state
from tests.environments.reconstructed import CONFIG, package_frames
from tests.environments.test_replay import GOOD, case, together
from tests.environments.worlds import LEDGER

ASKED = [
    *GOOD[:1],
    ("fly", {}, "flew 1", None, {}),
    *GOOD[1:2],
    ("fly", {}, "flew 3", None, {}),
    ("sink", {}, "", None, {}),
]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-99, 99) | st.text("ab", max_size=3),
    lambda x: st.lists(x, max_size=3) | st.dictionaries(st.text("abc", min_size=1, max_size=2), x, max_size=3),
    max_leaves=12,
)


class Single:
    """Tells how many turns it was shown; refuses to sink."""

    def __init__(self) -> None:
        self.asked = 0

    def reply(self, action: str, arguments: Mapping[str, Any], state: Any, turns: Sequence[Turn]) -> Reply | None:
        self.asked += 1
        if action == "sink":
            raise SessionError("no")
        return Reply(f"flew {len(turns)}", "success", "memo") if action == "fly" else None


class Many(Single):
    """The same at once."""

    def replies(self, asked: Sequence[Question]) -> list[Reply | None]:
        self.asked += 1
        return [None if q.action == "sink" else Reply(f"flew {len(q.turns)}", "success", "memo") for q in asked]


def test_a_replay_asks_for_all_cases_at_once() -> None:
    made = [*LEDGER["action_schema"], {"action": "fly"}, {"action": "sink"}]
    package = compile_package(package_frames(action_schema=made), CONFIG)
    cases = together(*(case(f"c{i}", ASKED, group=f"h{i}") for i in range(5)))
    single, many = Single(), Many()
    one, all_ = replay(package, *cases, responder=single), replay(package, *cases, responder=many)
    assert (single.asked, many.asked) == (15, 3)
    said = [c for c in one.steps.columns if c not in ("error", "route")]
    assert (
        one.steps.select(said)
        .filter(pl.col("action_type") != "sink")
        .equals(all_.steps.select(said).filter(pl.col("action_type") != "sink"))
    )
    assert one.steps.filter(pl.col("action_type") == "fly")["exact"].to_list() == [True] * 10
    assert one.cases["attempted_steps"].to_list() == [5] * 5


@pytest.mark.parametrize("kind", [Single, Many])
def test_what_was_asked_before_is_not_asked_again(kind: type[Single]) -> None:
    asked = kind()
    recalled = Recalled(asked)
    state, turn = {"world": {"a": 1}}, Turn("fly", {}, "flew 0", "success")
    questions = [Question("fly", {}, state, ()), Question("fly", {}, state, (turn,))]
    first = recalled.replies(questions)
    times = asked.asked
    assert first == [Reply("flew 0", "success", "memo"), Reply("flew 1", "success", "memo")]
    assert recalled.replies(questions[::-1]) == first[::-1]
    assert recalled.reply("fly", {}, state, [turn]) == first[1]
    assert asked.asked == times
    recalled.reply("fly", {}, {"world": {"a": 2}}, ())
    assert asked.asked == times + 1
    assert not recalled.doubts("fly", {}, 0.1)


def test_a_refusal_is_recalled_too() -> None:
    asked = Single()
    recalled = Recalled(asked)
    for _ in range(2):
        with pytest.raises(SessionError, match="no"):
            recalled.reply("sink", {}, {}, ())
    assert asked.asked == 1


def test_a_call_alone_is_answered_as_among_others() -> None:
    rows = played(tank, episodes=24, steps=6, state=tank_state)
    learned = reconstruct(rows.filter(pl.col("group") < "g016"))
    rest = rows.filter(pl.col("group") >= "g016")
    whole = learned.predict(rest)
    ids = whole["transition_id"].to_list()[::7]
    assert learned.predict(rest, only=ids).equals(whole.filter(pl.col("transition_id").is_in(ids)))


@given(JSON)
def test_objects_are_told_level_by_level(value: Any) -> None:
    text = dump(value)
    found = objects(pl.Series([text, None, text]), depth=4)
    assert found["level"].is_sorted()
    top = found.filter(pl.col("level") == 0).select("key", "value")
    assert top.equals(members(pl.Series([text])).select("key", "value"))
    assert opened([text, None]).get(text, {}) == dict(top.iter_rows())
    inner = sorted(dump(v) for v in (value.values() if type(value) is dict else ()) if type(v) is dict and v)
    shown = found.filter(pl.col("level") == 1)["object"].unique(maintain_order=True)
    assert set(inner) <= set(shown)
