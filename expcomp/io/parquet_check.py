"""Parquet files that may be damaged or made to hurt. Polars ends the process at some (one wrong bit in the head of a page is enough);
pyarrow checks what it decodes, and says so."""

from __future__ import annotations

from typing import IO, TYPE_CHECKING

import polars as pl

if TYPE_CHECKING:
    from pathlib import Path


def read_checked(source: Path | IO[bytes]) -> pl.DataFrame:
    """A Parquet file, every value checked.

    Raises:
        ValueError: It is no Parquet, or damaged.
        OSError: It cannot be opened, or is damaged.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(source) as opened:
            table = opened.read()
        table.validate(full=True)  # texts are UTF-8, places in lists and dictionaries exist
        frame = pl.from_arrow(table)
    except (pa.ArrowException, pl.exceptions.PolarsError, pl.exceptions.PanicException, MemoryError) as error:
        msg = (str(error).splitlines() or [error.__class__.__name__])[0]
        raise ValueError(msg) from error
    assert isinstance(frame, pl.DataFrame)
    return frame
