from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from expcomp.sources._look import Look
from expcomp.sources.registry import SOURCES
from tests.sources._chat_files import attempt, codes, detail, formats, lines, messages, read, steps


def said(role, *texts, **more):
    """A message item."""
    kind = "output_text" if role == "assistant" else "input_text"
    return {"type": "message", "role": role, "content": [{"type": kind, "text": t} for t in texts]} | more


def calls(ident, **more):
    """A function call item."""
    return {
        "type": "function_call",
        "call_id": ident,
        "name": "ls",
        "arguments": '{"p": "."}',
        "id": f"fc_{ident}",
    } | more


def output(ident, value="out", kind="function_call_output"):
    """What came back."""
    return {"type": kind, "call_id": ident, "output": value}


def thought(*texts, **more):
    """A reasoning item."""
    return {
        "type": "reasoning",
        "summary": [{"type": "summary_text", "text": t} for t in texts],
        "content": None,
    } | more


ITEMS = [
    said("developer", "d"),
    said("user", "<environment_context>x</environment_context>"),
    said("user", "go"),
    thought("plan", encrypted_content="gAAA"),
    calls("a"),
    calls("b"),
    output("a"),
    output("b", [{"type": "input_text", "text": "t"}]),
    thought(encrypted_content="gAAA"),
    {"type": "custom_tool_call", "call_id": "c", "name": "apply_patch", "input": "*** Begin", "status": "completed"},
    output("c", "ok", "custom_tool_call_output"),
    said("assistant", "done"),
]


def test_bare_items_are_one_attempt_with_a_step_for_each_run(tmp_path):
    path = lines(tmp_path / "a.jsonl", ITEMS)
    assert formats(path) == ["openai_responses"]
    frames = read(path)
    row = attempt(frames)
    assert (row["n_messages"], row["n_steps"], row["n_tool_calls"], row["source_pos"]) == (9, 3, 3, 0)
    roles = ["developer", "user", "user", "assistant", "tool", "tool", "assistant", "tool", "assistant"]
    assert [m["role"] for m in messages(frames)] == roles
    assert [m["origin"] for m in messages(frames)][:3] == ["harness", "harness", "human"]
    own = [s for s in steps(frames) if s["source"] == "agent"]
    assert [s["reasoning"] for s in own] == ["plan", None, None]
    assert [s["reasoning_opaque"] for s in own] == [None, True, None]
    assert [[(c["id"], c["name"], c["arguments"], c["kind"]) for c in s["tool_calls"]] for s in own] == [
        [("a", "ls", '{"p": "."}', "function"), ("b", "ls", '{"p": "."}', "function")],
        [("c", "apply_patch", "*** Begin", "custom")],
        [],
    ]
    assert [[(o["call_id"], o["content"]) for o in s["observations"]] for s in own] == [
        [("a", "out"), ("b", "t")],
        [("c", "ok")],
        [],
    ]
    assert own[2]["content"] == "done"
    assert codes(frames) == []
    listed = tmp_path / "b.json"
    listed.write_text(json.dumps(ITEMS))
    assert attempt(read(listed))["n_messages"] == 9


def test_rows_of_input_and_output(tmp_path):
    row = {
        "input": "go",
        "output": [thought("p"), calls("a")],
        "instructions": "Be brief.",
        "model": "m",
        "tools": [{"type": "function", "name": "ls"}],
        "usage": {"input_tokens": 9, "output_tokens": 2, "output_tokens_details": {"reasoning_tokens": 1}},
    }
    frames = read(tmp_path / "a.jsonl", [row, row | {"input": ITEMS[:3]}])
    first = frames["attempts"].to_dicts()[0]
    assert frames["attempts"]["source_format"].unique().to_list() == ["openai_responses"]
    assert frames["attempts"]["n_messages"].to_list() == [2, 4]
    assert (first["system_prompt"], first["has_system_prompt"], first["model"]) == ("Be brief.", True, "m")
    assert (first["input_tokens"], first["output_tokens"], first["reasoning_tokens"]) == (9, 2, 1)
    assert (first["usage_basis"], first["is_truncated"]) == ("reported", True)
    assert messages(frames)[0]["role"] in ("user", "developer")


def test_tools_of_the_server_have_no_item_of_their_own(tmp_path):
    items = [
        said("user", "q"),
        {"type": "web_search_call", "id": "ws", "status": "completed", "action": {"type": "search", "query": "x"}},
        {"type": "mcp_call", "id": "m", "name": "get", "arguments": "{}", "output": "back", "error": None},
        {"type": "code_interpreter_call", "id": "ci", "code": "1+1", "outputs": [{"type": "logs", "logs": "2"}]},
        said("assistant", "done"),
    ]
    frames = read(tmp_path / "a.jsonl", items)
    (_, step) = steps(frames)
    assert [(c["id"], c["name"], c["kind"]) for c in step["tool_calls"]] == [
        ("ws", "web_search", "server"),
        ("m", "get", "server"),
        ("ci", "code_interpreter", "server"),
    ]
    assert [(o["call_id"], o["content"]) for o in step["observations"]] == [
        ("m", "back"),
        ("ci", '[{"type":"logs","logs":"2"}]'),
    ]
    assert (frames["messages"].height, codes(frames)) == (2, [])
    assert attempt(frames)["is_truncated"] is False


def test_a_log_of_responses(tmp_path):
    def response(ident, items):
        return {
            "id": ident,
            "object": "response",
            "status": "completed",
            "model": "m-1",
            "output": items,
            "usage": {"input_tokens": 5, "output_tokens": 1, "input_tokens_details": {"cached_tokens": 2}},
        }

    rows = [
        {"request": {"model": "m", "input": ITEMS[2:3], "instructions": "I"}, "response": response("r1", ITEMS[3:6])},
        {"request": {"model": "m", "input": ITEMS[2:8], "instructions": "I"}, "response": response("r2", ITEMS[11:])},
    ]
    frames = read(tmp_path / "a.jsonl", rows)
    row = attempt(frames)
    assert (row["source_format"], row["n_messages"], row["n_steps"]) == ("openai_responses", 5, 2)
    assert (row["input_tokens"], row["cached_input_tokens"], row["system_prompt"]) == (10, 4, "I")
    assert [s["llm_call_id"] for s in steps(frames) if s["source"] == "agent"] == ["r1", "r2"]
    assert codes(frames) == ["prefix_request"]


@pytest.mark.parametrize("kind", [{}, ["message"]])
def test_items_whose_type_is_no_text(tmp_path, kind):
    answer = {"id": "r1", "object": "response", "model": "m", "output": ITEMS[3:6]}
    rows = [{"request": {"model": "m", "input": [*ITEMS[2:3], {"type": kind}]}, "response": answer}]
    assert attempt(read(tmp_path / "a.jsonl", rows))["n_messages"] > 0


def test_an_input_that_is_no_list_is_told(tmp_path):
    answer = {"id": "r1", "object": "response", "model": "m", "output": ITEMS[3:6]}
    rows = [{"request": {"model": "m", "input": 7}, "response": answer}]
    assert codes(read(tmp_path / "a.jsonl", rows, format="openai_responses"))


def test_annotations_refusals_and_several_texts_are_kept(tmp_path):
    cited = {"type": "output_text", "text": "a", "annotations": [{"url": "u"}]}
    items = [said("user", "q"), {"type": "message", "role": "assistant", "content": [cited], "phase": "final"}]
    frames = read(tmp_path / "a.jsonl", items)
    assert json.loads(messages(frames)[1]["parts"]) == [cited]
    assert detail(steps(frames)[1]) == {"phase": "final"}
    items[1]["content"] = [{"type": "refusal", "refusal": "no"}]
    assert messages(read(tmp_path / "b.jsonl", items))[1]["content"] == "no"


def test_what_is_no_turn_is_reported(tmp_path):
    frames = read(tmp_path / "a.jsonl", [*ITEMS[2:], {"type": "item_reference", "id": "x"}, 5])
    assert sorted(codes(frames)) == ["bad_row", "unknown_item"]


@pytest.mark.parametrize("value", [ITEMS[0], ITEMS[4], [ITEMS[2]], {"input": [ITEMS[2]], "output": [ITEMS[4]]}])
def test_what_is_claimed(value):
    assert SOURCES["openai_responses"].claims_file(Look(Path("x"), json.dumps(value).encode()))


@pytest.mark.parametrize(
    "value",
    [
        {"type": "session_meta", "payload": {}},
        {"id": "x", "timestamp": "t", "instructions": None},
        {"type": "message", "role": "assistant", "content": []},
        {"messages": [{"role": "user", "content": "a"}]},
        {"input": "a", "output": "b"},
    ],
)
def test_what_is_not_claimed(value):
    assert not SOURCES["openai_responses"].claims_file(Look(Path("x"), json.dumps(value).encode()))


JSON = st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.lists(st.integers(), max_size=2)


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_any_value_anywhere_in_an_item(tmp_path, data):
    items = [dict(i) for i in ITEMS]
    item = data.draw(st.sampled_from(items))
    item[data.draw(st.sampled_from(sorted(item)))] = data.draw(
        JSON | st.dictionaries(st.text(max_size=4), JSON, max_size=2)
    )
    frames = read(tmp_path / "a.jsonl", items, "openai_responses")
    assert frames["attempts"].height >= 1
