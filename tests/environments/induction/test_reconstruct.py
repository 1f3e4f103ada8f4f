"""Reconstruction of small worlds whose rules are known."""

from __future__ import annotations

import json

import polars as pl
import pytest

from expcomp.environments.frames import complete
from expcomp.environments.induction.evaluate import cross_validate
from expcomp.environments.induction.experience import experience
from expcomp.environments.induction.package_tables import package_tables
from expcomp.environments.induction.reconstruct import Reconstruction, reconstruct
from expcomp.environments.static import static_findings
from expcomp.environments.transcripts import transcripts
from expcomp.errors import SourceError, TableError
from tests.environments.induction.worlds import played, tank, tank_state, transitions


@pytest.fixture(scope="module")
def rows() -> pl.DataFrame:
    return played(tank, episodes=40, steps=8, state=tank_state)


@pytest.fixture(scope="module")
def learned(rows: pl.DataFrame) -> Reconstruction:
    return reconstruct(rows)


def test_unseen_families_are_answered_exactly_with_their_next_states(learned: Reconstruction) -> None:
    fresh = played(tank, episodes=20, steps=8, state=tank_state, seed=7)
    got = learned.predict(fresh).join(fresh, on="transition_id")
    told = [json.loads(a) == json.loads(b) for a, b in zip(got["answer"], got["observation"], strict=True)]
    right = [json.loads(a) == json.loads(b) for a, b in zip(got["state"], got["state_after_json"], strict=True)]
    assert sum(told) / len(told) > 0.97
    assert sum(right) / len(right) > 0.97
    assert (got["failed"] == got["is_error"]).mean() > 0.97


def test_the_limit_is_a_condition_over_argument_and_state(learned: Reconstruction) -> None:
    sides = learned.tables["conditions"].select(pl.concat_str("left", "op", "right", separator=" ")).to_series()
    assert any("arg.amount" in s and "world.tank.level" in s and "50" in s for s in sides)


def test_rules_pass_the_static_checks(learned: Reconstruction) -> None:
    tables = complete({k: v for k, v in learned.tables.items() if k not in ("cited", "carried")})
    assert static_findings(tables).is_empty()


def test_every_case_is_a_rule_or_a_rejected_record(learned: Reconstruction) -> None:
    cases = sum(len(m.classes.cases) for m in learned.learned.world.actions.values())
    assert cases == learned.tables["rules"].height + learned.tables["rejected"].height


def test_the_order_of_the_input_changes_nothing(rows: pl.DataFrame, learned: Reconstruction) -> None:
    again = reconstruct(rows.sample(fraction=1, shuffle=True, seed=3))
    for name, table in learned.tables.items():
        assert again.tables[name].equals(table), name


def test_a_split_that_cuts_families_is_labelled_leaky(rows: pl.DataFrame) -> None:
    assert cross_validate(rows, folds=2, unit="transition_id").summary()["leaky"].to_list() == [True]
    assert cross_validate(rows, folds=2).summary()["leaky"].to_list() == [False]


def test_the_answer_of_a_call_is_not_read_to_predict_it(rows: pl.DataFrame, learned: Reconstruction) -> None:
    last = rows.filter(pl.col("turn") == pl.col("turn").max().over("episode_id"))
    blank = rows.with_columns(
        observation=pl.when(pl.col("transition_id").is_in(last["transition_id"].implode()))
        .then(pl.lit("hidden"))
        .otherwise("observation"),
        state_after_json=pl.lit(None, dtype=pl.String),
        is_error=pl.lit(None, dtype=pl.Boolean),
    )
    hidden, shown = learned.predict(blank), learned.predict(rows)
    where = pl.col("transition_id").is_in(last["transition_id"].implode())
    assert hidden.filter(where)["answer"].equals(shown.filter(where)["answer"])


def test_nothing_to_learn_from_is_an_error() -> None:
    with pytest.raises(SourceError, match="no transition"):
        reconstruct(transitions([]))


def test_a_missing_column_is_named() -> None:
    with pytest.raises(TableError, match="observation"):
        reconstruct(transitions([{"transition_id": "a"}]).drop("observation"))


def test_one_transition_gives_a_tentative_rule() -> None:
    one = dict.fromkeys(("transition_id", "episode_id", "group"), "a") | {"turn": 1, "action_type": "ping"}
    one |= {"arguments_json": "{}", "observation": "pong"}
    found = reconstruct(transitions([one]))
    assert found.tables["rules"]["status"].to_list() == ["tentative"]
    assert found.tables["rules"]["confidence"].to_list() == [None]


def test_recordings_become_the_tables_of_a_package() -> None:
    say = 'User: go\nAction: {{"type":"add","arguments":{{"amount":{0}}}}}\nObservation: Added {0}.\n'
    texts = pl.DataFrame({"label": [f"{i}.txt" for i in range(6)], "text": [say.format(i + 3) * 2 for i in range(6)]})
    recorded = transcripts(texts)
    tables, found = package_tables(recorded)
    assert tables["transitions"].height == tables["evidence"].height == 12
    assert tables["renderers"]["template"].to_list() == ["Added {= arg.amount}."]
    assert tables["refs"]["owner_id"].unique().to_list() == tables["rules"]["rule_id"].to_list()
    assert set(tables["refs"]["event_id"]) <= set(recorded.events["event_id"])
    assert found.n_learned == found.n_given == 12


def test_transitions_without_a_certain_answer_are_told() -> None:
    recorded = transcripts(
        pl.DataFrame({"label": ["a.txt"], "text": ["Action: ping\nObservation: pong\nAction: ping\n"]})
    )
    tables, _ = package_tables(recorded)
    told = tables["unresolved"].filter(pl.col("stage") == "align")
    assert told["message"].to_list() == ["not learned from: no certain answer"]
    usable, left = experience(tables["transitions"], tables["episodes"], tables["events"])
    assert (usable.height, left.height) == (1, 1)
