from __future__ import annotations

import base64
import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from expcomp.sources._contract import Found, ReadOptions, Unit
from expcomp.sources._look import Look
from expcomp.sources.load import read_frames
from expcomp.sources.rules import Rules, Scale
from expcomp.sources.verifiers.reader import SOURCE
from expcomp.tables.core import CORE

TOOL = {
    "type": "function",
    "function": {"name": "f", "parameters": {"properties": {"x": {"type": "string"}, "y": None}}},
}
META = {"env_id": "games", "model": "org/m", "num_examples": 1, "rollouts_per_example": 1, "avg_reward": 0.5}


def said(role, content, **more):
    return {"role": role, "content": content} | more


def called(*names, **more):
    calls = [
        json.dumps({"id": f"c_{n}", "function": {"arguments": '{"x":  1}', "name": n}, "type": "function"})
        for n in names
    ]
    return said("assistant", "", tool_calls=calls) | more


def row(answer="story", **more):
    out = {
        "example_id": 0,
        "prompt": [said("system", "rules"), said("user", "guess")],
        "completion": [said("assistant", "crane"), said("user", "XX"), said("assistant", "story")],
        "task": "default",
        "answer": answer,
        "reward": 0.5,
        "check_func": 1.0,
        "generation_ms": 3.0,
        "scoring_ms": 1.0,
        "total_ms": 5000.0,
    }
    return out | more


def write(folder, *rows, name="results.jsonl", meta=None):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text("".join(json.dumps(r) + "\n" for r in rows))
    if meta is not None:
        (folder / "metadata.json").write_text(json.dumps(meta))
    return folder / name


def load(tmp_path, *rows, meta=None, **options):
    return read_frames([write(tmp_path, *rows, meta=meta)], options=ReadOptions(**options))


def codes(frames):
    return set(frames["diagnostics"]["code"])


def only(frames):
    (attempt,) = frames["attempts"].to_dicts()
    return attempt


def test_a_row_is_a_rollout(tmp_path):
    frames = load(tmp_path, row(), meta=META)
    attempt = only(frames)
    assert (attempt["arm"], attempt["model"], attempt["score"]) == ("m", "org/m", 0.5)
    assert (attempt["passed"], attempt["score_valid"], attempt["duration_s"]) == (None, True, 5.0)
    assert (attempt["n_steps"], attempt["n_messages"], attempt["has_system_prompt"]) == (2, 5, True)
    assert frames["messages"]["origin"].to_list() == ["harness", "human", "model", "simulator", "model"]
    assert frames["steps"]["source"].to_list() == ["user", "agent", "simulator", "agent"]
    assert frames["steps"]["trainable"].to_list() == [False, True, False, True]
    (task,) = frames["tasks"].to_dicts()
    assert task["task_id"].startswith("games/default/")
    assert (task["instruction"], task["system_prompt"], task["target"]) == ("guess", "rules", '"story"')
    assert task["native_id"] == "0"
    assert codes(frames) == set()
    assert sorted(frames["evidence"]["ref"]) == ["metadata.json", "results.jsonl"]


def test_reward_functions_are_grades(tmp_path):
    meta = META | {"state_columns": ["seconds"]}
    frames = load(tmp_path, row(reward=2.25, seconds=3.5, empty=None, flag=True), meta=meta)
    grades = {g["name"]: (g["kind"], g["value"], g["passed"], g["is_primary"]) for g in frames["grades"].to_dicts()}
    assert grades == {
        "reward": ("verifier", 2.25, None, True),
        "check_func": ("verifier", 1.0, None, False),
    }
    kept = json.loads(only(frames)["metadata"])
    assert (kept["seconds"], kept["flag"], kept["example_id"]) == (3.5, True, 0)
    assert "empty" not in kept


def test_a_metrics_object_names_the_reward_functions(tmp_path):
    frames = load(tmp_path, row(metrics={"a": 1.0, "b": None}, a=1.0, other=4))
    assert frames["grades"]["name"].to_list() == ["reward", "a"]
    assert json.loads(only(frames)["metadata"])["other"] == 4


def test_a_threshold_is_the_users(tmp_path):
    assert only(load(tmp_path, row(reward=1.0)))["passed"] is None
    rules = Rules(scores={"verifiers": Scale(0.0, 2.25, 1.5)})
    attempts = load(tmp_path, row(reward=1.0), row(reward=2.0), rules=rules)["attempts"]
    assert attempts["passed"].to_list() == [False, True]


def test_prompt_and_answer_decide_the_task(tmp_path):
    rows = [row(answer, example_id=i // 2) for i, answer in enumerate(["a", "b", "a", "b"])]
    frames = load(tmp_path, *rows)
    ids = frames["attempts"].sort("source_pos")["task_id"].to_list()
    assert ids[0] == ids[2] != ids[1] == ids[3]
    assert frames["attempts"].sort("source_pos")["trial"].to_list() == [0, 0, 1, 1]
    assert frames["tasks"]["native_id"].to_list() == [None, None]
    assert "id_mismatch" in codes(frames)


def test_the_same_task_in_two_runs(tmp_path):
    write(tmp_path / "games--a" / "1", row(example_id=7), meta=META | {"model": "a"})
    again = [said("system", "rules", tool_calls=None), said("user", "guess", tool_calls=None)]
    write(tmp_path / "games--b" / "2", row(prompt=again, id=3), meta=META | {"model": "b"})
    frames = read_frames([tmp_path])
    assert frames["tasks"].height == 1
    assert set(frames["attempts"]["arm"]) == {"a", "b"}
    assert sorted(frames["attempts"]["run_id"]) == ["games--a/1", "games--b/2"]


def test_what_tells_tasks_apart_where_prompt_or_answer_say_nothing(tmp_path):
    silent = [row(prompt=[said("user", "")], answer="C", example_id=i) for i in (0, 1)]
    assert load(tmp_path, *silent)["tasks"].height == 2
    games = [row(answer="", info={"seed": i}) for i in (0, 1)]
    assert load(tmp_path, *games)["tasks"].height == 2


def test_calls_are_texts_and_results_have_no_id(tmp_path):
    turns = [called("f", "g"), said("tool", "1"), said("tool", "2"), said("assistant", "end", tool_calls=None)]
    frames = load(tmp_path, row(completion=turns, info={"oai_tools": [TOOL], "k": 1}))
    step = frames["steps"].row(1, named=True)
    assert [(c["id"], c["name"], c["arguments"]) for c in step["tool_calls"]] == [
        ("c_f", "f", '{"x":  1}'),
        ("c_g", "g", '{"x":  1}'),
    ]
    assert [(o["call_id"], o["content"]) for o in step["observations"]] == [("c_f", "1"), ("c_g", "2")]
    assert frames["diagnostics"].filter(code="matched_by_position")["source_pos"].to_list() == [0]
    attempt = only(frames)
    assert json.loads(attempt["tools"])[0]["function"]["parameters"] == {"properties": {"x": {"type": "string"}}}
    assert json.loads(attempt["metadata"])["info"] == {"k": 1}


@pytest.mark.parametrize(
    ("raw", "name", "arguments", "ok"),
    [
        ({"id": "c", "name": "f", "arguments": {"x": 1}}, "f", '{"x":1}', True),
        ({"id": "c", "function": {"name": "f", "arguments": "{"}}, "f", "{", False),
        ("not json", None, "not json", False),
        (5, None, None, False),
    ],
)
def test_other_shapes_of_calls(tmp_path, raw, name, arguments, ok):
    frames = load(tmp_path, row(completion=[said("assistant", None, tool_calls=[raw])]))
    (call,) = frames["steps"]["tool_calls"].to_list()[1]
    assert (call["name"], call["arguments"], call["arguments_ok"]) == (name, arguments, ok)


def test_an_unanswered_call_at_the_end_is_truncation(tmp_path):
    frames = load(tmp_path, row(completion=[called("f")]))
    assert only(frames)["is_truncated"]
    assert "unanswered_call" in codes(frames)


def test_demos_in_the_prompt_are_not_trained_on(tmp_path):
    prompt = [said("user", "q1"), called("f"), said("tool", "r"), said("user", "q2")]
    frames = load(tmp_path, row(prompt=prompt, completion="text"))
    assert frames["messages"]["origin"].to_list() == ["human", "demo", "tool", "human", "model"]
    assert frames["steps"]["is_copied_context"].to_list() == [False, True, False, False]
    assert frames["steps"]["trainable"].to_list() == [False, False, False, True]
    assert only(frames)["n_steps"] == 1
    assert frames["tasks"]["instruction"].to_list() == ["q2"]


@pytest.mark.parametrize(
    "value", ["hello", [said("user", "hello")], said("user", "hello"), '[{"role": "user", "content": "hello"}]']
)
def test_prompts_of_any_form(tmp_path, value):
    frames = load(tmp_path, row(prompt=value))
    assert frames["messages"].row(0, named=True)["content"] == "hello"
    assert frames["tasks"]["instruction"].to_list() == ["hello"]


@pytest.mark.parametrize("value", [7, True, [7]])
def test_a_completion_that_is_no_dialogue_is_told(tmp_path, value):
    frames = load(tmp_path, row(completion=value))
    assert frames["attempts"].height == 1
    assert "bad_message" in codes(frames)


def test_rewards_that_are_none(tmp_path):
    rows = [row(reward=r) for r in (None, "much", True)]
    frames = load(tmp_path, *rows)
    assert frames["attempts"]["score_valid"].to_list() == [False, False, True]
    assert {"score_missing", "score_not_a_number"} <= codes(frames)


@pytest.mark.parametrize(
    ("error", "status", "valid"),
    [
        ({"error": "SandboxError", "error_chain_repr": "SandboxError('x')"}, "infra_error", False),
        ({"error": "Error", "error_chain_str": "Error -> ModelError"}, "infra_error", False),
        ("ToolCallError('x')", "agent_error", True),
        ("verifiers.OverlongPromptError: long", "limit", True),
        ({"error": "Odd"}, "agent_error", True),
    ],
)
def test_errors(tmp_path, error, status, valid):
    frames = load(tmp_path, row(error=error, reward=0.0))
    attempt = only(frames)
    assert (attempt["status"], attempt["score_valid"]) == (status, valid)
    assert attempt["error_message"]
    assert (frames["grades"]["valid"] == valid).all()


@pytest.mark.parametrize(
    ("more", "status"),
    [
        ({}, "unknown"),
        ({"is_completed": True, "stop_condition": "won_the_game"}, "completed"),
        ({"is_completed": True, "stop_condition": "max_turns_reached"}, "limit"),
        ({"is_completed": True, "is_truncated": True}, "limit"),
    ],
)
def test_how_a_rollout_ended(tmp_path, more, status):
    frames = load(tmp_path, row(**more))
    assert only(frames)["status"] == status
    assert codes(frames) <= {"name_from_folder"}


def test_newer_rows_tell_times_usage_and_tools(tmp_path):
    more = {
        "timing": {"start_time": 1_760_000_000.0, "total_ms": 2000.0},
        "token_usage": {"input_tokens": 10.0, "output_tokens": 4.0},
        "tool_defs": [{"name": "f", "description": "d", "parameters": {}, "strict": None}],
    }
    attempt = only(load(tmp_path, row(**more)))
    assert attempt["started_at"] == datetime.fromtimestamp(1_760_000_000, UTC)
    assert (attempt["duration_s"], attempt["input_tokens"], attempt["output_tokens"]) == (2.0, 10, 4)
    assert attempt["usage_basis"] == "reported"
    assert json.loads(attempt["tools"]) == [
        {"type": "function", "function": {"name": "f", "description": "d", "parameters": {}}}
    ]
    nothing = only(load(tmp_path, row(token_usage={"input_tokens": 0.0, "output_tokens": 0.0}, total_ms=0.0)))
    assert (nothing["input_tokens"], nothing["duration_s"]) == (None, None)


def test_token_ids_of_a_kept_trajectory(tmp_path):
    tokens = {"prompt_ids": [1, 2], "completion_ids": [3], "completion_logprobs": [-0.5]}
    steps = [{"tokens": tokens}, {"tokens": None}]
    frames = load(tmp_path, row(trajectory=steps))
    agent = frames["steps"].filter(source="agent")
    assert agent["prompt_token_ids"].to_list() == [[1, 2], None]
    assert agent["completion_token_ids"].to_list() == [[3], None]
    assert agent["logprobs"].to_list() == [[-0.5], None]
    assert "trajectory_not_used" in codes(load(tmp_path, row(trajectory=[{}])))


def test_images_become_artifacts(tmp_path):
    url = "data:image/png;base64," + base64.b64encode(b"pixels").decode()
    parts = [{"type": "text", "text": "see"}, {"type": "image_url", "image_url": {"url": url}}]
    frames = load(tmp_path, row(prompt=[said("user", parts)]))
    (artifact,) = frames["artifacts"].to_dicts()
    assert (artifact["kind"], artifact["mime"], artifact["bytes"]) == ("image", "image/png", 6)
    message = frames["messages"].row(0, named=True)
    assert message["content"] is None
    assert json.loads(message["parts"])[1] == {"type": "image", "artifact": artifact["digest"], "mime": "image/png"}


def test_metadata_sums_are_checked(tmp_path):
    meta = META | {"num_examples": 10, "avg_reward": 0.0, "avg_metrics": {"check_func": 1.0}}
    frames = load(tmp_path, row(), meta=meta)
    (detail,) = frames["diagnostics"].filter(code="header_mismatch")["detail"]
    assert "10 rows" in detail
    assert "mean reward 0" in detail
    assert "check_func" not in detail


def test_folder_names_stand_in_for_metadata(tmp_path):
    write(tmp_path / "games--org--m" / "1", row())
    frames = read_frames([tmp_path])
    attempt = only(frames)
    assert (attempt["model"], attempt["task_id"].split("/")[0]) == ("org/m", "games")
    assert codes(frames) == {"name_from_folder"}


def test_metadata_alone_is_no_attempt(tmp_path):
    (tmp_path / "metadata.json").write_text(json.dumps(META))
    frames = read_frames([tmp_path])
    assert frames["attempts"].is_empty()
    assert codes(frames) == {"no_attempt"}


def test_secrets_and_paths_are_dropped(tmp_path):
    meta = META | {
        "sampling_args": {"temperature": 0.5, "api_key": "sk-1"},
        "base_url": "http://user:pw-1@host:8000/v1/",
        "path_to_save": "/home/alice/out",
    }
    frames = load(tmp_path, row(info={"auth_token": "sk-2"}), meta=meta)
    everything = "".join(frame.write_ndjson() for frame in frames.values())
    assert not any(word in everything for word in ("sk-1", "sk-2", "pw-1", "alice"))
    assert json.loads(only(frames)["params"]) == {"temperature": 0.5}


def test_rows_that_are_none_are_left_out(tmp_path):
    path = tmp_path / "results.jsonl"
    whole = json.dumps(row()).encode()
    path.write_bytes(whole + b"\n5\n{}\n" + whole[:60] + b"\n" + whole + whole + b"\n")
    frames = read_frames([path], format="verifiers")
    assert frames["attempts"].height == 3
    assert frames["diagnostics"].filter(code="bad_row").height == 2
    assert frames["diagnostics"].filter(code="bad_json").height == 1


# -- traces ------------------------------------------------------------------------------------------------------------


def node(message, parent=None, **more):
    out = {
        "message": message,
        "sampled": False,
        "timestamp": 1_760_000_000.0,
        "token_ids": [],
        "mask": [],
        "logprobs": [],
    }
    return out | ({} if parent is None else {"parent": parent}) | more


def made(message, parent, ids=(), start=0, **more):
    tokens = list(ids)
    own = {
        "sampled": True,
        "token_ids": tokens,
        "mask": [i >= start for i in range(len(tokens))],
        "logprobs": [-0.25] * max(len(tokens) - start, 0),
    }
    return node(message, parent, **(own | more))


CALL = {"id": "c1", "type": "function", "name": "f", "arguments": '{"x": 1}'}


def linear():
    return [
        node(said("system", "rules"), token_ids=[1], mask=[False]),
        node(said("user", "go"), 0, token_ids=[2, 3], mask=[False, False]),
        made(said("assistant", "hm", tool_calls=[CALL], reasoning_content="why"), 1, [4, 5, 6], 1),
        node(said("tool", "out", tool_call_id="c1"), 2, token_ids=[7], mask=[False]),
        made(said("assistant", "done"), 3, [8, 9], 1),
    ]


def trace(nodes, **more):
    usage = {"prompt_tokens": 6, "cached_input_tokens": 4, "completion_tokens": 2, "cost": 0.5}
    calls = [
        {"node": i, "model": "served", "usage": usage, "finish_reason": "stop", "time": {"start": 1.0, "end": 2.0}}
        for i, n in enumerate(nodes)
        if isinstance(n, dict) and n.get("sampled")
    ]
    out = {
        "version": 1,
        "id": "trace-1",
        "verifiers": {"version": "0.4.0"},
        "task": {"type": "GameTask", "data": {"idx": 3, "name": "g3", "prompt": "go", "answer": "x"}, "key": "k"},
        "agent": {
            "config": {"model": "asked", "harness": {"id": "bash"}, "sampling": {"temperature": 1.0}},
            "name": "agent",
        },
        "tools": [{"type": "function", "name": "f", "description": "", "parameters": {}}],
        "nodes": nodes,
        "calls": calls,
        "rewards": {"solved": {"score": 1.0, "weight": 2.0}, "style": {"score": 0.5, "weight": 1.0}},
        "metrics": {"turns": 2.0},
        "is_completed": True,
        "ok": True,
        "stop_condition": "agent_completed",
        "errors": [],
        "timing": {"start": 1_760_000_000.0, "agent": {"start": 1_760_000_000.0, "end": 1_760_000_010.0}},
    }
    return out | more


def episode(*traces, **more):
    return {"id": "e1", "env": {"id": "games"}, "task": trace([])["task"], "ok": True, "traces": list(traces)} | more


def load_traces(tmp_path, *rows):
    return read_frames([write(tmp_path, *rows, name="traces.jsonl")])


@pytest.mark.parametrize("wrap", [lambda t: t, episode], ids=["trace a line", "episode a line"])
def test_a_trace(tmp_path, wrap):
    frames = load_traces(tmp_path, wrap(trace(linear())))
    attempt = only(frames)
    assert (attempt["arm"], attempt["agent"], attempt["model"]) == ("bash/served", "bash", "served")
    assert json.loads(attempt["params"]) == {"temperature": 1.0, "model_asked_for": "asked"}
    assert (attempt["score"], attempt["passed"], attempt["status"]) == (2.5, None, "completed")
    assert (attempt["input_tokens"], attempt["cached_input_tokens"], attempt["output_tokens"]) == (20, 8, 4)
    assert (attempt["cost_usd"], attempt["duration_s"], attempt["usage_basis"]) == (1.0, 10.0, "summed")
    assert (attempt["n_steps"], attempt["n_messages"], attempt["n_tool_calls"]) == (2, 5, 1)
    assert not attempt["has_compaction"]
    assert json.loads(attempt["tools"])[0]["function"]["name"] == "f"
    agent = frames["steps"].filter(source="agent")
    assert agent["prompt_token_ids"].to_list() == [[1, 2, 3, 4], [1, 2, 3, 4, 5, 6, 7, 8]]
    assert agent["completion_token_ids"].to_list() == [[5, 6], [9]]
    assert agent["logprobs"].to_list() == [[-0.25, -0.25], [-0.25]]
    assert agent["reasoning"].to_list() == ["why", None]
    assert agent["observations"][0].to_list()[0]["content"] == "out"
    grades = {g["name"]: g["value"] for g in frames["grades"].to_dicts()}
    assert grades == {"reward": 2.5, "solved": 1.0, "style": 0.5, "turns": 2.0}
    (task,) = frames["tasks"].to_dicts()
    assert (task["domain"], task["native_id"], task["instruction"]) == ("GameTask", "g3", "go")
    assert task["task_id"].split("/")[2].startswith("g3@")
    assert json.loads(task["target"]) == {"answer": "x"}
    assert codes(frames) == set()


def test_older_traces(tmp_path):
    nodes = linear()
    for n in nodes:
        if n["sampled"]:
            n |= {"usage": {"prompt_tokens": 5, "completion_tokens": 2}, "finish_reason": "length"}
    old = trace(nodes, rewards={"solved": 1.0}, errors=[], task={"idx": 0, "name": "g", "prompt": "go"})
    for key in ("version", "agent", "calls", "tools", "ok"):
        del old[key]
    (tmp_path / "config.toml").write_text('model = "org/m"\n[taskset]\nid = "games"\n[harness]\nid = "bash"\n')
    frames = load_traces(tmp_path, old)
    attempt = only(frames)
    assert (attempt["arm"], attempt["score"], attempt["input_tokens"]) == ("bash/m", 1.0, 10)
    assert attempt["task_id"].startswith("games/task/g@")
    assert frames["steps"].filter(source="agent")["stop_reason"].to_list() == ["length", "length"]


def test_each_path_is_a_context(tmp_path):
    nodes = [
        *linear(),
        node(said("user", "summary so far"), 0, token_ids=[10], mask=[False]),
        made(said("assistant", "on"), 5, [11], 0, semantic_parents=[{"node": 4, "type": "compaction"}]),
    ]
    frames = load_traces(tmp_path, trace(nodes))
    chats = frames["messages"].group_by("context_id", maintain_order=True).agg("content", "origin")
    assert chats["content"].to_list() == [["rules", "go", "hm", "out", "done"], ["rules", "summary so far", "on"]]
    assert chats["origin"].to_list()[1] == ["harness", "summary", "model"]
    agent = frames["steps"].filter(source="agent")
    assert agent["is_copied_context"].to_list() == [False, False, False]
    assert agent["prompt_token_ids"].to_list()[2] == [1, 10]
    attempt = only(frames)
    assert (attempt["n_steps"], attempt["has_compaction"]) == (3, True)


def test_shared_turns_are_copies_in_a_later_path(tmp_path):
    nodes = [*linear(), made(said("assistant", "retry"), 3, [12], 0)]
    frames = load_traces(tmp_path, trace(nodes))
    agent = frames["steps"].filter(source="agent")
    assert agent["content"].to_list() == ["hm", "done", "hm", "retry"]
    assert agent["is_copied_context"].to_list() == [False, False, True, False]
    assert agent["trainable"].to_list() == [True, True, False, True]
    assert agent["completion_token_ids"].to_list()[2] is None
    attempt = only(frames)
    assert (attempt["n_steps"], attempt["n_tool_calls"], attempt["output_tokens"]) == (3, 1, 6)


def test_only_sampled_messages_of_a_trainable_agent_are_trained_on(tmp_path):
    nodes = [
        node(said("user", "q")),
        node(said("assistant", "shown"), 0),
        node(said("user", "go"), 1),
        made(said("assistant", "own"), 2, [1], 0),
    ]
    frames = load_traces(tmp_path, trace(nodes))
    agent = frames["steps"].filter(source="agent")
    assert agent["trainable"].to_list() == [False, True]
    assert agent["is_copied_context"].to_list() == [True, False]
    assert frames["messages"]["origin"].to_list() == ["human", "demo", "human", "model"]
    judge = trace(nodes, agent={"name": "judge", "trainable": False, "config": {"model": "j"}})
    frames = load_traces(tmp_path, episode(trace(nodes), judge | {"id": "trace-2"}))
    assert frames["attempts"]["arm"].to_list() == ["bash/served", "judge:served"]
    assert frames["steps"].filter(source="agent")["trainable"].to_list() == [False, True, False, False]


def test_a_summary_that_was_not_used_is_not_trained_on(tmp_path):
    nodes = [
        *linear(),
        made(said("assistant", "sum"), 4, [1], 0, semantic_parents=[{"node": 4, "type": "compaction_attempt"}]),
    ]
    agent = load_traces(tmp_path, trace(nodes))["steps"].filter(source="agent")
    assert agent["trainable"].to_list() == [True, True, False]


def test_unscored_and_failed_traces(tmp_path):
    lost = trace(linear(), rewards={"solved": None}, ok=False, errors=[{"type": "SandboxError", "message": "gone"}])
    frames = load_traces(tmp_path, lost)
    attempt = only(frames)
    assert (attempt["status"], attempt["score_valid"], attempt["error_type"]) == ("infra_error", False, "SandboxError")
    half = trace(linear(), rewards={"a": {"score": 1.0, "weight": 1.0}, "b": None})
    frames = load_traces(tmp_path, half)
    assert (only(frames)["score"], only(frames)["score_issue"]) == (None, "reward_incomplete")
    retried = trace(linear(), errors=[{"type": "SandboxError", "message": "first try"}])
    attempt = only(load_traces(tmp_path, retried))
    assert (attempt["status"], attempt["score_valid"], attempt["error_type"]) == ("completed", True, None)


def test_an_episode_without_trace_is_an_attempt(tmp_path):
    lost = episode(ok=False, errors=[{"type": "EnvError", "message": "no box"}])
    frames = load_traces(tmp_path, lost)
    attempt = only(frames)
    assert (attempt["status"], attempt["passed"], attempt["score_valid"]) == ("infra_error", None, False)
    assert attempt["task_id"].startswith("games/GameTask/")
    assert "episode_without_trace" in codes(frames)


def test_token_ids_that_do_not_fit_are_told(tmp_path):
    nodes = linear()
    nodes[2]["mask"] = [True]
    nodes[4] |= {"logprobs": [1.0, 2.0, 3.0]}
    frames = load_traces(tmp_path, trace(nodes))
    agent = frames["steps"].filter(source="agent")
    assert agent["completion_token_ids"].to_list() == [None, [9]]
    assert agent["logprobs"].to_list() == [None, None]
    assert "bad_token_ids" in codes(frames)


def test_parents_that_do_not_stand_before_are_told(tmp_path):
    nodes = [node(said("user", "a"), 1), node(said("user", "b"), 0), node(said("user", "c"), -1), 5]
    frames = load_traces(tmp_path, trace(nodes))
    assert frames["messages"]["content"].to_list() == ["a", "b", "c"]
    assert {"bad_parent", "bad_message"} <= codes(frames)


def test_hostile_graphs_stay_small(tmp_path):
    chain = [node(said("user", "x"), i - 1 if i else None) for i in range(2000)]
    nodes = chain + [node(said("user", "leaf"), 1999) for _ in range(2000)]
    frames = load_traces(tmp_path, trace(nodes))
    assert frames["messages"].height == 4000
    assert "prefix_not_repeated" in codes(frames)


def test_annotations_of_a_trainer_are_kept(tmp_path):
    nodes = linear()
    nodes[2]["advantages"] = [0.5, 0.5]
    nodes[2]["message"]["provider_state"] = [{"type": "reasoning", "encrypted_content": "zz"}]
    del nodes[2]["message"]["reasoning_content"]
    step = load_traces(tmp_path, trace(nodes))["steps"].filter(source="agent").row(0, named=True)
    assert step["reasoning_opaque"]
    detail = json.loads(step["detail"])
    assert (detail["advantages"], detail["provider_state"][0]["encrypted_content"]) == ([0.5, 0.5], "zz")


# -- recognition and damage --------------------------------------------------------------------------------------------


def claims(value, name="x", cut=None):
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    return SOURCE.claims_file(Look(Path(name), data[:cut]))


def test_claims_by_content(tmp_path):
    assert claims(row())
    assert claims(row(), cut=150)
    assert claims({k: v for k, v in row(id=1).items() if k != "example_id"})
    assert claims(trace(linear()))
    assert claims(episode(trace(linear())))
    assert claims(episode())
    assert claims(trace(linear()), cut=200)
    assert claims(META)
    assert not claims({"prompt": "a", "completion": "b"})
    assert not claims({"id": 1, "prompt": "a", "completion": "b", "reward": 1.0}, name=str(tmp_path / "x"))
    assert not claims({"messages": [said("user", "x")]})
    assert not claims({"nodes": [{"id": 1, "label": "x"}], "edges": []})
    assert not claims({"model": "m", "env": "x"})
    assert not claims(b"")
    assert not claims(b"a,b\n")
    assert not SOURCE.claims_folder(tmp_path, frozenset({"results.jsonl", "metadata.json"}))


def test_metadata_beside_decides_where_rows_do_not(tmp_path):
    bare = {"id": 1, "prompt": "a", "completion": "b" * 100, "reward": 1.0}
    path = write(tmp_path, bare, meta=META)
    assert claims(bare, name=str(path))
    assert claims(bare, name=str(path), cut=60)


@pytest.mark.parametrize("value", [b"", b"[1]", b'{"nodes": 3}', b'{"traces": {}}', b"a,b", b"\x00\x01", b"{"])
def test_forced_on_something_else_is_a_diagnostic(tmp_path, value):
    (tmp_path / "x").write_bytes(value)
    frames = read_frames([tmp_path / "x"], format="verifiers")
    assert frames["attempts"].height <= 1
    assert frames["diagnostics"].height >= 1


def test_broken_companions_are_told(tmp_path):
    path = write(tmp_path, row())
    (tmp_path / "metadata.json").write_text("[1]")
    (tmp_path / "config.toml").write_text("= 1")
    assert "bad_companion" in codes(read_frames([path]))


def test_an_empty_list_is_told(tmp_path):
    (tmp_path / "x").write_bytes(b"[]")
    frames = SOURCE.read([Unit(SOURCE.name, tmp_path / "x", "x")], ReadOptions())
    assert codes(frames) == {"empty_file"}


def test_read_of_nothing_gives_typed_frames(tmp_path):
    frames = SOURCE.read([], ReadOptions())
    assert all(frames[name].schema == t.schema for name, t in CORE.items())
    frames = SOURCE.read([Unit("verifiers", tmp_path / "gone", "gone")], ReadOptions())
    assert codes(frames) == {"unreadable"}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)


def places(value, out):
    """All objects and lists in a value that hold something."""
    if value and isinstance(value, dict | list):
        out.append(value)
        for inner in value.values() if isinstance(value, dict) else value:
            places(inner, out)
    return out


def read(path):
    found = Found()
    SOURCE.units(path, path.parent, found)
    return SOURCE.read(found.units, ReadOptions())


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_values_of_any_type_never_raise(tmp_path_factory, data):
    rich = row(
        completion=[called("f"), said("tool", "r"), said("assistant", [{"type": "text", "text": "x"}])],
        info={"oai_tools": [TOOL]},
        metrics={"a": 1.0},
        timing={"start_time": 1.0, "total_ms": 1.0},
        token_usage={"input_tokens": 1.0, "output_tokens": 1.0},
        trajectory=[{"tokens": {"prompt_ids": [1], "completion_ids": [2], "completion_logprobs": [0.5]}}, {}],
        error={"error": "ToolError"},
    )
    lines = json.loads(json.dumps([rich, trace(linear()), episode(trace(linear(), id="t2"))]))
    meta = META | {
        "avg_metrics": {"a": 1.0},
        "sampling_args": {"n": 1},
        "base_url": "http://h/",
        "state_columns": ["x"],
    }
    for _ in range(data.draw(st.integers(1, 5))):
        place = data.draw(st.sampled_from(places([*lines, meta], [])[1:]))
        keys = sorted(place) if isinstance(place, dict) else range(len(place))
        place[data.draw(st.sampled_from(keys))] = data.draw(JSON)
    frames = read(write(tmp_path_factory.mktemp("v"), *lines, meta=meta))
    left_out = frames["diagnostics"].filter(code="bad_row").height
    assert frames["attempts"].height + left_out >= 3


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_damage_never_raises(tmp_path_factory, data):
    lines = data.draw(st.sampled_from([[row(), row("b")], [trace(linear())], [episode(trace(linear()))]]))
    path = write(tmp_path_factory.mktemp("v"), *lines)
    blob = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, max(len(blob) - 2, 0)))
        blob[at : at + data.draw(st.integers(0, 8))] = data.draw(st.binary(max_size=3))
    path.write_bytes(bytes(blob))
    frames = read(path)
    assert frames["attempts"].height + frames["diagnostics"].height > 0
