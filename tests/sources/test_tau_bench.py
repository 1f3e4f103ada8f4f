from __future__ import annotations

import gzip
import json
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from expcomp.sources._contract import Found, ReadOptions, Unit
from expcomp.sources._look import Look
from expcomp.sources.load import read_frames
from expcomp.sources.tau_bench._names import read_name
from expcomp.sources.tau_bench.reader import SOURCE
from expcomp.tables.core import CORE

SYSTEM = {"role": "system", "content": "# Retail agent policy\n\nBe kind."}
TASK = {
    "user_id": "u_1",
    "actions": [{"name": "get_order_details", "kwargs": {"order_id": "#W1"}}],
    "instruction": "You want a refund.",
    "outputs": ["7"],
}


def call(name, arguments="{}", ident="c1"):
    out = {"type": "function", "function": {"name": name, "arguments": arguments}}
    return out | ({"id": ident} if ident else {})


def turns(ident="c1"):
    result = {"role": "tool", "name": "get_order_details", "content": "{}"}
    return [
        SYSTEM,
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": None, "tool_calls": [call("get_order_details", '{"a": 1}', ident)]},
        result | ({"tool_call_id": ident} if ident else {}),
        {"role": "assistant", "content": "Done."},
        {"role": "user", "content": "Bye ###STOP###"},
    ]


def row(task_id=3, reward=1.0, trial=0, traj=None, **more):
    reward_info = {"reward": reward, "info": {"r_actions": 1.0, "gt_data_hash": "ff"}, "actions": []}
    info = {"task": TASK, "source": "user", "user_cost": 9.5, "reward_info": reward_info}
    traj = turns() if traj is None else traj
    return {"task_id": task_id, "reward": reward, "info": info, "traj": traj, "trial": trial} | more


def crash(task_id=4, trial=0):
    trace = 'Traceback (most recent call last):\n  File "run.py", line 1, in solve\nopenai.RateLimitError: slow down\n'
    return {
        "task_id": task_id,
        "reward": 0.0,
        "info": {"error": "slow down", "traceback": trace},
        "traj": [],
        "trial": trial,
    }


def load(tmp_path, rows, name="run.json", options=None):
    path = tmp_path / name
    path.write_bytes(rows if isinstance(rows, bytes) else json.dumps(rows).encode())
    return read_frames([path], options=options)


def codes(frames):
    return set(frames["diagnostics"]["code"])


def test_a_row_becomes_an_attempt_with_its_conversation(tmp_path):
    frames = load(tmp_path, [row()], "gpt-x-retail_trial0.json")
    (attempt,) = frames["attempts"].to_dicts()
    assert attempt["task_id"] == "tau_bench/retail/3"
    assert attempt["package_id"] == attempt["source_uri"] == "gpt-x-retail_trial0.json"
    assert (attempt["run_id"], attempt["arm"], attempt["model"]) == ("gpt-x-retail_trial0", "gpt-x-retail", "gpt-x")
    assert (attempt["score"], attempt["score_norm"], attempt["passed"], attempt["score_valid"]) == (1, 1, True, True)
    assert (attempt["status"], attempt["stop_reason"]) == ("completed", "user")
    assert attempt["cost_usd"] is None
    assert (attempt["n_steps"], attempt["n_messages"], attempt["n_tool_calls"]) == (2, 6, 1)
    assert attempt["has_system_prompt"]
    assert not attempt["has_tools"]
    assert json.loads(attempt["metadata"])["stop_mark"] == "###STOP###"
    steps = frames["steps"].to_dicts()
    assert [(s["step_index"], s["source"]) for s in steps] == [
        (1, "simulator"),
        (2, "agent"),
        (4, "agent"),
        (5, "simulator"),
    ]
    assert steps[1]["observations"][0]["content"] == "{}"
    assert [s["trainable"] for s in steps] == [False, True, True, False]
    origins = frames["messages"]["origin"].to_list()
    assert origins == ["harness", "simulator", "model", "tool", "model", "simulator"]
    assert frames["messages"]["content"][-1] == "Bye ###STOP###"
    (task,) = frames["tasks"].to_dicts()
    assert json.loads(task["target"])["actions"] == TASK["actions"]
    assert (task["instruction"], task["system_prompt"]) == (TASK["instruction"], SYSTEM["content"])
    (evidence,) = frames["evidence"].to_dicts()
    assert evidence["ref"] == attempt["grade_ref"] == "gpt-x-retail_trial0.json"
    assert evidence["sha256"] == attempt["source_digest"]
    assert set(frames["grades"]["name"]) == {"reward", "r_actions"}


def test_every_frame_holds_to_its_table(tmp_path):
    frames = load(tmp_path, [row(), crash(), row(task_id=None, reward=2.5)])
    for name, table in CORE.items():
        assert frames[name].schema == table.schema
        for rule, expr in table.all_rules().items():
            assert frames[name].filter(~expr).is_empty(), rule


def test_a_crash_is_no_failure(tmp_path):
    frames = load(tmp_path, [row(), crash()])
    crashed = frames["attempts"].row(1, named=True)
    assert (crashed["passed"], crashed["score_valid"], crashed["score_issue"]) == (None, False, "crashed")
    assert (crashed["status"], crashed["error_type"]) == ("infra_error", "RateLimitError")
    assert crashed["task_id"] == "tau_bench/retail/4"
    assert not frames["grades"].filter(pl.col("attempt_id") == crashed["attempt_id"])["valid"].any()


def test_a_graded_reward_beside_an_error_stays_valid(tmp_path):
    graded = row()
    graded["info"] |= {"error": "x", "traceback": "Traceback (most recent call last):\n  a\nValueError: x"}
    (attempt,) = load(tmp_path, [graded])["attempts"].to_dicts()
    assert (attempt["status"], attempt["passed"], attempt["score_valid"]) == ("agent_error", True, True)


@pytest.mark.parametrize(
    ("reward", "score", "norm", "passed", "valid", "issue"),
    [
        (0.0, 0.0, 0.0, False, True, None),
        (0.5, 0.5, 0.5, None, True, None),
        (2.25, 2.25, None, None, False, "score_out_of_scale"),
        (None, None, None, None, False, "score_missing"),
        ("yes", None, None, None, False, "score_not_a_number"),
        (float("nan"), None, None, None, False, "score_not_finite"),
        (float("inf"), None, None, None, False, "score_not_finite"),
    ],
)
def test_rewards(tmp_path, reward, score, norm, passed, valid, issue):
    frames = load(tmp_path, [row(reward=reward)])
    (attempt,) = frames["attempts"].to_dicts()
    assert (attempt["score"], attempt["score_norm"], attempt["passed"]) == (score, norm, passed)
    assert (attempt["score_valid"], attempt["score_issue"]) == (valid, issue)
    assert issue is None or issue in codes(frames)


def test_a_scale_of_the_user_counts(tmp_path):
    (attempt,) = load(tmp_path, [row(reward=1.5)], options=ReadOptions(score_scale=(0, 2)))["attempts"].to_dicts()
    assert (attempt["score_norm"], attempt["passed"], attempt["score_valid"]) == (0.75, None, True)


def test_trial_that_repeats_the_task_index_is_none(tmp_path):
    frames = load(tmp_path, [row(task_id=n, trial=n) for n in (10, 44, 47)])
    assert frames["attempts"]["trial"].to_list() == [0, 0, 0]
    assert set(frames["attempts"]["trial_source"]) == {"unknown"}


def test_files_of_one_arm_are_trials(tmp_path):
    for trial in range(3):
        rows = [row(task_id=n, trial=trial) for n in (1, 2)]
        (tmp_path / f"m-retail_trial{trial}.json").write_text(json.dumps(rows))
    attempts = read_frames([tmp_path])["attempts"]
    assert attempts["arm"].unique().to_list() == ["m-retail"]
    assert attempts["trial"].to_list() == [0, 0, 1, 1, 2, 2]
    assert set(attempts["trial_source"]) == {"native"}


def test_trial_of_the_file_name_serves_rows_without_one(tmp_path):
    rows = [{k: v for k, v in row(task_id=n).items() if k != "trial"} for n in (1, 2)]
    assert load(tmp_path, rows, "m_trial4.json")["attempts"]["trial"].to_list() == [4, 4]


def test_numbers_that_do_not_begin_at_0_or_1_are_no_trials(tmp_path):
    rows = [row(task_id=n, trial=t) for n in (1, 2) for t in (7, 8)]
    attempts = load(tmp_path, rows)["attempts"]
    assert attempts.select("trial", "trial_source").rows() == [(0, "unknown"), (1, "unknown")] * 2
    assert json.loads(attempts["metadata"][0])["native_trial"] == 7


def test_duplicates_are_kept_numbered_and_reported(tmp_path):
    frames = load(tmp_path, [row(task_id=1), row(task_id=2), row(task_id=1)])
    assert frames["attempts"]["attempt_id"].n_unique() == 3
    assert frames["attempts"]["trial"].to_list() == [0, 0, 1]
    assert frames["diagnostics"].filter(code="duplicate_trial").height == 2


def test_without_ids_results_are_matched_by_position(tmp_path):
    frames = load(tmp_path, [row(traj=turns(ident=None))])
    assert "matched_by_position" in codes(frames)
    assert frames["steps"].filter(source="agent")["observations"].list.len().to_list() == [1, 0]


def test_results_out_of_order_find_their_call(tmp_path):
    traj = [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": None, "tool_calls": [call("a", ident="1"), call("b", ident="2")]},
        {"role": "tool", "tool_call_id": "2", "content": "of b"},
        {"role": "tool", "tool_call_id": "1", "content": "of a"},
        {"role": "tool", "tool_call_id": "9", "content": "of none"},
    ]
    frames = load(tmp_path, [row(traj=traj)])
    seen = frames["steps"].filter(source="agent")["observations"][0].to_list()
    assert [(o["call_id"], o["content"]) for o in seen] == [("2", "of b"), ("1", "of a"), ("9", "of none")]
    assert "orphan_result" in codes(frames)


def test_calls_without_result_and_broken_arguments(tmp_path):
    traj = [{"role": "assistant", "content": "x", "tool_calls": [call("a", "{'a': 1}"), call("b", {"k": [1]}, "2")]}]
    frames = load(tmp_path, [row(traj=traj)])
    calls = frames["steps"]["tool_calls"][0].to_list()
    assert [(c["arguments"], c["arguments_ok"]) for c in calls] == [("{'a': 1}", False), ('{"k":[1]}', True)]
    assert "unanswered_call" in codes(frames)


def test_legacy_function_call(tmp_path):
    traj = [
        {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}},
        {"role": "function", "name": "f", "content": "ok"},
    ]
    frames = load(tmp_path, [row(traj=traj)])
    assert frames["steps"]["tool_calls"][0].to_list()[0]["name"] == "f"
    assert frames["messages"]["role"].to_list() == ["assistant", "tool"]


def test_steps_that_ran_out_are_a_limit(tmp_path):
    cut = row(reward=0.0, traj=turns()[:-1])
    cut["info"]["reward_info"] = None
    (attempt,) = load(tmp_path, [cut])["attempts"].to_dicts()
    assert (attempt["status"], attempt["passed"]) == ("limit", False)


def test_odd_messages_leave_diagnostics(tmp_path):
    traj = [7, {"role": "narrator", "content": "hm"}, {"role": "user", "content": [{"type": "text", "text": "a"}]}]
    frames = load(tmp_path, [row(traj=traj)])
    assert {"bad_message", "unknown_role"} <= codes(frames)
    assert frames["messages"]["content"].to_list() == ["hm", "a"]
    assert {"bad_transcript"} <= codes(load(tmp_path, [row(traj={"a": 1})]))


def test_rows_without_task_id_belong_to_no_task(tmp_path):
    frames = load(tmp_path, [row(task_id=None)])
    assert frames["attempts"]["task_id"].to_list() == [None]
    assert "missing_task_id" in codes(frames)


def test_a_task_whose_content_changed_is_two_tasks(tmp_path):
    other = row(task_id=3)
    other["info"] = other["info"] | {"task": TASK | {"instruction": "Another wish."}}
    frames = load(tmp_path, [row(task_id=3), other])
    assert frames["attempts"]["task_id"].n_unique() == 2
    assert set(frames["attempts"]["task_id"]) == set(frames["tasks"]["task_id"])
    assert "task_changed" in codes(frames)


def test_domain_by_tools_then_neighbours_then_name(tmp_path):
    bare = turns()[1:]
    assert load(tmp_path, [row(traj=bare)], "a.json")["tasks"]["domain"].to_list() == ["retail"]
    assert load(tmp_path, [crash()], "x-airline.json")["tasks"]["domain"].to_list() == ["airline"]
    assert load(tmp_path, [crash()], "y.json")["tasks"]["domain"].to_list() == ["unknown"]


def test_native_file_name():
    name = "tool-calling-gpt-4o-0.0_range_0--1_user-gpt-4o-mini-llm_0117120000.json"
    found = read_name(name)
    assert (found.agent, found.model, found.params["user_model"]) == ("tool-calling", "gpt-4o", "gpt-4o-mini")
    assert found.arm == "tool-calling-gpt-4o-0.0_range_0--1_user-gpt-4o-mini-llm"


def test_lines_single_object_and_gzip(tmp_path):
    lines = b"\n".join(json.dumps(row(task_id=n)).encode() for n in (1, 2))
    assert load(tmp_path, lines, "a.jsonl")["attempts"].height == 2
    assert load(tmp_path, json.dumps(row()).encode(), "b.json")["attempts"].height == 1
    assert load(tmp_path, json.dumps(row(), indent=1).encode(), "c.jsonl")["attempts"].height == 1
    frames = load(tmp_path, gzip.compress(lines), "d")
    assert frames["attempts"]["source_pos"].to_list() == [0, 1]


def test_a_broken_line_costs_one_line(tmp_path):
    good = json.dumps(row()).encode()
    glued = json.dumps(row(task_id=8)).encode()
    frames = load(tmp_path, good + b"\n" + good[:40] + b"\n" + glued + glued + b"\n", "a.jsonl")
    assert frames["attempts"]["source_pos"].to_list() == [0, 2, 3]
    assert frames["diagnostics"].filter(code="bad_json")["source_pos"].to_list() == [1]


def test_a_cut_array_keeps_its_whole_rows(tmp_path):
    data = json.dumps([row(task_id=1), row(task_id=2)]).encode()
    frames = load(tmp_path, data[:-30])
    assert frames["attempts"].height == 1
    (found,) = frames["diagnostics"].filter(code="bad_json").to_dicts()
    assert found["byte_offset"] > 0
    assert found["source_uri"] == "run.json"


def test_bytes_that_are_no_utf8_are_replaced(tmp_path):
    data = json.dumps([row()]).encode().replace(b"Done.", b"Done\xff")
    frames = load(tmp_path, data)
    assert "not_utf8" in codes(frames)
    assert "Done�" in frames["messages"]["content"].to_list()


def test_lone_surrogates_are_replaced(tmp_path):
    frames = load(tmp_path, json.dumps([row()]).encode().replace(b"Done.", b"\\ud800"))
    assert "bad_unicode" in codes(frames)


def test_rows_that_are_none_are_left_out(tmp_path):
    frames = load(tmp_path, [row(), 5, {"other": 1}])
    assert frames["attempts"].height == 1
    assert frames["diagnostics"].filter(code="bad_row")["source_pos"].to_list() == [1, 2]


def test_secrets_are_dropped(tmp_path):
    frames = load(tmp_path, [row(records={"env": {"OPENAI_API_KEY": "sk-1", "model": "m"}, "max_tokens": 5})])
    (metadata,) = frames["attempts"]["metadata"].to_list()
    assert "sk-1" not in metadata
    assert "max_tokens" in metadata


def test_options_name_arm_tools_and_system(tmp_path):
    options = ReadOptions(arm="mine", tools='[{"name": "t"}]', system="S")
    frames = load(tmp_path, [row(traj=turns()[1:])], options=options)
    (attempt,) = frames["attempts"].to_dicts()
    assert (attempt["arm"], attempt["has_tools"], attempt["has_system_prompt"]) == ("mine", True, True)
    assert frames["tasks"]["system_prompt"].to_list() == ["S"]


def test_claims_by_content():
    assert SOURCE.claims_file(Look(Path("x"), json.dumps([crash()]).encode()))
    assert SOURCE.claims_file(Look(Path("x"), json.dumps([row()]).encode()[:64]))
    assert not SOURCE.claims_file(Look(Path("x"), json.dumps([row()]).encode()[:20]))
    assert not SOURCE.claims_file(Look(Path("x"), b'[{"prompt": "\\"reward\\": \\"traj\\"", "completion": []}]'))
    assert not SOURCE.claims_file(Look(Path("x"), b"[]"))


def test_too_large_a_file_is_a_diagnostic(tmp_path):
    frames = load(tmp_path, [row()], options=ReadOptions(max_file_bytes=10))
    assert "too_large" in codes(frames)


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_damage_never_raises(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("tau") / "x.json"
    blob = bytearray(json.dumps([row(), crash(), row(reward=0.5, task_id="z")]).encode())
    for _ in range(data.draw(st.integers(1, 6))):
        at = data.draw(st.integers(0, len(blob) - 1))
        kind = data.draw(st.sampled_from(["set", "cut", "drop"]))
        if kind == "set":
            blob[at] = data.draw(st.integers(0, 255))
        elif kind == "cut":
            blob = blob[: at + 1]
        else:
            del blob[at : at + data.draw(st.integers(1, 40))]
            blob = blob or bytearray(b"[")
    path.write_bytes(bytes(blob))
    found = Found()
    SOURCE.units(path, path.parent, found)
    frames = SOURCE.read(found.units, ReadOptions())
    assert frames["attempts"].height + frames["diagnostics"].height > 0


def test_read_of_nothing_gives_typed_frames():
    frames = SOURCE.read([], ReadOptions())
    assert all(frames[name].schema == table.schema for name, table in CORE.items())


def test_a_file_that_went_away_is_a_diagnostic(tmp_path):
    frames = SOURCE.read([Unit("tau_bench", tmp_path / "gone.json", "gone.json")], ReadOptions())
    assert codes(frames) == {"unreadable"}
