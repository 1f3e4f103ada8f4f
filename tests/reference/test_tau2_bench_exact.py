"""Every tau2-bench sample, turn by turn, against the file as the json module reads it."""

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
ROOT = Path(REFERENCE) / "traces" / "tau"
FILES = [p for p in sorted(ROOT.rglob("*.json")) if "simulations" in json.loads(p.read_bytes())]


def turn(message):
    """Role, text, calls and answered call of a message of the file."""
    calls = [(c["id"], c["name"], c["arguments"]) for c in message.get("tool_calls") or ()]
    return message["role"], message["content"], calls, message["id"] if message["role"] == "tool" else None


def loaded(row):
    """The same of a message that was loaded."""
    calls = [(c["id"], c["name"], json.loads(c["arguments"])) for c in row["tool_calls"] or ()]
    return row["role"], row["content"], calls, row["tool_call_id"]


@pytest.mark.parametrize("path", FILES, ids=[p.stem[:40] for p in FILES])
def test_conversations_equal_the_file(path):
    frames = read_frames([path])
    raw = json.loads(path.read_bytes())
    attempts = frames["attempts"].sort("source_pos").to_dicts()
    messages = frames["messages"].sort("attempt_id", "message_index").partition_by("attempt_id", as_dict=True)
    steps = frames["steps"].sort("attempt_id", "step_index").partition_by("attempt_id", as_dict=True)
    assert [a["native_attempt_id"] for a in attempts] == [s["id"] for s in raw["simulations"]]
    for attempt, simulation in zip(attempts, raw["simulations"], strict=True):
        rows = messages[attempt["attempt_id"],].to_dicts()
        assert [loaded(r) for r in rows] == [turn(m) for m in simulation["messages"]]
        own = steps[attempt["attempt_id"],].to_dicts()
        results = [m for m in simulation["messages"] if m["role"] == "tool"]
        seen = {(o["call_id"], o["content"], o["is_error"]) for s in own for o in s["observations"]}
        assert seen == {(m["id"], m["content"], m["error"]) for m in results}
        for step in own:
            called = [c["id"] for c in step["tool_calls"]]
            assert [o["call_id"] for o in step["observations"]] == called[: len(step["observations"])]
        assert attempt["trial"] == simulation["trial"]
        assert attempt["score"] == simulation["reward_info"]["reward"]
        assert attempt["task_id"].endswith(f"/{simulation['task_id']}")
        spent = [m["usage"] for m in simulation["messages"] if m["role"] == "assistant" and m["usage"]]
        assert attempt["input_tokens"] == sum(u["prompt_tokens"] for u in spent)
        assert attempt["output_tokens"] == sum(u["completion_tokens"] for u in spent)
        assert attempt["n_steps"] == len(spent)


@pytest.mark.parametrize("path", FILES, ids=[p.stem[:40] for p in FILES])
def test_every_check_is_a_grade(path):
    frames = read_frames([path])
    raw = json.loads(path.read_bytes())
    grades = frames["grades"].partition_by("attempt_id", as_dict=True)
    for attempt, simulation in zip(frames["attempts"].to_dicts(), raw["simulations"], strict=True):
        info = simulation["reward_info"]
        lists = ("env_assertions", "action_checks", "nl_assertions", "communicate_checks")
        checks = sum(len(info[name] or ()) for name in lists) + (info["db_check"] is not None)
        found = grades[attempt["attempt_id"],]
        assert found.height == checks + 1
        assert found.filter("is_primary")["value"].to_list() == [info["reward"]]
