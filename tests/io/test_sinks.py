"""Row groups of frames with lists are cut from chunks that hold no other items."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
from polars.testing import assert_frame_equal

from expcomp.io.sinks import ROW_GROUP, in_pieces, write_parquet

if TYPE_CHECKING:
    from pathlib import Path


def test_long_lists_are_written_from_chunks_of_a_row_group(tmp_path: Path) -> None:
    n = 2 * ROW_GROUP + 5
    frame = pl.DataFrame({"id": range(n)}).select(
        "id", items=pl.when(pl.col("id") % 7 > 0).then(pl.concat_list(pl.col("id").cast(pl.String), pl.lit("b")))
    )
    found = in_pieces(frame)
    assert found.n_chunks() == 3
    write_parquet(found, tmp_path / "t.parquet", {})
    assert_frame_equal(pl.read_parquet(tmp_path / "t.parquet"), frame)


def test_what_is_one_row_group_or_holds_no_list_stays_as_it_is() -> None:
    plain = pl.DataFrame({"id": range(ROW_GROUP + 1)})
    assert in_pieces(plain) is plain
    few = pl.DataFrame({"items": [["a"], None]})
    assert in_pieces(few) is few
