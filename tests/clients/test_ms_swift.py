"""ms-swift 4.6.0: its own AutoPreprocessor on our files."""

from __future__ import annotations

import importlib
import json
import sys

import pytest

from tests.clients.files import configs, load, load_jsonl
from tests.clients.stubs import trainer

BARE = ("swift", "swift.dataset", "swift.dataset.preprocessor", "swift.template")


@pytest.fixture(scope="module")
def preprocess(trainers, tmp_path_factory):
    with trainer(trainers, bare=BARE, absent=("modelscope", "PIL")):
        template = sys.modules["swift.template"]
        template.history_to_messages = importlib.import_module("swift.template.utils").history_to_messages
        template.MaxLengthError = type("MaxLengthError", (ValueError,), {})
        template.Template = object
        core = importlib.import_module("swift.dataset.preprocessor.core")
        sys.modules["swift.dataset.preprocessor"].RowPreprocessor = core.RowPreprocessor
        cache = str(tmp_path_factory.mktemp("swift"))
        core.get_cache_dir = lambda: cache
        yield lambda data: core.AutoPreprocessor()(data, strict=True, load_from_cache_file=False)


def rows(folder, config, how=load):
    if config not in configs(folder):
        pytest.skip(f"no {config} in the dataset")
    data = how(folder, config)
    return data.select(range(min(len(data), 40)))


def wanted(messages):
    """Messages in the trainer's own words: text, then one message a call, then results in the order of the calls."""
    out = []
    for message in messages:
        calls = message.get("tool_calls") or ()
        if message["content"] or not calls:
            out.append((message["role"], message["content"], message.get("loss")))
        for call in calls:
            function = call["function"]
            content = {"name": function["name"], "arguments": json.loads(function["arguments"])}
            out.append(("tool_call", content, message.get("loss")))
    return out


def got(messages):
    return [(m["role"], m["content"], m.get("loss")) for m in messages]


@pytest.mark.parametrize("how", [load, load_jsonl], ids=["parquet", "jsonl"])
def test_sft_keeps_calls_flags_and_tools(dataset_dir, preprocess, how):
    data = rows(dataset_dir, "ms-swift", how)
    made = preprocess(data)
    assert len(made) == len(data)
    for row, out in zip(data, made, strict=True):
        assert got(out["messages"]) == wanted(row["messages"])
        assert out["tools"] == (row["tools"] and json.loads(row["tools"]))
        assert not any("reasoning_content" in m for m in out["messages"])


def test_reasoning_stands_in_the_text(crafted, preprocess):
    (row,) = [
        r for r in preprocess(rows(crafted, "ms-swift")) if "The number of the order" in json.dumps(r["messages"])
    ]
    thought = next(m for m in row["messages"] if m["role"] == "assistant")
    assert thought["content"].startswith("<think>\nThe number of the order comes first.\n</think>")


def test_pairs_keep_both_sides(dataset_dir, preprocess):
    data = rows(dataset_dir, "ms-swift-dpo")
    for row, out in zip(data, preprocess(data), strict=True):
        assert got(out["messages"]) == wanted(row["messages"])
        assert got(out["rejected_messages"]) == wanted(row["rejected_messages"])
        assert out["messages"] != out["rejected_messages"]


def test_labels_are_kept(dataset_dir, preprocess):
    data = rows(dataset_dir, "ms-swift-kto")
    made = preprocess(data)
    assert made["label"] == data["label"]
    assert set(made["label"]) == {True, False}


def test_prompts_keep_their_solution(dataset_dir, preprocess):
    data = rows(dataset_dir, "ms-swift-grpo")
    made = preprocess(data)
    assert made["solution"] == data["solution"]
    assert [got(m) for m in made["messages"]] == [wanted(m) for m in data["messages"]]


def test_columns_of_trl_are_not_understood(crafted, preprocess):
    # Why this trainer has targets of its own.
    with pytest.raises(AssertionError, match=r"messages: \[\]"):
        preprocess(load(crafted, "dpo"))
