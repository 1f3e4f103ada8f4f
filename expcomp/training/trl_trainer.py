"""A trainer command: TRL's SFT, DPO or GRPO on the dataset of a job, with the request on standard input.

`python -m expcomp.training.trl_trainer` (extra `train`). The format of the dataset says the method. Parameters of the run:

* `model`: folder of the model to start from; nothing is fetched. `model_digest`: the digest it has to have, as `hash_tree` gives it.
* `options`: fields of TRL's SFTConfig, DPOConfig or GRPOConfig, as they are called there (`max_steps`, `learning_rate`, `seed`, ...).
* `reward`: GRPO only: `inputs/<file>.py:<function>`, a reward function of TRL; it gets the other keys of the rows by keyword.

The checkpoint is the folder of model and tokenizer; what TRL logged goes to `observations.json`.
"""

from __future__ import annotations

import dataclasses
import importlib
import importlib.metadata
import importlib.util
import math
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import msgspec
import polars as pl

from expcomp.errors import ExpcompError, UsageError
from expcomp.io.documents import write_json
from expcomp.training.dataset import read_dataset
from expcomp.training.documents import Sha256, from_wire
from expcomp.training.local_models import model_digest
from expcomp.training.receipts import TrainingRequest
from expcomp.training.run.stages import OBSERVATIONS

METHODS = {"sft": "SFT", "dpo": "DPO", "grpo": "GRPO"}
"""Format of a dataset, and the prefix of TRL's classes for it."""

_LIBRARIES = ("torch", "transformers", "trl")
_KEYS = {"sft": ("messages", "tools"), "dpo": ("prompt", "chosen", "rejected", "tools")}
"""What TRL reads of a payload; a reward function gets all of it."""


class Parameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What a run says to this trainer."""

    model: Annotated[str, msgspec.Meta(min_length=1)]
    model_digest: Sha256 | None = None
    options: dict[str, Any] = {}
    reward: Annotated[str, msgspec.Meta(pattern=r"\Ainputs/[^/:]+\.py:[A-Za-z_]\w*\Z")] | None = None


def parameters_of(request: TrainingRequest, kind: str) -> Parameters:
    """Parameters of a request, for a dataset of this format.

    Raises:
        UsageError: One is missing, unknown or of another type; a model that is no folder; GRPO without a reward, or a reward without GRPO.
    """
    try:
        given = msgspec.convert(request.parameters, Parameters, strict=True)
    except msgspec.ValidationError as error:
        raise UsageError(f"parameters: {error}") from error
    if not Path(given.model).is_dir():
        raise UsageError(
            f"parameters, model: {given.model} is no folder; give one that holds a model and its tokenizer"
        )
    if (given.reward is None) != (kind != "grpo"):
        raise UsageError(
            f"parameters, reward: a {kind} dataset {'needs one' if kind == 'grpo' else 'has no use for it'}"
        )
    return given


def payloads(rows: pl.DataFrame, kind: str, partition: str) -> list[dict[str, Any]]:
    """Payloads of one partition, with what TRL reads of them."""
    data = rows.filter(pl.col("partition") == partition)["data"]
    made: list[dict[str, Any]] = msgspec.json.decode(f"[{data.str.join(',').item() or ''}]")
    keys = _KEYS.get(kind)
    if keys is None:  # GRPO samples its own completions, and calls what a reward gets by these names otherwise
        return [{k: v for k, v in p.items() if k not in ("completions", "rewards")} for p in made]
    return [{k: p[k] for k in keys if k in p} for p in made]


def reward_function(place: str) -> Callable[..., Any]:
    """The function that `inputs/<file>.py:<function>` names.

    Raises:
        UsageError: There is none.
    """
    path, _, name = place.partition(":")
    spec = importlib.util.spec_from_file_location("expcomp_reward", path)
    if spec is None or spec.loader is None or not Path(path).is_file():
        raise UsageError(f"parameters, reward: no file {path}; name it as an input of the trainer")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found = getattr(module, name, None)
    if not callable(found):
        raise UsageError(f"parameters, reward: {path} has no function {name}")
    return found  # type: ignore[no-any-return]


def _model(given: Parameters) -> str:
    found = model_digest(Path(given.model))
    if given.model_digest not in (None, found):
        raise UsageError(f"parameters, model: found {found}, expected {given.model_digest}")
    return found


def train(request: TrainingRequest) -> dict[str, Any]:
    """Train as a request says; what was measured.

    Raises:
        UsageError: A parameter that cannot be used.
        DatasetError: The dataset is refused by its checks.
    """
    dataset = read_dataset(Path(request.dataset_path))
    given = parameters_of(request, dataset.kind)
    model = _model(given)
    datasets, transformers, trl = (importlib.import_module(name) for name in ("datasets", "transformers", "trl"))
    config, trainer = (getattr(trl, METHODS[dataset.kind] + part) for part in ("Config", "Trainer"))
    known = {f.name for f in dataclasses.fields(config)}
    ours = {"report_to": "none", "save_strategy": "no", "logging_steps": 1, "disable_tqdm": True}
    for name in given.options:
        if name not in known or name in ("output_dir", "push_to_hub", *ours):
            raise UsageError(f"parameters, options.{name}: is no field of {config.__name__} that a run may set")
    parts = {p: payloads(dataset.rows, dataset.kind, p) for p in ("train", "validation")}
    frames = {p: datasets.Dataset.from_list(rows, on_mixed_types="use_json") for p, rows in parts.items() if rows}
    more = {} if given.reward is None else {"reward_funcs": reward_function(given.reward)}
    with tempfile.TemporaryDirectory(dir=".") as scratch:
        made = trainer(
            model=given.model,
            args=config(output_dir=scratch, **ours, **given.options),
            train_dataset=frames["train"],
            eval_dataset=frames.get("validation"),
            processing_class=transformers.AutoTokenizer.from_pretrained(given.model, local_files_only=True),
            **more,
        )
        result = made.train()
        made.save_model(request.checkpoint_path)
    return {
        "method": dataset.kind,
        "modelDigest": model,
        "rows": {p: len(rows) for p, rows in parts.items()},
        "steps": result.global_step,
        "seed": made.args.seed,
        "trainLoss": _finite(result.training_loss),
        "losses": [_finite(entry["loss"]) for entry in made.state.log_history if "loss" in entry],
        "device": str(made.args.device.type),
        "versions": {name: importlib.metadata.version(name) for name in _LIBRARIES},
    }


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def main() -> None:
    """Read the request, train, write what was measured."""
    try:
        measured = train(from_wire(TrainingRequest, msgspec.json.decode(sys.stdin.buffer.read()), "request"))
    except ExpcompError as error:
        sys.exit(f"expcomp trainer: {error}")
    write_json(Path(OBSERVATIONS), measured)


if __name__ == "__main__":
    main()
