from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from expcomp.sources._look import Look
from expcomp.sources.registry import SOURCES
from tests.sources._chat_files import attempt, codes, lines, messages, read, steps

TURNS = [
    {"from": "system", "value": "s"},
    {"from": "human", "value": "q"},
    {"from": "function_call", "value": '{"name": "f", "arguments": {"a": 1}}'},
    {"from": "observation", "value": "r"},
    {"from": "gpt", "value": "done"},
]


def test_turns_by_whom_they_are_from(tmp_path):
    row = {"conversations": TURNS, "system": "header", "tools": '[{"name": "f"}]'}
    frames = read(tmp_path / "a.jsonl", [row])
    out = attempt(frames)
    assert (out["source_format"], out["system_prompt"], out["tools"]) == ("sharegpt", "header", '[{"name": "f"}]')
    assert [m["role"] for m in messages(frames)] == ["system", "user", "assistant", "tool", "assistant"]
    assert [m["content"] for m in messages(frames)] == ["s", "q", None, "r", "done"]
    step = steps(frames)[1]
    assert [(c["name"], c["arguments"], c["arguments_ok"]) for c in step["tool_calls"]] == [("f", '{"a":1}', True)]
    assert [o["content"] for o in step["observations"]] == ["r"]
    assert messages(frames)[2]["parts"] == TURNS[2]["value"]
    assert codes(frames) == ["matched_by_position"]
    assert out["is_truncated"] is False


def test_several_calls_in_a_turn_and_one_that_cannot_be_read(tmp_path):
    both = json.dumps([{"name": "f", "arguments": "{}"}, {"name": "g", "arguments": {}}])
    turns = [TURNS[1], {"from": "function_call", "value": both}, {"from": "tool_call", "value": "f(x"}]
    frames = read(tmp_path / "a.jsonl", [{"conversations": turns}])
    made = [[(c["name"], c["arguments"], c["arguments_ok"]) for c in s["tool_calls"]] for s in steps(frames)]
    assert made == [[], [("f", "{}", True), ("g", "{}", True)], [(None, "f(x", False)]]
    assert codes(frames) == ["bad_tool_call", "unanswered_call"]


def test_role_and_content_under_the_same_key(tmp_path):
    turns = [{"role": "user", "content": "q", "loss": False}, {"role": "assistant", "content": "a", "loss": False}]
    frames = read(tmp_path / "a.jsonl", [{"conversations": turns}, {"conversations": json.dumps(TURNS)}])
    assert frames["attempts"]["source_format"].to_list() == ["sharegpt"] * 2
    assert frames["attempts"]["n_messages"].to_list() == [2, 5]
    own = frames["steps"].filter(source="agent", content="a")
    assert own["trainable"].to_list() == [False]


def test_calls_in_the_text_stay_text(tmp_path):
    turns = [TURNS[1], {"from": "gpt", "value": "<think>t</think>\n<tool_call>{}</tool_call>"}]
    frames = read(tmp_path / "a.jsonl", [{"conversations": turns}])
    assert attempt(frames)["n_tool_calls"] == 0
    assert (steps(frames)[1]["content"], steps(frames)[1]["reasoning"]) == (turns[1]["value"], "t")


def test_bare_turns_and_other_formats_by_force(tmp_path):
    path = lines(tmp_path / "a.jsonl", TURNS)
    assert attempt(read(path))["source_format"] == "sharegpt"
    for name in ("openai_chat", "hf_trajectories", "anthropic_messages", "openai_responses"):
        out = attempt(read(path, format=name))
        assert (out["source_format"], out["n_messages"]) == (name, 5)


@pytest.mark.parametrize(
    "value", [{"conversations": TURNS}, {"conversation": TURNS}, TURNS, {"conversations": json.dumps(TURNS)}]
)
def test_what_is_claimed(value):
    assert SOURCES["sharegpt"].claims_file(Look(Path("x"), json.dumps(value).encode()))


@pytest.mark.parametrize(
    "value",
    [
        {"conversations": TURNS, "reward": 1.0},
        {"conversations": [{"a": 1}]},
        {"messages": [{"role": "user", "content": "x"}]},
    ],
)
def test_what_is_not_claimed(value):
    assert not SOURCES["sharegpt"].claims_file(Look(Path("x"), json.dumps(value).encode()))


JSON = st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.lists(st.integers(), max_size=2)


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_any_value_anywhere_in_a_turn(tmp_path, data):
    turns = [dict(t) for t in TURNS]
    turn = data.draw(st.sampled_from(turns))
    turn[data.draw(st.sampled_from(sorted(turn)))] = data.draw(
        JSON | st.dictionaries(st.text(max_size=4), JSON, max_size=2)
    )
    frames = read(tmp_path / "a.jsonl", [{"conversations": turns}], "sharegpt")
    assert attempt(frames)["n_messages"] == 5
