"""Every message of every Claude Code sample, compared with the file as the json module reads it."""

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
ROOT = Path(REFERENCE) / "traces" / "claude_code"
FILES = sorted(ROOT.rglob("*.jsonl"))


def records(path):
    """Lines of a file, and per sub-agent those that progress lines hold."""
    main, inner = [], {}
    for raw in path.read_text("utf-8").splitlines():
        line = json.loads(raw)
        data = line.get("data") or {}
        if line["type"] in ("user", "assistant"):
            main.append(line)
        elif line["type"] == "progress" and data.get("type") == "agent_progress":
            inner.setdefault(data["agentId"], []).append(data["message"])
    return [main, *inner.values()]


def plain(content):
    """Text of a content that is a text or text blocks; null where it holds anything else."""
    if isinstance(content, str):
        return content
    texts = [b.get("text") for b in content]
    return None if any(t is None for t in texts) else "".join(texts)


def expected(lines):
    """Role, text, reasoning, calls and answered call of each message, and the results of each model call."""
    turns, results, by_id, by_call = [], {}, {}, {}
    for line in lines:
        message = line["message"]
        content = message["content"]
        if line["type"] == "user":
            blocks = content if isinstance(content, list) else []
            for block in blocks:
                if block["type"] == "tool_result":
                    shown = plain(block["content"])
                    turns.append(["tool", shown, None, [], block["tool_use_id"]])
                    results[by_call[block["tool_use_id"]]].append((block["tool_use_id"], shown, block.get("is_error")))
            rest = content if isinstance(content, str) else [b for b in blocks if b["type"] != "tool_result"]
            if rest or isinstance(content, str):
                turns.append(["user", plain(rest), None, [], None])
            continue
        ident = message["id"]
        if ident not in by_id:
            by_id[ident] = ["assistant", None, None, [], None]
            turns.append(by_id[ident])
            if message["model"] != "<synthetic>":
                results[ident] = []
        turn = by_id[ident]
        for block in content:
            if block["type"] == "text":
                turn[1] = (turn[1] or "") + block["text"]
            elif block["type"] == "thinking":
                turn[2] = (turn[2] or "") + block["thinking"] or None
            elif block["type"] == "tool_use":
                turn[3].append((block["id"], block["name"], block["input"]))
                by_call[block["id"]] = ident
    return turns, results


def loaded(frames, attempt):
    rows = frames["messages"].filter(pl.col("attempt_id") == attempt).sort("message_index").to_dicts()
    turns = [
        [
            row["role"],
            row["content"],
            row["reasoning"],
            [(c["id"], c["name"], json.loads(c["arguments"])) for c in row["tool_calls"] or ()],
            row["tool_call_id"],
        ]
        for row in rows
    ]
    steps = frames["steps"].filter(pl.col("attempt_id") == attempt, pl.col("source") == "agent").sort("step_index")
    results = {
        step["llm_call_id"]: [(o["call_id"], o["content"], o["is_error"]) for o in step["observations"]]
        for step in steps.to_dicts()
    }
    return turns, results


@pytest.mark.parametrize("path", FILES, ids=[p.stem for p in FILES])
def test_conversations_equal_the_file(path):
    frames = read_frames([path])
    threads = records(path)
    assert frames["attempts"].height == len(threads)
    for attempt, lines in zip(frames["attempts"]["attempt_id"], threads, strict=True):
        turns, results = expected(lines)
        found, observed = loaded(frames, attempt)
        assert found == turns
        assert list(observed) == list(results)
        assert observed == results
    assert frames["messages"]["branch"].unique().to_list() == [0]


@pytest.mark.parametrize("path", FILES, ids=[p.stem for p in FILES])
def test_usage_is_that_of_the_last_line_of_each_message(path):
    frames = read_frames([path])
    last = {
        line["message"]["id"]: line["message"]["usage"]
        for lines in records(path)
        for line in lines
        if line["type"] == "assistant" and line["message"]["model"] != "<synthetic>"
    }
    steps = frames["steps"].filter(pl.col("source") == "agent").to_dicts()
    assert {s["llm_call_id"]: s["output_tokens"] for s in steps} == {k: u["output_tokens"] for k, u in last.items()}
    prompt = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
    assert {s["llm_call_id"]: s["input_tokens"] for s in steps} == {
        k: sum(u[n] for n in prompt) for k, u in last.items()
    }


def test_frames_hold_no_machine_path_and_do_not_change():
    first, second = read_frames([ROOT]), read_frames([ROOT])
    for name, frame in first.items():
        assert frame.equals(second[name]), name
        assert str(ROOT) not in frame.write_ndjson(), name
