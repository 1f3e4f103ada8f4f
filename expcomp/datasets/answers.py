"""Which call a tool result answers."""

from __future__ import annotations

import polars as pl

LINE = pl.int_range(pl.len(), dtype=pl.UInt32)
_UNMATCHED = 2**32 - 1


def answered_calls(flat: pl.DataFrame, calls: pl.DataFrame) -> pl.DataFrame:
    """Adds `call`, the line in `calls` that a result answers, and puts results in the order of their calls.

    Nearly all results stand in the order of the calls and bear their ids: those are found by place, without a join.
    """
    call_start = pl.col("n_calls").cum_sum() - pl.col("n_calls")
    place = pl.col("line").cast(pl.Int64) - pl.col("head") - 1
    is_result = pl.col("role") == "tool"
    flat = flat.with_columns(
        call=pl.when(is_result & (place >= 0) & (place < pl.col("n_calls").gather("head"))).then(
            call_start.gather("head") + place
        )
    )
    same = (flat["tool_call_id"] == calls["id"].gather(flat["call"])).fill_null(value=False)
    moved = flat.filter(is_result & ~same)["head"].unique(maintain_order=True)
    if not len(moved):
        return flat
    block = pl.col("head").is_in(moved.implode())
    results = flat.filter(is_result & block).select("line", "head", id="tool_call_id")
    found = _matched(results, calls.select("id", head="message", call=LINE).filter(block))
    return (
        flat.join(found, on="line", how="left", maintain_order="left")
        .with_columns(call=pl.when(block).then(pl.col("call_right").cast(pl.Int64)).otherwise("call"))
        .sort("head", is_result, pl.col("call").fill_null(_UNMATCHED), "line")
        .with_columns(line=LINE)
        .drop("call_right")
    )


def _matched(results: pl.DataFrame, calls: pl.DataFrame) -> pl.DataFrame:
    """(line, call): by id, the n-th result of an id to its n-th call; then by place among the rest where either side has no id."""
    nth = pl.int_range(pl.len()).over("head", "id")
    by_id = results.with_columns(nth=nth).join(
        calls.with_columns(nth=nth), on=["head", "id", "nth"], how="inner", maintain_order="left"
    )
    nth = pl.int_range(pl.len()).over("head")
    rest = results.join(by_id, on="line", how="anti", maintain_order="left").with_columns(nth=nth)
    free = calls.join(by_id, on="call", how="anti", maintain_order="left").with_columns(nth=nth)
    by_place = rest.join(free, on=["head", "nth"], how="inner", maintain_order="left").filter(
        pl.col("id").is_null() | pl.col("id_right").is_null()
    )
    return pl.concat([by_id.select("line", "call"), by_place.select("line", "call")])
