"""The operands of one action as arrays: value codes and numbers. What the searches look through."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from expcomp.environments.induction.skeleton import Words
    from expcomp.environments.induction.terms import Term

__all__ = ["Matrix", "kind_cost", "matrix"]

_COSTS = (
    ("arg.", 1.0), ("item.", 1.0), ("peer[", 1.4), ("mapped.", 1.2), ("sum(", 1.8), ("len(", 1.8), ("seen[item", 1.4),
    ("kb[item", 1.6), ("seen[arg.", 1.5), ("state.", 2.0), ("seen[seen", 2.5), ("kb[", 2.5), ("last.", 3.0), ("memory.", 3.0)
)  # fmt: skip

_ROW = "\x01row"


def kind_cost(name: str) -> float:
    """How far-fetched an operand is: arguments first, what the arguments pick out next, the rest of the state last."""
    base = next((c for p, c in _COSTS if name.startswith(p)), 4.0)
    return base - 0.4 if name.startswith("state.") and "[" in name else base


@dataclass(slots=True)
class Matrix:
    """n rows and k operands.

    Attributes:
        base: Operands of all rows as columns of canonical JSON.
        at: Positions of the n rows in `base`.
        names: Operands.
        codes: Shape (n, k): values as positions in `texts`, -1 where missing.
        nums: Shape (n, k): values as numbers, NaN where no number.
        groups: Shape (n,): family.
        texts: Distinct values.
        index: Positions in `texts`; null is -2.
        costs: Shape (k,): see `kind_cost`.
        words: Texts that rows know, by position in `base`, as far as they were asked for.
        parsed: Values by code, as far as they were asked for.
    """

    base: pl.DataFrame
    at: np.ndarray
    names: list[str]
    codes: np.ndarray
    nums: np.ndarray
    groups: np.ndarray
    texts: list[str]
    index: dict[str | None, int]
    costs: np.ndarray
    words: dict[int, Words] = field(default_factory=dict)
    parsed: dict[int, Any] = field(default_factory=lambda: {-1: None})

    def encode(self, *columns: pl.Series) -> np.ndarray:
        """Codes (n, columns) of other values, equal for equal values; one that no operand has gets a new code, null -2."""
        new: dict[str, int] = {}
        known, start = self.index, len(self.texts)
        out = np.empty((len(columns[0]), len(columns)), np.int64)
        for place, column in enumerate(columns):
            texts = column.to_list()
            codes = [known.get(t, -1) for t in texts]
            for i in [i for i, c in enumerate(codes) if c == -1]:
                codes[i] = new.setdefault(texts[i], start + len(new))
            out[:, place] = codes
        return out

    def column(self, name: str) -> pl.Series:
        """One operand."""
        return self.base[name].gather(self.at)

    def compute(self, terms: Sequence[Term]) -> list[pl.Series]:
        """The values of terms; only what they read is gathered."""
        return self.select({str(i): t.expr() for i, t in enumerate(terms)}, {n for t in terms for n in t.reads()})

    def select(self, exprs: Mapping[str, pl.Expr], reads: Collection[str]) -> list[pl.Series]:
        """Expressions over operands, one value a row."""
        columns = [pl.Series(_ROW, self.at), *(self.column(n) for n in sorted(reads))]
        return pl.DataFrame(columns).with_columns(**exprs).get_columns()[len(columns) :]

    def joined(self, more: pl.DataFrame) -> Matrix:
        """More operands, as columns of canonical JSON for the same rows."""
        index = dict(self.index)
        codes = np.empty((more.height, more.width), np.int64)
        for place, column in enumerate(more):
            texts = column.to_list()
            codes[:, place] = [-1 if t is None else index.setdefault(t, len(index) - 1) for t in texts]
        nums = more.select(pl.all().cast(pl.Float64, strict=False).fill_null(float("nan"))).to_numpy()
        return Matrix(
            pl.concat([self.base[self.at], more], how="horizontal"),
            np.arange(more.height),
            [*self.names, *more.columns],
            np.column_stack([self.codes, codes]),
            np.column_stack([self.nums, nums]),
            self.groups,
            [t for t in index if t is not None],
            index,
            np.append(self.costs, [kind_cost(c) for c in more.columns]),
        )

    def take(self, rows: np.ndarray) -> Matrix:
        """The rows at some positions."""
        return Matrix(
            self.base,
            self.at[rows],
            self.names,
            self.codes[rows],
            self.nums[rows],
            self.groups[rows],
            self.texts,
            self.index,
            self.costs,
            self.words,
            self.parsed,
        )


def matrix(frame: pl.DataFrame, names: Sequence[str], groups: pl.Series) -> Matrix:
    """Encode the operand columns of a frame.

    Args:
        frame: One row a call; operands are columns of canonical JSON text.
        names: The operand columns.
        groups: Family of each row.
    """
    n, k = frame.height, len(names)
    stacked = pl.concat([frame[c] for c in names]) if k else pl.Series([], dtype=pl.String)
    distinct = stacked.drop_nulls().unique(maintain_order=True)
    values = pl.DataFrame({"value": distinct}).with_columns(
        code=pl.int_range(pl.len(), dtype=pl.Int64), num=pl.col("value").cast(pl.Float64, strict=False)
    )
    found = pl.DataFrame({"value": stacked}).join(values, on="value", how="left", maintain_order="left")
    codes = found["code"].fill_null(-1).to_numpy().reshape(k, n).T
    nums = found["num"].fill_null(float("nan")).to_numpy().reshape(k, n).T
    family = pl.DataFrame({"g": groups}).select(pl.col("g").rank("dense")).to_series().to_numpy().astype(np.int64)
    texts = distinct.to_list()
    index: dict[str | None, int] = {t: i for i, t in enumerate(texts)}
    index[None] = -2
    return Matrix(
        frame.select(names),
        np.arange(n),
        list(names),
        codes,
        nums,
        family,
        texts,
        index,
        np.array([kind_cost(c) for c in names], float),
    )
