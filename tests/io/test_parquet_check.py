"""Parquet of unknown origin: the same frame, or an error that can be caught."""

from __future__ import annotations

import io

import polars as pl
import pytest

from expcomp.io.parquet_check import read_checked

FRAME = pl.DataFrame(
    {"name": ["a", None, "é"], "kind": ["x", "y", None], "refs": [["r"], [], None], "n": [1, 2, 3]},
    schema={"name": pl.String, "kind": pl.Enum(["x", "y"]), "refs": pl.List(pl.String), "n": pl.Int64},
)


def written(frame: pl.DataFrame) -> bytes:
    out = io.BytesIO()
    frame.write_parquet(out, compression="zstd")
    return out.getvalue()


@pytest.mark.parametrize("frame", [FRAME, FRAME.clear()], ids=["rows", "no rows"])
def test_what_was_written_is_read(frame: pl.DataFrame) -> None:
    found = read_checked(io.BytesIO(written(frame)))
    assert found.schema == frame.schema
    assert found.equals(frame)


def test_a_bit_that_is_wrong_never_ends_the_process() -> None:
    data = written(FRAME)
    refused = 0
    for at in range(8 * 120):
        byte = at // 8
        changed = data[:byte] + bytes([data[byte] ^ (1 << at % 8)]) + data[byte + 1 :]
        try:
            read_checked(io.BytesIO(changed))
        except (OSError, ValueError):
            refused += 1
    assert refused
