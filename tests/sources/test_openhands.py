from __future__ import annotations

import base64
import copy
import json

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from expcomp.sources._look import Look
from expcomp.sources.load import read_frames
from expcomp.sources.registry import SOURCES

PNG = "data:image/png;base64," + base64.b64encode(b"\x89PNG....").decode()
DATA = "iVBORw0KGgo="


def at(second):
    return f"2026-11-29T12:00:{second:02}.500000"


def v1_text(text):
    return [{"type": "text", "text": text, "cache_prompt": False}]


def v1_action(number, response, call_id, thought="", **more):
    call = {"id": call_id, "name": "terminal", "arguments": '{"command": "ls"}', "origin": "completion"}
    return {
        "kind": "ActionEvent",
        "id": f"e{number}",
        "timestamp": at(number),
        "source": "agent",
        "thought": v1_text(thought) if thought else [],
        "thinking_blocks": [],
        "action": {"command": "ls", "kind": "TerminalAction"},
        "tool_name": "terminal",
        "tool_call_id": call_id,
        "tool_call": call,
        "llm_response_id": response,
        "security_risk": "UNKNOWN",
    } | more


def v1_result(number, call_id, text="out", **more):
    observation = {"content": v1_text(text), "is_error": False, "exit_code": 0, "kind": "TerminalObservation"}
    return {
        "kind": "ObservationEvent",
        "id": f"e{number}",
        "timestamp": at(number),
        "source": "environment",
        "tool_name": "terminal",
        "tool_call_id": call_id,
        "observation": observation,
        "action_id": "x",
    } | more


def v1_events():
    return [
        {
            "kind": "SystemPromptEvent",
            "id": "e0",
            "timestamp": at(0),
            "source": "agent",
            "system_prompt": v1_text("You are OpenHands.")[0],
            "tools": [{"title": "terminal", "kind": "TerminalTool"}],
        },
        {
            "kind": "MessageEvent",
            "id": "e1",
            "timestamp": at(1),
            "source": "user",
            "llm_message": {"role": "user", "content": v1_text("Fix it.")},
        },
        v1_action(2, "r1", "a", "Look.", reasoning_content="hmm"),
        v1_result(3, "a"),
        v1_action(4, "r2", "b", thinking_blocks=[{"type": "redacted_thinking", "data": "x"}]),
        v1_action(5, "r2", "c"),
        v1_result(6, "c", "second"),
        v1_result(7, "b", "first"),
        {
            "kind": "MessageEvent",
            "id": "e8",
            "timestamp": at(8),
            "source": "agent",
            "llm_response_id": "r3",
            "llm_message": {"role": "assistant", "content": v1_text("Done.")},
        },
    ]


def v1_state(**more):
    def used(response, put):
        return {"prompt_tokens": put, "completion_tokens": 5, "cache_read_tokens": 1, "response_id": response}

    agent = {
        "accumulated_cost": 0.25,
        "accumulated_token_usage": {"prompt_tokens": 600, "completion_tokens": 15, "cache_read_tokens": 3},
        "token_usages": [used("r1", 100), used("r2", 200), used("r3", 300)],
    }
    condenser = {"accumulated_cost": 0.5, "accumulated_token_usage": {"prompt_tokens": 7777, "completion_tokens": 1}}
    llm = {
        "model": "openai/qwen",
        "api_key": "sk-secret",
        "temperature": 0.5,
        "usage_id": "agent",
        "extra_headers": {"x": "sk-secret"},
    }
    return {
        "id": "conv-1",
        "agent": {"kind": "Agent", "llm": llm, "condenser": {"llm": llm}},
        "execution_status": "finished",
        "stats": {"usage_to_metrics": {"agent": agent, "condenser": condenser}},
        "secret_registry": {"secret_sources": {"A": "sk-secret"}},
    } | more


def v1_folder(root, events, state=None, name="conv"):
    folder = root / name
    (folder / "events").mkdir(parents=True)
    (folder / "base_state.json").write_text(json.dumps(v1_state() if state is None else state))
    for number, event in enumerate(events):
        (folder / "events" / f"event-{number:05}-{event.get('id') if isinstance(event, dict) else 0}.json").write_text(
            json.dumps(event)
        )
    return folder


def usage(cost, put, got):
    return {
        "accumulated_cost": cost,
        "accumulated_token_usage": {"prompt_tokens": put, "completion_tokens": got, "cache_read_tokens": 0},
    }


def v0_meta(call_id, response, *, content=None, calls=None):
    made = [
        {"id": c, "type": "function", "function": {"name": "execute_bash", "arguments": '{"command":"ls"}'}}
        for c in calls or [call_id]
    ]
    answer = {
        "id": response,
        "model": "gpt-5",
        "choices": [{"finish_reason": "tool_calls", "message": {"content": content, "tool_calls": made}}],
    }
    return {"function_name": "execute_bash", "tool_call_id": call_id, "model_response": answer}


def v0_action(number, name="run", source="agent", **more):
    args = more.pop("args", {"command": "ls", "thought": "Look."})
    return {
        "id": number,
        "timestamp": at(number),
        "source": source,
        "message": "m",
        "action": name,
        "args": args,
    } | more


def v0_seen(number, cause, name="run", content="out", **more):
    extras = more.pop("extras", {"exit_code": 3})
    return {
        "id": number,
        "timestamp": at(number),
        "source": "agent",
        "message": "m",
        "observation": name,
        "content": content,
        "cause": cause,
        "extras": extras,
    } | more


def v0_events():
    return [
        v0_action(
            0,
            "system",
            args={
                "content": "You are OpenHands.",
                "tools": [{"type": "function"}],
                "openhands_version": "0.58.0",
                "agent_class": "CodeActAgent",
            },
        ),
        v0_action(1, "message", "user", args={"content": "Fix it.", "image_urls": None}),
        v0_action(2, "recall", "user", args={"query": "x"}),
        v0_seen(
            3,
            2,
            "recall",
            "Added workspace context",
            extras={"repo_instructions": "Be kind.", "microagent_knowledge": []},
        ),
        v0_action(4, tool_call_metadata=v0_meta("a", "r1", content="Look.", calls=["a", "b"])),
        v0_action(
            5, tool_call_metadata=v0_meta("b", "r1", content="Look.", calls=["a", "b"]), llm_metrics=usage(0.1, 100, 10)
        ),
        v0_seen(6, 5, tool_call_metadata={"tool_call_id": "b", "function_name": "execute_bash"}),
        v0_seen(
            7,
            4,
            tool_call_metadata={"tool_call_id": "a", "function_name": "execute_bash"},
            extras={"metadata": {"exit_code": 0}},
        ),
        v0_action(8, "message", args={"content": "Done."}, llm_metrics=usage(0.3, 350, 30)),
        {
            "id": 9,
            "timestamp": at(9),
            "source": "environment",
            "observation": "agent_state_changed",
            "content": "",
            "extras": {"agent_state": "awaiting_user_input"},
        },
    ]


def save(path, value):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value))
    return path


def read(path, **more):
    return read_frames([path], **more)


def one(frames, table="attempts"):
    (row,) = frames[table].to_dicts()
    return row


def agent(frames):
    return frames["steps"].filter(pl.col("source") == "agent").sort("step_index").to_dicts()


def roles(frames):
    return frames["messages"].sort("message_index").select("role", "origin", "content").rows()


def codes(frames):
    return frames["diagnostics"]["code"].to_list()


# -- V1 --------------------------------------------------------------------------------------------------------------------


def test_a_v1_conversation(tmp_path):
    frames = read(v1_folder(tmp_path, v1_events()))
    attempt = one(frames)
    assert roles(frames) == [
        ("system", "harness", "You are OpenHands."),
        ("user", "human", "Fix it."),
        ("assistant", "model", "Look."),
        ("tool", "tool", "out"),
        ("assistant", "model", None),
        ("tool", "tool", "second"),
        ("tool", "tool", "first"),
        ("assistant", "model", "Done."),
    ]
    steps = agent(frames)
    assert [(s["llm_call_id"], s["input_tokens"], len(s["tool_calls"])) for s in steps] == [
        ("r1", 100, 1),
        ("r2", 200, 2),
        ("r3", 300, 0),
    ]
    assert [o["call_id"] for o in steps[1]["observations"]] == ["c", "b"]
    assert [(s["reasoning"], s["reasoning_opaque"]) for s in steps] == [("hmm", False), (None, True), (None, None)]
    assert steps[0]["observations"][0]["exit_code"] == 0
    assert (attempt["status"], attempt["model"], attempt["model_provider"]) == ("completed", "openai/qwen", "openai")
    assert (attempt["input_tokens"], attempt["cost_usd"], attempt["usage_basis"]) == (600, 0.25, "reported")
    assert json.loads(attempt["tools"]) == [{"title": "terminal", "kind": "TerminalTool"}]
    assert json.loads(attempt["params"])["temperature"] == 0.5
    assert json.loads(attempt["metadata"])["other_usage"]["condenser"]["input_tokens"] == 7777
    assert attempt["passed"] is None
    assert attempt["score_valid"] is None
    assert codes(frames) == ["naive_time"]
    refs = set(frames["evidence"]["ref"])
    assert len(refs) == 10
    assert attempt["trace_ref"] in refs
    assert "sk-secret" not in frames["attempts"].write_ndjson()


def test_zero_cost_is_unknown(tmp_path):
    state = v1_state()
    state["stats"]["usage_to_metrics"]["agent"]["accumulated_cost"] = 0.0
    assert one(read(v1_folder(tmp_path, v1_events(), state)))["cost_usd"] is None


def test_totals_that_differ_from_the_calls_are_told(tmp_path):
    state = v1_state()
    state["stats"]["usage_to_metrics"]["agent"]["accumulated_token_usage"]["prompt_tokens"] = 900
    frames = read(v1_folder(tmp_path, v1_events(), state))
    assert one(frames)["input_tokens"] == 900
    assert "usage_differs" in codes(frames)


def test_condensation_begins_a_context_with_what_is_left(tmp_path):
    condensed = {
        "kind": "Condensation",
        "id": "e9",
        "timestamp": at(9),
        "source": "environment",
        "forgotten_event_ids": ["e2", "e3", "e4", "e5", "e6", "e7"],
        "summary": "So far.",
        "summary_offset": 2,
    }
    events = [*v1_events(), condensed, v1_action(10, "r4", "d"), v1_result(11, "d")]
    frames = read(v1_folder(tmp_path, events))
    later = frames["messages"].filter(pl.col("context_id") == 1).sort("message_index")
    assert later.select("role", "origin", "content").rows() == [
        ("system", "harness", "You are OpenHands."),
        ("user", "human", "Fix it."),
        ("user", "summary", "So far."),
        ("assistant", "model", "Done."),
        ("assistant", "model", None),
        ("tool", "tool", "out"),
    ]
    attempt = one(frames)
    assert (attempt["has_compaction"], attempt["n_steps"], attempt["n_tool_calls"]) == (True, 4, 4)
    assert frames["steps"].filter(pl.col("source") == "user").height == 1
    (copied,) = frames["steps"].filter("is_copied_context").to_dicts()
    assert (copied["content"], copied["trainable"], copied["input_tokens"]) == ("Done.", False, None)


def test_errors_and_rejections_are_results(tmp_path):
    failed = {
        "kind": "AgentErrorEvent",
        "id": "e3",
        "timestamp": at(3),
        "source": "agent",
        "error": "bad arguments",
        "tool_name": "terminal",
        "tool_call_id": "a",
    }
    denied = {
        "kind": "UserRejectObservation",
        "id": "e5",
        "timestamp": at(5),
        "source": "environment",
        "rejection_reason": "no",
        "tool_name": "terminal",
        "tool_call_id": "b",
        "action_id": "e4",
    }
    events = [*v1_events()[:3], failed, v1_action(4, "r2", "b"), denied]
    steps = agent(read(v1_folder(tmp_path, events)))
    assert [(o["content"], o["is_error"]) for s in steps for o in s["observations"]] == [
        ("bad arguments", True),
        ("no", None),
    ]


@pytest.mark.parametrize(
    ("word", "code", "status"),
    [
        ("error", "LLMAuthenticationError", "infra_error"),
        ("error", "MaxIterationsReached", "limit"),
        ("error", "SomethingElse", "agent_error"),
        ("stuck", None, "agent_error"),
        ("paused", None, "cancelled"),
        ("running", None, "running"),
        ("no such word", None, "unknown"),
    ],
)
def test_how_a_v1_conversation_ends(tmp_path, word, code, status):
    events = v1_events()
    if code:
        events.append(
            {
                "kind": "ConversationErrorEvent",
                "id": "e9",
                "timestamp": at(9),
                "source": "environment",
                "code": code,
                "detail": "why",
            }
        )
    frames = read(v1_folder(tmp_path, events, v1_state(execution_status=word)))
    attempt = one(frames)
    assert attempt["status"] == status
    assert attempt["error_type"] == (code if code else None)
    assert ("unknown_status" in codes(frames)) == (word == "no such word")


def test_token_ids_before_or_after_their_call(tmp_path):
    def ids(number, prompt):
        return {
            "kind": "TokenEvent",
            "id": f"t{number}",
            "timestamp": at(number),
            "source": "agent",
            "prompt_token_ids": [prompt],
            "response_token_ids": [9],
        }

    before = [*v1_events()[:2], ids(1, 1), *v1_events()[2:4], ids(3, 2), *v1_events()[4:8]]
    after = [*v1_events()[:3], ids(1, 1), v1_events()[3], *v1_events()[4:6], ids(3, 2)]
    for number, events in enumerate((before, after)):
        steps = agent(read(v1_folder(tmp_path, events, name=f"c{number}")))
        assert [s["prompt_token_ids"] for s in steps] == [[1], [2]]


def test_events_off_the_path_to_the_leaf_are_a_branch(tmp_path):
    events = v1_events()[:4]
    for number, event in enumerate(events[1:], 1):
        event["parent_id"] = events[number - 1]["id"]
    other = v1_action(4, "r9", "z", "Other way.", parent_id="e1")
    frames = read(v1_folder(tmp_path, [*events, other], v1_state(leaf_event_id="e4")))
    assert frames["messages"].sort("message_index")["branch"].to_list() == [0, 0, 1, 1, 0]


def test_missing_and_broken_event_files(tmp_path):
    folder = v1_folder(tmp_path, v1_events())
    files = sorted((folder / "events").iterdir())
    files[3].unlink()
    files[5].write_text('{"kind": "Act')
    files[8].write_text("[]")
    frames = read(folder)
    assert {"missing_event", "bad_json", "bad_event"} <= set(codes(frames))
    assert one(frames)["is_truncated"] is True
    broken = frames["diagnostics"].filter(pl.col("code") == "bad_json")["source_uri"].item()
    assert broken.startswith("conv/events/event-00005")


def test_events_that_nobody_knows_are_told(tmp_path):
    odd = {"kind": "NewEvent", "id": "e9", "timestamp": at(9), "source": "agent"}
    paused = {"kind": "PauseEvent", "id": "e10", "timestamp": at(10), "source": "user"}
    frames = read(v1_folder(tmp_path, [*v1_events(), odd, paused]))
    assert codes(frames).count("unknown_event") == 1
    assert json.loads(one(frames)["metadata"])["ignored_events"] == {"NewEvent": 1, "PauseEvent": 1}


def test_pictures_become_artifacts(tmp_path):
    events = v1_events()
    events[1]["llm_message"]["content"].append({"type": "image", "image_urls": [PNG]})
    events[3]["observation"]["content"].append({"type": "image", "image_urls": [PNG]})
    frames = read(v1_folder(tmp_path, events))
    assert frames["artifacts"].select("kind", "mime", "bytes", "step_index").rows() == [
        ("image", "image/png", 8, 0),
        ("image", "image/png", 8, 1),
    ]
    assert frames["messages"]["content"][1] == "Fix it."
    assert "iVBOR" not in frames["messages"].write_ndjson()
    assert "base64" not in frames["messages"].write_ndjson()


# -- V0 --------------------------------------------------------------------------------------------------------------------


def test_a_v0_event_list(tmp_path):
    frames = read(save(tmp_path / "t.json", v0_events()))
    assert roles(frames) == [
        ("system", "harness", "You are OpenHands."),
        ("user", "human", "Fix it."),
        ("user", "harness", "Added workspace context"),
        ("assistant", "model", "Look."),
        ("tool", "tool", "out"),
        ("tool", "tool", "out"),
        ("assistant", "model", "Done."),
    ]
    steps = agent(frames)
    # Parallel calls of one response are one step; cumulative metrics are differenced.
    assert [(s["input_tokens"], s["output_tokens"], len(s["tool_calls"])) for s in steps] == [
        (100, 10, 2),
        (250, 20, 0),
    ]
    assert steps[1]["cost_usd"] == pytest.approx(0.2)
    assert [(o["call_id"], o["exit_code"]) for o in steps[0]["observations"]] == [("b", 3), ("a", 0)]
    assert steps[0]["tool_calls"][0]["arguments"] == '{"command":"ls"}'
    attempt = one(frames)
    assert (attempt["agent_version"], attempt["model"], attempt["status"]) == ("0.58.0", "gpt-5", "completed")
    assert attempt["cost_usd"] == pytest.approx(0.3)
    assert json.loads(attempt["tools"]) == [{"type": "function"}]
    assert "Be kind." in frames["messages"]["parts"][2]


def test_v0_events_without_call_ids_are_tied_by_cause(tmp_path):
    events = [
        v0_action(
            1,
            "initialize",
            "environment",
            args={"LLM_MODEL": "gpt-4o", "AGENT": "CodeActAgent", "LLM_API_KEY": "sk-secret"},
        ),
        v0_action(2, "message", "user", args={"content": "go"}),
        v0_action(3),
        v0_action(4, args={"command": "pwd", "thought": ""}),
        v0_seen(5, 4, content="second"),
        v0_seen(6, 3, content="first"),
        v0_seen(7, None, "error", "Sandbox is gone", extras={}),
        v0_action(8, "finish", args={"thought": "", "outputs": {}}),
    ]
    frames = read(save(tmp_path / "t.json", events))
    steps = agent(frames)
    assert [(s["tool_calls"][0]["id"], [o["content"] for o in s["observations"]]) for s in steps] == [
        ("3", ["first"]),
        ("4", ["second"]),
        ("8", []),
    ]
    assert json.loads(steps[0]["tool_calls"][0]["arguments"]) == {"command": "ls"}
    assert steps[0]["content"] == "Look."
    assert ("user", "harness", "Sandbox is gone") in roles(frames)
    attempt = one(frames)
    assert (attempt["model"], attempt["status"]) == ("gpt-4o", "completed")
    assert "sk-secret" not in frames["attempts"].write_ndjson()


def test_pairs_of_an_older_list_match_by_position(tmp_path):
    pairs = [
        [
            v0_action(-1, "message", "user", args={"content": "go"}) | {"id": None},
            {"observation": "null", "content": "", "source": "user"},
        ],
        [v0_action(0) | {"id": None}, v0_seen(0, None) | {"id": None}],
        [v0_action(0) | {"id": None}, v0_seen(0, None, content="two") | {"id": None}],
    ]
    row = {"instance_id": "a__b-1", "history": pairs, "test_result": {}}
    frames = read(save(tmp_path / "output.jsonl", row))
    assert [[o["content"] for o in s["observations"]] for s in agent(frames)] == [["out"], ["two"]]
    assert "matched_by_position" in codes(frames)


def test_delegates_act_inside_the_conversation(tmp_path):
    events = [
        v0_action(1, "message", "user", args={"content": "go"}),
        v0_action(2, "delegate", args={"agent": "Browser", "inputs": {"task": "t"}, "thought": ""}),
        v0_action(3),
        v0_seen(4, 3),
        v0_action(5, "finish", args={"outputs": {}}),
        {"source": "agent", "observation": "agent_state_changed", "content": "", "extras": {"agent_state": "finished"}},
        v0_seen(6, None, "delegate", "found", extras={"outputs": {}}),
        v0_action(7),
    ]
    frames = read(save(tmp_path / "t.json", events))
    assert [s["actor"] for s in agent(frames)] == [None, "Browser", "Browser", None]
    assert agent(frames)[0]["observations"][0]["content"] == "found"
    assert one(frames)["status"] == "unknown"


def test_v0_condensation(tmp_path):
    condensed = v0_action(
        8,
        "condensation",
        args={"forgotten_events_start_id": 2, "forgotten_events_end_id": 7, "summary": "So far.", "summary_offset": 2},
    )
    frames = read(
        save(tmp_path / "t.json", [*v0_events()[:8], condensed, v0_action(9, "message", args={"content": "Done."})])
    )
    later = frames["messages"].filter(pl.col("context_id") == 1)
    assert later["content"].to_list() == ["You are OpenHands.", "Fix it.", "So far.", "Done."]


@pytest.mark.parametrize("summary", [7, ["So far."], {"text": "So far."}])
def test_a_summary_that_is_no_text_is_kept(tmp_path, summary):
    condensed = v0_action(8, "condensation", args={"forgotten_events_start_id": 2, "summary": summary})
    frames = read(save(tmp_path / "t.json", [*v0_events()[:8], condensed]))
    (kept,) = frames["messages"].filter(origin="summary")["content"]
    assert json.loads(kept) == summary


def test_a_list_of_v1_events_tells_of_what_is_no_event(tmp_path):
    frames = read(save(tmp_path / "t.json", [{"instance_id": "a", "history": [*v1_events(), 7]}]), format="openhands")
    assert "bad_event" in codes(frames)


def test_screenshots_and_flags(tmp_path):
    events = [
        v0_action(1, "message", "user", args={"content": "go", "image_urls": [PNG]}),
        v0_action(2, "browse_interactive"),
        v0_seen(3, 2, "browse", "page", extras={"screenshot": PNG, "error": True}),
        v0_action(4, "run", "user", args={"command": "ls"}),
        v0_seen(5, 4),
    ]
    frames = read(save(tmp_path / "t.json", events))
    assert frames["artifacts"].height == 2
    assert "base64" not in frames["messages"].write_ndjson()
    (step,) = agent(frames)
    assert step["observations"][0]["is_error"] is True
    # A command that the user ran is nothing to train on.
    mine = frames["steps"].filter(pl.col("source") == "user").to_dicts()[-1]
    assert (mine["tool_calls"][0]["name"], mine["trainable"], mine["observations"][0]["content"]) == (
        "run",
        False,
        "out",
    )


def test_a_store_of_event_files_is_one_conversation(tmp_path):
    folder = tmp_path / "sessions" / "s1" / "events"
    for number, event in enumerate(v0_events()):
        save(folder / f"{number}.json", event)
    frames = read(tmp_path)
    assert one(frames)["n_steps"] == 2
    assert frames["evidence"].height == len(v0_events())


# -- exports and evaluations -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("word", "value"), [("positive", 1.0), ("negative", 0.0), ("odd", None), (None, None)])
def test_feedback_is_a_label_and_no_verdict(tmp_path, word, value):
    row = {
        "version": "1.0",
        "feedback": word,
        "permissions": "private",
        "timestamp": "2024-10-06-12-25-18",
        "trajectory": v0_events(),
    }
    frames = read(save(tmp_path / "f.json", row))
    attempt = one(frames)
    assert attempt["passed"] is None
    assert attempt["score"] == value
    grades = frames["grades"].to_dicts()
    assert [(g["label"], g["value"], g["kind"]) for g in grades] == ([(word, value, "user_feedback")] if word else [])
    assert not grades or grades[0]["created_at"].isoformat() == "2024-10-06T12:25:18+00:00"


def evaluation(instance="django__django-1", **more):
    return {
        "instance_id": instance,
        "instruction": "Fix the bug.",
        "instance": {"repo": "django/django", "base_commit": "abc"},
        "test_result": {"git_patch": "diff --git a b\n", "report": {"resolved": True}},
        "metadata": {
            "agent_class": "CodeActAgent",
            "llm_config": {"model": "m/x", "api_key": "sk-secret", "temperature": 0.0},
            "max_iterations": 30,
            "dataset": "d",
        },
        "history": v0_events(),
        "metrics": {
            "accumulated_cost": 0.4,
            "accumulated_token_usage": {"prompt_tokens": 350, "completion_tokens": 30},
        },
        "error": None,
    } | more


def write_rows(path, *rows):
    path.write_text("".join(json.dumps(r) + "\n" for r in rows))
    return path


def test_evaluation_rows(tmp_path):
    rows = [
        evaluation(),
        evaluation("django__django-2", test_result={"git_patch": "", "report": {"resolved": False}}),
        evaluation(
            "django__django-3", test_result={"git_patch": "", "report": {"resolved": False, "error_eval": True}}
        ),
        evaluation("django__django-4", test_result={"git_patch": "", "report": {}}),
        evaluation("django__django-5", test_result={"git_patch": ""}),
        evaluation(
            "django__django-6",
            test_result={"git_patch": "", "report": {"resolved": True}},
            error="AgentStuckInLoopError: stuck",
        ),
        evaluation(
            "django__django-7",
            test_result={},
            error="RuntimeError: Agent reached maximum iteration. Current iteration: 30",
        ),
        evaluation(
            "django__django-8", test_result={"report": {"resolved": False}}, error="litellm.InternalServerError: down"
        ),
    ]
    frames = read(write_rows(tmp_path / "output.jsonl", *rows))
    attempts = frames["attempts"].sort("source_pos").to_dicts()
    assert [(a["passed"], a["score_valid"], a["status"]) for a in attempts] == [
        (True, True, "completed"),
        (False, True, "completed"),
        (None, False, "completed"),
        (None, False, "completed"),
        (None, None, "completed"),
        (True, True, "agent_error"),
        (None, None, "limit"),
        (None, False, "infra_error"),
    ]
    assert attempts[5]["error_type"] == "AgentStuckInLoopError"
    assert attempts[0]["cost_usd"] == 0.4
    assert json.loads(attempts[0]["params"]) == {
        "agent_class": "CodeActAgent",
        "temperature": 0.0,
        "max_iterations": 30,
    }
    assert frames["grades"].filter("valid").height == 3
    tasks = frames["tasks"].sort("task_id").to_dicts()
    assert len(tasks) == 8
    assert (tasks[0]["instruction"], tasks[0]["environment"], tasks[0]["cluster"]) == (
        "Fix the bug.",
        "django/django@abc",
        "django/django",
    )
    assert attempts[0]["task_id"] == tasks[0]["task_id"]
    patch = one(frames, "artifacts")
    assert (patch["kind"], patch["content"]) == ("patch", "diff --git a b\n")
    assert "sk-secret" not in frames["attempts"].write_ndjson()


def test_evaluation_rows_of_the_sdk(tmp_path):
    frames = read(write_rows(tmp_path / "output.jsonl", evaluation(history=v1_events(), error=None)))
    attempt = one(frames)
    assert (attempt["source_version"], attempt["n_steps"], attempt["input_tokens"]) == ("V1", 3, 350)


def test_a_broken_row_costs_itself(tmp_path):
    good = json.dumps(evaluation())
    path = tmp_path / "output.jsonl"
    path.write_text(
        good + "\n" + good[:200] + "\n[1]\n" + json.dumps({"instance_id": "x", "history": None}) + "\n" + good
    )
    frames = read(path)
    assert frames["attempts"].height == 2
    assert codes(frames).count("bad_json") == 1
    assert codes(frames).count("bad_row") == 2


# -- recognition -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "claimed"),
    [
        (v0_events(), True),
        (v1_events(), True),
        ({"feedback": "positive", "trajectory": [], "version": "1"}, True),
        (evaluation(), True),
        ([{"source": "agent", "type": "x"}], False),
        ({"source": "agent", "action": "run"}, False),
        ([{"role": "user", "content": "x"}], False),
        ({"instance_id": "x", "history": [{"role": "user"}], "trajectory": [], "info": {}}, False),
        (
            {"instance_id": "x", "run_id": "y", "resolved": True, "messages": [], "test_result": {"git_patch": ""}},
            False,
        ),
    ],
)
def test_what_is_claimed(tmp_path, value, claimed):
    assert SOURCES["openhands"].claims_file(Look(tmp_path / "x.json", json.dumps(value).encode())) is claimed


def test_records_longer_than_the_look(tmp_path):
    events = v0_events()
    events[0]["args"]["content"] = "x" * 100_000
    assert one(read(save(tmp_path / "a.json", events)))["n_steps"] == 2
    long = evaluation(test_result={"git_patch": "x" * 100_000}, history=events)
    head = {k: long[k] for k in ("instance_id", "instruction", "test_result")}
    assert one(read(write_rows(tmp_path / "output.jsonl", head | long)))["n_steps"] == 2


def test_a_folder_needs_both_names(tmp_path):
    save(tmp_path / "a" / "base_state.json", {})
    (tmp_path / "b" / "events").mkdir(parents=True)
    for folder in ("a", "b"):
        names = frozenset(p.name for p in (tmp_path / folder).iterdir())
        assert not SOURCES["openhands"].claims_folder(tmp_path / folder, names)


def test_forced_on_another_file(tmp_path):
    path = tmp_path / "x.json"
    path.write_text('{"a": 1}')
    frames = read(path, format="openhands")
    assert frames["attempts"].is_empty()
    assert "no_attempt" in codes(frames)


# -- anything anywhere -----------------------------------------------------------------------------------------------------

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats()
    | st.text(max_size=5)
    | st.just({})
    | st.just([]),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.sampled_from(["id", "text", "kind", "action"]), inner, max_size=2)
    ),
    max_leaves=4,
)


def places(node, path=()):
    if path:
        yield path
    inner = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, value in inner:
        yield from places(value, (*path, key))


def changed(document, changes):
    out = copy.deepcopy(document)
    for path, value in changes:
        node = out
        try:
            for key in path[:-1]:
                node = node[key]
            node[path[-1]] = value
        except (KeyError, IndexError, TypeError):
            continue
    return out


ROWS = [
    evaluation(),
    {"feedback": "positive", "timestamp": "x", "trajectory": v0_events()},
    evaluation(history=v1_events()),
]
FOLDER = {
    "state": v1_state(leaf_event_id="e8"),
    "events": [
        *v1_events(),
        {"kind": "Condensation", "forgotten_event_ids": ["e2"], "summary": "s", "summary_offset": 1},
        {"kind": "TokenEvent", "prompt_token_ids": [1], "response_token_ids": [2]},
    ],
}


@settings(deadline=None, max_examples=50)
@given(st.lists(st.tuples(st.sampled_from(list(places(ROWS))), VALUES), min_size=1, max_size=4))
def test_any_value_in_rows(tmp_path_factory, changes):
    rows = changed(ROWS, changes)
    path = tmp_path_factory.mktemp("oh") / "output.jsonl"
    write_rows(path, *rows)
    frames = read(path, format="openhands")
    skipped = frames["diagnostics"].filter(pl.col("code").is_in(["bad_row", "bad_json", "no_attempt"])).height
    assert frames["attempts"].height + skipped >= 1
    if skipped == 0 and all(isinstance(r, dict) for r in rows):
        assert frames["attempts"].height == len(rows)


@settings(deadline=None, max_examples=50)
@given(st.lists(st.tuples(st.sampled_from(list(places(FOLDER))), VALUES), min_size=1, max_size=4))
def test_any_value_in_a_folder(tmp_path_factory, changes):
    document = changed(FOLDER, changes)
    events = document["events"] if isinstance(document["events"], list) else []
    folder = tmp_path_factory.mktemp("oh") / "c"
    (folder / "events").mkdir(parents=True)
    save(folder / "base_state.json", document["state"])
    for number, event in enumerate(events):
        save(folder / "events" / f"event-{number:05}-x.json", event)
    assert read(folder)["attempts"].height == 1
