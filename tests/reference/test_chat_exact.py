"""Every sample of the chat family against the raw file, read again with the json module and nothing of the readers."""

from __future__ import annotations

import ast
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
ROOT = Path(REFERENCE) / "traces"
FILES = sorted(p for folder in ("chat", "hf") for p in (ROOT / folder).iterdir() if not p.name.startswith("adp_"))
ROLES = {"ai": "assistant", "function": "tool"}


def records(path):
    """Rows of a file, with the json module or as Parquet."""
    if path.suffix == ".parquet":
        return pl.read_parquet(path).to_dicts()
    if path.suffix == ".json":
        return json.loads(path.read_text("utf-8"))
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def turn(message):
    """Turns of a message as (role, text, calls, answered call); blocks of results are turns of their own."""
    role = ROLES.get(message["role"], message["role"])
    content = next((message[k] for k in ("content", "text", "system_prompt") if message.get(k) is not None), None)
    if isinstance(content, list):
        yield from blocks(role, content)
        return
    calls = [(c["id"], c["function"]["name"], c["function"]["arguments"]) for c in message.get("tool_calls") or ()]
    legacy = message.get("function_call")
    if legacy is not None:
        value = ast.literal_eval(legacy) if isinstance(legacy, str) else legacy
        calls.append((None, value["name"], value["arguments"]))
    yield role, content, calls, message.get("tool_call_id")


def blocks(role, content):
    said = "".join(b["text"] for b in content if b["type"] in ("text", "input_text", "output_text"))
    calls = [(b["id"], b["name"], json.dumps(b["input"], sort_keys=True)) for b in content if b["type"] == "tool_use"]
    for block in content:
        if block["type"] == "tool_result":
            inner = block["content"]
            text = inner if isinstance(inner, str) else "".join(p["text"] for p in inner)
            yield "tool", text, [], block["tool_use_id"]
    if said or calls or not any(b["type"] == "tool_result" for b in content):
        yield role, said or None, calls, None


def items(rows):
    """Turns of Responses items: what the model does between two inputs is one."""
    text, calls, own = None, [], False
    for row in rows:
        if row["type"].endswith("_output") or row.get("role") in ("user", "developer", "system"):
            if own:
                yield "assistant", text, calls, None
            text, calls, own = None, [], False
            if row["type"] == "message":
                yield row["role"], "".join(p["text"] for p in row["content"]), [], None
            else:
                yield "tool", row["output"], [], row["call_id"]
            continue
        own = True
        if row["type"] == "message":
            text = (text or "") + "".join(p["text"] for p in row["content"])
        elif row["type"] != "reasoning":
            calls.append((row["call_id"], row["name"], row.get("arguments", row.get("input"))))
    if own:
        yield "assistant", text, calls, None


def expected(path):
    """Turns of each attempt of a file."""
    rows = records(path)
    if "messages" not in rows[0] and "trajectory" not in rows[0]:
        return [list(items(rows))]
    return [[t for m in r.get("messages", r.get("trajectory")) for t in turn(m)] for r in rows]


def arguments(path, written):
    """Arguments that were an object in the file, in one spelling; text as it is."""
    return json.dumps(json.loads(written), sort_keys=True) if "anthropic" in path.name else written


@pytest.mark.parametrize("path", FILES, ids=[p.name for p in FILES])
def test_conversations_equal_the_file(path):
    frames = read_frames([path])
    attempts = frames["attempts"].sort("source_pos")["attempt_id"].to_list()
    wanted = expected(path)
    assert len(attempts) == len(wanted)
    for attempt, turns in zip(attempts, wanted, strict=True):
        rows = frames["messages"].filter(pl.col("attempt_id") == attempt).sort("message_index").to_dicts()
        loaded = [
            (
                m["role"],
                m["content"],
                [(c["id"], c["name"], arguments(path, c["arguments"])) for c in m["tool_calls"] or ()],
                m["tool_call_id"],
            )
            for m in rows
        ]
        assert loaded == turns
        steps = frames["steps"].filter(pl.col("attempt_id") == attempt, source="agent").sort("step_index").to_dicts()
        spoken = [t for t in turns if t[0] == "assistant"]
        assert [s["content"] for s in steps] == [t[1] for t in spoken]
        results = [o["content"] for s in steps for o in s["observations"]]
        assert results == [t[1] for t in turns if t[0] == "tool"]
        known = [o["call_id"] for s in steps for o in s["observations"]]
        assert known == [t[3] for t in turns if t[0] == "tool"]


@pytest.mark.parametrize("path", FILES, ids=[p.name for p in FILES])
def test_every_format_of_the_family_reads_every_file(path):
    base = read_frames([path])["messages"].drop("attempt_id")
    for name in ("openai_chat", "openai_responses", "anthropic_messages", "sharegpt", "hf_trajectories"):
        frames = read_frames([path], name)
        assert frames["messages"].drop("attempt_id").equals(base), name
        assert set(frames["attempts"]["source_format"]) == {name}
