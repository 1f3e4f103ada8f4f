"""Lines of a key table by what is wanted: the same whether they are searched for or joined."""

from __future__ import annotations

import polars as pl
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from expcomp.datasets.compiled import lines_of

_NAME = st.sampled_from(["", "a", "b", "ba", "é", "z"])


@given(st.lists(_NAME, max_size=12), st.lists(st.none() | _NAME, max_size=6))
def test_a_search_finds_what_a_join_finds(names: list[str], wanted: list[str | None]) -> None:
    table = pl.DataFrame({"name": sorted(names, key=str.encode)}, schema={"name": pl.String}).with_row_index("at")
    those = pl.Series(wanted, dtype=pl.String)
    joined = lines_of(table, "name", those)
    searched = lines_of(table.with_columns(pl.col("name").set_sorted()), "name", those)
    assert_frame_equal(searched, joined)
    assert set(joined["name"]) == set(names) & set(wanted)
    assert joined["at"].is_sorted()
