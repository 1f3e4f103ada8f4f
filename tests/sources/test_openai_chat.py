from __future__ import annotations

import base64
import gzip
import json
from pathlib import Path

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from expcomp.io.digest import sha256_file
from expcomp.sources._contract import ReadOptions
from expcomp.sources._look import Look
from expcomp.sources.chat import _sets as _chat_sets
from expcomp.sources.load import read_frames
from expcomp.sources.registry import SOURCES, discover
from expcomp.tables.core import CORE
from tests.sources._chat_files import (
    BOT,
    SYSTEM,
    USER,
    attempt,
    call,
    codes,
    detail,
    formats,
    lines,
    messages,
    read,
    steps,
)

CHAT = [SYSTEM, USER, {"role": "assistant", "content": None, "tool_calls": [call("c1")]}]
DONE = [*CHAT, {"role": "tool", "tool_call_id": "c1", "content": "4"}, BOT]
TOOLS = [{"type": "function", "function": {"name": "add", "parameters": {}}}]


def test_a_row_becomes_an_attempt(tmp_path):
    frames = read(tmp_path / "a.jsonl", [{"messages": DONE, "tools": TOOLS, "parallel_tool_calls": True}])
    row = attempt(frames)
    assert row["source_format"] == "openai_chat"
    assert json.loads(row["tools"]) == TOOLS
    assert row["params"] == '{"parallel_tool_calls":true}'
    assert (row["n_steps"], row["n_messages"], row["n_tool_calls"]) == (2, 5, 1)
    assert (row["passed"], row["score"], row["score_valid"], row["input_tokens"]) == (None, None, None, None)
    assert (row["has_system_prompt"], row["has_tools"], row["is_truncated"]) == (True, True, False)
    assert (row["task_id"], row["source_pos"], row["status"]) == (None, 0, "unknown")
    assert [m["role"] for m in messages(frames)] == ["system", "user", "assistant", "tool", "assistant"]
    assert [m["step_index"] for m in messages(frames)] == [None, 0, 1, 1, 2]
    assert [(s["source"], s["trainable"]) for s in steps(frames)] == [("user", False), ("agent", True), ("agent", True)]
    (made,) = steps(frames)[1]["tool_calls"]
    assert made == {"id": "c1", "name": "add", "arguments": '{"a": 2}', "arguments_ok": True, "kind": "function"}
    (seen,) = steps(frames)[1]["observations"]
    assert (seen["call_id"], seen["content"], seen["is_error"]) == ("c1", "4", None)
    assert messages(frames)[1]["tool_calls"] is None
    assert messages(frames)[4]["tool_calls"] == []
    assert codes(frames) == []
    assert frames["tasks"].is_empty()
    assert frames["evidence"].height == 1
    assert all(frames[name].schema == table.schema for name, table in CORE.items())


def test_content_of_any_shape_is_kept(tmp_path):
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    turns = [
        {"role": "user", "content": None},
        {"role": "user", "content": ""},
        {"role": "user", "content": parts},
        {"role": "user", "content": {"k": 1}},
        {"role": "developer", "content": "d"},
        {"role": "assistant", "content": None, "refusal": "no"},
    ]
    frames = read(tmp_path / "a.jsonl", [{"messages": turns}])
    assert [m["content"] for m in messages(frames)] == [None, "", "ab", '{"k":1}', "d", None]
    assert json.loads(messages(frames)[2]["parts"]) == parts
    assert detail(steps(frames)[-1]) == {"refusal": "no"}
    assert messages(frames)[4]["role"] == "developer"


@pytest.mark.parametrize(
    ("raw", "written", "good"),
    [
        ('{"a": 1}', '{"a": 1}', True),
        ({"a": 1}, '{"a":1}', True),
        ('"{\\"a\\": 1}"', '"{\\"a\\": 1}"', False),
        ('{"a": ', '{"a": ', False),
        ("", "", False),
        (None, None, False),
        ([1], "[1]", False),
    ],
)
def test_arguments_stay_what_was_written(tmp_path, raw, written, good):
    turns = [USER, {"role": "assistant", "tool_calls": [call("c", arguments=raw)]}]
    (made,) = steps(read(tmp_path / "a.jsonl", [{"messages": turns}]))[1]["tool_calls"]
    assert (made["arguments"], made["arguments_ok"]) == (written, good)


def test_calls_as_text_objects_and_custom_ones(tmp_path):
    entries = [
        json.dumps(call("a")),
        {"id": 7, "name": "flat", "arguments": {}},
        {"id": "c", "type": "custom", "custom": {"name": "patch", "input": "*** Begin"}},
        5,
    ]
    turns = [USER, {"role": "assistant", "content": "x", "tool_calls": entries}]
    frames = read(tmp_path / "a.jsonl", [{"messages": turns}])
    made = steps(frames)[1]["tool_calls"]
    assert [(c["id"], c["name"], c["arguments"], c["kind"]) for c in made] == [
        ("a", "add", '{"a": 2}', "function"),
        ("7", "flat", "{}", "function"),
        ("c", "patch", "*** Begin", "custom"),
    ]
    assert "bad_tool_call" in codes(frames)
    assert detail(steps(frames)[1])["tool_calls"] == entries


@pytest.mark.parametrize("field", ["not JSON", "{cut", [call("a"), "not JSON"], 7])
def test_calls_that_are_text_and_no_json_are_told(tmp_path, field):
    frames = read(
        tmp_path / "a.jsonl", [{"messages": [USER, {"role": "assistant", "content": "x", "tool_calls": field}]}]
    )
    assert "bad_tool_call" in codes(frames)


@pytest.mark.parametrize("field", ["", "null", "[]", [], None, [None]])
def test_no_calls_in_any_notation_are_no_finding(tmp_path, field):
    frames = read(
        tmp_path / "a.jsonl", [{"messages": [USER, {"role": "assistant", "content": "x", "tool_calls": field}]}]
    )
    assert "bad_tool_call" not in codes(frames)


@pytest.mark.parametrize(
    "legacy",
    [
        {"name": "f", "arguments": '{"q": 1}'},
        json.dumps({"name": "f", "arguments": '{"q": 1}'}),
        str({"name": "f", "arguments": '{"q": 1}'}),
    ],
)
def test_a_legacy_call_and_its_result(tmp_path, legacy):
    turns = [
        USER,
        {"role": "assistant", "content": "", "function_call": legacy, "tool_calls": None},
        {"role": "function", "name": "f", "content": "r"},
    ]
    frames = read(tmp_path / "a.jsonl", [{"messages": turns}])
    step = steps(frames)[1]
    assert [(c["id"], c["name"], c["arguments"]) for c in step["tool_calls"]] == [(None, "f", '{"q": 1}')]
    assert [(o["call_id"], o["content"]) for o in step["observations"]] == [(None, "r")]
    assert (messages(frames)[2]["role"], messages(frames)[2]["name"]) == ("tool", "f")
    assert codes(frames) == ["matched_by_position"]


def test_null_legacy_keys_are_no_calls(tmp_path):
    turns = [USER, BOT | {"function_call": None, "tool_calls": None, "name": None}]
    frames = read(tmp_path / "a.jsonl", [{"messages": turns}])
    assert attempt(frames)["n_tool_calls"] == 0


def test_results_without_wrong_or_too_many_ids(tmp_path):
    turns = [
        {"role": "tool", "tool_call_id": "x", "content": "before"},
        USER,
        {"role": "assistant", "tool_calls": [call("a"), call("b")]},
        {"role": "tool", "tool_call_id": "a", "content": "1"},
        {"role": "tool", "tool_call_id": "a", "content": "again"},
        {"role": "tool", "tool_call_id": "b", "content": "2", "is_error": True},
        {"role": "assistant", "tool_calls": [call(None), call(None)]},
        {"role": "tool", "content": "3"},
        {"role": "tool", "content": "4"},
        BOT,
    ]
    frames = read(tmp_path / "a.jsonl", [{"messages": turns}])
    seen = [[(o["call_id"], o["content"], o["is_error"]) for o in s["observations"]] for s in steps(frames)]
    assert seen == [
        [],
        [("a", "1", None), ("a", "again", None), ("b", "2", True)],
        [(None, "3", None), (None, "4", None)],
        [],
    ]
    assert codes(frames) == ["matched_by_position", "orphan_result"]
    assert attempt(frames)["n_tool_errors"] == 1
    assert frames["messages"].height == len(turns)


@pytest.mark.parametrize(
    ("turns", "cut"),
    [
        ([USER, BOT], False),
        ([USER, BOT, USER], True),
        (CHAT, True),
        (DONE, False),
        ([USER, {"role": "assistant", "tool_calls": [call("c", "finish")]}], False),
        ([USER, BOT | {"finish_reason": "length"}], True),
    ],
)
def test_what_ends_early_is_truncated(tmp_path, turns, cut):
    assert attempt(read(tmp_path / "a.jsonl", [{"messages": turns}]))["is_truncated"] is cut


@pytest.mark.parametrize("key", ["reasoning", "reasoning_content", "thinking"])
def test_reasoning_goes_to_one_column(tmp_path, key):
    frames = read(tmp_path / "a.jsonl", [{"messages": [USER, BOT | {key: "hm"}]}])
    assert (steps(frames)[1]["reasoning"], messages(frames)[1]["reasoning"]) == ("hm", "hm")


@pytest.mark.parametrize("text", ["<think>\nhm\n</think>\n4", "hm</think>4"])
def test_a_think_block_is_copied_and_the_text_kept(tmp_path, text):
    frames = read(tmp_path / "a.jsonl", [{"messages": [USER, {"role": "assistant", "content": text}]}])
    step = steps(frames)[1]
    assert (step["content"], step["reasoning"]) == (text, "hm")
    assert detail(step) == {"reasoning_from": "content"}
    assert codes(frames) == ["reasoning_in_content"]


def test_text_protocols_are_not_parsed(tmp_path):
    texts = [
        "<tool_call>{}</tool_call>",
        "Action: f[x]",
        "```bash\nls\n```",
        "<function=f></function>",
        "say </think> x",
    ]
    turns = [USER, *({"role": "assistant", "content": t} for t in texts)]
    frames = read(tmp_path / "a.jsonl", [{"messages": turns}])
    assert attempt(frames)["n_tool_calls"] == 0
    assert [m["content"] for m in messages(frames)][1:] == texts


def test_images_become_artifacts(tmp_path):
    png = b"\x89PNG\r\n" + bytes(100)
    url = "data:image/png;base64," + base64.b64encode(png).decode()
    sound = base64.b64encode(b"RIFF" * 50).decode()
    parts = [
        {"type": "text", "text": "see"},
        {"type": "image_url", "image_url": {"url": url, "detail": "low"}},
        {"type": "input_audio", "input_audio": {"data": sound, "format": "wav"}},
        {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}},
    ]
    frames = read(tmp_path / "a.jsonl", [{"messages": [{"role": "user", "content": parts}, BOT]}])
    art = frames["artifacts"].to_dicts()
    assert [(a["kind"], a["mime"], a["bytes"]) for a in art] == [
        ("image", "image/png", 106),
        ("file", "audio/wav", 200),
    ]
    kept = json.loads(messages(frames)[0]["parts"])
    assert kept[1] == {
        "type": "image",
        "artifact": art[0]["digest"],
        "mime": "image/png",
        "bytes": 106,
        "detail": "low",
    }
    assert kept[3] == parts[3]
    assert "base64" not in messages(frames)[0]["parts"]
    assert art[0]["step_index"] == 0


def test_text_of_the_harness_is_no_turn_of_a_person(tmp_path):
    turns = [
        {"role": "user", "content": "<system-reminder>x</system-reminder>"},
        USER,
        BOT,
        {"role": "user", "content": "OBSERVATION:\n4"},
        BOT,
    ]
    frames = read(tmp_path / "a.jsonl", [{"messages": turns, "task_id": "t"}])
    assert [m["origin"] for m in messages(frames)] == ["harness", "human", "model", "tool", "model"]
    assert [s["turn"] for s in steps(frames)] == [0, 0, 0]
    assert messages(frames)[3]["step_index"] == 1
    assert frames["tasks"]["instruction"].to_list() == [USER["content"]]


def test_unknown_roles_and_what_is_no_message(tmp_path):
    frames = read(tmp_path / "a.jsonl", [{"messages": [USER, {"role": "exit", "content": "bye"}, 5, BOT]}])
    assert [(m["role"], m["origin"], m["name"]) for m in messages(frames)][1] == ("user", "harness", "exit")
    assert sorted(codes(frames)) == ["bad_message", "unknown_role"]
    assert frames["messages"].height == 3


def test_turns_not_to_be_learned_from(tmp_path):
    turns = [USER, BOT | {"weight": 0}, BOT | {"weight": 1}, BOT | {"loss": False}, BOT]
    frames = read(tmp_path / "a.jsonl", [{"messages": turns}])
    assert [s["trainable"] for s in steps(frames)] == [False, False, True, False, True]


def test_usage_models_and_times_of_turns(tmp_path):
    usage = {"prompt_tokens": 10, "completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": 4}}
    stamp = "2026-01-02T03:04:05"
    turns = [USER, BOT | {"id": "m", "model": "x/y", "usage": usage, "timestamp": stamp, "finish_reason": "stop"}]
    frames = read(tmp_path / "a.jsonl", [{"messages": [*turns, turns[1]]}])
    row = attempt(frames)
    assert (row["input_tokens"], row["cached_input_tokens"], row["output_tokens"]) == (10, 4, 3)
    assert (row["usage_basis"], row["model"], row["status"], row["arm"]) == ("summed", "x/y", "completed", "y")
    assert steps(frames)[1]["started_at"].isoformat() == f"{stamp}+00:00"
    assert codes(frames) == ["naive_time"]


# -- where the turns are ----------------------------------------------------------------------------------------------------


def test_bare_messages_are_one_attempt(tmp_path):
    listed, line = tmp_path / "a.json", tmp_path / "b.jsonl"
    listed.write_text(json.dumps(DONE))
    lines(line, DONE)
    for path in (listed, line):
        assert formats(path) == ["openai_chat"]
        assert attempt(read(path))["n_messages"] == 5
    lists = read(tmp_path / "c.jsonl", [DONE, [USER, BOT]])
    assert lists["attempts"]["n_messages"].to_list() == [5, 2]


def test_messages_as_text_and_one_object_deeper(tmp_path):
    rows = [{"messages": json.dumps(DONE)}, {"messages": {"messages": DONE}}]
    frames = read(tmp_path / "a.jsonl", rows)
    assert frames["attempts"]["n_messages"].to_list() == [5, 5]
    assert frames["attempts"]["source_format"].unique().to_list() == ["openai_chat"]


def test_a_preference_is_two_attempts_of_one_task(tmp_path):
    rows = [
        {"prompt": "q", "chosen": "good", "rejected": "bad"},
        {"prompt": [USER], "chosen": [BOT], "rejected": [BOT | {"content": "5"}]},
        {"prompt": "q", "chosen": [USER, BOT], "rejected": [USER, BOT | {"content": "5"}], "score_chosen": 8.5},
        {"input": {"messages": [USER], "tools": TOOLS}, "preferred_output": [BOT], "non_preferred_output": [BOT]},
    ]
    frames = read(tmp_path / "a.jsonl", rows)
    attempts = frames["attempts"]
    assert attempts["n_messages"].to_list() == [2] * 8
    assert attempts["score"].to_list() == [1.0, 0.0] * 4
    assert attempts["passed"].null_count() == 8
    assert attempts["attempt_id"].n_unique() == 8
    assert [attempts["task_id"][i] == attempts["task_id"][i + 1] for i in range(0, 8, 2)] == [True] * 4
    assert frames["tasks"].height == len(set(attempts["task_id"]))
    assert frames["grades"].filter(name="preference")["label"].to_list() == ["chosen", "rejected"] * 4
    assert frames["grades"].filter(name="rating")["value"].to_list() == [8.5]
    assert attempts["source_format"].unique().to_list() == ["openai_chat"]


def test_the_input_of_a_preference_that_holds_no_turns_stays_in_the_metadata(tmp_path):
    rows = [{"input": {"messages": "q"}, "preferred_output": [BOT], "non_preferred_output": [BOT]}]
    frames = read(tmp_path / "a.jsonl", rows)
    assert [json.loads(m)["input"] for m in frames["attempts"]["metadata"]] == [{"messages": "q"}] * 2


def test_prompt_and_completion(tmp_path):
    rows = [{"prompt": "q", "completion": "a"}, {"prompt": [SYSTEM, USER], "completion": [BOT]}]
    frames = read(tmp_path / "a.jsonl", rows)
    assert frames["attempts"]["n_messages"].to_list() == [2, 3]


def test_names_of_columns_and_values(tmp_path):
    rows = [{"messages": [USER, BOT], "who": "x", "metadata": {"q": "t1", "n": 1}}, {"messages": [USER, BOT]}]
    frames = read(tmp_path / "a.jsonl", rows, task_id="q", arm="who", trial="n")
    assert frames["attempts"]["task_id"].to_list() == ["t1", None]
    assert frames["attempts"]["arm"].to_list() == ["x", None]
    assert frames["attempts"]["trial"][0] == 0
    assert codes(frames) == []
    frames = read(tmp_path / "a.jsonl", task_id="mine", arm="base")
    assert frames["attempts"]["task_id"].to_list() == ["mine"] * 2
    assert frames["attempts"]["arm"].to_list() == ["base"] * 2
    assert codes(frames).count("option_taken_as_value") == 2
    assert attempt(read(tmp_path / "b.jsonl", rows[:1], trial=2))["trial"] == 2
    frames = read(tmp_path / "a.jsonl", trial="nothing")
    assert "bad_trial" in codes(frames)


def test_a_column_beyond_the_first_records_is_found(tmp_path):
    rows = [{"messages": [USER, BOT]}] * 40 + [{"messages": [USER, BOT], "late": "t"}]
    frames = read(tmp_path / "a.jsonl", rows, task_id="late")
    assert frames["attempts"]["task_id"].drop_nulls().to_list() == ["t"]
    assert codes(frames) == []


def test_secrets_and_what_is_not_mapped(tmp_path):
    row = {"messages": [USER, BOT], "api_key": "sk", "note": {"x": 1, "authorization": "b"}, "temperature": 0.2}
    out = attempt(read(tmp_path / "a.jsonl", [row]))
    assert detail(out) == {"note": {"x": 1}}
    assert out["params"] == '{"temperature":0.2}'


# -- logs of requests -------------------------------------------------------------------------------------------------------


def exchange(turns, answer, ident="r", model="m"):
    """A request line and a line with the answer."""
    usage = {"prompt_tokens": 5, "completion_tokens": 2}
    back = {"id": f"chatcmpl-{ident}", "model": f"{model}-1", "usage": usage}
    back["choices"] = [
        {"index": 0, "message": answer, "finish_reason": "tool_calls" if "tool_calls" in answer else "stop"}
    ]
    request = {"model": model, "messages": turns, "temperature": 0.1, "tools": TOOLS, "headers": {"Authorization": "x"}}
    return [{"id": ident, "request": request}, {"id": ident, "response": back}]


def test_a_log_gives_one_attempt_a_conversation(tmp_path):
    acted = CHAT[2]
    other = [{"role": "system", "content": "Other."}, USER]
    rows = [
        *exchange([SYSTEM, USER], acted, "1"),
        *exchange(other, BOT, "x"),
        *exchange(DONE[:4], BOT, "2"),
        {"id": "lost", "response": exchange([], BOT)[1]["response"]},
    ]
    frames = read(tmp_path / "log.jsonl", rows)
    attempts = frames["attempts"]
    assert attempts["source_format"].unique().to_list() == ["openai_chat"]
    assert attempts["n_messages"].to_list() == [5, 3, 1]
    first = attempts.to_dicts()[0]
    assert (first["input_tokens"], first["output_tokens"], first["n_steps"]) == (10, 4, 2)
    assert (first["model"], first["status"], first["stop_reason"]) == ("m-1", "completed", "stop")
    assert json.loads(first["params"]) == {"temperature": 0.1, "headers": {}, "model": "m"}
    assert json.loads(first["tools"]) == TOOLS
    own = frames["steps"].filter(pl.col("attempt_id") == first["attempt_id"], source="agent")
    assert own["llm_call_id"].to_list() == ["chatcmpl-1", "chatcmpl-2"]
    assert own["stop_reason"].to_list() == ["tool_calls", "stop"]
    assert codes(frames).count("prefix_request") == 1
    assert codes(frames).count("orphan_response") == 1


def test_pairs_in_one_line_repeats_and_answers_without_id(tmp_path):
    request, response = exchange([SYSTEM, USER], BOT)
    both = {**request, **response}
    frames = read(tmp_path / "a.jsonl", [both, both])
    assert frames["attempts"].height == 1
    assert codes(frames) == ["repeated_request"]
    del request["id"], response["id"]
    frames = read(tmp_path / "b.jsonl", [request, response])
    assert attempt(frames)["n_messages"] == 3
    assert codes(frames) == ["matched_by_position"]


def test_requests_in_any_order_and_batches(tmp_path):
    short, long_ = exchange([SYSTEM, USER], CHAT[2], "1"), exchange(DONE[:4], BOT, "2")
    frames = read(tmp_path / "a.jsonl", [*long_, *short])
    assert attempt(frames)["n_messages"] == 5
    batch = [
        {"custom_id": f"q{i}", "method": "POST", "url": "/", "body": {"model": "m", "messages": [USER]}} for i in (1, 2)
    ]
    frames = read(tmp_path / "b.jsonl", batch)
    assert frames["attempts"]["n_messages"].to_list() == [1, 1]
    assert frames["attempts"]["is_truncated"].to_list() == [True, True]


def test_further_choices_are_kept(tmp_path):
    request, response = exchange([USER], BOT)
    response["response"]["choices"].append({"message": BOT})
    frames = read(tmp_path / "a.jsonl", [request, response])
    assert codes(frames) == ["other_choices"]
    assert detail(attempt(frames))["other_choices"] == [{"message": BOT}]


# -- large files ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def small_parts(monkeypatch):
    for name, value in (("WHOLE", 2000), ("PART", 1000), ("CHUNK", 64)):
        monkeypatch.setattr(_chat_sets, name, value)


def test_a_large_file_is_read_in_parts(tmp_path, small_parts):
    rows = [{"messages": [USER, BOT | {"content": "x" * (i * 37 % 400)}], "n": i} for i in range(40)]
    path = tmp_path / "a.jsonl"
    path.write_text("\n".join(json.dumps(r) if i % 7 else json.dumps(r) + "\n" for i, r in enumerate(rows)))
    units = discover([path]).units
    assert len(units) > 3
    data = path.read_bytes()
    assert b"".join(data[u.span[0] : u.span[1]] for u in units) == data
    assert [data[: u.span[0]].count(b"\n") for u in units] == [u.span[2] for u in units]
    assert sum(u.size for u in units) == len(data)
    assert {u.package_id for u in units} == {"a.jsonl"}
    frames = read(path)
    assert frames["attempts"].height == 40
    assert frames["attempts"]["attempt_id"].n_unique() == 40
    assert [json.loads(m)["n"] for m in frames["attempts"]["metadata"]] == list(range(40))
    assert frames["attempts"]["source_digest"].unique().to_list() == [sha256_file(path)]
    (evidence,) = frames["evidence"].to_dicts()
    assert evidence["bytes"] == len(data)
    whole = lines(tmp_path / "b" / "a.jsonl", rows)
    assert read(whole)["messages"]["content"].to_list() == frames["messages"]["content"].to_list()


def test_a_line_longer_than_a_chunk(tmp_path, small_parts):
    rows = [{"messages": [USER, BOT | {"content": "y" * 5000}]}, {"messages": [USER, BOT]}]
    frames = read(tmp_path / "a.jsonl", rows)
    assert frames["attempts"]["source_pos"].to_list() == [0, 1]
    assert frames["messages"]["content"].str.len_chars().max() == 5000


def test_what_is_one_conversation_is_not_cut(tmp_path, small_parts):
    lines(tmp_path / "bare.jsonl", DONE * 20)
    lines(tmp_path / "log.jsonl", exchange(DONE[:4], BOT) * 20)
    (tmp_path / "array.json").write_text(json.dumps([{"messages": DONE}] * 20))
    assert [u.span for u in discover([tmp_path]).units] == [None] * 3
    (tmp_path / "packed.jsonl.gz").write_bytes(gzip.compress(json.dumps({"messages": DONE}).encode() + b"\n"))
    assert read(tmp_path / "packed.jsonl.gz")["attempts"].height == 1


def test_parts_report_a_bad_line_by_its_number(tmp_path, small_parts):
    good = json.dumps({"messages": [USER, BOT | {"content": "z" * 200}]})
    path = tmp_path / "a.jsonl"
    path.write_text("\n".join([good] * 10 + ["{broken"] + [good] * 10))
    frames = read(path)
    assert frames["attempts"].height == 20
    bad = frames["diagnostics"].filter(code="bad_json").to_dicts()
    assert [(d["source_pos"], d["byte_offset"] // (len(good) + 1)) for d in bad] == [(10, 10)]


def test_parquet_in_parts(tmp_path, monkeypatch):
    monkeypatch.setattr(_chat_sets, "WHOLE", 100)
    monkeypatch.setattr(_chat_sets, "PART", 100)
    frame = pl.DataFrame({"messages": [[USER, BOT | {"content": str(i)}] for i in range(30)], "n": list(range(30))})
    path = tmp_path / "a.parquet"
    frame.write_parquet(path, row_group_size=10)
    units = discover([path]).units
    assert [u.span for u in units] == [(0, 1, 0), (1, 2, 10), (2, 3, 20)]
    frames = read(path)
    assert frames["attempts"]["source_pos"].to_list() == list(range(30))
    assert frames["messages"]["content"].to_list()[1::2] == [str(i) for i in range(30)]
    assert frames["evidence"].height == 1
    alone = SOURCES["openai_chat"].read(units[1:2], ReadOptions())
    assert alone["attempts"]["source_pos"].to_list() == list(range(10, 20))
    assert alone["evidence"].is_empty()


def test_a_damaged_parquet_file_is_a_diagnostic(tmp_path):
    path = tmp_path / "a.parquet"
    pl.DataFrame({"messages": [[USER, BOT]] * 50}).write_parquet(path)
    data = path.read_bytes()
    for cut in (data[:-20], data[:100] + b"\x00" * 60 + data[160:]):
        path.write_bytes(cut)
        frames = read(path, format="openai_chat")
        assert frames["attempts"].height == 50 or "bad_parquet" in codes(frames)


# -- recognition and broken input -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "value",
    [
        {"messages": [USER, BOT]},
        {"messages": json.dumps([USER, BOT]), "tools": []},
        [USER, BOT],
        {"prompt": "q", "chosen": "a", "rejected": "b"},
        exchange([USER], BOT)[1]["response"],
    ],
)
def test_what_is_claimed(value):
    assert SOURCES["openai_chat"].claims_file(Look(Path("x"), json.dumps(value).encode()))


@pytest.mark.parametrize(
    "value",
    [
        {"messages": []},
        {"messages": [{"a": 1}]},
        {"messages": "hello"},
        {"a": 1},
        [],
        [1],
        {"history": [{"action": "x"}], "trajectory": [{"action": "x", "observation": "y"}], "info": {}},
        {"type": "user", "message": USER, "uuid": "u", "sessionId": "s"},
        {"question": "q", "choices": [{"text": "a"}, {"text": "b"}]},
        {"id": "1", "content": [{"class_": "text_observation"}]},
    ],
)
def test_what_is_not_claimed(value):
    look = Look(Path("x"), json.dumps(value).encode())
    family = ("openai_chat", "sharegpt", "anthropic_messages", "openai_responses", "hf_trajectories")
    assert not any(SOURCES[name].claims_file(look) for name in family)


def test_a_first_row_longer_than_a_look(tmp_path):
    row = {"messages": [USER | {"content": "x" * 100_000}, BOT]}
    plain = lines(tmp_path / "a.jsonl", [row, row])
    labelled = lines(tmp_path / "b.jsonl", [row | {"resolved": True}])
    packed = tmp_path / "c.gz"
    packed.write_bytes(gzip.compress(labelled.read_bytes()))
    assert [formats(p) for p in (plain, labelled, packed)] == [
        ["openai_chat"],
        ["hf_trajectories"],
        ["hf_trajectories"],
    ]


def test_damaged_lines_cost_themselves(tmp_path):
    row = json.dumps({"messages": [USER, BOT]})
    path = tmp_path / "a.jsonl"
    path.write_bytes(
        b"\xef\xbb\xbf"
        + "\n".join(
            [row, row + row, row[:-10], '{"messages": [{"role": "user", "content": NaN}]}', "", row, "7", '{"a": 1}']
        ).encode()
        + b'\n{"messages": [{"role": "user", "content": "\xff\\ud800"}]}'
    )
    frames = read(path)
    assert frames["attempts"].height == 6
    assert frames["attempts"]["attempt_id"].n_unique() == 6
    assert frames["attempts"]["source_pos"].to_list() == [0, 1, 1, 3, 5, 8]
    found = codes(frames)
    assert found.count("bad_row") == 2
    assert {"glued_lines", "bad_json", "not_strict_json", "not_utf8"} <= set(found)


def test_pretty_documents_under_the_name_of_lines(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps([{"messages": [USER, BOT]}] * 2, indent=1))
    assert read(path)["attempts"].height == 2
    path.write_text(json.dumps({"messages": [USER, BOT]}, indent=1))
    assert read(path)["attempts"].height == 1


@pytest.mark.parametrize(
    "data", [b"", b"\n\n", b"{", b"[]", b"null", b"[[[[", b'{"messages": 5}', b"PAR1", b"\x00" * 50]
)
def test_nothing_to_read_says_so(tmp_path, data):
    path = tmp_path / "a.json"
    path.write_bytes(data)
    frames = read(path, format="openai_chat")
    assert frames["attempts"].is_empty()
    assert len(codes(frames)) > 0


def test_deep_nesting(tmp_path):
    path = tmp_path / "a.jsonl"
    deep = '{"a":' * 900 + "1" + "}" * 900
    path.write_text(f'{{"messages": [{json.dumps(USER)}], "x": {deep}}}\n{json.dumps({"messages": [USER, BOT]})}\n')
    frames = read(path)
    assert frames["attempts"].height + codes(frames).count("bad_json") == 2


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
FULL = {
    "messages": [*DONE, {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:,"}}]}],
    "tools": TOOLS,
    "model": "m",
    "reward": 1.0,
    "resolved": True,
    "task_id": "t",
    "trial": 1,
    "usage": {"prompt_tokens": 1},
    "metadata": {"seed": 1},
    "created_at": "2026-01-01",
    "patch": "p",
}


def places(value, path=()):
    yield path
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, entry in inner:
        yield from places(entry, (*path, key))


def put(value, path, new):
    """The value with another at a place."""
    if not path:
        return new
    out = value.copy()
    out[path[0]] = put(value[path[0]], path[1:], new)
    return out


@settings(max_examples=75, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_any_value_anywhere_is_loaded_or_reported(tmp_path, data):
    row = put(FULL, data.draw(st.sampled_from(list(places(FULL)))), data.draw(JSON))
    row = put(row, data.draw(st.sampled_from(list(places(row)))), data.draw(JSON))
    path = lines(tmp_path / "a.jsonl", [FULL, row])
    name = data.draw(
        st.sampled_from(["openai_chat", "sharegpt", "anthropic_messages", "openai_responses", "hf_trajectories"])
    )
    frames = read_frames([path], name)
    skipped = {p for c, p in frames["diagnostics"].select("code", "source_pos").rows() if c in ("bad_row", "bad_json")}
    loaded = set(frames["attempts"]["source_pos"])
    assert 0 in loaded
    assert loaded | skipped == {0, 1}


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cut=st.integers(0, 1500), more=st.binary(max_size=4))
def test_a_file_cut_anywhere(tmp_path, cut, more):
    path = tmp_path / "a.jsonl"
    data = b"".join(json.dumps(r).encode() + b"\n" for r in [FULL, FULL])
    path.write_bytes(data[:cut] + more)
    frames = read_frames([path], "openai_chat")
    assert frames["attempts"].height or frames["diagnostics"].height
