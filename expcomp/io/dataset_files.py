"""Files of a published dataset: Parquet as the Hub likes it, and JSON lines."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

from expcomp.io.hashing import Hashing, Written
from expcomp.io.whole import whole

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    import polars as pl
    import pyarrow as pa

__all__ = ["Lines", "Written", "write_shard"]

GROUP_BYTES = 48 << 20
"""A row group begins anew after about this many bytes; viewers refuse large ones."""

LEVEL = 3


def write_shard(tables: Iterable[pa.Table], schema: pa.Schema, path: Path, *, chunked: bool = True) -> Written:
    """Write tables of one schema as one Parquet file: zstd, page index, row groups by bytes.

    Equal tables give equal bytes with one release of PyArrow.

    Args:
        tables: One after the other; none makes a file without rows.
        schema: Of each of them.
        path: Of the new file.
        chunked: Cut pages by content, so that equal stretches of two versions are equal bytes.
    """
    import pyarrow.parquet as pq

    rows = 0
    with whole(path) as beside, beside.open("wb") as raw:
        handle = Hashing(raw)
        with pq.ParquetWriter(
            handle,
            schema,
            compression="zstd",
            compression_level=LEVEL,
            write_page_index=True,
            use_content_defined_chunking=chunked,
        ) as writer:
            for table in tables:
                for part in _groups(table):
                    writer.write_table(part, row_group_size=part.num_rows)
                rows += table.num_rows
    return Written(rows, handle.size, handle.sha256)


class Lines:
    """A file of lines in the making, UTF-8, each ended by a newline; there once it is closed, and only if it has any."""

    def __init__(self, path: Path) -> None:
        self._stack = ExitStack()
        self._path = path
        self._handle: Hashing | None = None
        self._rows = 0

    def write(self, series: pl.Series) -> None:
        """Add texts."""
        import polars as pl

        if self._handle is None:
            beside = self._stack.enter_context(whole(self._path))
            self._handle = Hashing(self._stack.enter_context(beside.open("wb")))
        # In Arrow's older layout texts lie end to end: with their line ends they are the file.
        ended = (series + "\n").rechunk()
        data = ended.to_arrow(compat_level=pl.CompatLevel.oldest()).buffers()[2]
        self._handle.write(memoryview(data)[: int(ended.str.len_bytes().sum())] if data else b"")
        self._rows += series.len()

    def close(self) -> Written | None:
        """Finish the file."""
        self._stack.close()
        handle = self._handle
        return None if handle is None else Written(self._rows, handle.size, handle.sha256)

    def __enter__(self) -> Lines:
        return self

    def __exit__(self, *failed: object) -> None:
        self._stack.__exit__(*failed)  # type: ignore[arg-type]


def _groups(table: pa.Table) -> Iterator[pa.Table]:
    """A table in parts of about GROUP_BYTES, at least a row each."""
    start = 0
    while start < table.num_rows:
        rows = table.num_rows - start
        size = table.slice(start).nbytes
        if size > GROUP_BYTES:
            rows = max(1, _fitting(table, start, rows))
        yield table.slice(start, rows)
        start += rows


def _fitting(table: pa.Table, start: int, rows: int) -> int:
    """The most rows from a start whose bytes fit a group; sizes of slices grow with their rows."""
    low, high = 0, rows
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if table.slice(start, middle).nbytes <= GROUP_BYTES else (low, middle - 1)
    return low
