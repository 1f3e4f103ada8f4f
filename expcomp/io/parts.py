"""Intermediate parts of a build: Arrow IPC files of several batches, of which one can be read without the others."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

import polars as pl

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


def row_groups(path: Path) -> list[tuple[int, int]]:
    """Rows and uncompressed bytes of each row group of a Parquet file."""
    import pyarrow.parquet as pq

    meta = pq.read_metadata(path)
    groups = (meta.row_group(i) for i in range(meta.num_row_groups))
    return [(g.num_rows, g.total_byte_size) for g in groups]


def write_batches(frames: Sequence[pl.DataFrame], path: Path) -> None:
    """Frames of one schema, none of them empty, as the batches of one file, uncompressed."""
    import pyarrow as pa

    tables = [f.rechunk().to_arrow(compat_level=pl.CompatLevel.oldest()) for f in frames]
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, tables[0].schema) as writer:
        for table in tables:
            writer.write_batch(table.combine_chunks().to_batches()[0])


def read_batches(path: Path, numbers: Sequence[int]) -> list[pl.DataFrame]:
    """Some batches of such a file; the others are not read."""
    import pyarrow as pa

    with pa.OSFile(str(path), "rb") as source, pa.ipc.open_file(source) as reader:
        frames = [pl.from_arrow(reader.get_batch(n)) for n in numbers]
    return [f for f in frames if isinstance(f, pl.DataFrame)]


def write_value(value: Any, path: Path) -> None:
    """A value of this run for its own workers."""
    path.write_bytes(pickle.dumps(value, protocol=5))


def read_value(path: Path) -> Any:
    """What `write_value` stored."""
    return pickle.loads(path.read_bytes())  # noqa: S301 - of this run, in its own staging folder
