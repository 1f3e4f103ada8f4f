"""OpenRLHF 0.11.2: its own SFT, reward and prompt datasets on our files."""

from __future__ import annotations

import importlib
from types import SimpleNamespace

import pytest

from tests.clients.files import configs, load, split
from tests.clients.stubs import trainer


@pytest.fixture(scope="module")
def openrlhf(trainers):
    with trainer(trainers, bare=("openrlhf", "openrlhf.utils"), absent=("deepspeed", "openrlhf.utils.deepspeed")):
        yield importlib.import_module("openrlhf.datasets")


def strategy(**keys):
    return SimpleNamespace(args=SimpleNamespace(data=SimpleNamespace(**keys)), is_rank_0=lambda: False)


def rows(folder, config):
    if config not in configs(folder):
        pytest.skip(f"no {config} in the dataset")
    data = load(folder, config)
    return data.select(range(min(len(data), 40)))


def test_no_jsonl_for_this_trainer(dataset_dir):
    for config in configs(dataset_dir):
        if config.startswith("openrlhf"):
            assert split(dataset_dir, config, "parquet")
            assert not split(dataset_dir, config, "jsonl")


def test_sft_trains_on_the_turns_of_the_agent(dataset_dir, openrlhf, tokenizer):
    data = rows(dataset_dir, "openrlhf")
    keys = strategy(input_key="messages", apply_chat_template=True)
    made = openrlhf.SFTDataset(data, tokenizer, 1 << 22, keys, num_processors=None, multiturn=True)
    assert len(made) == len(data)
    for position, row in enumerate(data):
        ids, _, loss = made[position]
        ids, loss = ids[0].tolist(), loss[0].tolist()
        # The mask is of the logits: it stands one place before the token that is learnt.
        learnt = tokenizer.decode([ids[at + 1] for at, on in enumerate(loss[:-1]) if on])
        said = [m["content"] for m in row["messages"] if m["role"] == "assistant"]
        assert learnt.replace("\n", "") == "".join(f"{t}<|im_end|>" for t in said).replace("\n", "")


def test_pairs_share_their_prompt(dataset_dir, openrlhf, tokenizer):
    data = rows(dataset_dir, "openrlhf-dpo")
    keys = strategy(prompt_key="prompt", chosen_key="chosen", rejected_key="rejected", apply_chat_template=True)
    made = openrlhf.RewardDataset(data, tokenizer, 1 << 22, keys, num_processors=None)
    assert len(made) == len(data)
    assert all(isinstance(text, str) for texts in (made.prompts, made.chosens, made.rejects) for text in texts)
    for row, chosen, rejected in zip(data, made.chosens, made.rejects, strict=True):
        assert chosen != rejected or row["chosen"][0]["content"] == row["rejected"][0]["content"]
        assert chosen == f"{row['chosen'][0]['content']}<|im_end|>\n"
    assert list(made.extras) == (data["margin"][:] if "margin" in data.features else [0] * len(data))


def test_calls_are_in_the_pairs(dataset_dir, openrlhf, tokenizer, templates, monkeypatch):
    data = rows(dataset_dir, "openrlhf-dpo")
    monkeypatch.setattr(tokenizer, "chat_template", templates["qwen3"])
    keys = strategy(prompt_key="prompt", chosen_key="chosen", rejected_key="rejected", apply_chat_template=True)
    made = openrlhf.RewardDataset(data, tokenizer, 1 << 22, keys, num_processors=None)
    for row, chosen, rejected in zip(data, made.chosens, made.rejects, strict=True):
        assert chosen != rejected
        for call in row["chosen"][0]["tool_calls"] or ():
            assert f'"name": "{call["function"]["name"]}"' in chosen


def test_pairs_from_jsonl_would_be_lists_of_letters(crafted, openrlhf, tokenizer):
    # Why this target has Parquet alone (G1).
    from datasets import load_dataset

    if not (twin := split(crafted, "dpo", "jsonl")):
        pytest.skip("no dpo in the dataset")
    keys = strategy(prompt_key="prompt", chosen_key="chosen", rejected_key="rejected", apply_chat_template=True)
    naive = load_dataset("json", data_files=twin, split="train")
    made = openrlhf.RewardDataset(naive, tokenizer, 1 << 22, keys, num_processors=None)
    assert isinstance(made.chosens[0], list)


def test_prompts_carry_their_truth(dataset_dir, openrlhf, tokenizer):
    data = rows(dataset_dir, "openrlhf-rl")
    keys = strategy(input_key="prompt", label_key="ground_truth", apply_chat_template=True)
    made = openrlhf.PromptDataset(data, tokenizer, keys)
    assert len(made) == len(data)
    for position, row in enumerate(data):
        source, prompt, label, image = made[position]
        assert (source, label, image) == (row["datasource"], row["ground_truth"], None)
        assert prompt.endswith("<|im_start|>assistant\n")
        assert all(m["content"] in prompt for m in row["prompt"])
