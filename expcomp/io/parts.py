"""Intermediate parts of a build: Arrow IPC files of several batches, of which one can be read without the others."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

import polars as pl

from expcomp.io.whole import whole

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path


def row_groups(path: Path) -> list[tuple[int, int]]:
    """Rows and uncompressed bytes of each row group of a Parquet file."""
    import pyarrow.parquet as pq

    meta = pq.read_metadata(path)
    groups = (meta.row_group(i) for i in range(meta.num_row_groups))
    return [(g.num_rows, g.total_byte_size) for g in groups]


def write_batches(frame: pl.DataFrame, lengths: Sequence[int], path: Path) -> None:
    """A frame as the batches of one file, uncompressed: so many rows each, none without any."""
    import pyarrow as pa

    # Converted once and cut afterwards: a conversion costs milliseconds, however few its rows.
    batch = frame.rechunk().to_arrow(compat_level=pl.CompatLevel.oldest()).combine_chunks().to_batches()[0]
    start = 0
    with whole(path) as beside, pa.OSFile(str(beside), "wb") as sink, pa.ipc.new_file(sink, batch.schema) as writer:
        for length in lengths:
            writer.write_batch(batch.slice(start, length))
            start += length


def read_batches(wanted: Iterable[tuple[Path, Sequence[int]]]) -> tuple[pl.DataFrame, list[int]]:
    """Some batches of such files, all of one schema, end to end, with the rows of each; the others are not read."""
    import pyarrow as pa

    batches = []
    for path, numbers in wanted:
        with pa.memory_map(str(path)) as source, pa.ipc.open_file(source) as reader:
            batches += [reader.get_batch(n) for n in numbers]
    frame = pl.from_arrow(pa.Table.from_batches(batches))
    assert isinstance(frame, pl.DataFrame)
    return frame, [b.num_rows for b in batches]


def compact(frame: pl.DataFrame) -> pl.DataFrame:
    """The frame with texts of its own: views no longer keep the files or frames in memory that they were taken from."""
    made = pl.from_arrow(frame.to_arrow(compat_level=pl.CompatLevel.oldest()))
    assert isinstance(made, pl.DataFrame)
    return made


def write_shared(frame: pl.DataFrame, path: Path) -> None:
    """A frame that several processes read at once."""
    frame.rechunk().write_ipc(path, compression="uncompressed", record_batch_size=max(1, frame.height))


def read_shared(path: Path) -> pl.DataFrame:
    """Such a frame, mapped: it takes memory once, however many read it, and only where it is looked at."""
    import pyarrow as pa

    with pa.memory_map(str(path)) as source, pa.ipc.open_file(source) as reader:
        frame = pl.from_arrow(reader.read_all(), rechunk=False)
    assert isinstance(frame, pl.DataFrame)
    return frame


def write_value(value: Any, path: Path) -> None:
    """A value of this run for its own workers."""
    path.write_bytes(pickle.dumps(value, protocol=5))


def read_value(path: Path) -> Any:
    """What `write_value` stored."""
    return pickle.loads(path.read_bytes())  # noqa: S301 - of this run, in its own staging folder
