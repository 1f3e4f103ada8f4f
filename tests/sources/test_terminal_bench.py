from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from expcomp.sources._contract import Found, ReadOptions, Unit
from expcomp.sources._look import Look
from expcomp.sources.load import read_frames
from expcomp.sources.registry import discover
from expcomp.sources.rules import Rules
from expcomp.sources.status_map import LIMIT
from expcomp.sources.terminal_bench.reader import SOURCE
from expcomp.tables.core import CORE

HEADER = "trial_id,model_name,provider,task_name,n_input_tokens,n_output_tokens,total_tokens,execution_time_sec,success,reward"


def row(task="fix-it.easy", number=1, **more):
    out = {
        "id": f"uuid-{task}-{number}",
        "trial_name": f"{task}.{number}-of-2.run-7",
        "task_id": task,
        "instruction": f"do {task}",
        "is_resolved": True,
        "failure_mode": "unset",
        "parser_results": {"test_a": "passed", "test_b": "failed"},
        "recording_path": f"run-7/{task}/x/sessions/agent.cast",
        "total_input_tokens": 0,
        "total_output_tokens": 0,
        "trial_started_at": f"2026-01-0{number}T00:00:00+00:00",
        "trial_ended_at": f"2026-01-0{number}T00:01:00+00:00",
        "agent_started_at": f"2026-01-0{number}T00:00:10+00:00",
        "agent_ended_at": f"2026-01-0{number}T00:00:30+00:00",
    }
    return out | more


def run(*rows, **more):
    solved = sum(r.get("is_resolved") is True for r in rows if isinstance(r, dict))
    return {"id": "b", "results": list(rows), "n_resolved": solved, "n_unresolved": len(rows) - solved} | more


def write(folder, name, value):
    folder.mkdir(parents=True, exist_ok=True)
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    (folder / name).write_bytes(data)
    return folder / name


def load(tmp_path, value, **options):
    return read_frames([write(tmp_path, "results.json", value)], options=ReadOptions(**options))


def codes(frames):
    return set(frames["diagnostics"]["code"])


def test_a_row_is_an_attempt_without_transcript(tmp_path):
    frames = load(tmp_path, run(row(), row(number=2, is_resolved=False)))
    first, second = frames["attempts"].sort("trial").to_dicts()
    assert (first["trial"], second["trial"], first["trial_source"]) == (0, 1, "native")
    assert (first["passed"], second["passed"], first["score"], second["score"]) == (True, False, 1.0, 0.0)
    assert (first["run_id"], first["status"], first["duration_s"]) == ("run-7", "completed", 60.0)
    assert (first["has_transcript"], first["n_steps"], first["usage_basis"]) == (False, 0, "missing")
    assert json.loads(first["metadata"]) == {"agent_s": 20.0}
    (task,) = frames["tasks"].to_dicts()
    assert (task["task_id"], task["cluster"]) == ("terminal-bench/fix-it.easy", "fix-it")
    assert task["instruction"] == "do fix-it.easy"
    assert frames["artifacts"]["kind"].to_list() == ["recording", "recording"]
    assert codes(frames) == {"agent_unknown"}


def test_tests_are_grades(tmp_path):
    frames = load(tmp_path, run(row(parser_results={"a": "passed", "b": "failed", "c": "skipped"})))
    seen = {
        g["name"]: (g["kind"], g["value"], g["passed"], g["label"], g["valid"]) for g in frames["grades"].to_dicts()
    }
    assert seen == {
        "is_resolved": ("verifier", 1.0, True, None, True),
        "a": ("test", 1.0, True, "passed", True),
        "b": ("test", 0.0, False, "failed", True),
        "c": ("test", None, None, "skipped", False),
    }


@pytest.mark.parametrize("word", ["test_timeout", "parse_error", "agent_installation_failed"])
@pytest.mark.parametrize("resolved", [None, False, True])
def test_infrastructure_is_no_failure(tmp_path, word, resolved):
    frames = load(tmp_path, run(row(is_resolved=resolved, failure_mode=word)))
    (attempt,) = frames["attempts"].to_dicts()
    assert (attempt["status"], attempt["passed"], attempt["score_valid"]) == ("infra_error", None, False)
    assert codes(frames) & {"not_graded", "grade_voided"}


def test_resolved_after_a_time_out_is_valid(tmp_path):
    frames = load(tmp_path, run(row(failure_mode="agent_timeout")))
    (attempt,) = frames["attempts"].to_dicts()
    assert (attempt["status"], attempt["passed"], attempt["score_valid"]) == ("limit", True, True)


def test_a_word_that_no_table_has(tmp_path):
    value = run(row(failure_mode="cosmic_ray"))
    frames = load(tmp_path, value)
    assert frames["attempts"]["status"].to_list() == ["unknown"]
    assert "unknown_status" in codes(frames)
    rules = Rules()
    rules.statuses["terminal_bench"]["cosmic_ray"] = LIMIT
    assert load(tmp_path, value, rules=rules)["attempts"]["status"].to_list() == ["limit"]


@pytest.mark.parametrize(
    ("seen", "made", "expected"),
    [(0, 0, (None, None)), (None, None, (None, None)), (5, 7, (5, 7)), (5, 0, (5, 0)), ("5", True, (None, None))],
)
def test_zero_tokens_are_unknown(tmp_path, seen, made, expected):
    frames = load(tmp_path, run(row(total_input_tokens=seen, total_output_tokens=made)))
    assert frames["attempts"].select("input_tokens", "output_tokens").row(0) == expected


def test_companions_name_agent_model_and_dataset(tmp_path):
    meta = {
        "run_id": "named",
        "dataset_name": "core",
        "dataset_version": "0.1.1",
        "agent_name": "goose",
        "model_name": "anthropic/sonnet",
        "agent_kwargs": {"api_key": "sk-1", "effort": "high"},
        "username": "alice",
        "output_path": "/home/alice/runs",
        "n_concurrent_trials": 3,
        "commit_hash": "abc",
    }
    write(tmp_path, "run_metadata.json", meta)
    write(tmp_path, "tb.lock", {"agent": {"name": "x"}, "run_config": {"global_agent_timeout_sec": 9.0}})
    write(tmp_path, "results.json", run(row()))
    write(tmp_path / "fix-it.easy" / "fix-it.easy.1-of-2.run-7", "results.json", row())
    frames = read_frames([tmp_path])
    (attempt,) = frames["attempts"].to_dicts()
    assert (attempt["arm"], attempt["agent"], attempt["run_id"]) == ("goose/sonnet", "goose", "named")
    assert json.loads(attempt["params"]) == {"global_agent_timeout_sec": 9.0, "effort": "high"}
    assert attempt["task_id"] == "core/fix-it.easy"
    assert frames["tasks"]["dataset_version"].to_list() == ["0.1.1"]
    assert sorted(frames["evidence"]["ref"]) == ["results.json", "run_metadata.json", "tb.lock"]
    everything = "".join(frame.write_ndjson() for frame in frames.values())
    assert not any(word in everything for word in ("sk-1", "alice"))
    assert codes(frames) == set()


def test_trial_files_below_a_run_repeat_its_rows(tmp_path):
    folder = tmp_path / "fix-it.easy" / "fix-it.easy.1-of-2.run-7"
    write(folder, "results.json", row())
    write(tmp_path, "results.json", run(row(), row(number=2)))
    frames = read_frames([tmp_path])
    assert frames["attempts"].height == 2
    assert read_frames([folder])["attempts"].height == 1


def test_the_same_trial_twice_is_one_attempt(tmp_path):
    write(tmp_path / "a", "results.json", run(row()))
    write(tmp_path / "b", "results.json", run(row()))
    frames = read_frames([tmp_path])
    assert frames["attempts"].height == 1
    assert "duplicate_attempt" in codes(frames)


def test_header_sums_are_checked(tmp_path):
    frames = load(tmp_path, run(row(), n_resolved=5, n_unresolved=9))
    assert "header_mismatch" in codes(frames)
    assert "header_mismatch" in codes(load(tmp_path, run(row(), resolved_ids=["a", "b"])))
    assert "header_mismatch" not in codes(load(tmp_path, run(row(), row(number=2, is_resolved=None))))


def test_names_without_number(tmp_path):
    rows = [row(id=None, trial_name="odd", task_id="t"), row(id=None, trial_name=None, task_id="t")]
    attempts = load(tmp_path, run(*rows))["attempts"]
    assert attempts["trial"].to_list() == [0, 1]
    assert set(attempts["trial_source"]) == {"ordered"}


def test_the_task_may_stand_in_the_name_only(tmp_path):
    frames = load(tmp_path, run({k: v for k, v in row().items() if k != "task_id"}))
    assert frames["attempts"]["task_id"].to_list() == ["terminal-bench/fix-it.easy"]


def test_one_task_id_with_two_instructions(tmp_path):
    frames = load(tmp_path, run(row(), row(number=2, instruction="other")))
    assert frames["tasks"].height == 2
    assert set(frames["attempts"]["task_id"]) == set(frames["tasks"]["task_id"])
    assert "task_changed" in codes(frames)


def test_absolute_recording_paths_are_not_kept(tmp_path):
    frames = load(tmp_path, run(row(recording_path="/home/alice/x/agent.cast")))
    assert frames["artifacts"].select("name", "uri").row(0) == ("agent.cast", None)


def test_rows_that_are_none_are_left_out(tmp_path):
    frames = load(tmp_path, run(row(), 5, {"other": 1}, None))
    assert frames["attempts"].height == 1
    assert frames["diagnostics"].filter(code="bad_row")["source_pos"].to_list() == [1, 2, 3]


def test_a_cut_document_gives_the_rows_before_the_cut(tmp_path):
    text = json.dumps(run(row(), row(number=2), row("other"))).encode()
    frames = load(tmp_path, text[: text.rindex(b'"id": "uuid-other')])
    assert frames["attempts"].height == 2
    assert "bad_json" in codes(frames)


def test_naive_times_are_told(tmp_path):
    frames = load(tmp_path, run(row(trial_started_at="2026-01-01T00:00:00")))
    assert "naive_time" in codes(frames)


def test_metadata_of_a_run_alone_is_no_attempt(tmp_path):
    meta = {"run_id": "r", "agent_name": "a", "n_concurrent_trials": 1, "dataset_size": 3}
    write(tmp_path, "run_metadata.json", meta)
    frames = read_frames([tmp_path])
    assert frames["attempts"].is_empty()
    assert codes(frames) == {"no_attempt"}


# -- tables ------------------------------------------------------------------------------------------------------------


def table(*lines, header=HEADER):
    return ("\n".join([header, *lines]) + "\n").encode()


def load_table(tmp_path, data):
    return read_frames([write(tmp_path, "trials.csv", data)])


def test_a_table_of_trials(tmp_path):
    data = table(
        "t1,zai/GLM,together,fix-it,100,20,120,1.5,true,1.0",
        "t2,zai/GLM,together,fix-it,0,0,0,2.5,false,0.0",
        't3,zai/GLM,together,"other, task",,,,,,',
    )
    frames = load_table(tmp_path, data)
    first, second, third = frames["attempts"].to_dicts()
    assert (first["arm"], first["model"], first["model_provider"]) == ("GLM", "zai/GLM", "together")
    assert (first["input_tokens"], first["output_tokens"], first["duration_s"]) == (100, 20, 1.5)
    assert (second["input_tokens"], second["output_tokens"]) == (None, None)
    assert [a["passed"] for a in (first, second, third)] == [True, False, None]
    assert [a["score_valid"] for a in (first, second, third)] == [True, True, False]
    assert [a["trial"] for a in (first, second, third)] == [0, 1, 0]
    assert frames["tasks"]["task_id"].to_list() == ["terminal-bench/fix-it", "terminal-bench/other, task"]
    assert codes(frames) == {"score_missing"}


def test_columns_that_repeat_others_are_not_kept(tmp_path):
    frames = load_table(
        tmp_path,
        table(
            "t1,m,p,x,1,1,3,1.5,true,1.0,m,x,7",
            header=HEADER + ",model_name_perf,final_success,model_success_rate",
        ),
    )
    (metadata,) = frames["attempts"]["metadata"].to_list()
    assert json.loads(metadata) == {"final_success": "x", "model_success_rate": "7", "total_tokens": "3"}


def test_reward_and_success_may_disagree(tmp_path):
    frames = load_table(tmp_path, table("t1,m,p,x,1,1,2,1,false,1.0", "t2,m,p,x,1,1,2,1,true,0.5"))
    assert frames["attempts"]["passed"].to_list() == [True, None]
    assert codes(frames) == {"verdict_conflict"}


@pytest.mark.parametrize("reward", ["nan", "inf", "much", "7"])
def test_a_reward_that_is_no_reward(tmp_path, reward):
    frames = load_table(tmp_path, table(f"t1,m,p,x,1,1,2,1,true,{reward}"))
    (attempt,) = frames["attempts"].to_dicts()
    assert (attempt["passed"], attempt["score_valid"]) == (None, False)
    assert frames["diagnostics"].height == 1


def test_success_counts_where_there_is_no_reward(tmp_path):
    header = "trial_id,model_name,task_name,success"
    frames = load_table(tmp_path, table("a,m,t,True", "b,m,t,false", "c,m,t,", header=header))
    assert frames["attempts"]["passed"].to_list() == [True, False, None]


def test_broken_lines_of_a_table(tmp_path):
    data = b"\xef\xbb\xbf" + table(
        "t1,m,p,x,1,1,2,1,true,1.0", "t2,m,p", "", ",m,p,,1,1,2,1,true,1.0", "t\xff,m".ljust(3)
    )
    frames = load_table(tmp_path, data)
    assert frames["attempts"]["native_attempt_id"].to_list() == ["t1"]
    assert frames["diagnostics"].filter(code="bad_row")["source_pos"].to_list() == [1, 2, 3]


def test_a_cell_beyond_the_limit_costs_its_row(tmp_path):
    data = table(f"{'x' * 200_000},m,p,x,1,1,2,1,true,1.0", "t2,m,p,x,1,1,2,1,true,1.0")
    frames = load_table(tmp_path, data)
    assert frames["attempts"].height + frames["diagnostics"].filter(code="bad_row").height >= 2


# -- recognition and damage --------------------------------------------------------------------------------------------


def claims(data, name="x"):
    return SOURCE.claims_file(Look(Path(name), data))


def test_claims_by_content(tmp_path):
    text = json.dumps(run(row(), row())).encode()
    assert claims(text)
    assert claims(text[:1200])
    assert claims(json.dumps(row()).encode())
    assert claims(table("a,b"), "x.txt")
    assert not claims(b'{"results": [{"score": 1}]}')
    assert not claims(b'{"trial_name": "a", "task_id": "b"}')
    assert not claims(b"trial_id,other\n1,2\n")
    assert not claims(b"")
    assert not SOURCE.claims_folder(tmp_path, frozenset({"results.json"}))
    write(tmp_path, "results.json", {"results": []})
    assert not SOURCE.claims_folder(tmp_path, frozenset({"results.json", "tb.lock"}))


def test_a_run_folder_is_one_unit(tmp_path):
    write(tmp_path / "r", "results.json", run(row()))
    write(tmp_path / "r", "tb.lock", {})
    write(tmp_path / "r" / "t" / "t.1-of-1.r", "results.json", row())
    assert [u.package_id for u in discover([tmp_path]).units] == ["r/results.json"]


def test_nothing_in_it_is_told(tmp_path):
    write(tmp_path / "a", "results.json", run(row()))
    write(tmp_path / "b", "results.json", {"results": [], "n_resolved": 0})
    write(tmp_path / "b", "table.csv", table())
    for name in ("results.json", "table.csv"):
        frames = read_frames([tmp_path / "a", tmp_path / "b" / name], format="terminal_bench")
        assert frames["attempts"].height == 1
        assert "no_attempt" in codes(frames)


def test_inside_an_archive(tmp_path):
    with zipfile.ZipFile(tmp_path / "runs.zip", "w") as archive:
        archive.writestr("tb/results.json", json.dumps(run(row())))
        archive.writestr("tb/tb.lock", json.dumps({"agent": {"name": "g"}}))
    frames = read_frames([tmp_path / "runs.zip"])
    assert frames["attempts"]["agent"].to_list() == ["g"]
    assert codes(frames) == set()


@pytest.mark.parametrize("value", [b"", b"[1]", b'{"results": 3}', b"a,b\n1,2\n", b"\x00\x01", b"{", b"null"])
def test_forced_on_something_else_is_a_diagnostic(tmp_path, value):
    write(tmp_path, "x.json", value)
    frames = read_frames([tmp_path], format="terminal_bench")
    assert frames["attempts"].is_empty()
    assert frames["diagnostics"].height >= 1


def test_companions_that_are_broken_are_told(tmp_path):
    write(tmp_path, "results.json", run(row()))
    write(tmp_path, "tb.lock", b"[1]")
    write(tmp_path, "run_metadata.json", b"{")
    frames = read_frames([tmp_path])
    assert {"bad_companion", "bad_json"} <= codes(frames)
    assert frames["attempts"].height == 1


def test_read_of_nothing_gives_typed_frames(tmp_path):
    frames = SOURCE.read([], ReadOptions())
    assert all(frames[name].schema == t.schema for name, t in CORE.items())
    frames = SOURCE.read([Unit("terminal_bench", tmp_path / "gone", "gone")], ReadOptions())
    assert codes(frames) == {"unreadable"}


def read(path):
    found = Found()
    SOURCE.units(path, path.parent, found)
    return SOURCE.read(found.units, ReadOptions())


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_values_of_any_type_never_raise(tmp_path_factory, data):
    value = run(row(), row(number=2), row("b"))
    value["results"] += [data.draw(JSON)]
    meta = {"run_id": "r", "agent_name": "a", "model_name": "m", "agent_kwargs": {"x": 1}, "dataset_name": "d"}
    lock = {"dataset": {"name": "d"}, "agent": {"name": "a"}, "run_config": {"global_x": 1}, "local_config": {}}
    places = [value, *value["results"][:3], meta, lock]
    for _ in range(data.draw(st.integers(1, 5))):
        place = data.draw(st.sampled_from(places))
        place[data.draw(st.sampled_from(sorted(place)))] = data.draw(JSON)
    folder = tmp_path_factory.mktemp("tb")
    write(folder, "run_metadata.json", meta)
    write(folder, "tb.lock", lock)
    frames = read(write(folder, "results.json", value))
    rows = value["results"] if isinstance(value["results"], list) else []
    left_out = frames["diagnostics"].filter(code="bad_row").height
    assert frames["attempts"].height + left_out == len(rows) or not isinstance(value["results"], list)
    assert frames["attempts"].height + frames["diagnostics"].height > 0


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_damage_never_raises(tmp_path_factory, data):
    whole = data.draw(
        st.sampled_from([json.dumps(run(row(), row(number=2))).encode(), table("t1,m,p,x,1,1,2,1,true,1.0")])
    )
    blob = bytearray(whole)
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, max(len(blob) - 2, 0)))
        blob[at : at + data.draw(st.integers(0, 8))] = data.draw(st.binary(max_size=3))
    frames = read(write(tmp_path_factory.mktemp("tb"), "x", bytes(blob)))
    assert frames["attempts"].height + frames["diagnostics"].height > 0
