"""What is decided over a whole load: options, scales, trials, copies, links (R3, R4, R10, R11, R12)."""

from __future__ import annotations

from datetime import UTC, datetime

import polars as pl
import pytest

from expcomp.errors import UsageError
from expcomp.sources._columns import frame_of
from expcomp.sources._contract import ReadOptions
from expcomp.sources.finish import settle_frames
from expcomp.sources.rules import Rules, Scale
from expcomp.tables.core import CORE


def attempt(ident, **more):
    return {
        "attempt_id": ident,
        "package_id": f"p/{ident}",
        "status": "completed",
        "relation": "root",
        "has_transcript": True,
        "has_system_prompt": False,
        "has_tools": False,
        "source_format": "claude_code",
        "source_uri": f"p/{ident}",
        "trial_source": "unknown",
    } | more


def load(options=None, **rows):
    frames = {name: frame_of(rows.get(name, []), table.schema) for name, table in CORE.items()}
    return settle_frames(frames, options or ReadOptions())


def at(second):
    return datetime(2026, 1, 1, 0, 0, second, tzinfo=UTC)


def column(frames, name):
    return dict(frames["attempts"].select("attempt_id", name).rows())


def codes(frames):
    return frames["diagnostics"]["code"].to_list()


def test_trials_follow_the_start_within_run_arm_and_task():
    rows = [
        attempt("a", task_id="t", arm="x", started_at=at(2)),
        attempt("b", task_id="t", arm="x", started_at=at(1)),
        attempt("c", task_id="t", arm="y", started_at=at(3)),
        attempt("d"),
    ]
    frames = load(attempts=rows)
    assert column(frames, "trial") == {"a": 1, "b": 0, "c": 0, "d": None}
    assert column(frames, "trial_source")["a"] == "ordered"


def test_without_all_times_position_counts_and_says_so():
    rows = [attempt("b", task_id="t", started_at=at(2)), attempt("a", task_id="t")]
    frames = load(attempts=rows)
    assert column(frames, "trial") == {"a": 0, "b": 1}
    assert set(frames["attempts"]["trial_source"]) == {"unknown"}


def test_runs_are_trials_where_a_run_holds_one_attempt_a_task():
    rows = [attempt(i, task_id="t", arm="m", run_id=f"run_{i}", source_format="mini_swe_agent") for i in "ab"]
    assert column(load(attempts=rows), "trial") == {"a": 0, "b": 1}


def test_trajectories_and_bare_verdicts_of_an_arm_are_trials_of_one_series():
    formats = {"a": "mini_swe_agent", "b": "swe_bench_report"}
    rows = [attempt(i, task_id="t", arm="m", run_id=f"run_{i}", source_format=f) for i, f in formats.items()]
    assert column(load(attempts=rows), "trial") == {"a": 0, "b": 1}


def test_native_numbers_stay_unless_they_are_double():
    rows = [attempt(i, task_id="t", run_id="r", trial=n, trial_source="native") for i, n in (("a", 4), ("b", 7))]
    assert column(load(attempts=rows), "trial") == {"a": 4, "b": 7}
    rows = [
        attempt(i, task_id="t", run_id="r", trial=4, trial_source="native", started_at=at(n))
        for n, i in enumerate("ab")
    ]
    frames = load(attempts=rows)
    assert column(frames, "trial") == {"a": 0, "b": 1}
    assert codes(frames) == ["duplicate_trial"] * 2


def test_an_attempt_that_is_loaded_twice_counts_once():
    message = {"attempt_id": "a", "message_index": 0, "role": "user", "origin": "human", "content": "hi"}
    grade = {"attempt_id": "a", "name": "r", "kind": "test", "is_primary": True, "valid": True}
    frames = load(attempts=[attempt("a"), attempt("a")], messages=[message, message], grades=[grade, grade])
    assert frames["attempts"].height == frames["messages"].height == frames["grades"].height == 1
    assert codes(frames) == ["duplicate_attempt"]


def test_links_go_to_attempts_of_the_load_and_roots_are_the_top():
    rows = [
        attempt("child", parent_attempt_id="mid", relation="subagent"),
        attempt("mid", parent_attempt_id="top", relation="subagent"),
        attempt("top"),
        attempt("lost", parent_attempt_id="elsewhere", relation="subagent", root_attempt_id="elsewhere"),
    ]
    frames = load(attempts=rows)
    assert column(frames, "root_attempt_id") == {"child": "top", "mid": "top", "top": "top", "lost": "lost"}
    assert column(frames, "parent_attempt_id")["lost"] is None
    assert codes(frames) == ["parent_not_loaded"]


def test_parents_in_a_circle_do_not_hang():
    rows = [attempt("a", parent_attempt_id="b"), attempt("b", parent_attempt_id="a")]
    assert load(attempts=rows)["attempts"].height == 2


def step(ident, index, call, **more):
    return {
        "attempt_id": ident,
        "step_index": index,
        "source": "agent",
        "llm_call_id": call,
        "is_copied_context": False,
        "trainable": True,
        "tool_calls": [],
        "output_tokens": 5,
    } | more


def test_history_that_a_resume_copied_is_marked_and_not_counted_again():
    rows = [
        attempt("new", started_at=at(9), output_tokens=15, n_steps=3, usage_basis="summed"),
        attempt("old", started_at=at(1), output_tokens=10, n_steps=2, usage_basis="summed"),
    ]
    steps = [
        step("new", 0, "m1"),
        step("new", 1, "m2"),
        step("new", 2, "m3"),
        step("old", 0, "m1"),
        step("old", 1, "m2"),
    ]
    frames = load(attempts=rows, steps=steps)
    marks = frames["steps"].select("attempt_id", "llm_call_id", "is_copied_context", "trainable").rows()
    assert marks == [
        ("new", "m1", True, False),
        ("new", "m2", True, False),
        ("new", "m3", False, True),
        ("old", "m1", False, True),
        ("old", "m2", False, True),
    ]
    assert column(frames, "output_tokens") == {"new": 5, "old": 10}
    assert column(frames, "n_steps") == {"new": 1, "old": 2}
    assert column(frames, "relation")["new"] == "continuation"
    assert codes(frames) == ["copied_history"]


def test_a_resume_that_kept_the_old_times_is_the_one_that_ended_later():
    rows = [attempt("aa", started_at=at(1), ended_at=at(9)), attempt("zz", started_at=at(1), ended_at=at(3))]
    frames = load(attempts=rows, steps=[step("aa", 0, "m1"), step("aa", 1, "m2"), step("zz", 0, "m1")])
    assert column(frames, "relation") == {"aa": "continuation", "zz": "root"}


def test_equal_call_ids_of_two_projects_are_no_copies():
    rows = [attempt("a", package_id="one/a"), attempt("b", package_id="two/b")]
    frames = load(attempts=rows, steps=[step("a", 0, "m1"), step("b", 0, "m1")])
    assert not frames["steps"]["is_copied_context"].any()


def test_options_fill_what_is_missing():
    options = ReadOptions(tools='[{"name": "t"}]', system="S", arm="mine", task_id="T", trial=2)
    rows = [attempt("a"), attempt("b", task_id="own", system_prompt="P", has_system_prompt=True, arm="x")]
    frames = load(options, attempts=rows)
    assert column(frames, "task_id") == {"a": "T", "b": "own"}
    assert column(frames, "arm") == {"a": "mine", "b": "mine"}
    assert column(frames, "trial") == {"a": 2, "b": 2}
    assert column(frames, "system_prompt") == {"a": "S", "b": "P"}
    assert column(frames, "tools")["a"] == '[{"name": "t"}]'
    assert frames["attempts"]["has_tools"].all()
    assert "T" in frames["tasks"]["task_id"].to_list()


def test_formats_of_rows_take_names_themselves():
    options = ReadOptions(arm="column", task_id="column")
    frames = load(options, attempts=[attempt("a", source_format="openai_chat", arm="x")])
    assert column(frames, "arm") == {"a": "x"}
    assert column(frames, "task_id") == {"a": None}


SCORED = {"score": 1.5, "score_valid": True}


@pytest.mark.parametrize(
    ("options", "norm", "passed", "valid"),
    [
        (ReadOptions(), None, None, True),
        (ReadOptions(score_scale=(0, 2)), 0.75, None, True),
        (ReadOptions(score_scale=(0, 1)), None, None, False),
        (ReadOptions(rules=Rules(scores={"verifiers": Scale(0, 3, 1.5)})), 0.5, True, True),
        (ReadOptions(rules=Rules(scores={"verifiers": Scale(passes=2)})), None, False, True),
        (ReadOptions(rules=Rules(scores={"verifiers/w": Scale(0, 6), "verifiers": Scale(0, 3)})), 0.25, None, True),
    ],
)
def test_scale_and_threshold_come_from_the_user_only(options, norm, passed, valid):
    frames = load(options, attempts=[attempt("a", source_format="verifiers", task_id="w/x/1", **SCORED)])
    (row,) = frames["attempts"].to_dicts()
    assert (row["score_norm"], row["passed"], row["score_valid"]) == (norm, passed, valid)
    assert row["score"] == 1.5


def test_a_scale_that_the_source_gives_stays():
    row = attempt(
        "a", source_format="verifiers", score=0.5, score_valid=True, score_min=0.0, score_max=1.0, score_norm=0.5
    )
    frames = load(ReadOptions(score_scale=(0, 2)), attempts=[row])
    assert column(frames, "score_norm") == {"a": 0.5}


def test_a_task_of_several_files_is_one_row_with_all_that_is_known():
    tasks = [{"task_id": "t", "instruction": None, "domain": "d"}, {"task_id": "t", "instruction": "do"}]
    frames = load(tasks=tasks)
    assert frames["tasks"].select("task_id", "instruction", "domain").rows() == [("t", "do", "d")]


def test_finished_frames_keep_their_schema():
    frames = load(attempts=[attempt("a")])
    for name, table in CORE.items():
        assert frames[name].schema == table.schema, name
    assert isinstance(frames["steps"], pl.DataFrame)


@pytest.mark.parametrize("trial", [-1, 2**40, str(2**31)])
def test_a_trial_that_no_column_holds_is_a_mistake_of_the_user(trial):
    with pytest.raises(UsageError, match="trial"):
        ReadOptions(trial=trial)
