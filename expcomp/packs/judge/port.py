"""The port: a judge takes rows and gives a verdict for each. And the rows of a compile in the form that a judge takes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import polars as pl

from expcomp.compiler.canonical import json_lines
from expcomp.errors import TableError
from expcomp.tables.envelope import HASH_EXCLUDE
from expcomp.tables.judge import JUDGE_INPUT, JUDGE_VERDICTS

if TYPE_CHECKING:
    from collections.abc import Sequence


class Judge(Protocol):
    """Gives one verdict for each row; the frames are tables `judge_input` and `judge_verdicts`, in one order."""

    def score(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Verdicts of the rows of a frame."""
        ...


def judge_input(rows: pl.DataFrame) -> pl.DataFrame:
    """Rows of one family, as a compile writes them, in the form of table `judge_input`.

    `content` is the text that `content_hash` of a row is the digest of, so that neither gates nor measures sway a judge.
    """
    content = [n for n in rows.columns if n not in HASH_EXCLUDE and n != "content_hash"]
    private = pl.col("verifier_only") if "verifier_only" in rows.columns else pl.lit(None, dtype=pl.Boolean)
    return rows.select(
        "row_id",
        json_lines(rows, content).alias("content"),
        private.alias("verifier_only"),
        "accepted",
        "reject_reasons",
    )


def check_input(frame: pl.DataFrame, needed: Sequence[str]) -> None:
    """Refuse a frame that cannot be judged.

    Raises:
        TableError: A column is missing or of another dtype, or a row has no id or shares it.
    """
    want, got = JUDGE_INPUT.schema, frame.schema
    wrong = [f"'{n}' is {got.get(n, 'missing')}, expected {want[n]}" for n in needed if got.get(n) != want[n]]
    if wrong:
        raise TableError(f"table judge_input: {'; '.join(wrong)}; `judge_input` makes it of rows")
    if frame["row_id"].null_count() or frame["row_id"].n_unique() != frame.height:
        raise TableError("table judge_input: row_id is null or stands twice; give each row once")


def verdicts(frame: pl.DataFrame, **columns: pl.Expr) -> pl.DataFrame:
    """A frame in the form of table `judge_verdicts`: these columns, else those of the frame, else null."""
    made = frame.with_columns(**columns)
    return made.select(
        (pl.col(n) if n in made.columns else pl.lit(None)).cast(c.dtype).alias(n)
        for n, c in JUDGE_VERDICTS.columns.items()
    )
