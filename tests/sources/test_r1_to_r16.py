"""The sixteen rules that the formats force on the common model, each as a behaviour a user can see.

The formats' own tests go into every quirk; here is one case a rule, end to end, through the public reader.
"""

from __future__ import annotations

import json

import polars as pl
import pytest

import expcomp as xc


def write(folder, name, value):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    text = value if isinstance(value, str) else json.dumps(value)
    path.write_text(text)
    return path


def lines(*records):
    return "\n".join(json.dumps(r) for r in records) + "\n"


def tau(task=1, reward=1.0, trial=0, info=None, traj=None):
    said = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "bye ###STOP###"}]
    row = {"task_id": task, "reward": reward, "info": {"reward_info": {}} if info is None else info, "trial": trial}
    return row | {"traj": said if traj is None else traj}


def one(frame):
    (row,) = frame.to_dicts()
    return row


def codes(ts):
    return set(ts.diagnostics["code"])


def claude(kind, ident, parent, message, **more):
    return {
        "type": kind,
        "uuid": ident,
        "parentUuid": parent,
        "sessionId": "s1",
        "version": "2.1.0",
        "timestamp": f"2026-01-01T00:00:{int(ident[1:]):02d}.000Z",
        "message": message,
    } | more


def spoken(ident, tokens, *blocks):
    usage = {"input_tokens": 10, "cache_read_input_tokens": 5, "output_tokens": tokens}
    return {"id": ident, "role": "assistant", "model": "m", "content": list(blocks), "usage": usage}


def text(value):
    return {"type": "text", "text": value}


def trial(**more):
    return {
        "trial_name": "t__abc",
        "task_name": "t",
        "agent_info": {"name": "a", "version": "1", "model_info": {"name": "m"}},
        "started_at": "2026-01-01T00:00:00Z",
        "finished_at": "2026-01-01T00:01:00Z",
    } | more


def test_r01_what_was_not_graded_is_not_failed(tmp_path):
    crash = tau(reward=0.0, info={"error": "boom", "traceback": "Traceback\n  x\nRateLimitError: slow"}, traj=[])
    row = one(xc.read_traces(write(tmp_path, "a.json", [crash])).attempts)
    assert (row["passed"], row["score_valid"], row["status"]) == (None, False, "infra_error")


def test_r02_a_reward_beside_an_exception_stays_and_the_user_may_say_otherwise(tmp_path):
    late = {"exception_type": "AgentTimeoutError", "exception_message": "late"}
    write(tmp_path, "t__abc/result.json", trial(verifier_result={"rewards": {"reward": 1.0}}, exception_info=late))
    row = one(xc.read_traces(tmp_path).attempts)
    assert (row["passed"], row["score_valid"], row["status"]) == (True, True, "limit")
    from expcomp.sources.rules import read_rules

    strict = read_rules(
        write(tmp_path / "c", "e.toml", '[errors]\nAgentTimeoutError = {status="limit", voids_reward=true}')
    )
    row = one(xc.read_traces(tmp_path / "t__abc", rules=strict).attempts)
    assert (row["passed"], row["score_valid"]) == (None, False)


def test_r03_usage_counts_once_a_model_call_and_the_last_line_wins(tmp_path):
    session = lines(
        claude("user", "u1", None, {"role": "user", "content": "go"}),
        claude("assistant", "u2", "u1", spoken("m1", 3, text("a"))),
        claude("assistant", "u3", "u2", spoken("m1", 8, text("b"))),
    )
    row = one(xc.read_traces(write(tmp_path, "s1.jsonl", session)).attempts)
    assert (row["n_steps"], row["input_tokens"], row["cached_input_tokens"], row["output_tokens"]) == (1, 15, 5, 8)


def test_r04_history_that_a_resume_copied_is_neither_trained_on_nor_counted(tmp_path):
    first = [
        claude("user", "u1", None, {"role": "user", "content": "go"}),
        claude("assistant", "u2", "u1", spoken("m1", 8, text("a"))),
    ]
    more = [
        claude("user", "u3", "u2", {"role": "user", "content": "on"}),
        claude("assistant", "u4", "u3", spoken("m2", 5, text("b"))),
    ]
    write(tmp_path, "p/s1.jsonl", lines(*first))
    write(tmp_path, "p/s2.jsonl", lines(*(r | {"sessionId": "s2"} for r in first + more)))
    ts = xc.read_traces(tmp_path)
    assert ts.attempts["output_tokens"].to_list() == [8, 5]
    agent = ts.steps.filter(pl.col("source") == "agent")
    assert agent.select("llm_call_id", "is_copied_context", "trainable").rows() == [
        ("m1", False, True),
        ("m1", True, False),
        ("m2", False, True),
    ]


def test_r05_samples_are_cut_where_a_summary_took_the_place_of_the_turns(tmp_path):
    session = lines(
        claude("user", "u1", None, {"role": "user", "content": "go"}),
        claude("assistant", "u2", "u1", spoken("m1", 8, text("a"))),
        {
            "type": "system",
            "subtype": "compact_boundary",
            "uuid": "u3",
            "parentUuid": None,
            "logicalParentUuid": "u2",
            "sessionId": "s1",
        }
        | {"timestamp": "2026-01-01T00:00:03Z", "compactMetadata": {"trigger": "auto"}},
        claude("user", "u4", "u3", {"role": "user", "content": "summary of before"}, isCompactSummary=True),
        claude("assistant", "u5", "u4", spoken("m2", 5, text("b"))),
    )
    ts = xc.read_traces(write(tmp_path, "s1.jsonl", session))
    assert one(ts.attempts)["has_compaction"]
    assert ts.messages.select("origin", "context_id").rows() == [
        ("human", 0),
        ("model", 0),
        ("summary", 1),
        ("model", 1),
    ]
    chats = xc.compile(ts).rejected["training_example"].height + xc.compile(ts).rows["training_example"].height
    assert chats == 2


def test_r06_only_the_model_under_study_is_trained_on(tmp_path):
    said = [
        {"role": "assistant", "content": "Hi! How can I help you today?", "turn_idx": 0, "cost": 0.0, "usage": None},
        {"role": "user", "content": "my order", "turn_idx": 1},
        {
            "role": "assistant",
            "content": "done",
            "turn_idx": 2,
            "cost": 0.1,
            "usage": {"prompt_tokens": 5, "completion_tokens": 2},
        },
    ]
    run = {
        "info": {
            "agent_info": {"llm": "m", "implementation": "llm_agent"},
            "environment_info": {"domain_name": "d", "policy": "P"},
        },
        "tasks": [{"id": "1"}],
        "simulations": [{"id": "s", "task_id": "1", "trial": 0, "reward_info": {"reward": 1.0}, "messages": said}],
    }
    ts = xc.read_traces(write(tmp_path, "r.json", run))
    assert ts.steps.filter("trainable")["content"].to_list() == ["done"]
    assert one(ts.attempts)["system_prompt"] == "P"


def codex(*payloads):
    meta = {
        "type": "session_meta",
        "payload": {"id": "t1", "cli_version": "0.104.0", "timestamp": "2026-01-01T00:00:00Z"},
    }
    return lines(*({"timestamp": "2026-01-01T00:00:00Z"} | p for p in (meta, *payloads)))


def item(**payload):
    return {"type": "response_item", "payload": payload}


def test_r07_text_that_the_harness_injected_is_not_what_was_asked(tmp_path):
    def user(words):
        return item(type="message", role="user", content=[{"type": "input_text", "text": words}])

    rollout = codex(user("<environment_context>cwd</environment_context>"), user("fix it"))
    ts = xc.read_traces(write(tmp_path, "r.jsonl", rollout))
    assert ts.messages.select("origin", "content").rows()[-1] == ("human", "fix it")
    assert ts.messages["origin"].to_list() == ["harness", "human"]


def chat(*messages, **more):
    return {"messages": list(messages), **more}


def call(arguments, ident="c1", name="look"):
    return {"id": ident, "type": "function", "function": {"name": name, "arguments": arguments}}


def test_r08_orphans_and_unanswered_calls_are_kept_and_told(tmp_path):
    row = chat(
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": None, "tool_calls": [call("{}"), call("{}", "c2")]},
        {"role": "tool", "tool_call_id": "c1", "content": "seen"},
        {"role": "tool", "tool_call_id": "zz", "content": "from nowhere"},
    )
    ts = xc.read_traces(write(tmp_path, "a.jsonl", lines(row)))
    step = one(ts.steps.filter(pl.col("source") == "agent"))
    assert [c["id"] for c in step["tool_calls"]] == ["c1", "c2"]
    assert [(o["call_id"], o["content"]) for o in step["observations"]] == [("c1", "seen"), ("zz", "from nowhere")]
    assert {"orphan_result", "unanswered_call"} <= codes(ts)


@pytest.mark.parametrize(
    ("given", "text", "ok"),
    [
        ('{"a":  1}', '{"a":  1}', True),
        ({"a": 1}, '{"a":1}', True),
        ('"{\\"a\\": 1}"', '"{\\"a\\": 1}"', False),
        ('{"a": ', '{"a": ', False),
        ("", "", False),
        (None, None, False),
    ],
)
def test_r09_arguments_stay_as_written_and_say_whether_they_are_an_object(tmp_path, given, text, ok):
    row = chat({"role": "user", "content": "go"}, {"role": "assistant", "content": "x", "tool_calls": [call(given)]})
    ts = xc.read_traces(write(tmp_path, "a.jsonl", lines(row)))
    found = one(ts.steps.filter(pl.col("source") == "agent"))["tool_calls"][0]
    assert (found["arguments"], found["arguments_ok"]) == (text, ok)


def test_r10_a_number_is_no_verdict_until_somebody_gives_the_threshold(tmp_path):
    said = {"prompt": [{"role": "user", "content": "q"}], "completion": [{"role": "assistant", "content": "a"}]}
    write(tmp_path, "results.jsonl", lines({"example_id": 0, **said, "reward": 1.0, "answer": "x", "task": "t"}))
    write(tmp_path, "metadata.json", {"env_id": "wordle", "model": "m", "num_examples": 1, "rollouts_per_example": 1})
    assert one(xc.read_traces(tmp_path).attempts)["passed"] is None
    from expcomp.sources.rules import Rules, Scale

    rules = Rules(scores={"verifiers": Scale(0, 2.25, 1.5)})
    row = one(xc.read_traces(tmp_path, rules=rules).attempts)
    assert (row["passed"], row["score"], round(row["score_norm"], 3)) == (False, 1.0, 0.444)


def test_r11_ids_repeat_over_domains_and_doubles_are_told(tmp_path):
    write(tmp_path, "gpt-airline.json", [tau(0)])
    write(tmp_path, "gpt-retail.json", [tau(0), tau(0)])
    ts = xc.read_traces(tmp_path)
    assert ts.attempts["task_id"].n_unique() == 2
    assert ts.attempts["attempt_id"].n_unique() == 3
    assert "duplicate_trial" in codes(ts)


def test_r12_a_field_named_trial_that_counts_tasks_is_no_trial(tmp_path):
    ts = xc.read_traces(write(tmp_path, "a.json", [tau(n, trial=n) for n in range(4)]))
    assert ts.attempts["trial"].to_list() == [0, 0, 0, 0]
    ts = xc.read_traces(write(tmp_path, "a.json", [tau(n // 2, trial=n % 2) for n in range(4)]))
    assert ts.attempts["trial"].to_list() == [0, 1, 0, 1]
    assert set(ts.attempts["trial_source"]) == {"native"}


def test_r13_a_broken_line_costs_one_line_and_content_tells_the_format(tmp_path):
    good = json.dumps(chat({"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}))
    ts = xc.read_traces(write(tmp_path, "a.txt", f"{good}\n{good[:20]}\n{good}{good}\n"))
    assert ts.attempts.height == 3
    assert {"bad_json", "glued_line"} & codes(ts)
    write(tmp_path, "b.jsonl", "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n")
    write(tmp_path, "c.jsonl", json.dumps(json.loads(good), indent=2))
    ts = xc.read_traces(tmp_path)
    assert ts.attempts.height == 4
    assert "pointer_file" in codes(ts)


def test_r14_secrets_of_requests_do_not_enter_the_tables(tmp_path):
    args = {"temperature": 0.5, "api_key": "sk-live-123", "extra_headers": {"Authorization": "Bearer x9"}}
    run = {
        "info": {"agent_info": {"llm": "m", "llm_args": args}},
        "tasks": [{"id": "1"}],
        "simulations": [
            {"id": "s", "task_id": "1", "trial": 0, "reward_info": {"reward": 1.0}, "messages": []},
        ],
    }
    ts = xc.read_traces(write(tmp_path, "r.json", run))
    everything = "".join(frame.write_ndjson() for frame in ts.collect().values())
    assert "sk-live-123" not in everything
    assert "x9" not in everything
    assert "0.5" in one(ts.attempts)["params"]


def test_r15_sums_of_headers_are_checked_not_trusted(tmp_path):
    said = {"prompt": [{"role": "user", "content": "q"}], "completion": [{"role": "assistant", "content": "a"}]}
    rows = [{"example_id": n, **said, "reward": 1.0, "answer": str(n), "task": "t"} for n in range(3)]
    write(tmp_path, "results.jsonl", lines(*rows))
    write(
        tmp_path,
        "metadata.json",
        {"env_id": "w", "model": "m", "num_examples": 9, "rollouts_per_example": 1, "avg_reward": 0.0},
    )
    ts = xc.read_traces(tmp_path)
    assert ts.attempts["score"].to_list() == [1.0, 1.0, 1.0]
    assert any("9" in detail for detail in ts.diagnostics["detail"])


def test_r16_a_time_without_zone_is_read_as_utc_and_said(tmp_path):
    times = {"started_at": "2026-01-01T00:00:00", "finished_at": "2026-01-01T00:01:00"}
    write(tmp_path, "t__abc/result.json", trial(verifier_result={"rewards": {"reward": 1.0}}, **times))
    ts = xc.read_traces(tmp_path)
    assert one(ts.attempts)["duration_s"] == 60
    assert "naive_time" in codes(ts)
