"""TRL 1.16 on our files: the acceptance check, and what its chat templates print of a row."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from tests.clients.files import bare, configs, load

REFERENCE = os.environ.get("EXPCOMP_REFERENCE")
SMOKE = Path(REFERENCE or "").parent / "tools" / "trl_smoke.py"
# Render every row of ours; the others of the usual ones refuse parallel calls or lose text beside a call.
STRICT = ("qwen2_5", "qwen3", "qwen3_5_think", "glm4moe", "nemotron_3_nano")


@pytest.mark.reference
@pytest.mark.skipif(REFERENCE is None or not SMOKE.is_file(), reason="no trl_smoke.py beside EXPCOMP_REFERENCE")
def test_the_acceptance_check_passes(crafted):
    """Rows, twins and templates; `.ci/run` has it train too, on rows of real traces."""
    expect = "sft,sft_pc,dpo,grpo,kto,reward"
    command = [sys.executable, str(SMOKE), str(crafted), "--expect", expect, "--no-train"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    assert "0 failed" in done.stdout.splitlines()[-1]


@pytest.mark.parametrize("name", STRICT)
def test_templates_print_calls_as_they_were_made(crafted, tokenizer, templates, name):
    for row in load(crafted, "sft"):
        tools = row["tools"] and json.loads(row["tools"])
        render = {"chat_template": templates[name], "tools": tools, "tokenize": False}
        text = tokenizer.apply_chat_template(row["messages"], **render)
        # The nulls of the column format are no keys of the message.
        assert text == tokenizer.apply_chat_template(bare(row["messages"]), **render)
        for message in row["messages"]:
            assert message["content"] in text
            for call in message["tool_calls"] or ():
                assert call["function"]["name"] in text


def test_sft_can_be_masked_by_turn(dataset_dir, tokenizer, templates):
    """With TRL's training template every assistant turn, and nothing else, carries loss."""
    if "sft" not in configs(dataset_dir):
        pytest.skip("no sft in the dataset")
    data = load(dataset_dir, "sft")
    for row in data.select(range(min(len(data), 10))):
        out = tokenizer.apply_chat_template(
            row["messages"],
            tools=row["tools"] and json.loads(row["tools"]),
            chat_template=templates["qwen3_training"],
            return_dict=True,
            return_assistant_tokens_mask=True,
        )
        kept = [t for t, on in zip(out["input_ids"], out["assistant_masks"], strict=True) if on]
        learnt = tokenizer.decode(kept)
        assert learnt.count("<|im_end|>") == sum(m["role"] == "assistant" for m in row["messages"])
        assert "<tool_response>" not in learnt
        for message in (m for m in row["messages"] if m["role"] == "assistant"):
            assert message["content"].strip() in learnt


def test_kto_rows_of_one_task_are_no_neighbours(dataset_dir):
    """The KL term pairs a prompt with the completion of the row before."""
    if "kto" not in configs(dataset_dir):
        pytest.skip("no kto in the dataset")
    data = load(dataset_dir, "kto")
    assert set(data["label"]) == {True, False}
    tasks = data["task_id"][:]
    assert not [a for a, b in pairwise(tasks) if a == b]


@pytest.mark.parametrize("config", ["sft_pc", "dpo", "kto", "reward"])
def test_completions_are_one_turn_after_the_prompt(dataset_dir, config):
    if config not in configs(dataset_dir):
        pytest.skip(f"no {config} in the dataset")
    for row in load(dataset_dir, config):
        assert row["prompt"][-1]["role"] in {"user", "tool"}
        for key in {"completion", "chosen", "rejected"} & set(row):
            assert [m["role"] for m in row[key]] == ["assistant"]
        assert row.get("chosen") != row.get("rejected") or "chosen" not in row
