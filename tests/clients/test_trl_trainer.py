"""The packaged trainer, as a run calls it: TRL on a tiny model, two steps, with a receipt that holds."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from expcomp.io.digest import sha256_file
from expcomp.io.job_files import hash_tree
from expcomp.training.documents import read_document
from expcomp.training.receipts import TrainingReceipt
from expcomp.training.run.context import RunOptions
from expcomp.training.run.machine import run_training
from expcomp.training.run.results import TrainingFailure, TrainingSuccess
from expcomp.training.run.trainer import CommandTrainer, PinnedFile
from expcomp.training.run.verify import verify_job
from tests.training.made import document, profile, row, sha, write

OPTIONS = {
    "max_steps": 2,
    "per_device_train_batch_size": 2,
    "learning_rate": 1e-3,
    "use_cpu": True,
    "bf16": False,
    "gradient_checkpointing": False,
    "seed": 0,
}
GRPO = {"num_generations": 2, "max_completion_length": 4}
REWARD = "def length(completions, **columns):\n    return [float(len(c[0]['content'])) for c in completions]\n"


def trained(folder: Path, model: Path, kind: str, /, **parameters) -> TrainingSuccess | TrainingFailure:
    rows = [row(f"t{n}", "validation" if n == 3 else "train", kind=kind) for n in range(4)]
    if kind == "dpo":  # prompts that a chat template can render
        for one in rows:
            one["data"] = {
                "prompt": [{"role": "user", "content": "Count."}],
                "chosen": [{"role": "assistant", "content": "Twelve."}],
                "rejected": [{"role": "assistant", "content": "A few."}],
            }
    dataset = write(folder / "train.json", document(rows, kind))
    (folder / "reward.py").write_text(REWARD)
    python = Path(sys.executable)
    trainer = CommandTrainer(
        id=f"trl-{kind}",
        executable=PinnedFile(python, sha256_file(python.resolve())),
        args=("-I", "-m", "expcomp.training.trl_trainer"),
        inputs=(PinnedFile(folder / "reward.py", sha256_file(folder / "reward.py")),),
        environment={"HF_HUB_OFFLINE": "1", "HF_HOME": str(folder / "hf"), "HOME": str(folder), "OMP_NUM_THREADS": "1"},
    )
    given = {"model": str(model), "options": OPTIONS | (GRPO if kind == "grpo" else {})}
    options = RunOptions(
        trainer=trainer,
        dataset=dataset,
        dataset_digest=sha256_file(dataset),
        execution_ref=sha("execution"),
        out=folder / "runs",
        checkpoint="directory",
        parameters=given | ({"reward": "inputs/reward.py:length"} if kind == "grpo" else {}) | parameters,
        timeout=600,
    )
    return run_training(profile(), options)


@pytest.mark.parametrize("kind", ["sft", "dpo", "grpo"])
def test_two_steps_give_a_checkpoint_that_loads_and_a_receipt_that_holds(tmp_path, model, kind):
    from transformers import AutoModelForCausalLM, AutoTokenizer

    result = trained(tmp_path, model, kind, model_digest=hash_tree(model, 1 << 30).digest)
    log = next(tmp_path.glob("runs/*/trainer.log"), None)
    assert isinstance(result, TrainingSuccess), (result, log and log.read_text()[-4000:])
    job = Path(result.output_directory)
    assert False not in verify_job(job)["ok"].to_list()
    assert AutoModelForCausalLM.from_pretrained(job / "checkpoint").config.hidden_size == 32
    assert AutoTokenizer.from_pretrained(job / "checkpoint").eos_token == "<|im_end|>"
    seen = read_document(TrainingReceipt, job / "receipt.json").observations["trainer"]
    assert (seen["method"], seen["steps"], seen["rows"]) == (kind, 2, {"train": 3, "validation": 1})
    assert len(seen["losses"]) == 2
    assert hash_tree(job / "checkpoint", 1 << 30).digest != hash_tree(model, 1 << 30).digest


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"options": {"output_dir": "x"}}, "options.output_dir"),
        ({"options": {"no_such": 1}}, "options.no_such"),
        ({"model": "none"}, "is no folder"),
        ({"model_digest": sha("other")}, "expected sha256"),
        ({"reward": "inputs/reward.py:length"}, "has no use for it"),
        ({"epochs": 1}, "epochs"),
    ],
)
def test_a_parameter_that_cannot_be_used_is_told_in_the_log(tmp_path, model, more, told):
    result = trained(tmp_path, model, "sft", **more)
    assert isinstance(result, TrainingFailure)
    assert result.stage == "training"
    (log,) = tmp_path.glob("runs/*/trainer.log")
    assert told in log.read_text()


def test_the_request_alone_is_enough(tmp_path, model):
    result = trained(tmp_path, model, "sft")
    assert isinstance(result, TrainingSuccess)
    plan = json.loads((Path(result.output_directory) / "run.json").read_bytes())
    assert plan["trainer"]["parameters"]["options"] == OPTIONS
