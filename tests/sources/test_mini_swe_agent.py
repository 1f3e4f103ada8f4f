from __future__ import annotations

import copy
import json
from datetime import UTC, datetime

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from expcomp.sources._contract import Found, ReadOptions, Unit
from expcomp.sources._look import Look
from expcomp.sources.load import read_frames
from expcomp.sources.registry import discover
from expcomp.sources.swe.mini_swe_agent import SOURCE
from expcomp.tables.core import CORE

INSTANCE = "acme__widget-12"
TEMPLATE = "<pr>\n{{task}}\n</pr>\nSolve it in {{cwd}}.\n"
PROMPT = "<pr>\nIt breaks.\n</pr>\nSolve it in /testbed."


def config(**agent):
    return {
        "agent": {"system_template": "You fix.", "instance_template": TEMPLATE, "step_limit": 250, "cost_limit": 3.0}
        | agent,
        "agent_type": "x.Agent",
        "model": {"model_name": "openai/gpt-5", "model_kwargs": {"temperature": 0.0, "api_key": "sk-1"}},
        "model_type": "x.Model",
        "environment": {"image": "img:1", "cwd": "/testbed", "env": {"SECRET_TOKEN": "t", "PAGER": "cat"}},
    }


def said(content, number, *commands, cost=0.25, usage=None, **more):
    usage = {"prompt_tokens": 100, "completion_tokens": 10, "prompt_tokens_details": {"cached_tokens": 60}} | (
        usage or {}
    )
    calls = [
        {
            "id": f"c{number}{i}",
            "type": "function",
            "function": {"name": "bash", "arguments": json.dumps({"command": c})},
        }
        for i, c in enumerate(commands)
    ]
    return {
        "role": "assistant",
        "content": content,
        "tool_calls": calls,
        "extra": {
            "actions": [{"command": c, "tool_call_id": k["id"]} for c, k in zip(commands, calls, strict=True)],
            "response": {
                "id": f"r{number}",
                "created": 1_700_000_000 + number,
                "model": "gpt-5-2025",
                "choices": [{"finish_reason": "tool_calls"}],
                "usage": usage,
            },
            "cost": cost,
            "timestamp": 1_700_000_000.5 + number,
        },
    } | more


def back(number, content, raw=None, code=0, index=0, **extra):
    return {
        "role": "tool",
        "tool_call_id": f"c{number}{index}",
        "content": content,
        "extra": {"raw_output": raw or "", "returncode": code, "timestamp": 1_700_000_000.75 + number} | extra,
    }


def traj(**info):
    """Format 1.1: tool calls, and an exit message."""
    diff = "diff --git a/a.py b/a.py\n+x\n"
    return {
        "info": {
            "model_stats": {"instance_cost": 0.5, "api_calls": 2},
            "config": config(),
            "mini_version": "2.2.7",
            "exit_status": "Submitted",
            "submission": diff,
        }
        | info,
        "messages": [
            {"role": "system", "content": "You fix."},
            {"role": "user", "content": PROMPT},
            said("Look.", 1, "ls"),
            back(1, "<returncode>0</returncode>\n<output>\na.py\n</output>", "a.py\n"),
            said("Done.", 2, "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT && cat p"),
            {"role": "exit", "content": diff, "extra": {"exit_status": "Submitted", "submission": diff}},
        ],
        "trajectory_format": "mini-swe-agent-1.1",
        "instance_id": INSTANCE,
    }


def blocks(*turns, **info):
    """Format 1: shell blocks in text, output under the user's role."""
    usage = {"prompt_tokens": 50, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": 0}}
    messages = [
        {"role": "system", "content": "You fix."},
        {"role": "user", "content": [{"type": "text", "text": PROMPT}]},
    ]
    for number, (text, output) in enumerate(turns):
        response = {"id": f"r{number}", "created": 1_700_000_000 + number, "model": "m", "usage": usage}
        messages += [
            {"role": "assistant", "content": text, "extra": {"response": response}},
            {"role": "user", "content": output},
        ]
    return {
        "info": {
            "exit_status": "Submitted",
            "submission": "",
            "model_stats": {"instance_cost": 0.125, "api_calls": len(turns)},
            "mini_version": "1.13.4",
            "config": config(format_error_template="Please give ONE action, found {{actions|length}}."),
        }
        | info,
        "messages": messages,
        "trajectory_format": "mini-swe-agent-1",
    }


def load(tmp_path, document, name=f"run_a/{INSTANCE}/{INSTANCE}.traj.json", format=None):  # noqa: A002
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(document if isinstance(document, bytes) else json.dumps(document).encode())
    return read_frames([path], format=format)


def codes(frames):
    return set(frames["diagnostics"]["code"])


def agent_steps(frames):
    return frames["steps"].filter(pl.col("source") == "agent").to_dicts()


def test_a_trajectory_becomes_an_attempt(tmp_path):
    frames = load(tmp_path, traj())
    (attempt,) = frames["attempts"].to_dicts()
    assert attempt["task_id"] == f"swe_bench/acme__widget/{INSTANCE}"
    assert (attempt["run_id"], attempt["arm"]) == ("run_a", "mini-swe-agent@2.2.7/gpt-5")
    assert (attempt["model"], attempt["model_provider"]) == ("gpt-5-2025", "openai")
    params = json.loads(attempt["params"])
    assert params == {"temperature": 0.0, "step_limit": 250, "cost_limit": 3.0, "requested_model": "openai/gpt-5"}
    assert (attempt["status"], attempt["stop_reason"]) == ("completed", "Submitted")
    assert (attempt["passed"], attempt["score_valid"]) == (None, None)
    assert (attempt["input_tokens"], attempt["cached_input_tokens"], attempt["output_tokens"]) == (200, 120, 20)
    assert (attempt["cost_usd"], attempt["usage_basis"]) == (0.5, "summed")
    assert attempt["started_at"] == datetime.fromtimestamp(1_700_000_001, UTC)
    assert attempt["ended_at"] == datetime.fromtimestamp(1_700_000_002.5, UTC)
    assert attempt["source_version"] == "mini-swe-agent-1.1"
    assert "SECRET" not in attempt["metadata"]
    assert "PAGER" not in attempt["metadata"]
    (task,) = frames["tasks"].to_dicts()
    assert (task["cluster"], task["instruction"], task["environment"]) == ("acme/widget", "It breaks.", "img:1")
    (patch,) = frames["artifacts"].to_dicts()
    assert (patch["kind"], patch["content"]) == ("patch", "diff --git a/a.py b/a.py\n+x\n")
    assert codes(frames) == {"unanswered_call"}


def test_the_exit_message_is_neither_message_nor_result(tmp_path):
    frames = load(tmp_path, traj())
    assert frames["messages"]["role"].to_list() == ["system", "user", "assistant", "tool", "assistant"]
    first, last = agent_steps(frames)
    assert [o["content"] for o in first["observations"]] == ["<returncode>0</returncode>\n<output>\na.py\n</output>"]
    assert (first["observations"][0]["exit_code"], first["observations"][0]["truncated"]) == (0, None)
    assert last["observations"] == []
    assert (first["llm_call_id"], first["stop_reason"], first["cost_usd"]) == ("r1", "tool_calls", 0.25)


def test_what_only_the_exit_message_tells(tmp_path):
    document = traj()
    del document["info"]["exit_status"], document["info"]["submission"]
    frames = load(tmp_path, document)
    assert frames["attempts"]["stop_reason"].to_list() == ["Submitted"]
    assert frames["artifacts"].height == 1


def test_output_that_the_model_saw_shortened(tmp_path):
    document = traj()
    document["messages"][3] = back(1, "<output_head>\naa\n</output_head>", "aa" + "b" * 50, code=1)
    frames = load(tmp_path, document)
    first = agent_steps(frames)[0]
    assert first["observations"][0]["truncated"]
    assert first["observations"][0]["exit_code"] == 1
    assert first["output"] == "aa" + "b" * 50


def test_an_exception_of_a_command_is_an_error_and_an_exit_code_is_none(tmp_path):
    document = traj()
    document["messages"][3]["extra"]["returncode"] = 2
    assert load(tmp_path, document)["attempts"]["n_tool_errors"].to_list() == [0]
    document["messages"][3]["extra"]["exception_info"] = "timed out"
    assert load(tmp_path, document)["attempts"]["n_tool_errors"].to_list() == [1]


def test_several_calls_of_one_turn(tmp_path):
    document = traj()
    document["messages"][2:4] = [said("Two.", 1, "ls", "pwd"), back(1, "b", "b", index=1), back(1, "a", "a")]
    frames = load(tmp_path, document)
    first = agent_steps(frames)[0]
    assert [c["id"] for c in first["tool_calls"]] == ["c10", "c11"]
    assert [(o["call_id"], o["content"]) for o in first["observations"]] == [("c11", "b"), ("c10", "a")]


def test_interruptions_and_complaints(tmp_path):
    document = traj()
    document["messages"][4:4] = [
        {"role": "user", "content": "No tool call.", "extra": {"interrupt_type": "FormatError"}},
        {"role": "user", "content": "Try b.", "extra": {"interrupt_type": "UserInterruption"}},
        {"role": "user", "content": "New task."},
    ]
    frames = load(tmp_path, document)
    origins = frames["messages"].filter(pl.col("role") == "user").sort("message_index")["origin"].to_list()
    assert origins == ["human", "harness", "human", "human"]
    assert frames["steps"].filter(pl.col("source") == "user").height == 3


def test_reasoning(tmp_path):
    document = traj()
    document["messages"][2]["reasoning_content"] = "Hm."
    document["messages"][4]["thinking_blocks"] = [{"type": "thinking", "thinking": "So."}]
    assert [s["reasoning"] for s in agent_steps(load(tmp_path, document))] == ["Hm.", "So."]


def test_zeros_of_local_models_are_unknown(tmp_path):
    document = traj(model_stats={"instance_cost": 0, "api_calls": 2})
    for message in document["messages"]:
        if message["role"] == "assistant":
            message["extra"]["cost"] = 0.0
            message["extra"]["response"]["usage"] = {"prompt_tokens": 0, "completion_tokens": 0}
    (attempt,) = load(tmp_path, document)["attempts"].to_dicts()
    assert (attempt["input_tokens"], attempt["cost_usd"], attempt["usage_basis"]) == (None, None, "missing")


def test_a_total_that_differs_from_its_calls_is_told(tmp_path):
    frames = load(tmp_path, traj(model_stats={"instance_cost": 0.75, "api_calls": 3}))
    assert frames["attempts"]["cost_usd"].to_list() == [0.75]
    assert "cost_differs" in codes(frames)


@pytest.mark.parametrize(
    ("word", "submission", "status", "valid"),
    [
        ("LimitsExceeded", "", "limit", None),
        ("RepeatedFormatError", "", "agent_error", None),
        ("InternalServerError", "", "infra_error", False),
        ("litellm.RateLimitError", "", "infra_error", False),
        ("NobodyKnowsError", "", "infra_error", False),
        ("ContextWindowExceededError", "", "limit", None),
        ("NobodyKnows", "diff", "unknown", None),
        ("Timeout", "", "infra_error", False),
    ],
)
def test_how_it_ended(tmp_path, word, submission, status, valid):
    frames = load(tmp_path, traj(exit_status=word, submission=submission, exception_str="boom"))
    (attempt,) = frames["attempts"].to_dicts()
    assert (attempt["status"], attempt["score_valid"], attempt["passed"]) == (status, valid, None)
    if status == "infra_error":
        assert (attempt["error_type"], attempt["error_message"]) == (word, "boom")
    assert ("unknown_status" in codes(frames)) is (status == "unknown")


def test_a_file_of_an_agent_that_still_runs(tmp_path):
    document = traj()
    del document["info"]["exit_status"]
    document["messages"].pop()
    (attempt,) = load(tmp_path, document)["attempts"].to_dicts()
    assert attempt["is_truncated"]
    assert attempt["status"] == "unknown"


def test_shell_blocks(tmp_path):
    out = "<returncode>1</returncode>\n<output>\nno\n</output>"
    complaint = "Please give ONE action, found 0."
    frames = load(
        tmp_path, blocks(("```bash\nls\n```", out), ("Hm.", complaint), ("```bash\nsubmit\n```", "")), "x.traj.json"
    )
    (attempt,) = frames["attempts"].to_dicts()
    assert (attempt["n_steps"], attempt["n_messages"], attempt["n_tool_calls"]) == (3, 8, 0)
    assert (attempt["input_tokens"], attempt["cached_input_tokens"], attempt["cost_usd"]) == (150, 0, 0.125)
    assert (attempt["task_id"], attempt["run_id"]) == (None, "x")
    rows = frames["messages"].sort("message_index").select("role", "origin", "content").rows()
    assert rows[3:] == [
        ("user", "tool", out),
        ("assistant", "model", "Hm."),
        ("user", "harness", complaint),
        ("assistant", "model", "```bash\nsubmit\n```"),
        ("user", "harness", ""),
    ]
    first, second, last = agent_steps(frames)
    assert [(o["content"], o["exit_code"]) for o in first["observations"]] == [(out, 1)]
    assert second["observations"] == last["observations"] == []
    assert codes(frames) == set()


def test_actions_beside_the_text_are_calls(tmp_path):
    document = blocks(("```bash\nls\n```", "a.py"))
    document["messages"][2]["extra"]["actions"] = [{"command": "ls"}]
    document["messages"][3]["extra"] = {"raw_output": "a.py", "returncode": 0}
    frames = load(tmp_path, document)
    (only,) = agent_steps(frames)
    assert [(c["name"], c["arguments"], c["kind"]) for c in only["tool_calls"]] == [
        ("bash", '{"command":"ls"}', "custom")
    ]
    assert only["observations"][0]["content"] == "a.py"


def test_a_bare_list_is_read_when_forced(tmp_path):
    messages = blocks(("```bash\nls\n```", "a.py"), ("echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT", "diff"))["messages"]
    for message in messages:
        message.pop("extra", None)
    frames = load(tmp_path, messages, "x.traj.json", format="mini_swe_agent")
    (attempt,) = frames["attempts"].to_dicts()
    assert (attempt["n_steps"], attempt["n_messages"], attempt["status"]) == (2, 6, "unknown")
    assert attempt["is_truncated"] is False
    assert frames["messages"]["origin"].to_list()[-1] == "harness"
    assert [len(s["observations"]) for s in agent_steps(frames)] == [1, 0]


def test_the_responses_api(tmp_path):
    document = traj()
    document["messages"][2:5] = [
        {
            "object": "response",
            "id": "resp_1",
            "model": "gpt-5-2025",
            "created_at": 1_700_000_001.0,
            "status": "completed",
            "output": [
                {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Hm."}]},
                {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Look."}]},
                {"type": "function_call", "call_id": "c1", "name": "bash", "arguments": '{"command": "ls"}'},
            ],
            "usage": {
                "input_tokens": 10,
                "input_tokens_details": {"cached_tokens": 4},
                "output_tokens": 3,
                "output_tokens_details": {"reasoning_tokens": 2},
            },
            "extra": {"actions": [{"command": "ls", "tool_call_id": "c1"}], "cost": 0.5, "timestamp": 1_700_000_002.0},
        },
        {
            "type": "function_call_output",
            "call_id": "c1",
            "output": "a.py",
            "extra": {"raw_output": "a.py", "returncode": 0},
        },
    ]
    frames = load(tmp_path, document)
    (only,) = agent_steps(frames)
    assert (only["content"], only["reasoning"], only["llm_call_id"]) == ("Look.", "Hm.", "resp_1")
    assert (only["input_tokens"], only["cached_input_tokens"], only["reasoning_tokens"]) == (10, 4, 2)
    assert [(c["id"], c["name"], c["arguments"]) for c in only["tool_calls"]] == [("c1", "bash", '{"command": "ls"}')]
    assert [(o["call_id"], o["content"]) for o in only["observations"]] == [("c1", "a.py")]
    assert frames["messages"]["role"].to_list() == ["system", "user", "assistant", "tool"]


def test_pictures_become_artifacts(tmp_path):
    document = traj()
    url = "data:image/png;base64,aGVsbG8="
    document["messages"][3]["content"] = [{"type": "image_url", "image_url": {"url": url}}]
    frames = load(tmp_path, document)
    (image,) = frames["artifacts"].filter(pl.col("kind") == "image").to_dicts()
    parts = frames["messages"].sort("message_index")["parts"][3]
    assert image["digest"] in parts
    assert url not in parts


def test_runs_are_trials(tmp_path):
    for name, start in (("b", 0), ("a", 1000)):
        document = traj()
        for message in document["messages"]:
            if "timestamp" in message.get("extra", {}):
                message["extra"]["timestamp"] += start
            if "response" in message.get("extra", {}):
                message["extra"]["response"]["created"] += start
        path = tmp_path / name / INSTANCE / f"{INSTANCE}.traj.json"
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps(document))
    attempts = read_frames([tmp_path])["attempts"].sort("trial")
    assert attempts.select("run_id", "trial", "trial_source").rows() == [("b", 0, "ordered"), ("a", 1, "ordered")]
    assert attempts["task_id"].n_unique() == attempts["arm"].n_unique() == 1


def test_recognition(tmp_path):
    def claims(document):
        return SOURCE.claims_file(Look(tmp_path / "x", json.dumps(document).encode()[: 64 * 1024]))

    assert claims(traj())
    assert claims(blocks())
    big = traj()
    big["messages"][3]["content"] = "x" * 200_000
    assert claims(big)
    bare = {"info": {"exit_status": "Submitted", "submission": "", "model_stats": {}}, "messages": []}
    assert claims(bare)
    assert not claims(bare | {"history": [], "trajectory": []})
    assert not claims([{"role": "user", "content": "Hi"}])
    assert not claims({"messages": []})
    path = tmp_path / "any.name"
    path.write_text(json.dumps(traj()))
    assert [u.format for u in discover([path]).units] == ["mini_swe_agent"]


@pytest.mark.parametrize("broken", [b"", b"{", b"3", b'{"messages": 3}', json.dumps(traj()).encode()[:-30]])
def test_a_broken_file_is_a_diagnostic(tmp_path, broken):
    frames = load(tmp_path, broken, format="mini_swe_agent")
    assert frames["attempts"].is_empty()
    assert frames["diagnostics"].height > 0


def test_a_file_that_went_away(tmp_path):
    frames = SOURCE.read([Unit("mini_swe_agent", tmp_path / "gone", "gone")], ReadOptions())
    assert codes(frames) == {"unreadable"}


@pytest.mark.parametrize("actions", [[{"run": "ls"}], "ls", [5]])
def test_actions_that_cannot_be_read_are_told(tmp_path, actions):
    turn = {"role": "assistant", "content": "I look.", "extra": {"actions": actions}}
    document = traj()
    document["messages"].insert(2, turn)
    frames = load(tmp_path, json.dumps(document).encode())
    assert "bad_tool_call" in codes(frames)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 2**70) | st.floats(allow_nan=False) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)


def mutate(data, value):
    """The value with some of its nodes replaced by arbitrary ones."""
    value = copy.deepcopy(value)
    for _ in range(data.draw(st.integers(1, 4))):
        node = value
        while True:
            keys = list(node) if isinstance(node, dict) else list(range(len(node)))
            key = data.draw(st.sampled_from(keys))
            if isinstance(node[key], dict | list) and node[key] and data.draw(st.booleans()):
                node = node[key]
                continue
            node[key] = data.draw(VALUES)
            break
    return value


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_arbitrary_values_never_raise(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("mini") / "x.traj.json"
    start = data.draw(st.sampled_from([traj(), blocks(("a", "b"), ("c", "d"))]))
    path.write_text(json.dumps(mutate(data, start)))
    found = Found()
    SOURCE.units(path, path.parent, found)
    frames = SOURCE.read(found.units, ReadOptions())
    for name, table in CORE.items():
        assert frames[name].schema == table.schema
        for rule, expr in table.all_rules().items():
            assert frames[name].filter(~expr).is_empty(), rule
    document = json.loads(path.read_text())
    if not isinstance(document.get("messages"), list):
        assert "no_attempt" in codes(frames)
        return
    exits = sum(isinstance(m, dict) and m.get("role") == "exit" for m in document["messages"])
    left_out = frames["diagnostics"].filter(pl.col("code") == "bad_message").height
    assert frames["messages"].height + left_out + exits == len(document["messages"])
