"""Row groups laid end to end without decoding: every reader sees the rows, the statistics and the page indexes of the parts."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal
from polars.testing.parametric import column, dataframes

from expcomp.io.parquet_join import Span, join_row_groups, read_stretches
from expcomp.io.sinks import write_row_groups

KINDS = pl.Enum(["a", "b", "c"])
CALL = pl.List(pl.Struct({"name": pl.String(), "size": pl.Int64(), "tags": pl.List(pl.String())}))
FRAMES = dataframes(
    cols=[
        column("text", dtype=pl.String, allow_null=True),
        column("kind", dtype=KINDS, allow_null=True),
        column("number", dtype=pl.Int32, allow_null=True),
        column("share", dtype=pl.Float64, allow_null=True),
        column("flag", dtype=pl.Boolean, allow_null=True),
        column("at", dtype=pl.Datetime("us", "UTC"), allow_null=True),
        column("texts", dtype=pl.List(pl.String), allow_null=True),
    ],
    max_size=8,
)
META = {"expcomp.table": "t"}


def calls(frame: pl.DataFrame) -> pl.DataFrame:
    """The frame with a column as deep as those of the tables."""
    one = pl.struct(name="text", size=pl.col("number").cast(pl.Int64), tags="texts")
    return frame.with_columns(calls=pl.when(pl.col("flag")).then(pl.concat_list(one)).cast(CALL))


def written(frames: list[pl.DataFrame], folder: Path, rows: int = 3) -> list[Span]:
    """Each frame as a file of row groups of a few rows."""
    spans = []
    for i, frame in enumerate(frames):
        path = folder / f"{i}.parquet"
        frame.write_parquet(path, compression="zstd", compression_level=3, row_group_size=rows, metadata=META)
        spans.append(Span(path, 0, -(-frame.height // rows)))
    return spans


@settings(max_examples=25, suppress_health_check=list(HealthCheck))
@given(frames=st.lists(FRAMES, min_size=2, max_size=4), cut=st.integers(0, 6))
def test_all_readers_see_the_rows_of_the_parts(
    tmp_path_factory: pytest.TempPathFactory, frames: list[pl.DataFrame], cut: int
) -> None:
    folder = tmp_path_factory.mktemp("join")
    frames = [calls(f) for f in frames]
    spans, out = written(frames, folder), folder / "out.parquet"
    joined = join_row_groups(spans, out)
    whole = pl.concat(frames)
    assert (joined.rows, joined.bytes) == (whole.height, out.stat().st_size)
    assert_frame_equal(pl.read_parquet(out), whole)
    assert_frame_equal(pl.scan_parquet(out).filter(pl.col("number") > 0).collect(), whole.filter(pl.col("number") > 0))
    assert pq.read_table(out)["text"].to_pylist() == whole["text"].to_list()
    # Taken apart and put together once more it is the same file: bytes do not depend on where row groups came from.
    middle = min(cut, sum(s.last for s in spans))
    again = join_row_groups([Span(out, 0, middle), Span(out, middle, 99)], folder / "again.parquet")
    assert again == joined


def test_statistics_indexes_and_metadata_are_those_of_the_parts(tmp_path: Path) -> None:
    frames = [pl.DataFrame({"n": range(i, i + 6), "t": [f"text {i} {j}" for j in range(6)]}) for i in (0, 100, 200)]
    spans, out = written(frames, tmp_path), tmp_path / "out.parquet"
    join_row_groups(spans, out)
    made = pq.ParquetFile(out).metadata
    parts = [(pq.ParquetFile(s.path).metadata, g) for s in spans for g in range(s.last)]
    assert made.num_row_groups == len(parts) == 6
    for number, (part, group) in enumerate(parts):
        for c in range(2):
            new, old = made.row_group(number).column(c), part.row_group(group).column(c)
            assert new.statistics == old.statistics
            assert (new.has_column_index, new.has_offset_index) == (old.has_column_index, old.has_offset_index)
            assert new.total_compressed_size == old.total_compressed_size
    assert made.metadata[b"expcomp.table"] == b"t"
    assert made.created_by == parts[0][0].created_by
    assert pl.read_parquet_schema(out) == frames[0].schema


def test_duckdb_skips_row_groups_by_their_statistics(tmp_path: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    frames = [pl.DataFrame({"n": range(i, i + 50)}) for i in range(0, 200, 50)]
    join_row_groups(written(frames, tmp_path, 10), tmp_path / "out.parquet")
    found = duckdb.sql(f"SELECT n FROM read_parquet('{tmp_path}/out.parquet') WHERE n BETWEEN 98 AND 101 ORDER BY n")
    assert [n for (n,) in found.fetchall()] == [98, 99, 100, 101]


@pytest.mark.parametrize("step", [1, 2, 40])
def test_stretches_are_the_rows_that_a_slice_gives(tmp_path: Path, step: int) -> None:
    frame = pl.DataFrame({"n": range(240), "t": [[str(i)] for i in range(240)]})
    path = tmp_path / "[a] *.parquet"
    frame.write_parquet(path, row_group_size=3)
    groups = range(0, 80, step)
    found = read_stretches([Span(path, g, g + 1) for g in groups], [(3 * g, 3) for g in groups], tmp_path / "held")
    assert_frame_equal(found, pl.concat([frame.slice(3 * g, 3) for g in groups]))
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


def test_other_columns_or_metadata_are_refused(tmp_path: Path) -> None:
    pl.DataFrame({"a": [1]}).write_parquet(tmp_path / "a")
    pl.DataFrame({"b": [1]}).write_parquet(tmp_path / "b")
    with pytest.raises(ValueError, match="another schema or other metadata"):
        join_row_groups([Span(tmp_path / "a", 0, 1), Span(tmp_path / "b", 0, 1)], tmp_path / "out")
    assert not (tmp_path / "out").exists()


@settings(max_examples=40, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_a_damaged_file_is_refused_or_gives_rows(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    folder = tmp_path_factory.mktemp("damaged")
    spans = written([pl.DataFrame({"a": [1, 2, 3, 4], "b": ["x", "y", "z", None]})], folder)
    whole = spans[0].path.read_bytes()
    at = data.draw(st.integers(len(whole) - 400, len(whole) - 1))
    cut = data.draw(st.booleans())
    spans[0].path.write_bytes(
        whole[:at] if cut else whole[:at] + data.draw(st.binary(min_size=1, max_size=4)) + whole[at:]
    )
    try:
        join_row_groups(spans, folder / "out")
    except ValueError:
        assert not (folder / "out").exists()


def test_bytes_depend_on_the_values_only(tmp_path: Path) -> None:
    frame = pl.DataFrame({"t": ["a" * 40, "b", None, "c" * 5000] * 40, "l": [["x"], [], None, ["y" * 30]] * 40})
    write_row_groups(frame, tmp_path / "whole", META)
    pieces = pl.concat([frame.slice(i, 7) for i in range(0, frame.height, 7)], rechunk=False)
    write_row_groups(pieces, tmp_path / "pieces", META)
    decoded = pl.concat([pl.read_parquet(tmp_path / "whole"), frame]).slice(frame.height // 2, frame.height)
    write_row_groups(decoded.slice(frame.height // 2).vstack(frame.head(frame.height // 2)), tmp_path / "decoded", META)
    assert (
        (tmp_path / "whole").read_bytes() == (tmp_path / "pieces").read_bytes() == (tmp_path / "decoded").read_bytes()
    )


def test_bytes_of_large_nested_columns_depend_on_the_values_only(tmp_path: Path) -> None:
    lists = pl.Series("l", [[{"t": f"{i} " * 400, "n": i}, {"t": None, "n": None}] for i in range(3000)])
    frame = lists.to_frame()
    # A slice of a larger column, and rows that share their texts: the same values, of other size in memory.
    write_row_groups(frame.slice(1000, 1500), tmp_path / "slice", META)
    again = pl.concat([frame.slice(1000, 700), frame.slice(1700, 800)], rechunk=False)
    write_row_groups(again[list(range(1500))], tmp_path / "taken", META)
    assert (tmp_path / "slice").read_bytes() == (tmp_path / "taken").read_bytes()
