"""Which candidates of a kind a target takes: its needs first, then the selection over what is left."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from expcomp.datasets.contract import LEFT
from expcomp.datasets.select import select
from expcomp.io.wording import worded

if TYPE_CHECKING:
    from expcomp.datasets.options import DatasetOptions
    from expcomp.tables.targets import Target

# need -> (reason, words, what holds). Rows without it go before the caps: a cap must not be filled with what is left out after it.
NEEDS: dict[str, tuple[str, str, pl.Expr]] = {
    "trainable": (
        "turn_without_loss",
        "an assistant turn deserves no loss and this trainer has no mask; trl-sft-pc, axolotl and ms-swift take the others",
        pl.col("_all_trainable"),
    ),
    "margin": ("no_margin", "a step pair has no difference of scores", pl.col("margin").is_not_null()),
    "ground_truth": ("no_ground_truth", "the source names no reference for the task", pl.col("_truth")),
}


def chosen(target: Target, keys: pl.DataFrame, options: DatasetOptions) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Keys of the rows that go into a target, and what is left out with its reason.

    Args:
        target: Of the kind of the keys.
        keys: All candidates.
        options: Of the dataset.
    """
    left = [pl.DataFrame(schema=dict(LEFT))]
    if keys.is_empty():
        return keys, left[0]
    for need in target.needs:
        reason, words, holds = NEEDS[need]
        fine = holds.fill_null(value=False)
        left.append(
            keys.filter(~fine)
            .select("row_id", "task_id", reason=pl.lit(reason), detail=pl.lit(words))
            .cast(pl.Schema(LEFT))
        )
        keys = keys.filter(fine)
    keys, gone = _too_long(keys, options)
    left.append(gone)
    keys, gone = _near(target, keys, options)
    left.append(gone)
    if keys.is_empty():
        return keys, pl.concat(left)
    judged = select(target.kind, keys, options)
    gone = judged.filter(pl.col("reason").is_not_null())
    left.append(gone.select("row_id", "task_id", "reason", detail=pl.lit(None, dtype=pl.String)).cast(pl.Schema(LEFT)))
    return judged.filter(pl.col("reason").is_null()).drop("reason"), pl.concat(left)


def _too_long(keys: pl.DataFrame, options: DatasetOptions) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Without rows of more than `max_tokens`."""
    if options.max_tokens is None:
        return keys, pl.DataFrame(schema=LEFT)
    fits = (pl.col("_tokens") <= options.max_tokens).fill_null(value=False)
    gone = keys.filter(~fits).select(
        "row_id", "task_id", reason=pl.lit("too_long"), detail=worded("{} tokens", "_tokens")
    )
    return keys.filter(fits), gone.cast(pl.Schema(LEFT))


def _near(target: Target, keys: pl.DataFrame, options: DatasetOptions) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Without near duplicates: of a cluster the first row stays, in the order of splits and then of the shuffle."""
    if options.near is None or keys.is_empty():
        return keys, pl.DataFrame(schema=LEFT)
    from expcomp.datasets.near import near_duplicates

    names = [name for name, _ in options.splits]
    rank = pl.col("split").replace_strict(names, range(len(names)), default=len(names), return_dtype=pl.Int32)
    # Turns of one conversation are alike by nature: a conversation is compared by its last turn, which has seen the others. Of
    # exact copies, which are the selection's business, one is compared, and its fate is theirs.
    of_chat = target.kind == "turn"
    unit = pl.col("row_id").str.split("#").list.first() if of_chat else pl.col("_hash")
    last = pl.col("row_id").str.split("#").list.last().str.to_integer(strict=False) if of_chat else pl.lit(0)
    keys = keys.with_columns(_unit=unit)
    single = (
        keys.with_columns(_split=rank, _last=last)
        .sort("_split", "_last", "_order", descending=[False, True, False])
        .unique("_unit", keep="first", maintain_order=True)
        .sort("_split", "_order")
        .with_columns(_place=pl.int_range(pl.len()))
    )
    found = near_duplicates(single.select("_place", text="_near"), jaccard=options.near)
    first = found.filter("kept").select("cluster", _first="_place")
    named = (
        found.filter(~pl.col("kept"))
        .join(first, on="cluster", how="left", maintain_order="left")
        .join(single.select("_place", "_unit"), on="_place", how="left", maintain_order="left")
        .join(single.select(_first="_place", kept_id="row_id"), on="_first", how="left", maintain_order="left")
    )
    lost = keys.join(named.select("_unit", "kept_id", "size"), on="_unit", how="inner", maintain_order="left").select(
        "row_id",
        "task_id",
        reason=pl.lit("near_duplicate"),
        detail=worded("like {}, one of {}", "kept_id", "size"),
    )
    kept = keys.join(named, on="_unit", how="anti", maintain_order="left").drop("_unit", "_near")
    return kept, lost.cast(pl.Schema(LEFT))
