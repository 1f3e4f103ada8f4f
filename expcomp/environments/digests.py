"""Digests of a package: of each table over its rows in key order, and of all tables together. Files, order and clock play no part."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import polars as pl

from expcomp.io.canon import digest
from expcomp.io.digest import PREFIX
from expcomp.tables.environment import PACKAGE

ROWS = 65_536
"""Rows whose text is held at once."""


def ordered(name: str, frame: pl.DataFrame) -> pl.DataFrame:
    """A table in the order of its key; without a key by all columns."""
    return frame.sort(PACKAGE[name].keys or frame.columns, nulls_last=True, maintain_order=True)


def rows_digest(frame: pl.DataFrame) -> str:
    """`sha256:` digest of the rows as JSON lines, keys sorted, in the order given."""
    names = sorted(frame.columns)
    text = pl.struct(_plain(n, frame.schema[n]) for n in names).struct.json_encode()
    found = hashlib.sha256()
    for start in range(0, frame.height, ROWS):
        part = frame.slice(start, ROWS).select(text.str.join("\n")).item()
        found.update(f"{part}\n".encode())
    return PREFIX + found.hexdigest()


def _plain(name: str, dtype: pl.DataType) -> pl.Expr:
    if isinstance(dtype, pl.Datetime):
        return pl.col(name).dt.strftime("%Y-%m-%dT%H:%M:%S%.6fZ")
    return pl.col(name).cast(pl.String) if isinstance(dtype, pl.Enum) else pl.col(name)


def table_digests(frames: Mapping[str, pl.DataFrame]) -> dict[str, str]:
    """Digest of each table, rows in key order."""
    return {name: rows_digest(ordered(name, frames[name])) for name in PACKAGE}


def artifact_digest(tables: Mapping[str, str]) -> str:
    """Digest of all tables: of the sorted list of (name, table digest)."""
    return digest([[name, tables[name]] for name in sorted(tables)])


def cases_digest(cases: pl.DataFrame, steps: pl.DataFrame) -> str:
    """Digest of replay cases with their steps."""
    return digest([rows_digest(cases.sort("case_id")), rows_digest(steps.sort("case_id", "ordinal"))])
