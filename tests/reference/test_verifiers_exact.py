"""Every verifiers file of the reference folder against what the reader makes of it, read independently."""

from __future__ import annotations

import json
import os
from pathlib import Path

import polars as pl
import pytest

from expcomp.sources.load import read_frames

REFERENCE = os.environ.get("EXPCOMP_REFERENCE")
if REFERENCE is None:
    pytest.skip("EXPCOMP_REFERENCE is not set; it names the folder with the reference traces", allow_module_level=True)

pytestmark = pytest.mark.reference
FILES = sorted((Path(REFERENCE) / "traces" / "verifiers").glob("**/results.jsonl"))
NAMES = [f"{p.parent.parent.name}/{p.parent.name}" for p in FILES]


def rows_of(path):
    return [json.loads(line) for line in path.read_text("utf-8").splitlines() if line.strip()]


def calls_of(message):
    parsed = [json.loads(text) for text in message.get("tool_calls") or ()]
    return [(c["id"], c["function"]["name"], c["function"]["arguments"]) for c in parsed]


@pytest.mark.parametrize("path", FILES, ids=NAMES)
def test_conversations_equal_the_file(path):
    frames = read_frames([path])
    rows = rows_of(path)
    attempts = frames["attempts"].sort("source_pos").to_dicts()
    assert [a["source_pos"] for a in attempts] == list(range(len(rows)))
    for attempt, row in zip(attempts, rows, strict=True):
        messages = frames["messages"].filter(attempt_id=attempt["attempt_id"]).sort("message_index").to_dicts()
        loaded = [
            (m["role"], m["content"], [(c["id"], c["name"], c["arguments"]) for c in m["tool_calls"] or ()])
            for m in messages
        ]
        assert loaded == [(m["role"], m["content"], calls_of(m)) for m in row["prompt"] + row["completion"]]
        # Results carry no id; they follow their call at once.
        results, waiting = [], None
        for message in row["prompt"] + row["completion"]:
            if message["role"] == "assistant":
                waiting = [i for i, _, _ in calls_of(message)]
                results.append([])
            elif message["role"] == "tool":
                results[-1].append((waiting.pop(0), message["content"]))
        steps = frames["steps"].filter(attempt_id=attempt["attempt_id"], source="agent").sort("step_index").to_dicts()
        assert [[(o["call_id"], o["content"]) for o in s["observations"]] for s in steps] == results
        assert attempt["score"] == row["reward"]


@pytest.mark.parametrize("path", FILES, ids=NAMES)
def test_grades_and_tasks_equal_the_file(path):
    frames = read_frames([path])
    rows = rows_of(path)
    fixed = {"id", "example_id", "generation_ms", "scoring_ms", "total_ms"}
    expected = [{k: v for k, v in row.items() if isinstance(v, float) and k not in fixed} for row in rows]
    grades = frames["grades"].join(frames["attempts"].select("attempt_id", "source_pos"), on="attempt_id")
    loaded = [dict(grades.filter(source_pos=pos).select("name", "value").rows()) for pos in range(len(rows))]
    assert loaded == expected
    tasks = frames["attempts"].sort("source_pos")["task_id"].to_list()
    asked = [(json.dumps(row["prompt"]), row["answer"]) for row in rows]
    for first in range(len(rows)):
        for second in range(first):
            assert (tasks[first] == tasks[second]) == (asked[first] == asked[second])


def test_two_models_meet_in_the_same_tasks():
    frames = read_frames([Path(REFERENCE) / "traces" / "verifiers"])
    arms = (
        frames["attempts"]
        .group_by(pl.col("task_id").str.split("/").list.first().alias("env"))
        .agg(pl.col("arm").n_unique(), pl.col("task_id").n_unique())
    )
    assert dict(arms.select("env", "arm").rows()) == {"mcp-env": 1, "wiki-search": 2, "wordle": 2}
    assert dict(arms.select("env", "task_id").rows()) == {"mcp-env": 1, "wiki-search": 30, "wordle": 5}
    per_task = (
        frames["attempts"].filter(pl.col("task_id").str.starts_with("wordle/")).group_by("arm", "task_id").agg("trial")
    )
    assert all(sorted(trials) == [0, 1, 2] for trials in per_task["trial"])
