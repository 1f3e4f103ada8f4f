"""The operands of one action as arrays: value codes and numbers. What the searches look through."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Matrix", "kind_cost", "matrix"]

_COSTS = (
    ("arg.", 1.0), ("item.", 1.0), ("peer[", 1.4), ("mapped.", 1.2), ("sum(", 1.8), ("len(", 1.8), ("seen[item", 1.4),
    ("kb[item", 1.6), ("seen[arg.", 1.5), ("state.", 2.0), ("seen[seen", 2.5), ("kb[", 2.5), ("last.", 3.0), ("memory.", 3.0)
)  # fmt: skip


def kind_cost(name: str) -> float:
    """How far-fetched an operand is: arguments first, what the arguments pick out next, the rest of the state last."""
    base = next((c for p, c in _COSTS if name.startswith(p)), 4.0)
    return base - 0.4 if name.startswith("state.") and "[" in name else base


@dataclass(slots=True)
class Matrix:
    """n rows and k operands: `codes` (n, k) of values, -1 where missing; `nums` (n, k), NaN where no number."""

    base: pl.DataFrame
    at: np.ndarray | None
    names: list[str]
    codes: np.ndarray
    nums: np.ndarray
    groups: np.ndarray
    values: pl.DataFrame
    costs: np.ndarray

    def encode(self, *columns: pl.Series) -> np.ndarray:
        """Codes (n, columns) of other values, equal for equal values; one that no operand has gets a new code, null -2."""
        stacked = pl.concat([c.rename("value") for c in columns]).to_frame()
        frame = stacked.join(self.values, on="value", how="left", maintain_order="left")
        new = (
            frame.filter(pl.col("code").is_null() & pl.col("value").is_not_null())
            .select("value")
            .unique(maintain_order=True)
        )
        more = new.with_columns(more=pl.int_range(pl.len(), dtype=pl.Int64) + self.values.height)
        found = frame.join(more, on="value", how="left", maintain_order="left")
        codes: np.ndarray = found.select(pl.coalesce("code", "more").fill_null(-2)).to_series().to_numpy()
        return codes.reshape(len(columns), -1).T

    @property
    def frame(self) -> pl.DataFrame:
        """The operands as columns of canonical JSON, for the rows of the matrix; gathered when first asked for."""
        if self.at is not None:
            self.base, self.at = self.base[self.at], None
        return self.base

    def column(self, name: str) -> pl.Series:
        """One operand."""
        return self.base[name] if self.at is None else self.base[name].gather(self.at)

    def take(self, rows: np.ndarray) -> Matrix:
        """The rows at some positions."""
        at = rows if self.at is None else self.at[rows]
        return Matrix(
            self.base, at, self.names, self.codes[rows], self.nums[rows], self.groups[rows], self.values, self.costs
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
    values = pl.DataFrame({"value": stacked.drop_nulls().unique(maintain_order=True)}).with_columns(
        code=pl.int_range(pl.len(), dtype=pl.Int64), num=pl.col("value").cast(pl.Float64, strict=False)
    )
    found = pl.DataFrame({"value": stacked}).join(values, on="value", how="left", maintain_order="left")
    codes = found["code"].fill_null(-1).to_numpy().reshape(k, n).T
    nums = found["num"].fill_null(float("nan")).to_numpy().reshape(k, n).T
    family = pl.DataFrame({"g": groups}).select(pl.col("g").rank("dense")).to_series().to_numpy().astype(np.int64)
    return Matrix(
        frame,
        None,
        list(names),
        codes,
        nums,
        family,
        values.drop("num"),
        np.array([kind_cost(c) for c in names], float),
    )
