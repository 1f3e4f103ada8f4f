"""Frames that a caller hands in as trials: the columns they may leave out, and what is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from expcomp.errors import TableError, UsageError
from expcomp.tables.stats import TRIALS

if TYPE_CHECKING:
    from collections.abc import Sequence

ALIASES = {"task": ("task_id", "case"), "attempt": ("trial",), "benchmark": ("dataset",)}
"""Column of the table -> names that stand for it in the frame of a caller."""
KEY = ("benchmark", "task", "arm", "run_id", "attempt")


def from_user(frame: pl.DataFrame, more: Sequence[str]) -> pl.DataFrame:
    """A frame with `task`, `arm` and `score` or `passed`, as `trials`; columns that are not there are null.

    Raises:
        UsageError: It lacks one of these columns.
        TableError: A value has another type, is not finite, or an attempt is there twice.
    """
    frame = frame.rename(
        {a: n for n, names in ALIASES.items() for a in names if a in frame.columns and n not in frame.columns}
    )
    have = frame.columns
    lacks = [n for n in ("task", "arm") if n not in have]
    if lacks or not {"score", "passed"} & set(have):
        what = ", ".join(lacks) or "score and no passed"
        msg = f"a frame of trials has no column {what}; expected task, arm and score or passed, there are {', '.join(have)}"
        raise UsageError(msg)
    unknown = [c for c in more if c not in have]
    if unknown:
        msg = f"there is no column {', '.join(unknown)} to slice or cluster by; there are {', '.join(have)}"
        raise UsageError(msg)
    told = frame.select(*(_column(frame, n, t) for n, t in TRIALS.schema.items()), *more)
    found = told.with_columns(
        infra=pl.col("infra").fill_null(value=False),
        scale_known=pl.when(pl.col("score").is_not_null()).then(pl.col("scale_known").fill_null(value=False)),
    )
    _check(found, more)
    return found


def _column(frame: pl.DataFrame, name: str, dtype: pl.DataType) -> pl.Series:
    if name not in frame.columns:
        return pl.repeat(None, frame.height, dtype=dtype, eager=True).alias(name)
    given = frame[name]
    if name in ("score", "passed") and given.dtype == pl.Boolean:
        return given.cast(dtype)
    try:
        return given.cast(dtype)
    except pl.exceptions.PolarsError as error:
        raise TableError(_no_value(frame, name, dtype)) from error


def _no_value(frame: pl.DataFrame, name: str, dtype: pl.DataType) -> str:
    """The first value of a column that is none of its type, with its row."""
    given, expected = (
        frame[name],
        "true or false" if dtype == pl.Boolean else "a number" if dtype.is_numeric() else str(dtype),
    )
    if given.dtype != pl.String:
        return f"column {name} of the trials is {given.dtype}, expected {expected}"
    fits = (
        given.str.to_lowercase().is_in(["true", "false"])
        if dtype == pl.Boolean
        else given.cast(dtype, strict=False).is_not_null()
    )
    row = int((given.is_not_null() & ~fits).arg_max() or 0)
    return f"row {row + 1} of the trials: {name} is {given[row]!r}, expected {expected}"


def _check(trials: pl.DataFrame, more: Sequence[str]) -> None:
    from expcomp.tables.models import failures, validate

    if failures(TRIALS.name, trials.select(list(TRIALS.columns))):
        validate(TRIALS.name, trials.select(list(TRIALS.columns)))
    twice = trials.filter(pl.col("attempt").is_not_null()).filter(pl.struct(*KEY, *more).is_duplicated())
    if twice.height:
        task, arm, attempt = twice.select("task", "arm", "attempt").row(0)
        msg = f"attempt {attempt} of arm {arm} at task {task} is there twice; tell them apart by attempt or run_id, or drop one"
        raise TableError(msg)
