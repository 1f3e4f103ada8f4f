"""Splits of families by hash: stable when others come or go, the same on every machine."""

from __future__ import annotations

import polars as pl

from expcomp.errors import UsageError
from expcomp.io.digest import sha256_expr
from expcomp.tables.environment import SPLIT


def place(group: pl.Expr, *, seed: int | str = 0) -> pl.Expr:
    """A number in 0..1 for a family: the first 8 hex digits of the SHA-256 of `split:<seed>:<group>`, by 2^32."""
    digits = sha256_expr(pl.lit(f"split:{seed}:") + group).str.slice(0, 8)
    return digits.str.to_integer(base=16, dtype=pl.Int64).cast(pl.Float64) / 2**32


def split_of(group: pl.Expr, *, holdout: float = 0.2, seed: int | str = 0) -> pl.Expr:
    """`validation` for about this share of the families, `train` for the others.

    Raises:
        UsageError: A share outside 0..1.
    """
    if not 0 <= holdout < 1:
        msg = f"holdout {holdout}: expected a share from 0 up to, not including, 1"
        raise UsageError(msg)
    held = place(group, seed=seed) < holdout
    return pl.when(held).then(pl.lit("validation", dtype=SPLIT)).otherwise(pl.lit("train", dtype=SPLIT))
