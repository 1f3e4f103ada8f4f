"""Alignment of calls and answers: ids out of order, repeated, foreign, missing; batches; overlap; history."""

from __future__ import annotations

from typing import Any

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from expcomp.environments.align import align
from expcomp.environments.frames import frame


def events(*lines: tuple[str, str | None, str] | dict[str, Any], episode: str = "e") -> pl.DataFrame:
    """Events from (kind, call id, content); a call is `(action, id, name)`."""
    records = []
    for i, line in enumerate(lines):
        given_ = line if isinstance(line, dict) else {"kind": line[0], "call_id": line[1], "content": line[2]}
        record = {
            "event_id": f"{episode}{i}",
            "episode_id": episode,
            "ordinal": i,
            "actor": "agent" if given_["kind"] == "action" else "tool",
            "content_is_json": False,
            "metadata_json": "{}",
        } | given_
        if record["kind"] == "action":
            record |= {"action_name": record["content"], "arguments": record.get("arguments", "{}")}
        records.append(record)
    return frame("events", records)


def answers(found: pl.DataFrame) -> list[str | None]:
    return found["observation"].to_list()


def test_ids_join_whatever_the_order() -> None:
    found = align(
        events(("action", "a", "x"), ("action", "b", "y"), ("observation", "b", "2"), ("observation", "a", "1"))
    )
    assert answers(found) == ["1", "2"]
    assert found["alignment"].to_list() == ["correlated", "correlated"]
    assert found["concurrent_action_event_ids"].to_list() == [["e1"], ["e0"]]
    assert found["usable"].to_list() == [False, False]
    assert found["delayed_observation_event_ids"].to_list() == [["e3"], []]


def test_a_repeated_id_is_answered_before_the_next_call_with_it() -> None:
    found = align(
        events(("action", "a", "x"), ("observation", "a", "1"), ("action", "a", "y"), ("observation", "a", "2"))
    )
    assert answers(found) == ["1", "2"]
    assert found["usable"].to_list() == [True, True]
    assert found["ambiguities"].to_list() == [[], []]


def test_two_open_calls_with_one_id_are_ambiguous() -> None:
    found = align(
        events(("action", "a", "x"), ("action", "a", "y"), ("observation", "a", "1"), ("observation", "a", "2"))
    )
    assert answers(found) == [None, None]
    assert found["alignment"].to_list() == ["ambiguous", "ambiguous"]
    assert "two calls with this id are open at once" in found["ambiguities"][0]


def test_foreign_ids_and_missing_answers() -> None:
    found = align(
        events(("action", "a", "x"), ("observation", "z", "1"), ("action", None, "y"), ("observation", "z", "2"))
    )
    assert answers(found) == [None, None]
    assert found["ambiguities"].to_list() == [["no answer was found"], ["no answer was found"]]


def test_without_ids_the_answer_is_what_comes_before_the_next_call() -> None:
    found = align(
        events(
            ("action", None, "x"),
            ("observation", None, "1"),
            ("error", None, "2"),
            ("action", None, "y"),
            ("observation", None, "3"),
        )
    )
    assert answers(found) == ["1\n2", "3"]
    assert found["alignment"].to_list() == ["sequential", "sequential"]
    assert found["turn"].to_list() == [1, 2]


def test_a_batch_without_ids_stays_unanswered() -> None:
    call = {"kind": "action", "call_id": None, "content": "x", "batch_size": 2, "parent_event_id": "m"}
    found = align(events(call, call, ("observation", None, "1"), ("observation", None, "2")))
    assert answers(found) == [None, None]
    assert found["ambiguities"].to_list() == [["several calls of one message carry no id"]] * 2
    assert found["concurrent_action_event_ids"].to_list() == [["e1"], ["e0"]]


def test_history_is_bounded_and_starts_with_the_oldest() -> None:
    lines = [("message", None, str(i)) for i in range(5)]
    found = align(events(*lines, ("action", None, "x"), ("observation", None, "1")), history=3)
    assert found["history_event_ids"].to_list() == [["e2", "e3", "e4"]]


def test_arguments_are_canonical_and_what_is_no_object_is_ambiguous() -> None:
    one = {"kind": "action", "call_id": None, "content": "x", "arguments": '{"b": 1.0, "a": 2}'}
    two = {"kind": "action", "call_id": None, "content": "x", "arguments": "not json"}
    found = align(events(one, ("observation", None, "1"), two, ("observation", None, "2")))
    assert found["arguments_json"].to_list() == ['{"a":2,"b":1}', '"not json"']
    assert found["alignment"].to_list() == ["sequential", "ambiguous"]


@given(st.permutations(range(6)))
def test_the_order_of_the_lines_does_not_matter(order: list[int]) -> None:
    made = events(
        ("action", "a", "x"), ("action", None, "y"), ("observation", None, "1"), ("observation", "a", "2"), ("action", "a", "z"),
        ("observation", "a", "3"),
    )  # fmt: skip
    assert align(made[order]).equals(align(made))


@given(st.lists(st.sampled_from(["call", "answer", "say"]), max_size=12))
def test_every_call_is_one_transition_and_no_answer_is_used_twice(kinds: list[str]) -> None:
    word = {"call": "action", "answer": "observation", "say": "message"}
    made = events(*((word[k], None, k) for k in kinds)) if kinds else frame("events", [])
    found = align(made)
    assert found.height == kinds.count("call")
    used = found["observation_event_ids"].explode().drop_nulls()
    assert used.n_unique() == len(used)
