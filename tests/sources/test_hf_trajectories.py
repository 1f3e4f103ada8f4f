from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from expcomp.sources._look import Look
from expcomp.sources.load import read_frames
from expcomp.sources.registry import SOURCES
from expcomp.sources.rules import Rules
from tests.sources._chat_files import BOT, SYSTEM, USER, attempt, codes, detail, formats, messages, read, steps

TURNS = [SYSTEM, USER, BOT]
ROW = {
    "messages": TURNS,
    "instance_id": "o__r-1",
    "resolved": True,
    "model": "m",
    "traj_id": "o__r-1.x",
    "patch": "diff",
}


def test_a_row_with_a_verdict(tmp_path):
    frames = read(tmp_path / "a.jsonl", [ROW, ROW | {"resolved": False, "traj_id": "o__r-1.y"}])
    first, second = frames["attempts"].to_dicts()
    assert first["source_format"] == "hf_trajectories"
    assert [(r["passed"], r["score"], r["score_valid"]) for r in (first, second)] == [
        (True, 1.0, True),
        (False, 0.0, True),
    ]
    assert (first["task_id"], first["arm"], first["model"]) == ("o__r-1", "m", "m")
    assert [r["trace_id"] for r in (first, second)] == ["o__r-1.x", "o__r-1.y"]
    assert [r["trial"] for r in (first, second)] == [0, 1]
    assert frames["tasks"]["instruction"].to_list() == [USER["content"]]
    grades = frames["grades"].to_dicts()
    assert [(g["name"], g["value"], g["passed"], g["is_primary"]) for g in grades] == [
        ("resolved", 1.0, True, True),
        ("resolved", 0.0, False, True),
    ]
    (patch, _) = frames["artifacts"].to_dicts()
    assert (patch["kind"], patch["name"], patch["content"]) == ("patch", "patch", "diff")
    assert codes(frames) == ["guessed_columns"]
    assert "task from instance_id" in frames["diagnostics"]["detail"][0]
    assert first["metadata"] is None


@pytest.mark.parametrize(
    ("name", "value", "passed", "score", "valid"),
    [
        ("resolved", True, True, 1.0, True),
        ("resolved", 0, False, 0.0, True),
        ("is_resolved", "unresolved", False, 0.0, True),
        ("verified", False, False, 0.0, True),
        ("target", True, True, 1.0, True),
        ("label", "pass", True, 1.0, True),
        ("label", 1, None, 1.0, True),
        ("success", 0.5, None, 0.5, True),
        ("resolved", None, None, None, False),
        ("reward", 1.0, None, 1.0, True),
        ("reward", 2.25, None, 2.25, True),
        ("score", "0.5", None, 0.5, True),
        ("reward", None, None, None, False),
        ("label", "blue", None, None, None),
        ("target", "42", None, None, None),
    ],
)
def test_only_flags_and_words_are_verdicts(tmp_path, name, value, passed, score, valid):
    frames = read(tmp_path / "a.jsonl", [{"messages": TURNS, "instance_id": "t", name: value}])
    row = attempt(frames)
    assert (row["passed"], row["score"], row["score_valid"]) == (passed, score, valid)


def test_a_flag_counts_before_a_number(tmp_path):
    rows = [{"messages": TURNS, "reward": 0.7, "resolved": False, "score": 3}]
    frames = read(tmp_path / "a.jsonl", rows)
    row = attempt(frames)
    assert (row["passed"], row["score"]) == (False, 0.0)
    assert [(g["name"], g["value"], g["is_primary"]) for g in frames["grades"].to_dicts()] == [
        ("resolved", 0.0, True),
        ("reward", 0.7, False),
        ("score", 3.0, False),
    ]


def test_the_labels_in_objects_and_in_the_metadata(tmp_path):
    frames = read(
        tmp_path / "a.jsonl", [{"messages": TURNS, "scores": {"a": 1, "b": "0.5"}, "metadata": {"reward": 2.0}}]
    )
    grades = frames["grades"].to_dicts()
    assert [(g["name"], g["value"]) for g in grades] == [("reward", 2.0), ("scores.a", 1.0), ("scores.b", 0.5)]
    assert attempt(frames)["score"] == 2.0


def test_judges_give_grades_and_no_verdict(tmp_path):
    judged = json.dumps({"correctness": {"score": 4, "reasoning": "ok"}, "note": "x"})
    row = {"messages": TURNS, "question": "Why?", "response_quality_assessment": judged}
    frames = read(tmp_path / "a.jsonl", [row, row | {"response_quality_assessment": "fine"}])
    (grade,) = frames["grades"].to_dicts()
    assert (grade["name"], grade["value"], grade["rationale"]) == ("response_quality_assessment.correctness", 4.0, "ok")
    assert (grade["kind"], grade["is_primary"]) == ("model_judge", False)
    assert frames["attempts"]["passed"].null_count() == 2
    assert frames["attempts"]["score_valid"].null_count() == 2
    assert json.loads(frames["attempts"]["metadata"][1])["response_quality_assessment"] == "fine"
    (task,) = frames["tasks"].to_dicts()
    assert (task["instruction"], task["task_id"].startswith("question_")) == ("Why?", True)


def test_the_number_of_a_run_is_a_trial(tmp_path):
    rows = [
        {"messages": TURNS, "instance_id": t, "run_id": f"set-t04-run_{n}", "resolved": True}
        for t in "ab"
        for n in (1, 2)
    ]
    frames = read(tmp_path / "a.jsonl", rows)
    assert frames["attempts"]["run_id"].unique().to_list() == ["set-t04"]
    assert frames["attempts"]["trial"].to_list() == [0, 1, 0, 1]
    assert frames["attempts"]["trial_source"].unique().to_list() == ["native"]
    assert detail(frames["attempts"].to_dicts()[0])["run_id"] == "set-t04-run_1"


def test_a_number_that_is_no_trial(tmp_path):
    rows = [{"messages": TURNS, "task_id": "t", "trial": 0}, {"messages": TURNS, "task_id": "t", "trial": 0}]
    frames = read(tmp_path / "a.jsonl", rows)
    assert "trial_not_unique" in codes(frames)
    assert frames["attempts"]["trial"].to_list() == [0, 1]


@pytest.mark.parametrize(
    ("numbers", "why"),
    [
        ([("a", 0), ("b", 1), ("c", 2)], "gives no two tasks the same number"),
        ([("a", 3), ("a", 4), ("b", 3), ("b", 4)], "does not begin at 0 or 1"),
        ([("a", 1), ("a", 1), ("b", 1)], "gives 1 tasks a number twice"),
    ],
)
def test_a_number_that_is_another_than_of_the_trial_is_told(tmp_path, numbers, why):
    frames = read(tmp_path / "a.jsonl", [{"messages": TURNS, "task_id": t, "trial": n} for t, n in numbers])
    (told,) = [d["detail"] for d in frames["diagnostics"].to_dicts() if d["code"] == "trial_not_unique"]
    assert why in told
    assert frames["attempts"]["trial_source"].unique().to_list() == ["unknown"]
    assert frames["attempts"].filter(task_id="a")["trial"].min() == 0


def test_trials_of_a_part_of_the_tasks_are_trials(tmp_path):
    rows = [{"messages": TURNS, "task_id": t, "trial": n} for t, n in [("a", 1), ("a", 2), ("b", 2)]]
    frames = read(tmp_path / "a.jsonl", rows)
    assert frames["attempts"].select("trial", "trial_source").rows() == [(0, "native"), (1, "native"), (1, "native")]


def test_ids_that_are_mere_numbers_are_told_apart(tmp_path):
    other = [{"role": "user", "content": "Another"}, BOT]
    rows = [{"messages": TURNS, "task_id": 1, "reward": 1}, {"messages": other, "task_id": 1, "reward": 0}]
    frames = read(tmp_path / "a.jsonl", [*rows, rows[0]])
    ids = frames["attempts"]["task_id"].to_list()
    assert ids[0] == ids[2] != ids[1]
    assert all(i.startswith("1@") for i in ids)
    assert read(tmp_path / "a.jsonl", task_id="task_id")["attempts"]["task_id"].unique().to_list() == ["1"]


def test_dataset_domain_and_what_belongs_to_the_task(tmp_path):
    row = ROW | {"dataset": "d", "domain": "x", "repo": "o/r", "base_commit": "c", "split": "train", "answer": "42"}
    frames = read(tmp_path / "a.jsonl", [row | {"model_patch": "mine", "patch": "gold"}])
    (task,) = frames["tasks"].to_dicts()
    assert task["task_id"] == "d/x/o__r-1"
    assert (task["environment"], task["cluster"], task["split"]) == ("o/r@c", "o/r", "train")
    assert json.loads(task["target"]) == {"answer": "42", "patch": "gold"}
    assert frames["artifacts"]["content"].to_list() == ["mine"]


def test_how_a_run_ended(tmp_path):
    ends = ["submitted", "submitted (exit_context)", "exit_api", "odd"]
    frames = read(tmp_path / "a.jsonl", [ROW | {"exit_status": e} for e in ends])
    assert frames["attempts"]["status"].to_list() == ["completed", "limit", "infra_error", "unknown"]
    assert frames["attempts"]["score_valid"].to_list() == [True, True, False, True]
    assert frames["attempts"]["passed"].to_list() == [True, True, None, True]
    assert "unknown_status" in codes(frames)
    frames = read(tmp_path / "a.jsonl", rules=Rules())
    assert frames["attempts"]["stop_reason"].to_list() == ends


def test_a_result_is_a_number_or_an_error(tmp_path):
    rows = [{"conversations": TURNS, "task": "t", "result": r} for r in ("1.0", "AgentTimeoutError", "RateLimitError")]
    frames = read(tmp_path / "a.jsonl", rows)
    assert frames["attempts"]["score"].to_list() == [1.0, None, None]
    assert frames["attempts"]["error_type"].to_list() == [None, "AgentTimeoutError", "RateLimitError"]
    assert frames["attempts"]["status"].to_list() == ["unknown", "limit", "infra_error"]
    assert frames["attempts"]["score_valid"].to_list() == [True, False, False]


def test_parquet_with_lists_of_structs_and_nulls(tmp_path):
    turns = [
        {"cutoff_date": "c", "mask": False, "role": "system", "system_prompt": "SETTING", "text": None},
        {"cutoff_date": None, "mask": False, "role": "user", "system_prompt": None, "text": "ISSUE"},
        {"cutoff_date": None, "mask": False, "role": "ai", "system_prompt": None, "text": "demo"},
        {"cutoff_date": None, "mask": False, "role": "user", "system_prompt": None, "text": "(file)\nbash-$"},
        {"cutoff_date": None, "mask": True, "role": "ai", "system_prompt": None, "text": "done"},
    ]
    path = tmp_path / "a.parquet"
    pl.DataFrame(
        {
            "instance_id": ["i"],
            "target": [True],
            "trajectory": [turns],
            "exit_status": ["submitted"],
            "s": [float("nan")],
        }
    ).write_parquet(path)
    assert formats(path) == ["hf_trajectories"]
    frames = read(path)
    assert [m["content"] for m in messages(frames)] == ["SETTING", "ISSUE", "demo", "(file)\nbash-$", "done"]
    assert [m["origin"] for m in messages(frames)] == ["harness", "human", "model", "tool", "model"]
    assert [s["trainable"] for s in steps(frames)] == [False, False, True]
    assert detail(attempt(frames)) == {"message_extras": {"0": {"cutoff_date": "c"}}}


def test_parquet_with_text_bytes_times_and_calls(tmp_path):
    made = [{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}]
    turns = [USER | {"tool_calls": None}, {"role": "assistant", "content": None, "tool_calls": made}]
    path = tmp_path / "a.parquet"
    frame = pl.DataFrame(
        {
            "messages": [json.dumps(turns), json.dumps(TURNS)],
            "resolved": [True, None],
            "instance_id": ["i", "j"],
            "created_at": ["2026-01-01T00:00:00Z", None],
            "raw": [b"\x89PNG", None],
        }
    ).with_columns(pl.col("created_at").str.to_datetime(time_zone="UTC"))
    frame.write_parquet(path)
    frames = read(path)
    assert frames["attempts"]["n_messages"].to_list() == [2, 3]
    assert frames["attempts"]["n_tool_calls"].to_list() == [1, 0]
    assert frames["attempts"]["score_valid"].to_list() == [True, False]
    assert frames["attempts"]["started_at"][0].isoformat() == "2026-01-01T00:00:00+00:00"
    frame.with_columns(messages=pl.Series([turns, [t | {"tool_calls": None} for t in TURNS]])).write_parquet(path)
    assert read(path)["attempts"]["n_tool_calls"].to_list() == [1, 0]


def test_a_row_that_cannot_be_read_costs_itself(tmp_path):
    frames = read(tmp_path / "a.jsonl", [ROW, ROW | {"messages": None}, ROW | {"messages": "[broken"}])
    assert frames["attempts"]["source_pos"].to_list() == [0]
    bad = frames["diagnostics"].filter(code="bad_row")
    assert bad["source_pos"].to_list() == [1, 2]


@pytest.mark.parametrize(
    "value",
    [
        ROW,
        {"messages": TURNS, "reward": 0.5},
        {"conversations": [{"from": "human", "value": "x"}], "run_id": "r"},
        {"trajectory": TURNS, "instance_id": "i"},
        {"prompt": "a", "completion": "b", "label": True},
        {"messages": json.dumps(TURNS), "question": "q"},
        [ROW],
    ],
)
def test_what_is_claimed(value):
    assert SOURCES["hf_trajectories"].claims_file(Look(Path("x"), json.dumps(value).encode()))


@pytest.mark.parametrize(
    "value",
    [
        {"messages": TURNS},
        {"messages": TURNS, "id": 1, "model": "m", "metadata": {}},
        {"resolved": True, "instance_id": "i"},
    ],
)
def test_what_is_not_claimed(value):
    assert not SOURCES["hf_trajectories"].claims_file(Look(Path("x"), json.dumps(value).encode()))


@pytest.mark.parametrize("dtype", [pl.Datetime("us"), pl.Datetime("ms", "UTC"), pl.Duration("ms")])
def test_times_beyond_the_calendar_cost_no_row(tmp_path, dtype):
    turns = [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]
    times = pl.Series("created_at", [2**62, -(2**62)]).cast(dtype)
    pl.DataFrame([pl.Series("messages", [turns, turns]), times]).write_parquet(tmp_path / "x.parquet")
    assert read_frames([tmp_path / "x.parquet"])["messages"].height == 4
