"""Intermediate rows sorted by bucket: many jobs write a file each, and one bucket is read from all of them without the rest."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import polars as pl

from expcomp.io.whole import whole

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

_OFFSETS = b"expcomp.offsets"


def write_sorted(frame: pl.DataFrame, bucket: str, buckets: int, path: Path) -> int:
    """Write a frame sorted by a column of bucket numbers, which is not stored; rows of one bucket keep their order.

    Args:
        frame: With at least one row.
        bucket: Column of numbers from 0 to below `buckets`.
        buckets: Their number.
        path: File to write; it appears whole.

    Returns:
        Bytes of the file.
    """
    import pyarrow as pa

    numbers = frame[bucket]
    order = frame.select(pl.arg_sort_by(bucket, maintain_order=True)).to_series()
    ends = numbers[order].search_sorted(pl.Series(range(1, buckets + 1), dtype=numbers.dtype), side="left")
    rows = frame.drop(bucket)[order].rechunk()
    # Arrow of the old kind: a slice of it is read without the texts of other rows.
    batch = rows.to_arrow(compat_level=pl.CompatLevel.oldest()).combine_chunks().to_batches()[0]
    about = dict(batch.schema.metadata or {}) | {_OFFSETS: ends.to_numpy().astype("<i8").tobytes()}
    with (
        whole(path) as beside,
        pa.OSFile(os.fspath(beside), "wb") as sink,
        pa.ipc.new_file(sink, batch.schema.with_metadata(about)) as writer,
    ):
        writer.write_batch(batch.replace_schema_metadata(about))
    return path.stat().st_size


def read_bucket(paths: Iterable[Path], number: int) -> pl.DataFrame | None:
    """The rows of one bucket in all files, in their order; None when there are none. Files are of one schema."""
    import pyarrow as pa

    found = []
    for path in paths:
        with pa.memory_map(os.fspath(path)) as source, pa.ipc.open_file(source) as reader:
            ends = memoryview(reader.schema.metadata[_OFFSETS]).cast("q")
            start = ends[number - 1] if number else 0
            if ends[number] > start:
                found.append(reader.get_batch(0).slice(start, ends[number] - start).replace_schema_metadata(None))
    if not found:
        return None
    # Joined before Polars sees them: it would take apart each of hundreds of pieces by itself.
    frame = pl.from_arrow(pa.Table.from_batches(found).combine_chunks())
    assert isinstance(frame, pl.DataFrame)
    return frame
