from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from expcomp.sources._contract import ReadOptions
from expcomp.sources.errors_map import class_in_traceback, classify
from expcomp.sources.harbor._files import wanted
from expcomp.sources.load import read_frames
from expcomp.tables.core import CORE

START = "2026-01-01T00:00:0{}Z"
TRAJECTORY = {
    "schema_version": "ATIF-v1.7",
    "session_id": "s",
    "agent": {"name": "codex", "version": "1", "model_name": "m"},
    "steps": [
        {"step_id": 1, "source": "user", "message": "<environment_context></environment_context>"},
        {"step_id": 2, "source": "user", "message": "count"},
        {
            "step_id": 3,
            "source": "agent",
            "message": "",
            "tool_calls": [{"tool_call_id": "c", "function_name": "sh", "arguments": {"cmd": "ls"}}],
            "observation": {"results": [{"source_call_id": "c", "content": "x"}]},
            "metrics": {"prompt_tokens": 5, "completion_tokens": 2},
        },
    ],
}


def result(name="t__a", rewards=None, *, start=0, **more):
    return {
        "id": name,
        "task_name": name.rpartition("__")[0],
        "trial_name": name,
        "trial_uri": f"file:///home/someone/{name}",
        "source": "set",
        "task_checksum": "abc",
        "config": {
            "trials_dir": "jobs/the-job",
            "agent": {"name": "codex", "kwargs": {"effort": "high", "api_key": "sk-1"}},
            "timeout_multiplier": 2.0,
        },
        "agent_info": {"name": "codex", "version": "1", "model_info": {"name": "m", "provider": "p"}},
        "agent_result": {"n_input_tokens": 50, "n_cache_tokens": None, "n_output_tokens": 6, "cost_usd": 0.25},
        "verifier_result": None if rewards is None else {"rewards": rewards},
        "exception_info": None,
        "started_at": START.format(start),
        "finished_at": START.format(start + 2),
        "step_results": None,
    } | more


def write(path: Path, value):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(value if isinstance(value, bytes) else json.dumps(value).encode())


def trial(job: Path, name="t__a", rewards=None, *, trajectory=TRAJECTORY, **more):
    rewards = {"reward": 1} if rewards is None else rewards
    write(job / name / "result.json", result(name, rewards or None, **more))
    if rewards:
        write(job / name / "verifier" / "reward.json", rewards)
    if trajectory is not None:
        write(job / name / "agent" / "trajectory.json", trajectory)
    return job / name


def job(tmp_path, total=1):
    folder = tmp_path / "jobs" / "j1"
    write(folder / "config.json", {"job_name": "j1"})
    write(folder / "result.json", {"n_total_trials": total, "stats": {"evals": {}}})
    return folder


def codes(frames):
    return set(frames["diagnostics"]["code"])


def one(frames):
    (attempt,) = frames["attempts"].to_dicts()
    return attempt


def error(kind):
    return {"exception_type": kind, "exception_message": "boom", "exception_traceback": "/home/someone/x.py"}


def test_a_trial_becomes_an_attempt(tmp_path):
    trial(job(tmp_path), rewards={"reward": 1, "tests_passed": 0.5})
    frames = read_frames([tmp_path])
    attempt = one(frames)
    assert attempt["task_id"] == "set/t"
    assert attempt["package_id"] == "jobs/j1/t__a"
    assert attempt["source_uri"] == "jobs/j1/t__a/result.json"
    assert (attempt["run_id"], attempt["arm"], attempt["model"]) == ("j1", "codex@1/m", "m")
    assert (attempt["score"], attempt["score_norm"], attempt["passed"], attempt["status"]) == (1, 1, True, "completed")
    assert (attempt["input_tokens"], attempt["cost_usd"], attempt["usage_basis"]) == (50, 0.25, "reported")
    assert (attempt["duration_s"], attempt["trial"], attempt["trial_source"]) == (2.0, 0, "ordered")
    assert (attempt["trace_ref"], attempt["grade_ref"]) == ("agent/trajectory.json", "verifier/reward.json")
    assert frames["tasks"]["instruction"].to_list() == ["count"]
    assert frames["tasks"]["task_digest"].to_list() == ["abc"]
    assert set(frames["evidence"]["ref"]) == {"result.json", "agent/trajectory.json", "verifier/reward.json"}
    grades = {g["name"]: g for g in frames["grades"].to_dicts()}
    assert grades["reward"]["is_primary"]
    assert (grades["tests_passed"]["value"], grades["tests_passed"]["passed"]) == (0.5, None)
    text = "".join(frame.write_ndjson() for frame in frames.values())
    assert "sk-1" not in text
    assert "/home/someone" not in text
    for name, table in CORE.items():
        for rule, expr in table.all_rules().items():
            assert frames[name].filter(~expr).is_empty(), rule


def test_load_roots(tmp_path):
    folder = job(tmp_path)
    path = trial(folder)
    assert one(read_frames([folder]))["package_id"] == "j1/t__a"
    alone = one(read_frames([path]))
    assert (alone["package_id"], alone["run_id"]) == ("t__a", "the-job")
    given = one(read_frames([path / "result.json"]))
    assert (given["package_id"], given["has_transcript"], given["passed"]) == ("result.json", False, True)


@pytest.mark.parametrize(
    ("kind", "rewards", "status", "passed", "valid", "issue"),
    [
        ("TypeError", {}, "infra_error", None, False, "score_missing"),
        ("AgentTimeoutError", {"reward": 1}, "limit", True, True, None),
        ("AgentTimeoutError", {"reward": 0}, "limit", False, True, None),
        ("AgentTimeoutError", {}, "limit", None, False, "score_missing"),
        ("VerifierTimeoutError", {"reward": 0}, "infra_error", None, False, "infrastructure"),
        ("AuthenticationError", {"reward": 0}, "infra_error", None, False, "infrastructure"),
        ("KeyError", {"reward": 0}, "agent_error", False, True, None),
        ("CancelledError", {}, "cancelled", None, False, "score_missing"),
    ],
)
def test_exception_and_reward(tmp_path, kind, rewards, status, passed, valid, issue):
    trial(job(tmp_path), rewards=rewards, exception_info=error(kind))
    attempt = one(read_frames([tmp_path]))
    assert (attempt["status"], attempt["passed"], attempt["score_valid"]) == (status, passed, valid)
    assert (attempt["score_issue"], attempt["error_type"]) == (issue, kind)


def test_the_word_of_the_harness_decides(tmp_path):
    trial(job(tmp_path), reward_valid=False)
    attempt = one(read_frames([tmp_path]))
    assert (attempt["score"], attempt["passed"], attempt["score_issue"]) == (1, None, "reward_invalid")


@pytest.mark.parametrize(
    ("rewards", "score", "norm", "passed", "valid"),
    [
        ({"reward": 0.5}, 0.5, 0.5, None, True),
        ({"reward": 7}, 7.0, None, None, True),
        ({"accuracy": 1}, 1.0, None, None, True),
        ({"a": 1, "b": 0}, None, None, None, False),
        ({"reward": "high"}, None, None, None, False),
    ],
)
def test_rewards(tmp_path, rewards, score, norm, passed, valid):
    trial(job(tmp_path), rewards=rewards)
    attempt = one(read_frames([tmp_path]))
    assert (attempt["score"], attempt["score_norm"], attempt["passed"]) == (score, norm, passed)
    assert attempt["score_valid"] is valid


def test_a_missing_reward_key_is_reported(tmp_path):
    trial(job(tmp_path), rewards={"a": 1, "b": 0})
    frames = read_frames([tmp_path])
    assert "missing_reward_key" in codes(frames)
    assert not frames["grades"]["is_primary"].any()


def test_reward_that_is_not_a_number_of_json(tmp_path):
    folder = job(tmp_path)
    path = trial(folder)
    data = json.dumps(result("t__a", {"reward": float("nan")}))
    (path / "result.json").write_text(data)
    attempt = one(read_frames([tmp_path]))
    assert (attempt["score"], attempt["score_issue"]) == (None, "score_not_finite")


def test_a_reward_file_without_a_reward_in_the_result_does_not_count(tmp_path):
    path = trial(job(tmp_path), rewards={})
    write(path / "verifier" / "reward.txt", b"1")
    frames = read_frames([tmp_path])
    assert {"not_graded", "reward_file_unused"} <= codes(frames)
    assert one(frames)["score_valid"] is False


def test_trials_missing_from_a_job(tmp_path):
    folder = job(tmp_path, total=3)
    trial(folder)
    (folder / "t__b").mkdir()
    write(folder / "t__b" / "config.json", {"trial_name": "t__b"})
    frames = read_frames([tmp_path])
    assert {"missing_trial", "trial_without_result"} <= codes(frames)
    assert frames["attempts"].height == 1


def test_a_broken_result_costs_one_trial(tmp_path):
    folder = job(tmp_path, total=2)
    trial(folder)
    data = json.dumps(result("t__b", {"reward": 1}))
    write(folder / "t__b" / "result.json", data[:-20].encode())
    frames = read_frames([tmp_path])
    assert frames["attempts"].height == 1
    (found,) = frames["diagnostics"].filter(code="bad_json").to_dicts()
    assert found["source_uri"] == "jobs/j1/t__b/result.json"


def test_trials_are_numbered_by_start(tmp_path):
    folder = job(tmp_path, total=3)
    for name, start in (("t__a", 5), ("t__b", 1), ("t__c", 3)):
        trial(folder, name, start=start)
    attempts = read_frames([tmp_path])["attempts"]
    assert dict(attempts.select("native_attempt_id", "trial").rows()) == {"t__a": 2, "t__b": 0, "t__c": 1}


def test_times_without_zone_or_reversed(tmp_path):
    folder = job(tmp_path, total=2)
    trial(folder, "t__a", started_at="2026-01-01T00:00:00", finished_at="2026-01-01T00:00:01")
    trial(folder, "t__b", finished_at="2025-01-01T00:00:01Z")
    frames = read_frames([tmp_path])
    assert {"naive_time", "times_reversed"} <= codes(frames)
    assert frames["attempts"]["duration_s"].to_list() == [1.0, None]


def test_steps_of_a_multi_step_task(tmp_path):
    steps = [
        {"step_name": "one", "verifier_result": {"rewards": {"reward": 1}}, "exception_info": None},
        {"step_name": "two", "verifier_result": None, "exception_info": error("AgentTimeoutError")},
    ]
    path = trial(job(tmp_path), trajectory=None, step_results=steps)
    for name in ("one", "two"):
        write(path / "steps" / name / "agent" / "trajectory.json", TRAJECTORY)
    frames = read_frames([tmp_path])
    attempt = one(frames)
    assert (attempt["status"], attempt["passed"], attempt["error_type"]) == ("limit", True, "AgentTimeoutError")
    assert "step_exception" in codes(frames)
    assert set(frames["grades"]["name"]) == {"reward", "one/reward"}
    assert frames["steps"]["step_index"].to_list() == list(range(6))
    assert frames["messages"]["context_id"].to_list() == [0] * 4 + [1] * 4
    assert attempt["trace_ref"] == "steps/one/agent/trajectory.json"


def test_reported_tests_are_grades(tmp_path):
    path = trial(job(tmp_path))
    tests = [{"name": "a", "status": "passed"}, {"name": "b", "status": "failed"}, {"name": "c", "status": "skipped"}]
    write(path / "verifier" / "ctrf.json", {"results": {"tool": {"name": "pytest"}, "tests": tests}})
    grades = read_frames([tmp_path])["grades"].filter(kind="test")
    assert grades["value"].to_list() == [1.0, 0.0, None]
    assert grades["valid"].to_list() == [True, True, False]


def test_a_continuation_inside_a_trial_belongs_to_it(tmp_path):
    first = TRAJECTORY | {"continued_trajectory_ref": "trajectory.cont-1.json"}
    path = trial(job(tmp_path), trajectory=first)
    copied = [s | {"is_copied_context": True} for s in TRAJECTORY["steps"][:2]]
    write(path / "agent" / "trajectory.cont-1.json", TRAJECTORY | {"steps": [*copied, TRAJECTORY["steps"][2]]})
    frames = read_frames([tmp_path])
    assert one(frames)["n_steps"] == 2
    assert frames["messages"]["context_id"].max() == 1


def test_native_sessions_and_links_are_left_alone(tmp_path):
    path = trial(job(tmp_path))
    write(path / "agent" / "sessions" / "x.jsonl", b'{"type": "session_meta"}\n')
    (path / "verifier" / "link.txt").symlink_to(path / "result.json")
    frames = read_frames([tmp_path])
    assert frames["attempts"].height == 1
    assert "not_recognised" not in codes(frames)
    assert "link.txt" not in frames["artifacts"]["name"].to_list()


def test_only_the_folders_that_are_read_are_listed(tmp_path):
    folder = trial(job(tmp_path), "t__a")
    names = [
        "agent/a.log", "agent/a.bin", "agent/setup/b.log", "agent/trajectory.summary.json", "artifacts/manifest.json",
        "artifacts/deep/out.txt", "config.json", "other/x.txt", "steps/one/agent/c.txt", "steps/one/artifacts/manifest.json",
        "steps/one/artifacts/y", "steps/one/result.json", "steps/one/verifier/deep/z", "trial.log", "verifier/ctrf.json",
    ]  # fmt: skip
    for name in names:
        write(folder / name, b"{}")
    kept = [
        "agent/a.log", "agent/trajectory.json", "agent/trajectory.summary.json", "artifacts/deep/out.txt", "result.json",
        "steps/one/agent/c.txt", "steps/one/artifacts/y", "steps/one/verifier/deep/z", "trial.log", "verifier/ctrf.json",
        "verifier/reward.json",
    ]  # fmt: skip
    assert [ref for ref, _ in wanted(str(folder))] == kept
    assert {path for _, path in wanted(str(folder))} == {str(folder / ref) for ref in kept}


def test_a_folder_that_cannot_be_listed_costs_its_files(tmp_path, monkeypatch):
    folder = trial(job(tmp_path), "t__a")

    def refuse(_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("expcomp.sources.harbor._trial.wanted", refuse)
    frames = read_frames([folder])
    assert one(frames)["score"] == 1
    assert "unreadable" in codes(frames)


def test_a_job_and_a_task_in_an_archive_read_as_their_folders(tmp_path):
    folder = job(tmp_path, total=2)
    trial(folder, "t__a")
    trial(folder, "t__b", start=3)
    write(tmp_path / "jobs" / "set" / "t" / "task.toml", b'[metadata]\ncategory = "c"')
    write(tmp_path / "jobs" / "set" / "t" / "instruction.md", b"count")
    with zipfile.ZipFile(tmp_path / "packed.zip", "w") as packed:
        for path in sorted((tmp_path / "jobs").rglob("*")):
            packed.write(path, path.relative_to(tmp_path / "jobs"))
    inside, outside = read_frames([tmp_path / "packed.zip"]), read_frames([tmp_path / "jobs"])
    for name in ("attempts", "grades", "tasks", "artifacts"):
        assert inside[name].height == outside[name].height > 0 or name == "artifacts", name
    for name in ("content", "source", "started_at", "input_tokens"):
        assert inside["steps"][name].to_list() == outside["steps"][name].to_list()
    assert inside["tasks"]["domain"].to_list() == outside["tasks"]["domain"].to_list()


def test_oracle_has_no_transcript(tmp_path):
    trial(job(tmp_path), trajectory=None, agent_result=None, agent_info={"name": "oracle", "version": "1"})
    attempt = one(read_frames([tmp_path]))
    assert (attempt["input_tokens"], attempt["usage_basis"]) == (None, "missing")
    assert (attempt["arm"], attempt["has_transcript"]) == ("oracle@1", False)


def test_task_folders_describe_the_same_tasks(tmp_path):
    trial(job(tmp_path), source="tasks")
    write(tmp_path / "tasks" / "t" / "task.toml", b'[metadata]\ncategory = "shell"\n')
    write(tmp_path / "tasks" / "t" / "instruction.md", b"Count them.\n")
    write(tmp_path / "tasks" / "t" / "tests" / "test.json", b"{}")
    frames = read_frames([tmp_path])
    (task,) = frames["tasks"].to_dicts()
    assert (task["task_id"], task["instruction"], task["domain"]) == ("tasks/t", "Count them.\n", "shell")
    assert task["task_digest"] == "abc"
    alone = read_frames([tmp_path / "tasks" / "t"])
    assert alone["tasks"]["task_id"].to_list() == ["tasks/t"]
    assert "no_attempt" in codes(alone)


def test_a_broken_task_file_is_a_diagnostic(tmp_path):
    write(tmp_path / "tasks" / "t" / "task.toml", b"[[[")
    write(tmp_path / "tasks" / "t" / "instruction.md", b"x")
    assert "bad_toml" in codes(read_frames([tmp_path]))


def test_tasks_of_one_name_and_two_contents(tmp_path):
    folder = job(tmp_path, total=2)
    trial(folder, "t__a")
    trial(folder, "t__b", task_checksum="xyz")
    frames = read_frames([tmp_path])
    assert set(frames["attempts"]["task_id"]) == {"set/t@abc", "set/t@xyz"} == set(frames["tasks"]["task_id"])
    assert frames["attempts"]["trial"].to_list() == [0, 0]


def test_a_job_without_result_is_read(tmp_path):
    folder = job(tmp_path)
    (folder / "result.json").unlink()
    trial(folder)
    frames = read_frames([tmp_path])
    assert frames["attempts"].height == 1
    assert "job_without_result" in codes(frames)


def test_a_broken_trajectory_costs_the_transcript(tmp_path):
    trial(job(tmp_path), trajectory=b'{"steps": [')
    frames = read_frames([tmp_path])
    assert (one(frames)["passed"], one(frames)["has_transcript"]) == (True, False)
    assert "bad_json" in codes(frames)


IDS = {"prompt_token_ids": [[1, 2]], "completion_token_ids": [[3]], "logprobs": [[-0.5]]}


@pytest.mark.parametrize(
    ("details", "ids", "told"),
    [
        ([IDS], ([1, 2], [3], [-0.5]), None),
        ([{"prompt_token_ids": [[1, 2]]}, IDS], ([1, 2], None, None), "of 1 other agents is not read"),
        (
            [IDS | {"completion_token_ids": [[3], [4]]}],
            (None, None, None),
            "tells of 2 model calls, the trajectory of 1",
        ),
        ([IDS | {"prompt_token_ids": [["a"]]}], (None, None, None), "prompt_token_ids is not one list of numbers"),
        ([7], (None, None, None), "tells of 0 model calls"),
    ],
)
def test_token_ids_of_the_result_go_to_the_steps_of_the_model(tmp_path, details, ids, told):
    trial(job(tmp_path), agent_result={"rollout_details": details})
    frames = read_frames([tmp_path])
    step = frames["steps"].filter(source="agent").to_dicts()[0]
    assert (step["prompt_token_ids"], step["completion_token_ids"], step["logprobs"]) == ids
    found = [d["detail"] for d in frames["diagnostics"].to_dicts() if d["code"] == "rollout_details_unused"]
    assert [told in d for d in found] == ([True] if told else [])


def test_error_classes():
    assert classify("litellm.exceptions.RateLimitError", graded=False).status == "infra_error"
    assert classify(None, graded=True).status == "agent_error"
    trace = "Traceback (most recent call last):\n  File x\na.b.SomeError: text\nOther: words\n  more"
    assert class_in_traceback(trace) == "SomeError"
    assert class_in_traceback(None) is None
    assert class_in_traceback("no trace at all, only words") is None


def test_options(tmp_path):
    trial(job(tmp_path), rewards={"reward": 3})
    attempt = one(read_frames([tmp_path], options=ReadOptions(arm="x", score_scale=(0, 4))))
    assert (attempt["arm"], attempt["score_norm"], attempt["passed"]) == ("x", 0.75, None)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_values_of_any_type_never_raise(tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("harbor")
    value = result("t__a", {"reward": 1})
    places = [value, value["config"], value["agent_info"], value["agent_result"], value["verifier_result"]]
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.sampled_from(places))
        key = data.draw(st.sampled_from(sorted(set(place) - {"trial_name"})))
        place[key] = data.draw(JSON)
    write(job(folder) / "t__a" / "result.json", value)
    frames = read_frames([folder])
    assert frames["attempts"].height == 1
