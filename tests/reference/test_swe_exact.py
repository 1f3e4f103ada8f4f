"""Every sample of the formats around SWE-bench, word for word: the raw files read here with the json module alone."""

from __future__ import annotations

import gzip
import json
import os
from itertools import pairwise
from pathlib import Path

import polars as pl
import pytest

from expcomp.sources._contract import ReadOptions
from expcomp.sources.load import parse_units, read_frames
from expcomp.sources.registry import discover
from expcomp.sources.swe.join import join_reports

REFERENCE = os.environ.get("EXPCOMP_REFERENCE")
if REFERENCE is None:
    if os.environ.get("CI") == "true":
        pytest.fail("EXPCOMP_REFERENCE is not set; CI has to run the reference traces", pytrace=False)
    pytest.skip("EXPCOMP_REFERENCE is not set; it names the folder with the reference traces", allow_module_level=True)

pytestmark = pytest.mark.reference
ROOT = Path(REFERENCE) / "traces"
SWE = sorted((ROOT / "swe_agent").iterdir())
MINI = sorted((ROOT / "mini_swe_agent").rglob("*.traj.json*"))
REPORTS = sorted((ROOT / "swebench").rglob("*reports/*.json"))
INSTANCES = sorted((ROOT / "swebench" / "logs").rglob("report.json"))
PREDICTIONS = sorted((ROOT / "swebench" / "preds").iterdir())


def raw(path):
    data = path.read_bytes()
    return json.loads(gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data)


def text(content):
    return content if isinstance(content, str) or content is None else "".join(p["text"] for p in content)


def calls(rows):
    return [(c["id"], c["name"], c["arguments"]) for c in rows or ()]


def written(message):
    return [(c["id"], c["function"]["name"], c["function"]["arguments"]) for c in message.get("tool_calls") or ()]


def loaded(frames):
    return frames["messages"].sort("message_index").to_dicts()


@pytest.mark.parametrize("path", SWE, ids=[p.name for p in SWE])
def test_a_swe_agent_file(path):
    frames = read_frames([path])
    document = raw(path)
    said = loaded(frames)
    assert [(m["role"], m["content"]) for m in said] == [(h["role"], text(h["content"])) for h in document["history"]]
    for message, entry in zip(said, document["history"], strict=True):
        if entry.get("tool_calls"):
            assert calls(message["tool_calls"]) == written(entry)
        if entry["role"] == "tool":
            assert [message["tool_call_id"]] == entry["tool_call_ids"]
    steps = frames["steps"].filter(pl.col("source") == "agent").sort("step_index").to_dicts()
    assert len(steps) == len(document["trajectory"])
    answers = {m["step_index"]: m for m in said if m["role"] == "assistant"}
    for step, entry in zip(steps, document["trajectory"], strict=True):
        assert step["content"] == entry["response"]
        assert [o["content"] for o in step["observations"]] == [entry["observation"]]
        assert step["observations"][0]["call_id"] == step["tool_calls"][0]["id"]
        if step["tool_calls"][0]["kind"] == "custom":
            assert json.loads(step["tool_calls"][0]["arguments"]) == {"command": entry["action"]}
        state = entry["state"]
        assert step["state_after"] == state if isinstance(state, str) else json.loads(step["state_after"]) == state
        if step["step_index"] in answers:
            assert calls(answers[step["step_index"]]["tool_calls"]) == calls(step["tool_calls"])
    (patch,) = frames["artifacts"].filter(pl.col("kind") == "patch")["content"]
    assert patch == document["info"]["submission"]


@pytest.mark.parametrize("path", MINI, ids=[f"{p.parent.parent.name}/{p.name}" for p in MINI])
def test_a_mini_swe_agent_file(path):
    frames = read_frames([path], format="mini_swe_agent")
    document = raw(path)
    document = document if isinstance(document, dict) else {"messages": document}
    entries = [m for m in document["messages"] if m["role"] != "exit"]
    said = loaded(frames)
    assert [(m["role"], m["content"]) for m in said] == [(e["role"], text(e["content"])) for e in entries]
    assert [calls(m["tool_calls"]) for m in said] == [written(e) for e in entries]
    assert [m["tool_call_id"] for m in said] == [e.get("tool_call_id") for e in entries]
    assert [m["reasoning"] for m in said] == [e.get("reasoning_content") for e in entries]
    steps = frames["steps"].filter(pl.col("source") == "agent").sort("step_index").to_dicts()
    answers = [e for e in entries if e["role"] == "assistant"]
    for step, entry in zip(steps, answers, strict=True):
        assert (step["content"], calls(step["tool_calls"])) == (entry["content"], written(entry))
        response = entry.get("extra", {}).get("response", {})
        assert step["model"] == response.get("model")
        assert step["input_tokens"] == response.get("usage", {}).get("prompt_tokens")
        assert step["output_tokens"] == response.get("usage", {}).get("completion_tokens")
        assert step["cost_usd"] == entry.get("extra", {}).get("cost")
    results = [(o["call_id"], o["content"]) for s in steps for o in s["observations"]]
    assert results == [
        (e.get("tool_call_id"), text(e["content"]))
        for before, e in pairwise(entries)
        if e["role"] == "tool" or (before["role"] == "assistant" and e is not document["messages"][-1])
    ]
    patches = frames["artifacts"].filter(pl.col("kind") == "patch")["content"].to_list()
    assert patches == [p for p in [document.get("info", {}).get("submission")] if p]


@pytest.mark.parametrize("path", REPORTS, ids=[p.stem for p in REPORTS])
def test_a_run_report(path):
    document = raw(path)
    attempts = read_frames([path])["attempts"]
    assert attempts["native_attempt_id"].to_list() == document["submitted_ids"]
    assert set(attempts.filter("passed")["native_attempt_id"]) == set(document["resolved_ids"])
    assert set(attempts.filter(~pl.col("passed"))["native_attempt_id"]) == set(document["unresolved_ids"])
    (run,) = attempts["run_id"].unique()
    assert path.stem.endswith(run)


@pytest.mark.parametrize("path", INSTANCES, ids=[p.parent.name for p in INSTANCES])
def test_an_instance_report(path):
    frames = read_frames([path.parent])
    ((instance, entry),) = raw(path).items()
    (attempt,) = frames["attempts"].to_dicts()
    assert (attempt["native_attempt_id"], attempt["passed"]) == (instance, entry["resolved"])
    assert path.parent.parent.parent.name == attempt["run_id"]
    tests = {g["name"]: json.loads(g["metadata"]) for g in frames["grades"].filter(pl.col("kind") == "test").to_dicts()}
    assert tests == {k: v for k, v in entry["tests_status"].items() if v["success"] or v["failure"]}
    (patch,) = frames["artifacts"].filter(pl.col("kind") == "patch")["content"]
    assert patch == (path.parent / "patch.diff").read_text()


@pytest.mark.parametrize("path", PREDICTIONS, ids=[p.stem for p in PREDICTIONS])
def test_predictions(path):
    frames = read_frames([path])
    named = frames["attempts"].join(frames["artifacts"], on="attempt_id", how="left", maintain_order="left")
    rows = [(r["instance_id"], r["model_name_or_path"], r["model_patch"] or None) for r in raw(path).values()]
    assert named.select("native_attempt_id", "model", "content").rows() == rows


def test_verdicts_reach_the_trajectories():
    frames = join_reports(parse_units(discover([ROOT / "mini_swe_agent", ROOT / "swebench"]).units, ReadOptions()))
    mini = frames["attempts"].filter((pl.col("source_format") == "mini_swe_agent") & pl.col("task_id").is_not_null())
    verdicts = {}
    for path in (ROOT / "swebench" / "run_reports").iterdir():
        document = raw(path)
        for instance in document["submitted_ids"]:
            verdicts[path.stem.partition(".")[2], instance] = instance in document["resolved_ids"]
    rows = {(r, i): passed for r, i, passed in mini.select("run_id", "native_attempt_id", "passed").rows()}
    assert len(rows) == 10
    for key, passed in rows.items():
        assert passed == verdicts.get(key)
    assert sum(passed is not None for passed in rows.values()) == 9
    judged = frames["attempts"].filter(pl.col("passed").is_not_null())
    assert judged.select("run_id", "native_attempt_id").is_duplicated().sum() == 0
    lists = frames["grades"].filter(pl.col("kind") == "test").join(mini, on="attempt_id", how="semi")
    assert lists.height == sum(
        bool(v["success"] or v["failure"])
        for p in INSTANCES
        for e in raw(p).values()
        for v in e["tests_status"].values()
    )
