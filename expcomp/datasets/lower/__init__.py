"""Lowering: logical rows as the wire frame of one target, and which rows that target cannot express."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import polars as pl

from expcomp.datasets.contract import LEFT
from expcomp.datasets.lower import sharegpt, swift, text, typed
from expcomp.tables.targets import Target

__all__ = ["DETAILS", "Lowered", "lower"]

# Why a target cannot express a row that others can.
DETAILS: dict[str, str] = {
    "turn_without_loss": "an assistant turn must carry no loss and the trainer has no mask for turns; see trl-sft-pc",
    "no_margin": "a step pair has no margin, and the column must be whole",
    "no_ground_truth": "the task has no reference answer, gold actions or tests",
    "role_order": "human or observation and gpt or function_call do not stand in turn",
    "marker_in_text": "a turn with a call says <think> or <tool_call> in its own words",
    "empty_answer": "the answer is empty, which the trainer reads as the opposite verdict",
}

_BUILD: dict[str, Callable[[pl.DataFrame], pl.DataFrame]] = {
    "trl-sft": typed.typed,
    "trl-sft-pc": typed.typed,
    "trl-dpo": typed.typed,
    "trl-kto": typed.typed,
    "trl-grpo": typed.typed,
    "trl-reward": typed.typed,
    "trl-prm": typed.passed_on,
    "verl-rl": text.verl_prompts,
    "verl-sft": text.sft,
    "axolotl": typed.flagged,
    "llama-factory": sharegpt.sft,
    "llama-factory-dpo": sharegpt.pairs,
    "llama-factory-kto": sharegpt.judged,
    "ms-swift": swift.sft,
    "ms-swift-dpo": swift.pairs,
    "ms-swift-kto": swift.judged,
    "ms-swift-grpo": swift.grpo,
    "openrlhf": text.sft,
    "openrlhf-dpo": typed.told,
    "openrlhf-rl": text.openrlhf_prompts,
    "nemo-rl": typed.typed,
    "nemo-rl-dpo": typed.nemo_pairs,
    "nemo-rl-grpo": text.nemo_prompts,
    "prime-rl": typed.typed,
    "world-model": typed.typed,
}
_FLAGGED = frozenset({"axolotl", "ms-swift"})
_NEED_TRUTH = frozenset({"verl-rl", "openrlhf-rl", "nemo-rl-grpo"})


class Lowered(NamedTuple):
    """The wire frame (columns of the target, in the order of the rows) and what was left out of it (columns of LEFT)."""

    frame: pl.DataFrame
    left: pl.DataFrame


def lower(target: Target, rows: pl.DataFrame, *, split: str = "train", start: int = 0) -> Lowered:
    """Rows of the target's kind as the frame its files hold; every row is in one of the two parts.

    Args:
        target: What to lower to.
        rows: Logical rows of `target.kind`.
        split: Name of the split the rows belong to.
        start: Number of the first row in that split, for targets that number their rows.
    """
    rows = rows.with_columns(
        pl.lit(split).alias("_split"),
        (pl.int_range(pl.len(), dtype=pl.Int64()) + start).alias("_index"),
        _unfit(target).alias("_reason"),
    )
    unfit = [rows.filter(pl.col("_reason").is_not_null())]
    built = _BUILD[target.name](rows.filter(pl.col("_reason").is_null()))
    unfit.append(built.filter(pl.col("_reason").is_not_null()))
    left = pl.concat([u.select("row_id", "task_id", "_reason", "_index") for u in unfit]).sort("_index")
    detail = pl.col("_reason").replace_strict(DETAILS, default=None, return_dtype=pl.String())
    columns = [pl.col(n).cast(c.dtype) for n, c in target.columns.items()]
    return Lowered(
        built.filter(pl.col("_reason").is_null()).select(columns),
        left.select("row_id", "task_id", pl.col("_reason").alias("reason"), detail.alias("detail")).cast(
            pl.Schema(LEFT)
        ),
    )


def _unfit(target: Target) -> pl.Expr:
    """The first reason for which a target cannot take a row, as far as its columns tell."""
    reason = pl.lit(None, pl.String())
    if target.kind == "conversation" and target.name not in _FLAGGED:
        whole = pl.col("_all_trainable").fill_null(False)
        reason = pl.when(~whole).then(pl.lit("turn_without_loss")).otherwise(reason)
    if "margin" in target.all_or_none:
        reason = pl.coalesce(reason, pl.when(pl.col("margin").is_null()).then(pl.lit("no_margin")))
    if target.name in _NEED_TRUTH:
        reason = pl.coalesce(reason, pl.when(pl.col("ground_truth").is_null()).then(pl.lit("no_ground_truth")))
    return reason
