from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from expcomp.sources._look import Look
from expcomp.sources.registry import SOURCES
from tests.sources._chat_files import attempt, codes, detail, formats, lines, messages, read, steps

USAGE = {"input_tokens": 3, "cache_creation_input_tokens": 10, "cache_read_input_tokens": 100, "output_tokens": 7}


def text(value):
    """A text block."""
    return {"type": "text", "text": value}


def use(ident, **given):
    """A tool use block."""
    return {"type": "tool_use", "id": ident, "name": "Bash", "input": given}


def result(ident, content, **more):
    """A tool result block."""
    return {"type": "tool_result", "tool_use_id": ident, "content": content} | more


ASKED = {"role": "user", "content": "list"}
ACTED = {
    "role": "assistant",
    "id": "msg_1",
    "type": "message",
    "model": "claude-x",
    "stop_reason": "tool_use",
    "usage": USAGE,
    "content": [{"type": "thinking", "thinking": "hm"}, text("Looking."), use("t1", cmd="ls"), use("t2", cmd="pwd")],
}
BACK = {
    "role": "user",
    "content": [result("t1", "a.py"), result("t2", [text("x"), text("y")], is_error=True), text("go on")],
}
ENDED = {"role": "assistant", "content": [text("Done.")], "stop_reason": "end_turn"}
ROW = {
    "system": "Be brief.",
    "messages": [ASKED, ACTED, BACK, ENDED],
    "tools": [{"name": "Bash", "input_schema": {}}],
    "model": "claude-x",
    "max_tokens": 100,
}


def test_blocks_of_a_turn(tmp_path):
    frames = read(tmp_path / "a.jsonl", [ROW])
    row = attempt(frames)
    assert row["source_format"] == "anthropic_messages"
    assert [m["role"] for m in messages(frames)] == ["user", "assistant", "tool", "tool", "user", "assistant"]
    assert (row["n_steps"], row["n_tool_calls"], row["n_tool_errors"]) == (2, 2, 1)
    assert (row["system_prompt"], row["has_tools"], row["model"]) == ("Be brief.", True, "claude-x")
    assert (row["input_tokens"], row["cached_input_tokens"], row["cache_write_tokens"]) == (113, 100, 10)
    assert (row["output_tokens"], row["status"], row["stop_reason"]) == (7, "completed", "end_turn")
    assert row["params"] == '{"max_tokens":100}'
    step = steps(frames)[1]
    assert (step["content"], step["reasoning"], step["llm_call_id"]) == ("Looking.", "hm", "msg_1")
    assert [(c["id"], c["name"], c["arguments"]) for c in step["tool_calls"]] == [
        ("t1", "Bash", '{"cmd":"ls"}'),
        ("t2", "Bash", '{"cmd":"pwd"}'),
    ]
    assert [(o["call_id"], o["content"], o["is_error"]) for o in step["observations"]] == [
        ("t1", "a.py", None),
        ("t2", "xy", True),
    ]
    assert messages(frames)[4]["content"] == "go on"
    assert messages(frames)[1]["parts"] is None
    assert codes(frames) == []


def test_blocks_that_say_more_than_their_text_stay(tmp_path):
    signed = {"type": "thinking", "thinking": "", "signature": "sig"}
    for blocks in ([signed, text("a")], [text("a"), use("t"), text("b")], [text("a"), text("b"), use("t")]):
        frames = read(
            tmp_path / "a.jsonl",
            [{"messages": [ASKED, {"role": "assistant", "content": blocks}]}],
            "anthropic_messages",
        )
        assert json.loads(messages(frames)[1]["parts"]) == blocks
    step = steps(
        read(tmp_path / "b.jsonl", [{"messages": [ASKED, {"role": "assistant", "content": [signed, use("t")]}]}])
    )[1]
    assert (step["reasoning"], step["reasoning_opaque"]) == (None, True)


def test_tools_of_the_server_come_back_in_the_same_turn(tmp_path):
    blocks = [
        {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "q"}},
        {"type": "web_search_tool_result", "tool_use_id": "s1", "content": [{"type": "web_search_result", "url": "u"}]},
        text("found"),
    ]
    frames = read(tmp_path / "a.jsonl", [{"messages": [ASKED, {"role": "assistant", "content": blocks}]}])
    step = steps(frames)[1]
    assert [(c["id"], c["kind"]) for c in step["tool_calls"]] == [("s1", "server")]
    assert [o["call_id"] for o in step["observations"]] == ["s1"]
    assert (attempt(frames)["is_truncated"], codes(frames)) == (False, [])


def test_a_person_speaks_among_what_the_harness_wrote(tmp_path):
    blocks = [text("<command-name>/clear</command-name>"), text("Fix the lint.")]
    row = {"messages": [{"role": "user", "content": blocks}, ACTED, BACK], "task_id": "t"}
    frames = read(tmp_path / "a.jsonl", [row])
    assert messages(frames)[0]["origin"] == "human"
    assert frames["tasks"]["instruction"].to_list() == ["Fix the lint."]
    blocks.pop()
    assert messages(read(tmp_path / "b.jsonl", [row]))[0]["origin"] == "harness"


def test_images_in_turns_and_results(tmp_path):
    data = base64.b64encode(b"\xff\xd8\xff" + bytes(50)).decode()
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/jpeg", "data": data}}
    turns = [
        {"role": "user", "content": [text("see"), image]},
        ACTED,
        {"role": "user", "content": [result("t1", [image])]},
    ]
    frames = read(tmp_path / "a.jsonl", [{"messages": turns}])
    art = frames["artifacts"].to_dicts()
    assert [(a["kind"], a["mime"], a["bytes"], a["step_index"]) for a in art] == [
        ("image", "image/jpeg", 53, 0),
        ("image", "image/jpeg", 53, 1),
    ]
    assert json.loads(messages(frames)[0]["parts"])[1]["artifact"] == art[0]["digest"]
    assert messages(frames)[2]["content"] is None
    assert not any(data in (m["parts"] or "") for m in messages(frames))


def test_a_log_of_messages(tmp_path):
    def response(message, ident):
        return {"type": "message", "role": "assistant", "id": ident, "model": "claude-x-1", "usage": USAGE} | {
            k: message.get(k) for k in ("content", "stop_reason")
        }

    system = [{"type": "text", "text": "S", "cache_control": {"type": "ephemeral"}}]
    rows = [
        {"request": {"model": "claude-x", "system": system, "messages": [ASKED]}, "response": response(ACTED, "m1")},
        {
            "request": {"model": "claude-x", "system": system, "messages": [ASKED, ACTED, BACK]},
            "response": response(ENDED, "m2"),
        },
    ]
    frames = read(tmp_path / "a.jsonl", rows)
    row = attempt(frames)
    assert (row["source_format"], row["n_steps"], row["n_messages"]) == ("anthropic_messages", 2, 6)
    assert (row["system_prompt"], detail(row)["system"]) == ("S", system)
    assert (row["input_tokens"], row["model"]) == (113 * 2, "claude-x")
    assert codes(frames) == ["prefix_request"]


def test_bare_turns_are_one_attempt(tmp_path):
    path = lines(tmp_path / "a.jsonl", [ASKED, ACTED, BACK, ENDED])
    assert formats(path) == ["anthropic_messages"]
    assert attempt(read(path))["n_messages"] == 6


@pytest.mark.parametrize(
    "value", [ROW, {"messages": [ASKED, ACTED]}, {"system": "s", "messages": [ASKED]}, [ASKED, ACTED]]
)
def test_what_is_claimed(value):
    assert SOURCES["anthropic_messages"].claims_file(Look(Path("x"), json.dumps(value).encode()))


@pytest.mark.parametrize(
    "value",
    [
        {"messages": [ASKED, {"role": "assistant", "content": [text("a")]}]},
        {"messages": [ASKED, ACTED], "reward": 1},
        {"type": "assistant", "message": ACTED, "sessionId": "s", "uuid": "u"},
    ],
)
def test_what_is_not_claimed(value):
    assert not SOURCES["anthropic_messages"].claims_file(Look(Path("x"), json.dumps(value).encode()))


JSON = st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.lists(st.integers(), max_size=2)


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_any_value_anywhere_in_a_block(tmp_path, data):
    row = json.loads(json.dumps(ROW))
    blocks = [b for m in row["messages"] for b in (m["content"] if isinstance(m["content"], list) else [m])]
    block = data.draw(st.sampled_from(blocks))
    block[data.draw(st.sampled_from(sorted(block)))] = data.draw(
        JSON | st.dictionaries(st.text(max_size=4), JSON, max_size=2)
    )
    frames = read(tmp_path / "a.jsonl", [row], "anthropic_messages")
    assert attempt(frames)["n_messages"] >= 1
