"""Every ADP file of the reference folder against what the reader makes of it, read independently."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from expcomp.sources.load import read_frames

REFERENCE = os.environ.get("EXPCOMP_REFERENCE")
if REFERENCE is None:
    pytest.skip("EXPCOMP_REFERENCE is not set; it names the folder with the reference traces", allow_module_level=True)

pytestmark = pytest.mark.reference
FILES = sorted((Path(REFERENCE) / "traces").glob("**/adp_*.json*"))


def expected(entry):
    """Text, calls and detail of a message that an entry has to give; roles of observations depend on what stands before them."""
    kind = entry["class_"]
    if kind == "api_action":
        return "assistant", entry["description"], [(entry["function"], entry["kwargs"])]
    if kind == "code_action":
        return "assistant", entry["description"], [(entry["language"], entry["content"])]
    if kind == "message_action":
        return "assistant", entry["content"], []
    return None, entry["content"], []


def value(call):
    """Arguments of a call as a value; those of code are its text."""
    return call["arguments"] if call["kind"] == "custom" else json.loads(call["arguments"])


@pytest.mark.parametrize("path", FILES, ids=[p.stem for p in FILES])
def test_conversations_equal_the_file(path):
    frames = read_frames([path])
    rows = json.loads(path.read_bytes())
    attempts = frames["attempts"].sort("source_pos").to_dicts()
    assert [a["native_attempt_id"] for a in attempts] == [r["id"] for r in rows]
    for attempt, row in zip(attempts, rows, strict=True):
        messages = frames["messages"].filter(attempt_id=attempt["attempt_id"]).sort("message_index").to_dicts()
        assert len(messages) == len(row["content"])
        for message, entry in zip(messages, row["content"], strict=True):
            role, content, calls = expected(entry)
            assert role in (None, message["role"])
            assert message["content"] == content
            assert [(c["name"], value(c)) for c in message["tool_calls"] or ()] == calls
            assert {c["id"] for c in message["tool_calls"] or ()} <= {None}
        # In these files each call is followed at once by its result.
        steps = frames["steps"].filter(attempt_id=attempt["attempt_id"], source="agent").sort("step_index").to_dicts()
        followed = [
            [after["content"]] if entry["class_"] in ("api_action", "code_action") else []
            for entry, after in zip(row["content"], [*row["content"][1:], {}], strict=True)
            if entry["class_"].endswith("_action")
        ]
        assert [[o["content"] for o in s["observations"]] for s in steps] == followed


def test_there_are_files():
    assert FILES
