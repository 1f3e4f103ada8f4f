"""Orders of rows: a shuffle that new rows leave alone, and one in which no two neighbours share a task."""

from __future__ import annotations

import polars as pl

from expcomp.io.digest import sha256_expr

_ROUNDS = 16


def shuffle_key(seed: str) -> pl.Expr:
    """First 64 bits of SHA-256(seed, newline, row_id)."""
    text = pl.concat_str(pl.lit(f"{seed}\n"), pl.col("row_id"))
    return sha256_expr(text).str.head(16).str.to_integer(base=16, dtype=pl.UInt64)


def apart(rows: pl.DataFrame) -> pl.DataFrame:
    """Places in which, inside a split, no two neighbours share a task; near the shuffle by `_order`.

    Needs no task with more rows than others have plus one; every such set has an order of this kind.

    Args:
        rows: _at, split, _task, _order.

    Returns:
        _at and _order (u64, the place from 0 in its split), split by split.
    """
    empty = pl.DataFrame(schema={"_at": rows.schema["_at"], "_order": pl.UInt64})
    ordered = rows.sort("split", "_order")
    parts = [_spread(part) for part in ordered.partition_by("split", maintain_order=True)]
    return pl.concat([empty, *(p.select("_at", _order=pl.int_range(pl.len(), dtype=pl.UInt64)) for p in parts)])


def _spread(part: pl.DataFrame) -> pl.DataFrame:
    """The second and later rows of each run of a task go to gaps elsewhere, as their hash has it, where neither side is of their task."""
    same = pl.col("_task").eq_missing(pl.col("_task").shift()) & (pl.int_range(pl.len()) > 0)
    part = part.with_columns(_again=same)
    line, rest = part.filter(~pl.col("_again")), part.filter("_again")
    for turn in range(_ROUNDS):
        if rest.is_empty():
            return line
        # Two halves of one hash make a new place each turn.
        low, high = pl.col("_order") % 2**32, pl.col("_order") // 2**32
        tried = rest.with_columns(_gap=(low + high * turn) % (line.height + 1))
        task = line["_task"].extend_constant(None, 1)
        after, before = task.gather(tried["_gap"]), task.shift(1).gather(tried["_gap"])
        fits = tried["_task"].ne_missing(after) & tried["_task"].ne_missing(before)
        goes = fits & tried.select(pl.when(fits).then("_gap").is_first_distinct()).to_series()
        moved = tried.filter(goes).with_columns(_key=pl.col("_gap").cast(pl.Int64) * 2)
        line = (
            pl.concat([line.with_columns(_key=pl.int_range(pl.len()) * 2 + 1), moved.drop("_gap")])
            .sort("_key")
            .drop("_key")
        )
        rest = rest.filter(~goes)
    return line if rest.is_empty() else _dealt(part)


def _dealt(part: pl.DataFrame) -> pl.DataFrame:
    """The order that always exists: tasks one after another, the largest first, on every other place and then on those between."""
    half = (part.height + 1) // 2
    queue = part.with_columns(_n=pl.len().over("_task"), _first=pl.col("_order").min().over("_task")).sort(
        "_n", "_first", "_task", "_order", descending=[True, False, False, False]
    )
    at = pl.int_range(pl.len())
    return queue.with_columns(_key=pl.when(at < half).then(at * 2).otherwise((at - half) * 2 + 1)).sort("_key")
