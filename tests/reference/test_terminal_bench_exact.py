"""Every Terminal-Bench file of the reference folder against what the reader makes of it, read independently."""

from __future__ import annotations

import csv
import json
import os
from datetime import datetime
from pathlib import Path

import pytest

from expcomp.sources.load import read_frames

REFERENCE = os.environ.get("EXPCOMP_REFERENCE")
if REFERENCE is None:
    pytest.skip("EXPCOMP_REFERENCE is not set; it names the folder with the reference traces", allow_module_level=True)

pytestmark = pytest.mark.reference
ROOT = Path(REFERENCE) / "traces" / "terminal_bench"
RUNS, TABLES = sorted(ROOT.glob("**/results.json")), sorted(ROOT.glob("**/*.csv"))


@pytest.mark.parametrize("path", RUNS, ids=[p.parent.name for p in RUNS])
def test_rows_of_a_run_equal_the_file(path):
    frames = read_frames([path.parent])
    rows = json.loads(path.read_bytes())["results"]
    attempts = frames["attempts"].sort("source_pos").to_dicts()
    tasks = dict(frames["tasks"].select("task_id", "instruction").rows())
    assert len(attempts) == len(rows)
    for attempt, row in zip(attempts, rows, strict=True):
        number, _, of = row["trial_name"].split(row["task_id"] + ".", 1)[1].partition(".")[0].partition("-of-")
        assert (attempt["native_attempt_id"], attempt["trial"], int(of) > 0) == (
            row["trial_name"],
            int(number) - 1,
            True,
        )
        assert attempt["task_id"].split("/")[-1] == row["task_id"]
        assert tasks[attempt["task_id"]] == row["instruction"]
        assert attempt["passed"] == row["is_resolved"]
        assert attempt["stop_reason"] == row["failure_mode"]
        assert attempt["started_at"] == datetime.fromisoformat(row["trial_started_at"])
        assert attempt["ended_at"] == datetime.fromisoformat(row["trial_ended_at"])
        assert attempt["input_tokens"] == (row["total_input_tokens"] or None)
        tests = (
            frames["grades"]
            .filter(attempt_id=attempt["attempt_id"], kind="test")
            .select("name", "label", "passed")
            .rows()
        )
        assert tests == [(k, v, v == "passed") for k, v in (row["parser_results"] or {}).items()]


@pytest.mark.parametrize("path", TABLES, ids=[p.stem for p in TABLES])
def test_rows_of_a_table_equal_the_file(path):
    frames = read_frames([path])
    with path.open(newline="") as handle:
        rows = list(csv.DictReader(handle))
    attempts = frames["attempts"].sort("source_pos").to_dicts()
    assert len(attempts) == len(rows)
    for attempt, row in zip(attempts, rows, strict=True):
        assert attempt["native_attempt_id"] == row["trial_id"]
        assert attempt["task_id"].split("/")[-1] == row["task_name"]
        assert (attempt["model"], attempt["model_provider"]) == (row["model_name"], row["provider"])
        assert (attempt["input_tokens"], attempt["output_tokens"]) == (
            int(row["n_input_tokens"]),
            int(row["n_output_tokens"]),
        )
        assert (attempt["score"], attempt["duration_s"]) == (float(row["reward"]), float(row["execution_time_sec"]))
        assert attempt["passed"] == (row["success"] == "true")


def test_there_are_files():
    assert RUNS
    assert TABLES
