from __future__ import annotations

import json

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from expcomp.sources._contract import Found, ReadOptions
from expcomp.sources._look import Look
from expcomp.sources.load import read_frames
from expcomp.sources.tau2_bench.reader import SOURCE

GREETING = {"role": "assistant", "content": "Hi! How can I help you today?", "cost": 0.0, "usage": None, "turn_idx": 0}
USAGE = {"prompt_tokens": 100, "completion_tokens": 7}
TASK = {
    "id": "3",
    "description": {"purpose": "p", "notes": None},
    "user_scenario": {"persona": None, "instructions": {"domain": "airline", "reason_for_call": "Cancel my flight."}},
    "ticket": "The customer wants to cancel.",
    "evaluation_criteria": {
        "actions": [{"action_id": "3_0", "name": "cancel", "arguments": {"id": "X"}}],
        "reward_basis": ["DB"],
    },
}


def user(content, **more):
    return {"role": "user", "content": content, "tool_calls": None, "cost": 0.5, "usage": {"prompt_tokens": 9}} | more


def agent(content, calls=None, **more):
    return {"role": "assistant", "content": content, "tool_calls": calls, "cost": 0.25, "usage": USAGE} | more


def call(name="cancel", ident="c1", requestor="assistant", arguments=None):
    return {"id": ident, "name": name, "arguments": arguments or {"id": "X"}, "requestor": requestor}


def result(ident="c1", content="ok", requestor="assistant", error=False):
    return {"role": "tool", "id": ident, "content": content, "requestor": requestor, "error": error}


def dialogue():
    return [GREETING, user("Cancel."), agent(None, [call()]), result(), agent("Done."), user("Bye ###STOP###")]


def reward(value=1.0, **more):
    checks = {
        "db_check": {"db_match": True, "db_reward": 1.0},
        "action_checks": [{"action": call(), "action_match": False, "action_reward": 0.0}],
        "nl_assertions": [{"nl_assertion": "was kind", "met": True, "justification": "It was."}],
        "communicate_checks": [{"info": "7", "met": False, "justification": "No 7."}],
        "env_assertions": [{"env_assertion": {"func_name": "is_off"}, "met": True, "reward": 1.0}],
    }
    return {"reward": value, "reward_basis": ["DB", "COMMUNICATE"], "reward_breakdown": {"DB": 1.0}} | checks | more


def simulation(**more):
    return {
        "id": "sim-1",
        "task_id": "3",
        "start_time": "2025-07-17T15:10:58.5",
        "end_time": "2025-07-17T15:11:06.5",
        "duration": 8.0,
        "termination_reason": "user_stop",
        "agent_cost": 0.5,
        "user_cost": 1.0,
        "reward_info": reward(),
        "messages": dialogue(),
        "trial": 1,
        "seed": 42,
    } | more


def results(*simulations, tasks=(TASK,), **info):
    head = {
        "git_commit": "abc",
        "num_trials": 2,
        "max_steps": 200,
        "max_errors": 10,
        "user_info": {"implementation": "user_simulator", "llm": "gpt-4.1", "llm_args": {"api_key": "sk-live-1"}},
        "agent_info": {
            "implementation": "llm_agent",
            "llm": "openai/gpt-4.1",
            "llm_args": {"temperature": 0.0, "api_key": "sk-live-2", "extra_headers": {"Authorization": "Bearer x"}},
        },
        "environment_info": {"domain_name": "airline", "policy": "# Policy", "tool_defs": None},
        "seed": 300,
    }
    return {"timestamp": "t", "info": head | info, "tasks": list(tasks), "simulations": list(simulations)}


def load(tmp_path, value, name="run.json"):
    path = tmp_path / name
    path.write_text(value if isinstance(value, str) else json.dumps(value), "utf-8")
    return read_frames([path])


def one(frames, table="attempts"):
    assert frames[table].height == 1
    return frames[table].to_dicts()[0]


def codes(frames):
    return set(frames["diagnostics"]["code"])


def test_an_attempt_has_what_the_header_and_the_simulation_say(tmp_path):
    frames = load(tmp_path, results(simulation()))
    row = one(frames)
    assert row["task_id"] == "tau2_bench/airline/3"
    assert (row["agent"], row["model"], row["model_provider"]) == ("llm_agent", "openai/gpt-4.1", "openai")
    assert row["arm"] == "llm_agent/gpt-4.1"
    assert (row["trial"], row["trial_source"], row["seed"]) == (1, "native", 42)
    assert (row["status"], row["stop_reason"]) == ("completed", "user_stop")
    assert (row["score"], row["passed"], row["score_valid"], row["grade_kind"]) == (1.0, True, True, "environment")
    assert row["duration_s"] == 8.0
    assert row["system_prompt"] == "# Policy"
    assert row["has_system_prompt"]
    assert not row["has_tools"]
    assert row["tools"] is None
    assert "naive_time" in codes(frames)
    task = one(frames, "tasks")
    assert task["system_prompt"] == "# Policy"
    assert task["dataset_version"] == "abc"
    assert task["instruction"] == "Cancel my flight."
    assert json.loads(task["target"])["actions"][0]["name"] == "cancel"


def test_the_policy_is_no_message_and_the_greeting_no_work_of_the_model(tmp_path):
    frames = load(tmp_path, results(simulation()))
    messages = frames["messages"].to_dicts()
    assert [m["role"] for m in messages] == ["assistant", "user", "assistant", "tool", "assistant", "user"]
    assert messages[0]["origin"] == "synthetic"
    steps = frames["steps"].to_dicts()
    assert [s["source"] for s in steps] == ["system", "simulator", "agent", "agent", "simulator"]
    assert [s["trainable"] for s in steps] == [False, False, True, True, False]
    assert one(frames)["n_steps"] == 2


def test_only_the_agents_tokens_and_cost_count(tmp_path):
    row = one(load(tmp_path, results(simulation())))
    assert (row["input_tokens"], row["output_tokens"], row["cost_usd"]) == (200, 14, 0.5)
    assert json.loads(row["metadata"])["user_cost"] == 1.0


def test_a_cost_of_zero_beside_tokens_is_unknown(tmp_path):
    turns = [GREETING, user("x"), agent("y", cost=0.0)]
    frames = load(tmp_path, results(simulation(messages=turns, agent_cost=0.0)))
    assert one(frames)["cost_usd"] is None
    assert frames["steps"]["cost_usd"].null_count() == frames["steps"].height


def test_secrets_of_request_arguments_are_gone(tmp_path):
    frames = load(tmp_path, results(simulation()))
    for name, frame in frames.items():
        written = frame.write_ndjson()
        assert "sk-live" not in written, name
        assert "Bearer" not in written, name
    assert json.loads(one(frames)["params"])["temperature"] == 0.0


def test_the_basis_decides_and_every_check_is_a_grade(tmp_path):
    frames = load(tmp_path, results(simulation()))
    grades = {g["name"]: g for g in frames["grades"].to_dicts()}
    assert set(grades) == {
        "reward", "db_check", "action_check/cancel", "nl_assertion/0", "communicate_check/0", "env_assertion/is_off"
    }  # fmt: skip
    assert [n for n, g in grades.items() if g["is_primary"]] == ["reward"]
    assert grades["reward"]["passed"] is True
    assert grades["action_check/cancel"]["passed"] is False
    assert json.loads(grades["action_check/cancel"]["metadata"])["in_basis"] is False
    assert json.loads(grades["communicate_check/0"]["metadata"])["in_basis"] is True
    assert (grades["nl_assertion/0"]["kind"], grades["nl_assertion/0"]["rationale"]) == ("model_judge", "It was.")
    assert grades["db_check"]["kind"] == "environment"


@pytest.mark.parametrize(
    ("value", "passed", "valid"),
    [(1.0, True, True), (0.9999999, True, True), (0.0, False, True), (0.5, None, True), (None, None, False)],
)
def test_reward_and_verdict(tmp_path, value, passed, valid):
    row = one(load(tmp_path, results(simulation(reward_info=reward(value)))))
    assert (row["passed"], row["score_valid"]) == (passed, valid)


@pytest.mark.parametrize(
    ("word", "status", "valid", "passed"),
    [
        ("agent_stop", "completed", True, False),
        ("max_steps", "limit", True, False),
        ("too_many_errors", "agent_error", True, False),
        ("agent_error", "agent_error", True, False),
        ("TerminationReason.AGENT_ERROR", "agent_error", True, False),
        ("user_error", "infra_error", False, None),
        ("infrastructure_error", "infra_error", False, None),
        ("context_window_exceeded", "limit", False, None),
        ("made_up", "unknown", True, False),
    ],
)
def test_status_words(tmp_path, word, status, valid, passed):
    frames = load(tmp_path, results(simulation(termination_reason=word, reward_info=reward(0.0))))
    row = one(frames)
    assert (row["status"], row["score_valid"], row["passed"]) == (status, valid, passed)
    assert ("unknown_status" in codes(frames)) == (word == "made_up")
    assert frames["grades"]["valid"].to_list() == [valid] * 6


def test_a_simulation_without_reward_is_not_graded(tmp_path):
    frames = load(tmp_path, results(simulation(reward_info=None)))
    assert (one(frames)["passed"], one(frames)["score_valid"]) == (None, False)
    assert frames["grades"].is_empty()


def test_the_simulated_users_own_calls_are_its_own(tmp_path):
    turns = [
        GREETING,
        user("It is broken."),
        agent("Toggle it."),
        user(None, tool_calls=[call("toggle", "u1", "user")]),
        result("u1", "toggled", "user"),
        user("I did."),
        agent(None, [call(ident="u1")]),
        result("u1", "agent's", "assistant", error=True),
    ]
    frames = load(tmp_path, results(simulation(messages=turns)))
    steps = frames["steps"].filter(pl.col("tool_calls").list.len() > 0).to_dicts()
    assert [(s["source"], s["trainable"]) for s in steps] == [("simulator", False), ("agent", True)]
    assert [s["observations"][0]["content"] for s in steps] == ["toggled", "agent's"]
    assert [s["observations"][0]["is_error"] for s in steps] == [False, True]
    branches = frames["messages"]["branch"].to_list()
    assert branches == [0, 0, 0, 1, 1, 0, 0, 0]
    assert one(frames)["n_tool_calls"] == 2
    assert one(frames)["n_tool_errors"] == 1


def test_results_of_parallel_calls_may_come_in_one_message(tmp_path):
    both = {"role": "tool", "tool_messages": [result("b", "2"), result("a", "1")]}
    turns = [GREETING, user("x"), agent(None, [call(ident="a"), call(ident="b")]), both]
    frames = load(tmp_path, results(simulation(messages=turns)))
    (step,) = frames["steps"].filter(pl.col("source") == "agent").to_dicts()
    assert [(o["call_id"], o["content"]) for o in step["observations"]] == [("b", "2"), ("a", "1")]


def test_alone_the_agent_works_on_the_ticket_and_greets_nobody(tmp_path):
    turns = [agent(None, [call()]), result(), agent("###STOP###")]
    info = {
        "agent_info": {"implementation": "llm_agent_solo", "llm": "m"},
        "user_info": {"implementation": "dummy_user"},
    }
    frames = load(tmp_path, results(simulation(messages=turns), **info))
    assert one(frames, "tasks")["instruction"] == TASK["ticket"]
    assert frames["steps"]["trainable"].to_list() == [True, True]
    assert json.loads(one(frames)["metadata"])["stop_mark"] == "###STOP###"


def test_raw_responses_are_dropped_once_told_and_their_reasoning_is_kept(tmp_path):
    raw = {
        "model": "gpt-4.1-2025-04-14",
        "finish_reason": "stop",
        "message": {"reasoning_content": "hm"},
        "big": "b" * 99,
    }
    turns = [GREETING, user("x", raw_data={"a": 1}), agent("y", raw_data=raw)]
    frames = load(tmp_path, results(simulation(messages=turns), simulation(messages=turns, trial=0)))
    told = frames["diagnostics"].filter(pl.col("code") == "raw_data_dropped").to_dicts()
    assert [(t["severity"], t["detail"][:24]) for t in told] == [("info", "raw_data of 4 messages (")]
    (step,) = frames["steps"].filter(pl.col("source") == "agent").head(1).to_dicts()
    assert (step["reasoning"], step["model"], step["stop_reason"]) == ("hm", "gpt-4.1-2025-04-14", "stop")
    assert frames["attempts"]["model"].to_list() == ["gpt-4.1-2025-04-14"] * 2
    assert "bbbb" not in frames["attempts"].write_ndjson()


def test_tool_schemas_of_the_header(tmp_path):
    world = {
        "domain_name": "airline",
        "policy": "P",
        "tool_defs": {"a": {"type": "function", "function": {"name": "a"}}},
    }
    row = one(load(tmp_path, results(simulation(policy="own policy"), environment_info=world)))
    assert json.loads(row["tools"]) == [{"type": "function", "function": {"name": "a"}}]
    assert row["has_tools"]
    assert row["system_prompt"] == "own policy"


def test_numbers_and_texts_name_the_same_task_and_changed_tasks_are_told_apart(tmp_path):
    older = json.loads(json.dumps(TASK)) | {"id": 3, "ticket": "The customer wants to cancel."}
    del older["user_scenario"]["persona"]
    other = TASK | {"evaluation_criteria": {"actions": []}}
    (tmp_path / "a.json").write_text(json.dumps(results(simulation())))
    (tmp_path / "b.json").write_text(json.dumps(results(simulation(task_id=3), tasks=[older])))
    assert read_frames([tmp_path])["attempts"]["task_id"].unique().to_list() == ["tau2_bench/airline/3"]
    (tmp_path / "c.json").write_text(json.dumps(results(simulation(), tasks=[other])))
    frames = read_frames([tmp_path])
    assert frames["attempts"]["task_id"].n_unique() == 2
    assert "task_changed" in codes(frames)


def test_tasks_count_without_an_attempt(tmp_path):
    frames = load(tmp_path, results(simulation(), tasks=[TASK, TASK | {"id": "9"}]))
    assert sorted(frames["tasks"]["native_id"]) == ["3", "9"]


def test_the_folder_layout(tmp_path):
    folder = tmp_path / "run"
    (folder / "simulations").mkdir(parents=True)
    header = results()
    del header["simulations"]
    index = [{"id": i, "task_id": "3", "trial": t, "reward": 0.0, "termination_reason": "user_stop"} for i, t in
             (("s0", 0), ("s1", 1), ("lost", 2))]  # fmt: skip
    (folder / "results.json").write_text(json.dumps(header | {"simulation_index": index}))
    for pos in range(2):
        (folder / "simulations" / f"s{pos}.json").write_text(json.dumps(simulation(id=f"s{pos}", trial=pos)))
    frames = read_frames([tmp_path])
    attempts = frames["attempts"].sort("trial").to_dicts()
    assert [a["trial"] for a in attempts] == [0, 1, 2]
    assert [a["has_transcript"] for a in attempts] == [True, True, False]
    assert [a["passed"] for a in attempts] == [True, True, False]
    assert attempts[0]["source_uri"] == "run/simulations/s0.json"
    assert attempts[0]["trace_ref"] == "simulations/s0.json"
    assert {a["task_id"] for a in attempts} == {"tau2_bench/airline/3"}
    assert "missing_file" in codes(frames)
    assert sorted(frames["evidence"]["ref"]) == ["results.json", "simulations/s0.json", "simulations/s1.json"]


def test_turns_of_a_full_duplex_run_come_from_its_ticks(tmp_path):
    ticks = [
        {"tick_id": 0, "agent_chunk": {"content": "Hello"}, "agent_tool_calls": [], "user_chunk": {"content": ""}},
        {"tick_id": 1, "agent_chunk": None, "user_chunk": {"content": "Cancel"}},
        {"tick_id": 2, "agent_chunk": None, "agent_tool_calls": [call()], "agent_tool_results": [result()]},
    ]
    frames = load(tmp_path, results(simulation(messages=None, ticks=ticks)))
    assert frames["messages"]["role"].to_list() == ["assistant", "user", "assistant", "tool"]
    assert "from_ticks" in codes(frames)


@pytest.mark.parametrize(
    ("ticks", "code"),
    [(7, "bad_transcript"), ([7], "bad_message"), ([{"agent_chunk": "Hello"}], "bad_message"),
     ([{"user_chunk": {"content": 7}}], "bad_message")],
)  # fmt: skip
def test_ticks_that_cannot_be_read_are_told(tmp_path, ticks, code):
    assert code in codes(load(tmp_path, results(simulation(messages=None, ticks=ticks))))


def test_an_index_that_is_no_list_is_told(tmp_path):
    (tmp_path / "run/simulations").mkdir(parents=True)
    header = {k: v for k, v in results().items() if k != "simulations"} | {"simulation_index": "s0"}
    (tmp_path / "run/results.json").write_text(json.dumps(header))
    (tmp_path / "run/simulations/s0.json").write_text(json.dumps(simulation(id="s0")))
    frames = read_frames([tmp_path])
    assert frames["attempts"].height == 1
    assert "bad_row" in codes(frames)


def test_broken_pieces_cost_only_themselves(tmp_path):
    turns = [GREETING, 7, user("x"), {"role": "narrator", "content": "n"}, agent("y")]
    frames = load(
        tmp_path, results(simulation(messages=turns), 5, simulation(task_id=None, trial=-1), tasks=[TASK, None, {}])
    )
    assert frames["attempts"].height == 2
    assert frames["attempts"]["source_pos"].to_list() == [0, 2]
    assert {"bad_row", "bad_message", "unknown_role", "missing_task_id"} <= codes(frames)
    positions = frames["diagnostics"].filter(pl.col("code") == "bad_row")["source_pos"].to_list()
    assert sorted(positions) == [1, 1]


@pytest.mark.parametrize("value", ["", "[]", "{", '{"simulations": []', json.dumps(results())])
def test_a_file_without_simulations_gives_no_attempt_and_says_so(tmp_path, value):
    path = tmp_path / "run.json"
    path.write_text(value)
    frames = read_frames([path], format="tau2_bench")
    assert frames["attempts"].is_empty()
    assert frames["diagnostics"].height > 0


def test_recognition_is_by_content(tmp_path):
    def claims(value):
        return SOURCE.claims_file(Look(tmp_path / "x.json", json.dumps(value).encode()[: 64 * 1024]))

    assert claims(results(simulation()))
    assert claims(results(simulation(), environment_info={"policy": "p" * 99_000}))
    assert claims(simulation())
    assert not claims({"simulations": [{"x": 1}], "name": "physics"})
    assert not claims({"task_id": 1, "reward": 1.0, "info": {}, "traj": []})
    assert not claims({"results": [], "info": {"version": 1}})
    assert not claims([1, 2])


def test_files_of_one_domain_are_one_group(tmp_path):
    found = Found()
    for name in ("a.json", "b.json"):
        path = tmp_path / name
        path.write_text(json.dumps(results(simulation())))
        SOURCE.units(path, tmp_path, found)
    assert {u.group for u in found.units} == {"tau2_bench/airline"}


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_values_of_any_type_never_raise(tmp_path_factory, data):
    value = json.loads(json.dumps(results(simulation(), simulation(trial=0))))
    places = [value, value["info"], *value["info"].values(), *value["tasks"], *value["simulations"]]
    for row in value["simulations"]:
        places += [
            row["reward_info"],
            *row["messages"],
            *(c for m in row["messages"] for c in m.get("tool_calls") or ()),
        ]
    places = [p for p in places if isinstance(p, dict)]
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.sampled_from(places))
        place[data.draw(st.sampled_from(sorted(place)))] = data.draw(JSON)
    path = tmp_path_factory.mktemp("tau2") / "run.json"
    path.write_text(json.dumps(value))
    found = Found()
    SOURCE.units(path, path.parent, found)
    frames = SOURCE.read(found.units, ReadOptions())
    rows = value["simulations"]
    told = frames["diagnostics"].filter(pl.col("code").is_in(["bad_row", "no_attempt"])).height
    assert frames["attempts"].height == (sum(isinstance(r, dict) for r in rows) if isinstance(rows, list) else 0)
    assert frames["attempts"].height == 2 or told > 0


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_a_file_cut_or_damaged_anywhere_never_raises(tmp_path_factory, data):
    blob = bytearray(json.dumps(results(simulation())).encode())
    at = data.draw(st.integers(0, len(blob) - 1))
    blob[at : at + data.draw(st.integers(1, 9))] = data.draw(st.binary(max_size=3))
    path = tmp_path_factory.mktemp("tau2") / "run.json"
    path.write_bytes(bytes(blob[: data.draw(st.integers(1, len(blob)))]))
    frames = read_frames([path], format="tau2_bench")
    assert frames["attempts"].height + frames["diagnostics"].height > 0
