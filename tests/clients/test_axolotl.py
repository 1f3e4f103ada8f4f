"""Axolotl 0.21.0: its own chat-template strategy on our files."""

from __future__ import annotations

import importlib
import json
from types import SimpleNamespace

import pytest

from tests.clients.files import configs, load, load_jsonl
from tests.clients.stubs import trainer

SETTINGS = {
    "type": "chat_template",
    "field_messages": "messages",
    "message_field_training": "training",
    "roles_to_train": ["assistant"],
    "message_property_mappings": {"role": "role", "content": "content"},
}


@pytest.fixture(scope="module")
def axolotl(trainers):
    bare = ("axolotl", "axolotl.prompt_strategies")
    with trainer(trainers, bare=bare, absent=("PIL", "fire")):
        chat = importlib.import_module("axolotl.prompt_strategies.chat_template")
        settings = importlib.import_module("axolotl.utils.dict").DictDefault
        yield SimpleNamespace(chat=chat, settings=settings)


@pytest.fixture
def strategy(axolotl, tokenizer, templates, monkeypatch):
    monkeypatch.setattr(tokenizer, "chat_template", templates["qwen2_5"])
    config = axolotl.settings({"chat_template": "tokenizer_default", "sequence_len": 1 << 20, "train_on_inputs": False})
    return axolotl.chat.StrategyLoader()(tokenizer, config, ds_cfg=SETTINGS)


def rows(folder, how=load):
    if "axolotl" not in configs(folder):
        pytest.skip("no axolotl in the dataset")
    data = how(folder, "axolotl")
    return data.select(range(min(len(data), 12)))


def tokenized(data, strategy):
    """As the trainer's own dataset maps it."""
    return data.map(strategy.tokenize_prompt, remove_columns=data.column_names, batched=True)


def loss(message):
    return message["role"] == "assistant" and message["training"] is not False


def test_only_flagged_turns_carry_loss(dataset_dir, strategy, tokenizer):
    data = rows(dataset_dir)
    made = tokenized(data, strategy)
    assert len(made) == len(data)
    for row, out in zip(data, made, strict=True):
        learnt = tokenizer.decode([t for t in out["labels"] if t != -100])
        assert not any(m["training"] for m in row["messages"] if m["role"] != "assistant")
        turns = [m for m in row["messages"] if loss(m)]
        assert learnt.count("<|im_end|>") == len(turns)
        assert learnt.count("<tool_call>") == sum(len(m["tool_calls"] or ()) for m in turns)
        assert all(m["content"].strip() in learnt for m in turns)
        assert "<tool_response>" not in learnt


def test_arguments_reach_the_prompt_whole(dataset_dir, strategy, tokenizer):
    # The trainer takes every null out of a row before it looks at it: an argument that is null lives in text.
    data = rows(dataset_dir)
    for row, out in zip(data, tokenized(data, strategy), strict=True):
        whole = tokenizer.decode(out["input_ids"])
        for call in (c["function"] for m in row["messages"] for c in m["tool_calls"] or ()):
            told = call["arguments"]
            told = json.loads(told) if isinstance(told, str) else told
            assert f'{{"name": "{call["name"]}", "arguments": {json.dumps(told, ensure_ascii=False)}}}' in whole


def test_tools_reach_the_prompt(dataset_dir, strategy, tokenizer):
    data = rows(dataset_dir)
    for row, out in zip(data, tokenized(data, strategy), strict=True):
        whole = tokenizer.decode(out["input_ids"])
        for tool in json.loads(row["tools"] or "[]"):
            assert f'"name": "{tool["function"]["name"]}"' in whole


def test_jsonl_gives_the_same_tokens(dataset_dir, strategy):
    assert (
        tokenized(rows(dataset_dir), strategy).to_list() == tokenized(rows(dataset_dir, load_jsonl), strategy).to_list()
    )


def test_a_flag_that_is_false_takes_the_loss_away(crafted, strategy, tokenizer):
    data = rows(crafted).to_list()
    (row,) = [r for r in data if r["task_id"] == "desk-0"]
    first = next(m for m in row["messages"] if m["role"] == "assistant")
    first["training"] = False
    out = strategy.tokenize_prompt(row)
    learnt = tokenizer.decode([t for t in out["labels"] if t != -100])
    assert '"name": "search"' not in learnt
    assert '"name": "refund"' in learnt
