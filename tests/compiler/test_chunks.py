"""Chunks of a file: those that hold what they held before keep their row groups, the others are encoded."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from expcomp.compiler.merge import Chunk, EncodeJob, encode
from expcomp.compiler.old_rows import OldRows
from expcomp.io.parquet_join import Span
from expcomp.io.sinks import write_part

OLD, NEW = "", "new"


@pytest.mark.parametrize(
    ("old", "new", "pieces", "kept"),
    [
        ([1.0, 2.0, 3.0], [2.0], [(OLD, 0, 1), (NEW, 0, 1), (OLD, 2, 1)], True),
        ([1.0, 2.0, 3.0], [5.0], [(OLD, 0, 1), (NEW, 0, 1), (OLD, 2, 1)], False),
        ([1.0, 2.0, 3.0], [3.0], [(OLD, 1, 2), (NEW, 0, 1)], False),
        ([7.0, 7.0, 7.0], [7.0], [(OLD, 1, 2), (NEW, 0, 1)], True),
        ([0.0, 2.0, 3.0], [-0.0], [(NEW, 0, 1), (OLD, 1, 2)], False),
        ([None, 2.0, 3.0], [float("nan")], [(NEW, 0, 1), (OLD, 1, 2)], False),
    ],
)
def test_a_chunk_of_the_same_rows_stays(
    tmp_path: Path,
    old: list[float | None],
    new: list[float],
    pieces: list[tuple[str, int, int]],
    kept: bool,
) -> None:
    before = Span(tmp_path / "old.parquet", 0, 1)
    pl.DataFrame({"n": old}).write_parquet(before.path)
    write_part(pl.DataFrame({"n": new}), tmp_path / NEW)
    chunk = Chunk(4, tuple(pieces), (0, before))
    [(number, span)] = encode(EncodeJob("tables/tasks.parquet", (chunk,), str(tmp_path), OldRows((before,), ((0, 3),))))
    rows = {OLD: old, NEW: new}
    want = pl.DataFrame({"n": [v for name, first, n in pieces for v in rows[name][first : first + n]]})
    assert number == 4
    assert (span == before) is kept
    assert pl.read_parquet(span.path).equals(want)
