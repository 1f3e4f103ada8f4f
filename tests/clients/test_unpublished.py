"""NeMo-RL and prime-rl are on no package index: what their code of August 2026 asks of a row, held against our files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.clients.files import bare, configs, load, split

MESSAGE = {
    "system": {"role", "content"},
    "user": {"role", "content"},
    "assistant": {"role", "content", "reasoning_content", "tool_calls"},
    "tool": {"role", "content", "tool_call_id", "name"},
}


def native(folder, config):
    """Rows of a target that is JSONL alone, which the card therefore does not name."""
    found = split(folder, config, "jsonl")
    if not found:
        pytest.skip(f"no {config} in the dataset")
    assert not split(folder, config, "parquet")
    return [json.loads(x) for p in found for x in Path(p).read_text("utf-8").splitlines()]


def holds_null(value):
    if isinstance(value, dict):
        return any(v is None or holds_null(v) for v in value.values())
    return isinstance(value, list) and any(v is None or holds_null(v) for v in value)


def check_messages(messages):
    """Keys that are absent are left out, arguments are objects, a tool answers a call that was made before."""
    asked = set()
    for position, message in enumerate(messages):
        assert set(message) <= MESSAGE[message["role"]]
        assert isinstance(message["content"], str)
        assert message["role"] != "system" or position == 0
        assert not holds_null({k: v for k, v in message.items() if k != "tool_calls"})
        for call in message.get("tool_calls", ()):
            assert set(call) == {"id", "type", "function"}
            assert isinstance(call["function"]["arguments"], dict)
            asked.add(call["id"])
        assert message["role"] != "tool" or message["tool_call_id"] in asked


def check_tools(row):
    """A list of objects, for a text goes straight to the template; null where there are none, never an empty list."""
    assert row.get("tools") != []
    for tool in row.get("tools") or ():
        assert tool["type"] == "function"
        assert isinstance(tool["function"]["name"], str)


def test_nemo_sft(dataset_dir):
    for row in native(dataset_dir, "nemo-rl"):
        check_messages(row["messages"])
        check_tools(row)
        assert row["messages"][-1]["role"] == "assistant"


def test_nemo_pairs_are_ranked(dataset_dir):
    for row in native(dataset_dir, "nemo-rl-dpo"):
        assert [c["rank"] for c in row["completions"]] == [0, 1]
        good, bad = (c["completion"] for c in row["completions"])
        assert good != bad
        for answer in (good, bad):
            check_messages(row["context"] + answer)
            assert [m["role"] for m in answer] == ["assistant"]
        assert row["context"][-1]["role"] in {"user", "tool"}
        check_tools(row)


def test_nemo_prompts_are_texts(dataset_dir):
    for row in native(dataset_dir, "nemo-rl-grpo"):
        assert row["input"]
        assert isinstance(row["input"], str)
        assert isinstance(row["output"], str)


def test_nemo_tools_as_text_would_fail_in_the_template(crafted, tokenizer, templates):
    # Why this target has native objects.
    (row,) = [r for r in native(crafted, "nemo-rl") if r["task_id"] == "desk-0"]
    render = {"chat_template": templates["qwen3"], "tokenize": False}
    with_tools = tokenizer.apply_chat_template(row["messages"], tools=row["tools"], **render)
    assert '"name": "refund"' in with_tools
    with pytest.raises(Exception, match=r"(?i)tool|str|schema|callable"):
        tokenizer.apply_chat_template(row["messages"], tools=json.dumps(row["tools"]), **render)


def test_prime_rows_are_those_of_sft(dataset_dir):
    if not {"prime-rl", "sft"} <= set(configs(dataset_dir)):
        pytest.skip("no prime-rl beside sft in the dataset")
    rows = load(dataset_dir, "prime-rl").to_list()
    assert rows == load(dataset_dir, "sft").to_list()
    for row in rows:
        # As it reads them: nulls are stripped, but not inside arguments; tools are parsed when they are text.
        check_messages(bare(row["messages"]))
        tools = json.loads(row["tools"]) if row["tools"] else None
        assert tools is None or (isinstance(tools, list) and tools)
