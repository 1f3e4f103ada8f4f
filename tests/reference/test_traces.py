"""Every case of the reference file of traces that a reader exists for, by the file's own conventions."""

from __future__ import annotations

import json
import os
from pathlib import Path

import polars as pl
import pytest

from expcomp.sources._contract import ReadOptions
from expcomp.sources.load import read_frames
from expcomp.sources.registry import SOURCES

REFERENCE = os.environ.get("EXPCOMP_REFERENCE")
if REFERENCE is None:
    if os.environ.get("CI") == "true":
        pytest.fail("EXPCOMP_REFERENCE is not set; CI has to run the reference traces", pytrace=False)
    pytest.skip("EXPCOMP_REFERENCE is not set; it names the folder with the reference traces", allow_module_level=True)

pytestmark = pytest.mark.reference
ROOT = Path(REFERENCE) / "traces"
CASES = json.loads((ROOT / "expected.json").read_bytes())["cases"]
USAGE = ("input_tokens", "cached_input_tokens", "output_tokens", "cost_usd")


def sources_of(case):
    """Formats of a case; those of a case without attempts are none."""
    return case["format"].split("+") if case["format"] else []


def total(values):
    """Sum without nulls, null if there is nothing else."""
    kept = values.drop_nulls()
    return kept.sum() if len(kept) else None


def usage(frames, column):
    """A column summed by the convention: over steps where an attempt's calls carry it, else from the attempt."""
    own = frames["steps"].filter(~pl.col("is_copied_context").fill_null(value=False))
    carried = own.filter(pl.col(column).is_not_null())
    silent = frames["attempts"].join(carried, on="attempt_id", how="anti")
    return total(pl.concat([carried[column], silent[column]]))


def measure(frames, expect):
    """The numbers that a case may give, by key."""
    attempts, steps, grades = frames["attempts"], frames["steps"], frames["grades"]
    own = steps.filter(~pl.col("is_copied_context").fill_null(value=False))
    observed = own.select("observations").explode("observations").drop_nulls().unnest("observations")
    contexts = pl.concat([steps["context_id"], frames["messages"]["context_id"]]).drop_nulls()
    models = pl.concat([attempts["model"], steps["model"]]).drop_nulls().str.split("/").list.last()
    passed = attempts["passed"]
    out = {
        "attempts": attempts.height,
        "root_attempts": attempts.filter(pl.col("relation") == "root").height,
        "subagent_attempts": attempts.filter(pl.col("relation").is_in(["subagent", "summariser"])).height,
        "tasks": len(set(attempts["task_id"].drop_nulls()) | set(frames["tasks"]["task_id"])),
        "passed": int((passed == True).sum()),  # noqa: E712
        "not_passed": int((passed == False).sum()),  # noqa: E712
        "ungraded": passed.null_count(),
        "score_valid_false": int((~attempts["score_valid"]).sum()),
        "messages": frames["messages"].height,
        "steps": own.filter(pl.col("source") == "agent").height,
        "tool_calls": int(own["tool_calls"].list.len().sum()),
        "tool_results": observed.height,
        "tool_errors": int(observed["is_error"].sum()) if observed.height else 0,
        "contexts": (contexts.max() or 0) + 1,
        "grades": grades.filter("valid", pl.col("value").is_not_null() | pl.col("label").is_not_null()).height,
        "score_sum": total(attempts.filter(pl.col("score_valid").fill_null(value=True))["score"]),
        "models": sorted(set(models)),
        "status_counts": {s: attempts.filter(pl.col("status") == s).height for s in expect.get("status_counts", {})},
    }
    return out | {column: usage(frames, column) for column in USAGE}


@pytest.mark.parametrize("case", CASES, ids=[c["id"] for c in CASES])
def test_case(case):
    missing = [name for name in sources_of(case) if name not in SOURCES]
    if missing:
        pytest.skip(f"no reader for {', '.join(missing)} yet")
    expect = case["expect"]
    forced = case["options"].get("format")
    if forced is not None and forced not in SOURCES:
        pytest.skip(f"no reader for {forced} yet")
    options = ReadOptions(**{k: v for k, v in case["options"].items() if k != "format"})
    frames = read_frames([ROOT / case["path"]], format=forced, options=options)
    found = "+".join(sorted(frames["attempts"]["source_format"].unique())) or None
    assert found == case["format"]
    asked = expect.get("diagnostics", {}).get("min", 0)
    assert frames["diagnostics"].height >= asked
    if frames["attempts"].is_empty():
        assert expect["attempts"] == 0
        assert frames["tasks"].height == expect.get("tasks", frames["tasks"].height)
        return
    measured = measure(frames, expect)
    keys = [k for k in expect if k != "diagnostics"]
    assert set(keys) <= set(measured)
    wrong = {
        k: (measured[k], expect[k])
        for k in keys
        if measured[k] != (pytest.approx(expect[k], abs=1e-6) if k in ("cost_usd", "score_sum") else expect[k])
    }
    assert not wrong, f"measured, expected: {wrong}"


def arguments(raw):
    """Call arguments as a value: text that is JSON and the value itself are the same."""
    if not isinstance(raw, str):
        return raw
    try:
        return json.loads(raw)
    except ValueError:
        return raw


def loaded_turns(frames, attempt):
    """Role, text and calls of each message of an attempt."""
    rows = frames["messages"].filter(pl.col("attempt_id") == attempt).sort("message_index").to_dicts()
    return [
        (
            row["role"],
            row["content"],
            [(c["id"], c["name"], arguments(c["arguments"])) for c in row["tool_calls"] or ()],
            row["tool_call_id"] if row["role"] == "tool" else None,
        )
        for row in rows
    ]


TAU_FILES = sorted((ROOT / "tau").glob("tau_bench_v1*/*.json"))


@pytest.mark.parametrize("path", TAU_FILES, ids=[p.stem for p in TAU_FILES])
def test_tau_conversations_equal_the_file(path):
    frames = read_frames([path])
    raw = json.loads(path.read_bytes())
    attempts = frames["attempts"].sort("source_pos")
    assert attempts["source_pos"].to_list() == list(range(len(raw)))
    for attempt, row in zip(attempts["attempt_id"], raw, strict=True):
        expected = [
            (
                m["role"],
                m.get("content"),
                [
                    (c.get("id"), c["function"]["name"], arguments(c["function"]["arguments"]))
                    for c in m.get("tool_calls") or ()
                ],
                m.get("tool_call_id"),
            )
            for m in row["traj"]
        ]
        assert loaded_turns(frames, attempt) == expected
    texts = frames["steps"]["tool_calls"].explode().drop_nulls().struct.field("arguments").to_list()
    written = [c["function"]["arguments"] for r in raw for m in r["traj"] for c in m.get("tool_calls") or ()]
    assert texts == written


TRIALS = sorted(p.parent.parent for p in (ROOT / "harbor" / "jobs").glob("*/*/agent/trajectory.json"))


@pytest.mark.parametrize("folder", TRIALS, ids=[p.name for p in TRIALS])
def test_harbor_conversations_equal_the_trajectory(folder):
    frames = read_frames([folder])
    doc = json.loads((folder / "agent" / "trajectory.json").read_bytes())
    (attempt,) = frames["attempts"]["attempt_id"]
    roles = {"agent": "assistant", "user": "user", "system": "system"}
    expected = []
    for step in doc["steps"]:
        calls = [(c["tool_call_id"], c["function_name"], c["arguments"]) for c in step.get("tool_calls", ())]
        expected.append((roles[step["source"]], step["message"], calls, None))
        for result in step.get("observation", {}).get("results", ()):
            expected.append(("tool", result["content"], [], result["source_call_id"]))
    assert loaded_turns(frames, attempt) == expected
    steps = frames["steps"].sort("step_index").to_dicts()
    assert len(steps) == len(doc["steps"])
    for row, step in zip(steps, doc["steps"], strict=True):
        seen = [(o["call_id"], o["content"]) for o in row["observations"]]
        results = step.get("observation", {}).get("results", ())
        assert seen == [(r["source_call_id"], r["content"]) for r in results]
        assert row["step_number"] == step["step_id"]
        assert row["reasoning"] == step.get("reasoning_content")


def test_harbor_first_human_message_is_the_instruction():
    frames = read_frames([ROOT / "harbor"])
    instruction = dict(frames["tasks"].select("task_id", "instruction").rows())
    human = frames["messages"].filter(pl.col("origin") == "human").join(frames["attempts"], on="attempt_id")
    assert human.height > 0
    for task, content in human.select("task_id", "content").rows():
        assert content.strip() == instruction[task].strip()


def test_arms_and_trials_of_the_tau_files():
    four = read_frames([ROOT / "tau" / "tau_bench_v1"])["attempts"]
    assert four["arm"].n_unique() == 1
    assert sorted(four["trial"].unique()) == [0, 1, 2, 3]
    assert set(four["trial_source"]) == {"native"}
    arms = read_frames([ROOT / "tau" / "tau_bench_v1_retail_arms"])["attempts"]
    assert arms["arm"].n_unique() == 3
    assert set(arms["trial"]) == {0}
    assert set(arms["task_id"].str.split("/").list.get(1)) == {"retail"}
    assert arms.group_by("task_id").agg(pl.col("arm").n_unique())["arm"].to_list() == [3] * 12


@pytest.mark.parametrize("path", ["tau/tau_bench_v1_retail_arms", "harbor", "atif"])
def test_frames_hold_no_machine_path_and_do_not_change(path):
    first, second = read_frames([ROOT / path]), read_frames([ROOT / path])
    for name, frame in first.items():
        assert frame.equals(second[name]), name
        assert str(ROOT) not in frame.write_ndjson(), name
