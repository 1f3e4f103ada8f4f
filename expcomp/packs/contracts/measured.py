"""What a measured file is: rows, shape, facts of its fields, or the one problem that keeps it from being read."""

from __future__ import annotations

from dataclasses import dataclass, field

import polars as pl

from expcomp.packs.contracts.kinds import FACTS

MAX_FIELDS = 4096
"""Columns, or paths of a JSON document, at the most."""
MAX_VALUES = 50_000_000
"""Values of a file at the most; a small Parquet file or workbook can unpack to any number."""


@dataclass(frozen=True)
class Measured:
    """One file, or one sheet of a workbook.

    Attributes:
        rows: Data rows, items of an array, or lines of JSON; null for what has none.
        shape: `table`, `object`, `array`, `lines`, `string`, `number`, `boolean`, `null`, `document` or `opaque`.
        facts: Kinds of values by field (`kinds.FACTS`).
        problem: Why nothing could be measured: `file_too_large`, `format_mismatch`, `invalid_encoding`, `invalid_<family>`,
            `missing_sheet`, `unreadable_file`, or `not_checked`: a library is missing.
        detail: The problem in words.
        sheet: Name of the sheet.
    """

    rows: int | None = None
    shape: str = "opaque"
    facts: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=FACTS))
    problem: str | None = None
    detail: str | None = None
    sheet: str | None = None


def failed(problem: str, detail: str, sheet: str | None = None) -> Measured:
    """A file that could not be measured."""
    return Measured(problem=problem, detail=" ".join(detail.split())[:300], sheet=sheet)
