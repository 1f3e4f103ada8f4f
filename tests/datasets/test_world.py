"""Conversations of an environment: what is a target, what is context, what is left out."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from expcomp.datasets.contract import LEFT, LOGICAL, Lookups, Made
from expcomp.datasets.options import DatasetOptions
from expcomp.datasets.world import WORLD, build

STEP = {
    "row_id": pl.String,
    "task_id": pl.String,
    "attempt_id": pl.String,
    "step_index": pl.Int32,
    "evidence_ids": pl.List(pl.String),
    "agent_action": pl.String,
    "observed_environment_response": pl.String,
    "response_source": pl.String,
    "state_before": pl.String,
    "truncated": pl.Boolean,
}
PICTURE = '[{"type":"text","text":"here"},{"type":"image","artifact":"sha256:' + "0" * 64 + '"}]'


def attempt(name: str, *steps: dict[str, Any], task: str | None = "t") -> list[dict[str, Any]]:
    return [
        {
            "row_id": f"{name}.{i}",
            "task_id": task,
            "attempt_id": name,
            "step_index": i,
            "evidence_ids": [f"e_{name}", f"e_{i}"],
            "agent_action": f"do {i}",
            "observed_environment_response": f"saw {i}",
            "response_source": "tool",
            "truncated": False,
            **step,
        }
        for i, step in enumerate(steps)
    ]


def run(*attempts: list[dict[str, Any]], **options: Any) -> Made:
    frame = pl.DataFrame([s for a in attempts for s in a], schema=STEP)
    return build(frame, Lookups(pl.DataFrame(), pl.DataFrame(), {}), DatasetOptions(**options))


def turns(made: Made, row: int = 0) -> list[tuple[str, str, bool]]:
    flat = made.rows[row].select(pl.col("messages").explode()).unnest("messages")
    return flat.select("role", "content", "trainable").rows()


def test_actions_are_user_turns_and_observations_the_targets() -> None:
    made = run(attempt("a", {}, {}))
    assert made.rows.schema == LOGICAL["world"]
    assert turns(made) == [
        ("user", "do 0", False),
        ("assistant", "saw 0", True),
        ("user", "do 1", False),
        ("assistant", "saw 1", True),
    ]
    assert made.rows.select("row_id", "task_id", "attempt_id", "tools", "_chars").rows() == [
        ("a.0", "t", "a", None, 10)
    ]
    assert made.rows["evidence_ids"].to_list() == [["e_a", "e_0", "e_1"]]


def test_the_recorded_state_before_the_first_step_opens_the_conversation() -> None:
    made = run(attempt("a", {"state_before": "idle"}, {"state_before": "busy"}), attempt("b", {"state_before": " "}))
    assert turns(made)[0] == ("system", "idle", False)
    assert [r for r, _, _ in turns(made)] == ["system", "user", "assistant", "user", "assistant"]
    assert [r for r, _, _ in turns(made, 1)] == ["user", "assistant"]


def test_a_user_who_answers_is_context_beside_tools_and_the_environment_without() -> None:
    user = {"response_source": "user"}
    made = run(attempt("a", user, {}), attempt("b", user, user))
    assert turns(made) == [("user", "do 0\n\nsaw 0\n\ndo 1", False), ("assistant", "saw 1", True)]
    assert [t for _, _, t in turns(made, 1)] == [False, True, False, True]


@pytest.mark.parametrize(
    "step",
    [
        {"observed_environment_response": ""},
        {"observed_environment_response": None},
        {"truncated": True},
        {"response_source": None},
        {"observed_environment_response": PICTURE},
    ],
)
def test_an_answer_that_is_empty_cut_a_picture_or_of_unknown_origin_is_told_with_the_next_action(
    step: dict[str, Any],
) -> None:
    made = run(attempt("a", step, {}), attempt("b", step))
    seen = step.get("observed_environment_response", "saw 0")
    told = "\n\n".join(t for t in ("do 0", seen, "do 1") if t)
    assert turns(made) == [("user", told, False), ("assistant", "saw 1", True)]
    assert made.left.schema == LEFT
    assert made.left.select("row_id", "task_id", "reason").rows() == [("b.0", "t", "no_whole_observation")]


def test_what_comes_after_the_last_target_is_cut() -> None:
    made = run(attempt("a", {}, {"truncated": True}, {"response_source": "user"}))
    assert turns(made) == [("user", "do 0", False), ("assistant", "saw 0", True)]
    assert made.rows["evidence_ids"].to_list() == [["e_a", "e_0"]]


def test_an_attempt_without_a_task_is_left_out() -> None:
    made = run(attempt("a", {}, task=None), attempt("b", {}))
    assert made.left["reason"].to_list() == ["no_task"]
    assert made.rows["row_id"].to_list() == ["b.0"]


def test_given_schemas_are_the_tools() -> None:
    text = '[{"type":"function","function":{"name":"given"}}]'
    assert run(attempt("a", {}), tools=text).rows["tools"].to_list() == [text]


def test_equal_conversations_have_one_hash() -> None:
    a, b, c = run(attempt("a", {}), attempt("b", {}), attempt("c", {"agent_action": "else"})).rows["_hash"]
    assert a == b != c


def test_no_rows_make_no_rows() -> None:
    made = run()
    assert (made.rows.height, made.left.height) == (0, 0)
    assert (WORLD.whole, WORLD.chats) == ("attempt_id", ("messages",))


@given(
    st.lists(
        st.lists(
            st.fixed_dictionaries(
                {},
                optional={
                    "response_source": st.sampled_from(["tool", "user", None]),
                    "observed_environment_response": st.sampled_from(["", "ok", None]),
                    "truncated": st.booleans(),
                    "state_before": st.sampled_from(["idle", ""]),
                },
            ),
            min_size=1,
            max_size=4,
        ),
        min_size=1,
        max_size=4,
    )
)
@settings(max_examples=60, deadline=None)
def test_every_attempt_is_a_row_that_ends_with_a_target_or_left_out(drawn: list[Any]) -> None:
    attempts = [attempt(f"a{i}", *s) for i, s in enumerate(drawn)]
    made = run(*attempts)
    assert sorted([*made.rows["row_id"], *made.left["row_id"]]) == sorted(f"a{i}.0" for i in range(len(drawn)))
    for row, name in enumerate(made.rows["attempt_id"]):
        said = turns(made, row)
        # Every answer is one to learn: no trainer of these masks a single turn.
        assert all(content and trainable == (role == "assistant") for role, content, trainable in said)
        chat = said[1:] if said[0][0] == "system" else said
        assert [r for r, _, _ in chat] == ["user", "assistant"] * (len(chat) // 2)
        # Nothing is lost on the way: all that was done and seen up to the last target, in order.
        parts = [p for s in attempts[int(name[1:])] for p in (s["agent_action"], s["observed_environment_response"])]
        told = [p for p in "\n\n".join(c for _, c, _ in chat).split("\n\n") if p]
        assert told == [p for p in parts if p][: len(told)]
