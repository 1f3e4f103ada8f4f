"""Every OpenHands sample, word for word: the raw events read here with the json module alone."""

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
ROOT = Path(REFERENCE) / "traces" / "openhands"
FOLDERS = sorted(p.parent for p in ROOT.rglob("base_state.json"))
FILES = sorted(p for p in ROOT.glob("*.json"))


def words(parts):
    return "".join(p["text"] for p in parts)


@pytest.mark.parametrize("folder", FOLDERS, ids=[p.name[:8] for p in FOLDERS])
def test_a_conversation_equals_its_events(folder):
    frames = read_frames([folder])
    events = [json.loads(p.read_bytes()) for p in sorted((folder / "events").glob("event-*.json"))]
    said, done = [], set()
    for event in events:
        kind = event["kind"]
        if kind == "SystemPromptEvent":
            said.append(("system", event["system_prompt"]["text"], [], None))
        elif kind == "MessageEvent":
            said.append((event["llm_message"]["role"], words(event["llm_message"]["content"]), [], None))
        elif kind == "ActionEvent" and event["llm_response_id"] not in done:
            done.add(event["llm_response_id"])
            own = [e for e in events if e.get("llm_response_id") == event["llm_response_id"]]
            calls = [(e["tool_call_id"], e["tool_call"]["name"], e["tool_call"]["arguments"]) for e in own]
            said.append(("assistant", words(event["thought"]) or None, calls, None))
        elif kind == "ObservationEvent":
            said.append(("tool", words(event["observation"]["content"]), [], event["tool_call_id"]))
    loaded = [
        (
            m["role"],
            m["content"],
            [(c["id"], c["name"], c["arguments"]) for c in m["tool_calls"] or ()],
            m["tool_call_id"],
        )
        for m in frames["messages"].sort("message_index").to_dicts()
    ]
    assert loaded == said
    thoughts = [e["reasoning_content"] for e in events if e.get("reasoning_content")]
    assert frames["steps"].sort("step_index")["reasoning"].drop_nulls().to_list() == thoughts
    (attempt,) = frames["attempts"].to_dicts()
    assert json.loads(attempt["tools"]) == events[0]["tools"]
    state = json.loads((folder / "base_state.json").read_bytes())
    own = state["stats"]["usage_to_metrics"]["agent"]
    used = dict(
        frames["steps"].filter(pl.col("llm_call_id").is_not_null()).select("llm_call_id", "input_tokens").rows()
    )
    assert used == {u["response_id"]: u["prompt_tokens"] for u in own["token_usages"]}
    assert "api_key" not in attempt["params"].replace('"auth_type":"api_key"', "")
    assert "*****" not in frames["attempts"].write_ndjson()


def conversations(document):
    """Lists of events of a file."""
    if isinstance(document[0], dict) and "trajectory" in document[0]:
        return [row["trajectory"] for row in document]
    return [document]


@pytest.mark.parametrize("path", FILES, ids=[p.stem for p in FILES])
def test_v0_events_are_all_there(path):
    frames = read_frames([path])
    attempts = frames["attempts"].sort("source_pos")["attempt_id"].to_list()
    for attempt, events in zip(attempts, conversations(json.loads(path.read_bytes())), strict=True):
        messages = frames["messages"].filter(pl.col("attempt_id") == attempt).sort("message_index")
        users = [e["args"]["content"] for e in events if (e.get("source"), e.get("action")) == ("user", "message")]
        assert messages.filter(pl.col("origin") == "human")["content"].to_list() == users
        acts = [
            e
            for e in events
            if e.get("source") == "agent" and e.get("action") and e["action"] not in ("system", "recall")
        ]
        loaded = messages.filter(pl.col("role") == "assistant").to_dicts()
        assert len(loaded) == len(acts)
        for row, event in zip(loaded, acts, strict=True):
            if event["action"] == "message":
                assert row["content"] == event["args"]["content"]
                continue
            (call,) = row["tool_calls"]
            meta = event.get("tool_call_metadata")
            if meta:
                (made,) = meta["model_response"]["choices"][0]["message"]["tool_calls"]
                assert (call["id"], call["name"]) == (made["id"], made["function"]["name"])
                assert call["arguments"] == made["function"]["arguments"]
            else:
                assert (call["id"], call["name"]) == (str(event["id"]), event["action"])
                given = {k: v for k, v in event["args"].items() if k not in ("thought", "is_confirmed")}
                assert json.loads(call["arguments"]) == given
                assert row["content"] == (event["args"].get("thought") or None)
        results = [
            (e["observation"], e["content"])
            for e in events
            if e.get("observation") and e["observation"] not in ("agent_state_changed", "recall")
        ]
        assert messages.filter(pl.col("role") == "tool")["content"].to_list() == [text for _, text in results]
        for event in events:
            if event.get("cause") is not None and event["observation"] != "recall":
                wanted = (event.get("tool_call_metadata") or {}).get("tool_call_id") or str(event["cause"])
                own = messages.filter((pl.col("role") == "tool") & (pl.col("tool_call_id") == wanted))
                assert own["content"].to_list() == [event["content"]]


def test_the_feedback_is_the_only_label():
    path = next(p for p in FILES if "feedback" in p.stem)
    frames = read_frames([path])
    words_ = [row["feedback"] for row in json.loads(path.read_bytes())]
    assert frames["grades"]["label"].to_list() == words_
    assert frames["attempts"]["passed"].null_count() == len(words_)
