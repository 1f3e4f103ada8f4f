"""Every Codex sample, word for word: the raw lines read here with the json module alone."""

from __future__ import annotations

import json
import os
from pathlib import Path

import polars as pl
import pytest

from expcomp.sources.load import read_frames

REFERENCE = os.environ.get("EXPCOMP_REFERENCE")
if REFERENCE is None:
    if os.environ.get("CI") == "true":
        pytest.fail("EXPCOMP_REFERENCE is not set; CI has to run the reference traces", pytrace=False)
    pytest.skip("EXPCOMP_REFERENCE is not set; it names the folder with the reference traces", allow_module_level=True)

pytestmark = pytest.mark.reference
ROOT = Path(REFERENCE) / "traces"
FILES = sorted((*(ROOT / "codex").rglob("rollout-*.jsonl"), *(ROOT / "harbor").rglob("rollout-*.jsonl")))
IDS = [str(p.relative_to(ROOT).parts[:3]) + p.stem[-6:] for p in FILES]


def items_of(path):
    """Responses items of a rollout in the order of its lines."""
    lines = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    bare = [line for line in lines if line.get("type") not in (None, "session_meta") and "payload" not in line]
    return bare or [line["payload"] for line in lines if line.get("type") == "response_item"]


def words(content):
    return "".join(part["text"] for part in content)


@pytest.mark.parametrize("path", FILES, ids=IDS)
def test_what_was_said_equals_the_file(path):
    frames = read_frames([path])
    messages = frames["messages"].sort("message_index")
    raw = items_of(path)
    said = [(i["role"], words(i["content"])) for i in raw if i["type"] == "message"]
    loaded = messages.filter((pl.col("role") != "tool") & pl.col("content").is_not_null())
    assert loaded.select("role", "content").rows() == said


@pytest.mark.parametrize("path", FILES, ids=IDS)
def test_calls_and_results_equal_the_file(path):
    frames = read_frames([path])
    raw = items_of(path)
    calls = [
        (i["call_id"], i["name"], i["arguments"] if i["type"] == "function_call" else i["input"])
        for i in raw
        if i["type"] in ("function_call", "custom_tool_call")
    ]
    for table in ("messages", "steps"):
        order = "message_index" if table == "messages" else "step_index"
        found = frames[table].sort(order)["tool_calls"].explode().drop_nulls().struct.unnest()
        assert found.select("id", "name", "arguments").rows() == calls, table
    results = [(i["call_id"], i["output"]) for i in raw if i["type"].endswith("_output")]
    tools = frames["messages"].sort("message_index").filter(pl.col("role") == "tool")
    assert tools.select("tool_call_id", "content").rows() == results
    seen = frames["steps"].sort("step_index")["observations"].explode().drop_nulls().struct.unnest()
    assert seen.select("call_id", "content").rows() == results
    kinds = {c[0]: i["type"] for c, i in zip(calls, (i for i in raw if i["type"].endswith("_call")), strict=True)}
    loaded = frames["steps"]["tool_calls"].explode().drop_nulls().struct.unnest()
    for call_id, kind in loaded.select("id", "kind").rows():
        assert (kind == "custom") == (kinds[call_id] == "custom_tool_call")


@pytest.mark.parametrize("path", FILES, ids=IDS)
def test_reasoning_and_order_equal_the_file(path):
    frames = read_frames([path])
    raw = items_of(path)
    thoughts = [part["text"] for i in raw if i["type"] == "reasoning" for part in i["summary"]]
    steps = frames["steps"].sort("step_index")
    assert steps["reasoning"].drop_nulls().to_list() == thoughts
    sealed = sum(1 for i in raw if i["type"] == "reasoning" and i["encrypted_content"])
    assert steps["reasoning_opaque"].sum() == sealed
    # Every result follows its call.
    place: dict[str, int] = {}
    for message in frames["messages"].sort("message_index").to_dicts():
        for call in message["tool_calls"] or ():
            place[call["id"]] = message["message_index"]
        if message["role"] == "tool":
            assert place[message["tool_call_id"]] < message["message_index"]


@pytest.mark.parametrize("path", FILES, ids=IDS)
def test_usage_and_prompt_equal_the_file(path):
    frames = read_frames([path])
    lines = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    totals = [
        line["payload"]["info"]["total_token_usage"]
        for line in lines
        if line.get("type") == "event_msg" and line["payload"]["type"] == "token_count" and line["payload"]["info"]
    ]
    (attempt,) = frames["attempts"].to_dicts()
    for column, name in (
        ("input_tokens", "input_tokens"),
        ("cached_input_tokens", "cached_input_tokens"),
        ("output_tokens", "output_tokens"),
        ("reasoning_tokens", "reasoning_output_tokens"),
    ):
        expected = totals[-1][name] if totals else None
        assert attempt[column] == expected
        assert frames["steps"][column].sum() == (expected or 0)
    meta = next((line["payload"] for line in lines if line.get("type") == "session_meta"), lines[0])
    assert attempt["system_prompt"] == (meta.get("base_instructions") or {}).get("text")
    assert attempt["native_attempt_id"] == meta["id"]
    assert "encrypted" not in frames["messages"].write_ndjson()


def test_a_child_knows_its_parent():
    frames = read_frames([ROOT / "codex"])
    attempts = frames["attempts"]
    (child,) = attempts.filter(pl.col("relation") == "subagent").to_dicts()
    (parent,) = attempts.filter(pl.col("attempt_id") == child["parent_attempt_id"]).to_dicts()
    assert child["root_attempt_id"] == parent["attempt_id"]
    calls = frames["steps"].filter(pl.col("attempt_id") == parent["attempt_id"])["tool_calls"].explode().drop_nulls()
    assert (child["parent_call_id"], "spawn_agent") in calls.struct.unnest().select("id", "name").rows()


def test_exit_codes_are_read():
    frames = read_frames([ROOT / "codex"])
    seen = frames["steps"]["observations"].explode().drop_nulls().struct.unnest()
    told = seen.filter(pl.col("content").str.contains(r"exited with code \d|\"exit_code\":"))
    assert told.height > 0
    assert told["exit_code"].null_count() == 0
