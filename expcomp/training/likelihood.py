"""Scores of a local model on held-out conversations without a judge: how likely it finds the answer that passed (extra `train`).

The score of a conversation is the geometric mean of the probabilities of the tokens of its last assistant turn,
`exp(mean(log p(token | all before it)))`, between 0 and 1: the inverse of the perplexity. It says whether training moved a model towards
answers that pass; it is no pass rate.
"""

from __future__ import annotations

import importlib
import math
from pathlib import Path
from typing import Any

import msgspec
import polars as pl

from expcomp.io.row_files import replacing
from expcomp.io.sinks import write_lines
from expcomp.io.wording import worded
from expcomp.tables.stats import TRIALS
from expcomp.training.cost_records import Rates, Tokens
from expcomp.training.costs import CostLedger
from expcomp.training.handoff import training_rows
from expcomp.training.local_models import model_digest
from expcomp.training.receipts import trained_model_id

_FREE = Rates(input=0, output=0)
"""Nobody bills a model on this machine."""


def score_split(
    dataset: Path, model: Path, *, arm: str, split: str = "test", costs: CostLedger | None = None
) -> pl.DataFrame:
    """Trials (`TRIALS`) of a model on the conversations of one split, several of a task being its attempts.

    Args:
        dataset: Folder that `expcomp dataset` wrote, with config `sft`.
        model: Folder of model and tokenizer; nothing is fetched.
        arm: What the trials are called.
        split: Split of the dataset.
        costs: Ledger of calls; each conversation is one, of a model that nobody bills.

    Raises:
        UsageError: `model` is no folder.
        SourceError: The folder lacks the config or the split.
    """
    name = trained_model_id(model_digest(model), "local/")
    rows = training_rows(dataset, "sft", train=split).rows
    judge = _Scorer(model)
    attempt = pl.int_range(pl.len()).over("benchmark", "task")
    made = rows.with_columns(
        attempt=attempt, source_id=worded("{}/{}/{}/{}", pl.lit(arm), "benchmark", "task", attempt)
    )
    found: list[tuple[float | None, int, int, str | None]] = []
    for call, text in zip(made["source_id"], made["data"], strict=True):
        if costs is not None:
            costs.admit(call, channel="agent", model=name, maximum_nanos=0)
        told = judge(msgspec.json.decode(text))
        found.append(told)
        if costs is not None:
            costs.settle(call, tokens=Tokens(input=told[1], output=told[2]), rates=_FREE, failure=told[3])
    scores = pl.DataFrame(
        found,
        schema={"score": pl.Float64, "input_tokens": pl.Int64, "output_tokens": pl.Int64, "failure_class": pl.String},
        orient="row",
    )
    told_of = made.select("benchmark", "task", "attempt", "source_id").hstack(scores)
    told_of = told_of.with_columns(
        arm=pl.lit(arm),
        model=pl.lit(name),
        infra=pl.lit(value=False),
        scale_known=pl.when(pl.col("score").is_not_null()).then(pl.lit(value=True)),
        cost_usd=pl.lit(0.0),
    )
    return told_of.select(
        pl.col(n).cast(t) if n in told_of.columns else pl.lit(None, t).alias(n) for n, t in TRIALS.schema.items()
    )


def write_trials(trials: pl.DataFrame, out: Path, *, force: bool = False) -> None:
    """Write trials as JSON lines, in one step.

    Raises:
        OutputError: `out` exists, or cannot be written.
    """
    known = [c for c in trials.columns if trials[c].null_count() < trials.height]
    with replacing(out, force=force) as beside:
        write_lines(trials.select(pl.struct(known).struct.json_encode()).to_series(), beside)


class _Scorer:
    """A model with its tokenizer, on the processor."""

    def __init__(self, model: Path) -> None:
        self._torch: Any = importlib.import_module("torch")
        transformers: Any = importlib.import_module("transformers")
        transformers.utils.logging.disable_progress_bar()
        self._tokenizer = transformers.AutoTokenizer.from_pretrained(model, local_files_only=True)
        self._model = transformers.AutoModelForCausalLM.from_pretrained(
            model, local_files_only=True, dtype=self._torch.float32
        ).eval()

    def __call__(self, row: dict[str, Any]) -> tuple[float | None, int, int, str | None]:
        """Score, tokens before the answer, tokens of the answer, and why there is no score."""
        messages, tools = row["messages"], row.get("tools")
        tools = msgspec.json.decode(tools) if isinstance(tools, str) else tools
        before = self._tokens(messages[:-1], tools, add_generation_prompt=True)
        whole = self._tokens(messages, tools)
        if whole[: len(before)] != before or len(whole) == len(before):
            return None, len(before), 0, "template_without_prefix"
        torch = self._torch
        ids = torch.tensor([whole])
        with torch.inference_mode():
            logits = self._model(input_ids=ids).logits[0, len(before) - 1 : -1]
        chosen = torch.log_softmax(logits.double(), dim=-1).gather(1, ids[0, len(before) :, None])
        mean = float(chosen.mean())
        if not math.isfinite(mean):
            return None, len(before), len(whole) - len(before), "not_finite"
        return math.exp(mean), len(before), len(whole) - len(before), None

    def _tokens(self, messages: list[Any], tools: Any, **more: Any) -> list[int]:
        text = self._tokenizer.apply_chat_template(messages, tools=tools or None, tokenize=False, **more)
        return list(self._tokenizer(text, add_special_tokens=False)["input_ids"])
