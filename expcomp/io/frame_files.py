"""A file of rows as one frame: Parquet, CSV or JSON lines."""

from __future__ import annotations

import glob
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from expcomp.errors import SourceError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def _scan_lines(path: Path, schema_from: int | None = None) -> pl.LazyFrame:
    return pl.scan_ndjson(glob.escape(str(path)), infer_schema_length=schema_from)


SCANS: Mapping[str, Callable[[Path], pl.LazyFrame]] = {
    ".parquet": lambda path: pl.scan_parquet(path, glob=False),
    ".csv": lambda path: pl.scan_csv(path, glob=False),
    ".jsonl": _scan_lines,
    ".ndjson": _scan_lines,
}
"""How the files are scanned; a bracket or a star in a path is one, and no pattern."""


def columns_of(path: Path) -> list[str]:
    """Names of the columns of a file of rows, of JSON lines those of the first hundred; none when it is no such file."""
    scan = SCANS.get(path.suffix.lower())
    if scan is None or not path.is_file():
        return []
    try:
        # A trace of gigabytes is asked the same question and must not be read for it.
        head = _scan_lines(path, 100) if "json" in path.suffix.lower() else scan(path)
        return head.collect_schema().names()
    except (pl.exceptions.PolarsError, OSError):
        return []


def read_frame(path: Path) -> pl.DataFrame:
    """A file of rows.

    Raises:
        SourceError: It is absent, of another kind, or cannot be read.
    """
    scan = SCANS.get(path.suffix.lower())
    if scan is None:
        msg = f"{path}: expected a name that ends in {', '.join(SCANS)}"
        raise SourceError(msg)
    try:
        return scan(path).collect()
    except (pl.exceptions.PolarsError, OSError) as error:
        msg = f"{path} cannot be read: {error}"
        raise SourceError(msg) from error
