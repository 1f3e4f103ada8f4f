"""Scores as they were written: a whole number is kept beside the column, as `1` and `1.0` are two texts to the ancestor."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson
import polars as pl

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

KEY = "official_score"
_WIDE = 1 << 63  # a larger integer has no exact place in JSON as other programs read it


def score_of_record(record: Mapping[str, Any]) -> Any:
    """The score a record gives, as it gives it."""
    task = record.get("official_task_score")
    nested = task.get("value") if isinstance(task, dict) else None
    return nested if type(nested) in (int, float) else record.get(KEY)


def with_whole_scores(runs: pl.DataFrame, scores: Sequence[Any]) -> pl.DataFrame:
    """Runs with the scores that are whole numbers kept in `extra`.

    Args:
        runs: Runs made from records or documents.
        scores: What each record or document gives as score.
    """
    at = [i for i, s in enumerate(scores) if type(s) is int and abs(s) < _WIDE]
    if not at:
        return runs
    held = runs.get_column("extra")
    texts = [orjson.dumps({**orjson.loads(held[i] or "{}"), KEY: scores[i]}).decode() for i in at]
    return runs.with_columns(extra=held.scatter(at, pl.Series(texts, dtype=pl.String)))
