"""verl 0.9.1: its own RLHFDataset and MultiTurnSFTDataset on our files."""

from __future__ import annotations

import importlib
import json
import sys

import pytest

from tests.clients.files import configs, lines, split
from tests.clients.stubs import trainer

BARE = ("verl", "verl.utils", "verl.utils.dataset", "verl.models", "verl.models.transformers")
ABSENT = ("PIL", "omegaconf", "tensordict", "verl.models.transformers.qwen2_vl", "verl.utils.dataset.vision_utils")


@pytest.fixture(scope="module")
def verl(trainers):
    with trainer(trainers, bare=BARE, absent=ABSENT):
        rl = importlib.import_module("verl.utils.dataset.rl_dataset")
        sys.modules["verl.utils"].hf_tokenizer = None  # only for a tokenizer that is given by name
        sft = importlib.import_module("verl.utils.dataset.multiturn_sft_dataset")
        yield rl.RLHFDataset, sft.MultiTurnSFTDataset


def files(folder, config, end):
    if config not in configs(folder) or not (found := split(folder, config, end)):
        pytest.skip(f"no {config} in the dataset")
    return found


@pytest.mark.parametrize("end", ["parquet", "jsonl"])
def test_rl_dataset_gives_prompts_truths_and_indices(dataset_dir, verl, tokenizer, tmp_path, end):
    config = {"cache_dir": str(tmp_path), "max_prompt_length": 1 << 20, "filter_overlong_prompts_workers": None}
    data = verl[0](files(dataset_dir, "verl-rl", end), tokenizer, config)
    want = lines(dataset_dir, "verl-rl")
    assert len(data) == len(want)
    for position in range(min(len(data), 50)):
        got, row = data[position], want[position]
        assert got["raw_prompt"] == row["prompt"]
        assert all(set(m) == {"role", "content"} for m in got["raw_prompt"])
        assert (got["data_source"], got["ability"]) == (row["data_source"], "agent")
        assert got["reward_model"] == row["reward_model"]
        assert isinstance(got["reward_model"]["ground_truth"], str)
        assert (got["index"], got["tools_kwargs"]) == (row["extra_info"]["index"], {})
    assert len({data[i]["index"] for i in range(len(data))}) == len(data)


def test_rl_tools_of_other_rows_would_be_padded(verl, tokenizer, tmp_path):
    # Why `extra_info` names no tools: what one row has, all rows get, and a tool is then made from null.
    from datasets import Dataset

    prompt = [{"role": "user", "content": "x"}]
    rows = [{"prompt": prompt, "extra_info": {"index": i, "tools_kwargs": {t: {"k": 1}}}} for i, t in enumerate("ab")]
    Dataset.from_list(rows).to_parquet(tmp_path / "n.parquet")
    data = verl[0](
        [str(tmp_path / "n.parquet")], tokenizer, {"cache_dir": str(tmp_path), "filter_overlong_prompts": False}
    )
    assert data[0]["tools_kwargs"] == {"a": {"k": 1}, "b": None}


def trained(data, position, tokenizer):
    """Stretches of text that carry loss."""
    row = data[position]
    out, last = [], None
    for at, (token, loss) in enumerate(zip(row["input_ids"].tolist(), row["loss_mask"].tolist(), strict=True)):
        if loss:
            if last != at - 1:
                out.append([])
            out[-1].append(token)
            last = at
    return [tokenizer.decode(tokens) for tokens in out]


def test_sft_dataset_trains_on_the_turns_of_the_agent(dataset_dir, verl, tokenizer):
    data = verl[1](
        files(dataset_dir, "verl-sft", "parquet"), tokenizer, {"pad_mode": "no_padding", "max_length": 1 << 22}
    )
    want = lines(dataset_dir, "verl-sft")
    assert len(data) == len(want)
    for position, row in enumerate(want[:20]):
        said = [m["content"] for m in row["messages"] if m["role"] == "assistant"]
        assert trained(data, position, tokenizer) == [f"{text}<|im_end|>\n" for text in said]
        assert {m["role"] for m in row["messages"]} <= {"system", "user", "assistant"}


def test_sft_dataset_cannot_take_what_other_targets_carry(verl, tokenizer, tmp_path):
    # Why this target is text without a `tools` column.
    import pyarrow as pa
    import pyarrow.parquet as pq

    messages = [{"role": "user", "content": "x"}, {"role": "assistant", "content": "y"}]
    for name, tools in (("null", [None, "[]"]), ("text", [json.dumps([{"type": "function"}])] * 2)):
        path = tmp_path / f"{name}.parquet"
        pq.write_table(pa.table({"messages": [messages] * 2, "tools": tools}), path)
        data = verl[1]([str(path)], tokenizer, {"pad_mode": "no_padding"})
        with pytest.raises(Exception, match=r"(?i)tool|NAType|str|schema|iter"):
            data[0]
