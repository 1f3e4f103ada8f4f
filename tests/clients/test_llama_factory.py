"""LLaMA-Factory 0.9.5: its own parser of dataset_info.json, sharegpt converter and Qwen template on our files."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.clients.files import configs, load
from tests.clients.stubs import trainer

NAMES = ("llama-factory", "llama-factory-dpo", "llama-factory-kto")
ABSENT = ("PIL", "av", "librosa", "torchaudio", "omegaconf")
DATA = "llamafactory.data"


def parts(value):
    """Text and calls of a turn: the calls are its last line, between marks when there is text beside them."""
    before, _, last = value.removesuffix("\n</tool_call>").rpartition("\n")
    return before.removesuffix("<tool_call>"), json.loads(last)


@pytest.fixture(scope="module")
def llama(trainers):
    with trainer(trainers, bare=("llamafactory", DATA), absent=ABSENT):
        parts = {n: importlib.import_module(f"{DATA}.{n}") for n in ("parser", "converter", "template")}
        yield SimpleNamespace(**parts)


def attributes(llama, folder, config):
    """What the trainer makes of the entry in our dataset_info.json."""
    if config not in configs(folder):
        pytest.skip(f"no {config} in the dataset")
    (found,) = llama.parser.get_dataset_list([config], str(folder))
    return found


def converted(llama, folder, config):
    data = load(folder, config)
    data = data.select(range(min(len(data), 40)))
    arguments = SimpleNamespace(media_dir="")
    convert = llama.converter.get_dataset_converter("sharegpt", attributes(llama, folder, config), arguments)
    return [(row, convert(row)) for row in data]


@pytest.mark.parametrize("config", NAMES)
def test_dataset_info_names_files_of_one_kind(dataset_dir, llama, config):
    told = attributes(llama, dataset_dir, config)
    assert (told.load_from, told.formatting, told.ranking) == ("file", "sharegpt", config == "llama-factory-dpo")
    path = Path(dataset_dir) / told.dataset_name
    # A folder is taken whole, and refused when its files end differently.
    files = list(path.iterdir()) if path.is_dir() else [path]
    assert all(p.is_file() for p in files)
    assert len({p.suffix for p in files}) == 1
    assert not [p for p in files if not p.name.startswith("train-")]
    rows = {".jsonl": lambda p: len(p.read_text("utf-8").splitlines())}
    if files[0].suffix == ".jsonl":
        assert sum(map(rows[".jsonl"], files)) == len(load(dataset_dir, config))


@pytest.mark.parametrize("config", NAMES)
def test_no_row_is_abnormal(dataset_dir, llama, config):
    for row, made in converted(llama, dataset_dir, config):
        assert made["_prompt"]
        assert len(made["_response"]) == (1 if config == "llama-factory" else 2)
        assert made["_system"] == row["system"]
        assert made["_tools"] == row["tools"]
        if config == "llama-factory-kto":
            # The converter marks the class by the place of an empty answer.
            assert [bool(m["content"]) for m in made["_response"]] == [row["kto_tag"], not row["kto_tag"]]
        if config == "llama-factory-dpo":
            assert made["_response"][0] != made["_response"][1]


def test_calls_results_and_tools_reach_the_template(dataset_dir, llama, tokenizer):
    template = llama.template.TEMPLATES["qwen"]
    for row, made in converted(llama, dataset_dir, "llama-factory"):
        pairs = template.encode_multiturn(
            tokenizer, made["_prompt"] + made["_response"], made["_system"], made["_tools"]
        )
        sources, targets = (["".join(tokenizer.decode(ids)) for ids in side] for side in zip(*pairs, strict=True))
        turns = row["conversations"]
        assert len(targets) * 2 == len(turns)
        for turn, text in zip(turns[1::2], targets, strict=True):
            if turn["from"] == "gpt":
                assert text.startswith(turn["value"])
                continue
            before, calls = parts(turn["value"])
            assert text.count("<tool_call>") == len(calls)
            for call in calls:
                assert isinstance(call["arguments"], dict)
                assert json.dumps(call["arguments"], ensure_ascii=False) in text
            assert text.startswith(before)
        for turn, text in zip(turns[::2], sources, strict=True):
            assert turn["value"] in text
            assert ("<tool_response>" in text) >= (turn["from"] == "observation")
        for tool in json.loads(row["tools"] or "[]"):
            assert f'"name": "{tool.get("function", tool)["name"]}"' in sources[0]


def test_its_openai_format_loses_text_beside_calls(crafted, llama):
    # Why we write sharegpt for it.
    attr = SimpleNamespace(
        messages="messages", role_tag="role", content_tag="content", user_tag="user", assistant_tag="assistant",
        observation_tag="tool", function_tag="function_call", system_tag="system", system=None, tools="tools",
        kto_tag=None, ranking=False, images=None, videos=None, audios=None, load_from="file",
    )  # fmt: skip
    convert = llama.converter.get_dataset_converter("openai", attr, SimpleNamespace(media_dir=""))
    (row,) = [r for r in load(crafted, "sft") if r["task_id"] == "desk-0"]
    made = convert(row)
    assert "Found it, refunding all of it." not in json.dumps(made)
    (plain,) = [r for r in load(crafted, "sft") if r["task_id"] == "desk-3"]
    assert convert(plain | {"tools": ""})["_system"] == "detailed thinking off"
    (ours,) = [r for r, _ in converted(llama, crafted, "llama-factory") if r["task_id"] == "desk-0"]
    assert "Found it, refunding all of it." in json.dumps(ours)
