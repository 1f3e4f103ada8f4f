"""Every inspect sample, turn by turn and score by score, against the log as zipfile and the json module read it."""

from __future__ import annotations

import json
import os
import zipfile
from pathlib import Path

import polars as pl
import pytest

from expcomp.sources.load import read_frames

REFERENCE = os.environ.get("EXPCOMP_REFERENCE")
if REFERENCE is None:
    pytest.skip("EXPCOMP_REFERENCE is not set; it names the folder with the reference traces", allow_module_level=True)

pytestmark = pytest.mark.reference
FILES = sorted(p for p in (Path(REFERENCE) / "traces" / "inspect").iterdir() if p.suffix in (".json", ".eval"))


def samples(path):
    """Samples of a log by id and epoch."""
    if path.suffix == ".json":
        rows = json.loads(path.read_bytes())["samples"]
    else:
        with zipfile.ZipFile(path) as archive:
            rows = [json.loads(archive.read(n)) for n in archive.namelist() if n.startswith("samples/")]
    return {f"{row['id']}/{row['epoch']}": row for row in rows}


def words(content):
    """Text of a content field: parts are joined where all of them are text."""
    return content if isinstance(content, str) else "".join(part["text"] for part in content)


def turn(message):
    """Role, text, calls and answered call of a message of the file."""
    calls = [(c["id"], c["function"], c["arguments"]) for c in message.get("tool_calls") or ()]
    return message["role"], words(message["content"]), calls, message.get("tool_call_id")


def loaded(row):
    """The same of a message that was loaded."""
    calls = [(c["id"], c["name"], json.loads(c["arguments"])) for c in row["tool_calls"] or ()]
    return row["role"], row["content"], calls, row["tool_call_id"]


def calls_before_scoring(sample):
    """Model events before the first event of a scorer."""
    out = []
    for event in sample.get("events", ()):
        if event["event"] in ("span_begin", "step") and event.get("type") in ("scorer", "scorers"):
            break
        if event["event"] == "model":
            out.append(event)
    return out


@pytest.mark.parametrize("path", FILES, ids=[p.name[:40] for p in FILES])
def test_conversations_equal_the_log(path):
    frames, raw = read_frames([path]), samples(path)
    attempts = {a["native_attempt_id"]: a for a in frames["attempts"].to_dicts()}
    assert attempts.keys() == raw.keys()
    for key, sample in raw.items():
        own = pl.col("attempt_id") == attempts[key]["attempt_id"]
        messages = frames["messages"].filter(own).sort("message_index").to_dicts()
        assert [loaded(m) for m in messages] == [turn(m) for m in sample["messages"]]
        steps = frames["steps"].filter(own & (pl.col("source") == "agent")).sort("step_index").to_dicts()
        made = calls_before_scoring(sample)
        assert len(steps) == len(made)
        for step, event in zip(steps, made, strict=True):
            usage = event["output"].get("usage") or {}
            assert step["model"] == event["model"]
            assert step["output_tokens"] == usage.get("output_tokens")
            assert step["stop_reason"] == event["output"]["choices"][0]["stop_reason"]
        answers = {m["tool_call_id"]: m["content"] for m in sample["messages"] if m["role"] == "tool"}
        seen = [(o["call_id"], o["content"]) for s in steps for o in s["observations"]]
        asked = [c["id"] for s in steps for c in s["tool_calls"]]
        assert seen == [(i, answers[i]) for i in asked]


@pytest.mark.parametrize("path", FILES, ids=[p.name[:40] for p in FILES])
def test_scores_equal_the_log(path):
    frames, raw = read_frames([path]), samples(path)
    for attempt in frames["attempts"].to_dicts():
        scores = raw[attempt["native_attempt_id"]].get("scores") or {}
        grades = frames["grades"].filter(pl.col("attempt_id") == attempt["attempt_id"]).to_dicts()
        assert [g["name"] for g in grades] == list(scores)
        for grade in grades:
            score = scores[grade["name"]]
            assert score["value"] in (grade["label"], grade["value"])
            assert grade["rationale"] == score.get("explanation")
            assert json.loads(grade["metadata"] or "{}").get("answer") == score.get("answer")
