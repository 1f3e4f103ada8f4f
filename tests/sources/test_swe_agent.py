from __future__ import annotations

import copy
import gzip
import json

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from expcomp.sources._contract import Found, ReadOptions, Unit
from expcomp.sources._look import Look
from expcomp.sources.load import read_frames
from expcomp.sources.registry import discover
from expcomp.sources.swe.swe_agent import SOURCE
from expcomp.tables.core import CORE

INSTANCE = "acme__widget-12"
DOCS = (
    "bash:\n  docstring: runs a command\n  signature: <command>\n  arguments:\n"
    "    - command (string) [required]: what to run\n\n"
    "submit:\n  docstring: submits the file\n\n  signature: submit\n\n"
)


def step(action, observation, response, **more):
    return {"action": action, "observation": observation, "response": response, "thought": response} | more


def fc(call_id, name, arguments):
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}


def answer(content, action, *calls):
    return {
        "role": "assistant",
        "content": content,
        "thought": content,
        "action": action,
        "agent": "main",
        "message_type": "action",
        "tool_calls": list(calls) or None,
    }


def tool(call_id, content):
    return {"role": "tool", "content": content, "agent": "main", "tool_call_ids": [call_id]}


SYSTEM = {"role": "system", "content": "You fix bugs.", "agent": "main"}
TASK = {"role": "user", "content": "ISSUE:\nIt breaks.", "agent": "main"}


def traj(**more):
    """Two steps with function calls."""
    out = {
        "trajectory": [
            step("ls -F", "a.py\n", "Look.", execution_time=0.5, state={"open_file": "n/a"}),
            step("submit", "diff --git a/a.py b/a.py\n+x\n", "Done.", state={"open_file": "n/a"}),
        ],
        "history": [
            SYSTEM,
            TASK,
            answer("Look.", "ls -F", fc("c1", "bash", {"command": "ls -F"})),
            tool("c1", "a.py\n\n(Open file: n/a)"),
            answer("Done.", "submit", fc("c2", "submit", {})),
            tool("c2", "diff\n(Open file: n/a)"),
        ],
        "info": {
            "exit_status": "submitted",
            "submission": "diff --git a/a.py b/a.py\n+x\n",
            "model_stats": {"instance_cost": 0.5, "tokens_sent": 100, "tokens_received": 20, "api_calls": 2},
            "edited_files30": "[File: a.py]",
            "swe_agent_version": "1.1.0",
        },
        "replay_config": {
            "env": {"deployment": {"image": "img:1"}, "repo": {"repo_name": "testbed", "base_commit": "abc"}},
            "agent": {
                "model": {"name": "gpt-4o", "temperature": 0.0, "api_key": "sk-1", "api_base": "http://x"},
                "tools": {"parse_function": {"type": "function_calling"}, "command_docs": DOCS},
                "templates": {"system_template": "long"},
            },
            "problem_statement": {"text": "It breaks.", "type": "text", "id": INSTANCE},
        },
        "environment": "main",
    }
    return out | more


def old():
    """A file of 0.x: text protocol, a demonstration, the last answer without an observation in the history."""
    return {
        "environment": "swe_main",
        "trajectory": [
            step("create x\n", "[x]\n", "Make it.\n\n```\ncreate x\n```", state='{"open_file": "n/a"}\n'),
            step("submit\n", "diff\n", "Done.\n\n```\nsubmit\n```", state='{"open_file": "x"}\n'),
        ],
        "history": [
            SYSTEM,
            {"role": "user", "content": "A demonstration.", "agent": "main", "is_demo": True},
            TASK,
            {"role": "assistant", "content": "Make it.\n\n```\ncreate x\n```", "action": "create x\n", "agent": "main"},
            {"role": "user", "content": "[x]\n\n(Open file: x)", "agent": "main"},
            {"role": "assistant", "content": "Done.\n\n```\nsubmit\n```", "action": "submit\n", "agent": "main"},
        ],
        "info": {"exit_status": "submitted", "submission": "\ndiff\n", "model_stats": {"instance_cost": 0}},
    }


def load(tmp_path, document, name=f"run_a/{INSTANCE}/{INSTANCE}.traj", options=None):
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(document if isinstance(document, bytes) else json.dumps(document).encode())
    return read_frames([path], options=options)


def codes(frames):
    return set(frames["diagnostics"]["code"])


def agent_steps(frames):
    return frames["steps"].filter(pl.col("source") == "agent").to_dicts()


def test_a_trajectory_becomes_an_attempt(tmp_path):
    frames = load(tmp_path, traj())
    (attempt,) = frames["attempts"].to_dicts()
    assert attempt["task_id"] == f"swe_bench/acme__widget/{INSTANCE}"
    assert (attempt["run_id"], attempt["native_attempt_id"]) == ("run_a", INSTANCE)
    assert attempt["arm"] == "SWE-agent@1.1.0/gpt-4o"
    assert (attempt["status"], attempt["stop_reason"]) == ("completed", "submitted")
    assert (attempt["input_tokens"], attempt["output_tokens"], attempt["cost_usd"]) == (100, 20, 0.5)
    assert attempt["usage_basis"] == "reported"
    assert (attempt["n_steps"], attempt["n_messages"], attempt["n_tool_calls"]) == (2, 6, 2)
    assert (attempt["passed"], attempt["score_valid"]) == (None, None)
    assert attempt["has_system_prompt"]
    (task,) = frames["tasks"].to_dicts()
    assert (task["cluster"], task["instruction"], task["environment"]) == ("acme/widget", "It breaks.", "img:1")
    patch = frames["artifacts"].filter(pl.col("kind") == "patch").to_dicts()
    assert [(p["name"], p["content"]) for p in patch] == [("submission", "diff --git a/a.py b/a.py\n+x\n")]
    assert codes(frames) == set()


def test_messages_are_the_history_and_observations_what_the_environment_gave(tmp_path):
    frames = load(tmp_path, traj())
    said = frames["messages"].sort("message_index").select("role", "origin", "content", "tool_call_id").rows()
    assert said[1] == ("user", "human", "ISSUE:\nIt breaks.", None)
    assert said[3] == ("tool", "tool", "a.py\n\n(Open file: n/a)", "c1")
    first = agent_steps(frames)[0]
    assert first["observations"][0]["content"] == "a.py\n"
    assert first["observations"][0]["call_id"] == "c1"
    assert (first["tool_calls"][0]["name"], first["tool_calls"][0]["arguments"]) == ("bash", '{"command": "ls -F"}')
    assert json.loads(first["detail"])["execution_time"] == 0.5
    assert json.loads(first["state_after"]) == {"open_file": "n/a"}


def test_tool_schemas_are_rebuilt_from_the_documentation(tmp_path):
    (attempt,) = load(tmp_path, traj())["attempts"].to_dicts()
    bash, submit = json.loads(attempt["tools"])
    assert bash["function"]["parameters"] == {
        "type": "object",
        "properties": {"command": {"type": "string", "description": "what to run"}},
        "required": ["command"],
    }
    assert submit["function"] == {"name": "submit", "description": "submits the file", "parameters": {"type": "object"}}
    text = traj()
    text["replay_config"]["agent"]["tools"]["parse_function"]["type"] = "thought_action"
    assert load(tmp_path, text)["attempts"]["tools"][0] is None


def test_replay_config_may_be_a_text_and_keeps_no_secret(tmp_path):
    document = traj()
    document["replay_config"] = json.dumps(document["replay_config"])
    (attempt,) = load(tmp_path, document)["attempts"].to_dicts()
    assert attempt["model"] == "gpt-4o"
    assert json.loads(attempt["params"])["temperature"] == 0.0
    assert "sk-1" not in json.dumps(attempt, default=str)
    assert "http://x" not in attempt["params"]


def test_the_text_protocol(tmp_path):
    frames = load(tmp_path, old(), f"gpt4__data__default__t-0.00__p-0.95__c-3.00__install-1/{INSTANCE}.traj")
    (attempt,) = frames["attempts"].to_dicts()
    assert attempt["run_id"].startswith("gpt4__")
    assert attempt["model"] == "gpt4"
    assert json.loads(attempt["params"]) == {"temperature": 0.0, "top_p": 0.95, "per_instance_cost_limit": 3.0}
    assert (attempt["cost_usd"], attempt["input_tokens"], attempt["usage_basis"]) == (None, None, "missing")
    origins = frames["messages"].sort("message_index").select("role", "origin").rows()
    assert origins[1:] == [
        ("user", "demo"),
        ("user", "human"),
        ("assistant", "model"),
        ("user", "tool"),
        ("assistant", "model"),
    ]
    steps = agent_steps(frames)
    assert [json.loads(s["tool_calls"][0]["arguments"]) for s in steps] == [
        {"command": "create x\n"},
        {"command": "submit\n"},
    ]
    assert [s["tool_calls"][0]["kind"] for s in steps] == ["custom", "custom"]
    assert [s["observations"][0]["content"] for s in steps] == ["[x]\n", "diff\n"]
    assert frames["steps"].filter(pl.col("source") == "user").height == 1
    assert codes(frames) == {"matched_by_position"}


def test_demonstrations_in_the_history_are_no_steps(tmp_path):
    document = traj()
    demo = [m | {"is_demo": True} for m in document["history"][1:4]]
    document["history"][1:1] = demo
    frames = load(tmp_path, document)
    assert frames["messages"].height == 9
    assert len(agent_steps(frames)) == 2
    assert frames["messages"].filter(pl.col("origin") == "demo")["step_index"].to_list() == [None] * 3
    assert frames["steps"].filter(pl.col("source") == "user").height == 1


def test_a_last_step_that_the_history_lacks(tmp_path):
    document = traj()
    document["history"] = document["history"][:4]
    frames = load(tmp_path, document)
    (attempt,) = frames["attempts"].to_dicts()
    assert (attempt["n_steps"], attempt["n_messages"], attempt["n_tool_calls"]) == (2, 4, 2)
    last = agent_steps(frames)[-1]
    assert last["content"] == "Done."
    assert json.loads(last["tool_calls"][0]["arguments"]) == {"command": "submit"}
    assert last["observations"][0]["content"].startswith("diff --git")


def test_answers_that_were_asked_again_are_steps_in_their_place(tmp_path):
    document = traj()
    document["trajectory"].insert(0, step("", "", "Nonsense.", query=[{"role": "system", "content": "You fix bugs."}]))
    frames = load(tmp_path, document)
    steps = agent_steps(frames)
    assert [s["content"] for s in steps] == ["Nonsense.", "Look.", "Done."]
    assert steps[0]["tool_calls"] == steps[0]["observations"] == []
    assert frames["messages"].height == 6
    linked = frames["messages"].filter(pl.col("role") == "assistant")["step_index"].to_list()
    assert linked == [s["step_index"] for s in steps[1:]]


def test_what_the_harness_wrote_at_the_end_is_not_trained_on(tmp_path):
    words = "Exit due to context window"
    document = traj()
    document["trajectory"][1] = step("", "Exited (autosubmitted)", words)
    document["history"][4:] = [
        answer(words, ""),
        {"role": "user", "content": "Exited (autosubmitted)\n(Open file: n/a)", "agent": "main"},
    ]
    document["info"]["exit_status"] = "submitted (exit_context)"
    frames = load(tmp_path, document)
    assert frames["attempts"]["status"].to_list() == ["limit"]
    assert [s["trainable"] for s in agent_steps(frames)] == [True, False]
    assert frames["messages"]["origin"].to_list()[-2:] == ["synthetic", "harness"]


def test_a_replay_is_no_model(tmp_path):
    document = traj()
    document["replay_config"]["agent"]["model"]["name"] = "replay"
    frames = load(tmp_path, document)
    assert frames["attempts"]["model"].to_list() == [None]
    assert json.loads(frames["attempts"]["params"][0])["actor"] == "replay"
    assert not any(s["trainable"] for s in agent_steps(frames))


def test_thinking_is_reasoning(tmp_path):
    document = traj()
    document["history"][2]["thinking_blocks"] = [{"type": "thinking", "thinking": "Hm.", "signature": "x"}]
    frames = load(tmp_path, document)
    assert agent_steps(frames)[0]["reasoning"] == "Hm."
    assert frames["messages"].sort("message_index")["reasoning"].to_list()[2] == "Hm."


def test_prompts_can_be_rebuilt_from_what_the_steps_tell(tmp_path):
    document = traj()
    document["replay_config"]["agent"]["history_processors"] = [{"type": "last_n_observations", "n": 1}]
    assert "prompt_not_recorded" in codes(load(tmp_path, document))
    history = document["history"]
    gone = history[3] | {"content": "Old environment output: (1 lines omitted)"}
    queries = [history[:2], [*history[:3], gone, {"role": "user", "content": "Again."}]]
    for one, query in zip(document["trajectory"], queries, strict=True):
        one["query"] = query
    frames = load(tmp_path, document)
    assert "prompt_not_recorded" not in codes(frames)
    shown = dict(frames["messages"].select("message_index", "content").rows())
    for said, query, row in zip((2, 4), queries, agent_steps(frames), strict=True):
        detail = json.loads(row["detail"] or "{}")
        for change in detail.get("prompt_changes", ()):
            shown[change["message_index"]] = change["content"]
        rebuilt = [shown[i] for i in range(said)] + [m["content"] for m in detail.get("prompt_added", ())]
        assert rebuilt == [m["content"] for m in query]


def test_messages_of_a_step_are_the_prompt_of_the_next(tmp_path):
    document = traj()
    history = document["history"]
    document["trajectory"][0]["messages"] = [*history[:3], history[3] | {"content": "gone"}]
    frames = load(tmp_path, document)
    first, second = (json.loads(s["detail"] or "{}") for s in agent_steps(frames))
    assert "prompt_changes" not in first
    assert second["prompt_changes"] == [{"message_index": 3, "content": "gone"}]


@pytest.mark.parametrize(
    ("word", "status", "valid"),
    [
        ("submitted (exit_cost)", "limit", None),
        ("exit_format", "agent_error", None),
        ("exit_api", "infra_error", False),
        ("submitted (exit_environment_error)", "infra_error", False),
        (None, "unknown", None),
        ("exit_quantum", "unknown", None),
    ],
)
def test_how_it_ended(tmp_path, word, status, valid):
    document = traj()
    document["info"]["exit_status"] = word
    frames = load(tmp_path, document)
    (attempt,) = frames["attempts"].to_dicts()
    assert (attempt["status"], attempt["score_valid"], attempt["passed"]) == (status, valid, None)
    assert attempt["is_truncated"] is (word is None)
    assert ("unknown_status" in codes(frames)) is (word == "exit_quantum")


def test_tries_of_a_retrying_agent(tmp_path):
    document = traj()
    one = {k: document.pop(k) for k in ("trajectory", "history", "info", "replay_config")}
    frames = load(tmp_path, document | {"attempts": [one, one]})
    assert frames["attempts"]["n_steps"].to_list() == [2]
    assert codes(frames) == {"tries_left_out"}
    chosen = load(tmp_path, document | one | {"attempts": [one, one]})
    assert chosen["attempts"]["n_messages"].to_list() == [6]


def test_pictures_become_artifacts(tmp_path):
    document = traj()
    url = "data:image/png;base64,aGVsbG8="
    document["history"][1]["content"] = [
        {"type": "text", "text": "See"},
        {"type": "image_url", "image_url": {"url": url}},
    ]
    frames = load(tmp_path, document)
    (image,) = frames["artifacts"].filter(pl.col("kind") == "image").to_dicts()
    parts = frames["messages"].sort("message_index")["parts"][1]
    assert image["digest"] in parts
    assert url not in parts


def test_recognition(tmp_path):
    def claims(document):
        blob = document if isinstance(document, bytes) else json.dumps(document).encode()
        return SOURCE.claims_file(Look(tmp_path / "x", blob[: 64 * 1024]))

    assert claims(traj())
    assert claims(old())
    big = traj(trajectory=[step("ls", "x" * 200_000, "Look.")])
    assert claims({k: big[k] for k in ("trajectory", "history", "info")})
    assert not claims({"info": {"mini_version": "2"}, "messages": []})
    assert not claims({"instance_id": "a__b-1", "trajectory": [step("a", "b", "c")], "history": [], "info": {}})
    assert not claims({"messages": []})
    assert not claims(b"\x00\x01")
    path = tmp_path / "any.name"
    path.write_bytes(gzip.compress(json.dumps(traj()).encode()))
    assert [u.format for u in discover([path]).units] == ["swe_agent"]


@pytest.mark.parametrize("broken", [b"", b"{", b"[1]", b"null", json.dumps(traj()).encode()[:-30]])
def test_a_broken_file_is_a_diagnostic(tmp_path, broken):
    path = tmp_path / "x.traj"
    path.write_bytes(broken)
    frames = read_frames([path], format="swe_agent")
    assert frames["attempts"].is_empty()
    assert frames["diagnostics"].height > 0


def test_wrong_types_are_told(tmp_path):
    frames = load(tmp_path, {"trajectory": [step("a", "b", "c"), 3], "history": {"x": 1}, "info": [1]})
    assert {"bad_field", "bad_step"} <= codes(frames)
    assert frames["attempts"]["n_steps"].to_list() == [1]


def test_a_file_that_went_away(tmp_path):
    frames = SOURCE.read([Unit("swe_agent", tmp_path / "gone", "gone")], ReadOptions())
    assert codes(frames) == {"unreadable"}


@pytest.mark.parametrize("odd", [7, ["ls"], {"command": "ls"}])
def test_calls_and_actions_of_another_type_are_told(tmp_path, odd):
    document = traj()
    document["history"][2]["tool_calls"] = odd
    assert "bad_tool_call" in codes(load(tmp_path, document))
    document = traj()
    document["history"][2]["tool_calls"] = None
    document["trajectory"][0]["action"] = odd
    assert "bad_tool_call" in codes(load(tmp_path, document))


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
    path = tmp_path_factory.mktemp("swe") / "x.traj"
    path.write_text(json.dumps(mutate(data, data.draw(st.sampled_from([traj(), old()])))))
    found = Found()
    SOURCE.units(path, path.parent, found)
    frames = SOURCE.read(found.units, ReadOptions())
    assert frames["attempts"].height == 1
    for name, table in CORE.items():
        assert frames[name].schema == table.schema
        for rule, expr in table.all_rules().items():
            assert frames[name].filter(~expr).is_empty(), rule
    steps = frames["steps"].filter(pl.col("source") == "agent").height
    document = json.loads(path.read_text())
    entries = document["trajectory"] if isinstance(document.get("trajectory"), list) else []
    left_out = frames["diagnostics"].filter(pl.col("code") == "bad_step").height
    assert steps + left_out == len(entries)
