"""Measure a file by its format: the same for inference and for verification, so that what was inferred always holds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from expcomp.packs.contracts.formats import FORMATS, mismatch
from expcomp.packs.contracts.measured import Measured, failed
from expcomp.packs.contracts.records import measure_json, measure_jsonl
from expcomp.packs.contracts.tabular import measure_csv, measure_parquet, measure_xlsx
from expcomp.packs.contracts.texts import measure_markdown, measure_text

if TYPE_CHECKING:
    from collections.abc import Collection


def measure(
    data: bytes,
    name: str,
    *,
    limit: int,
    wanted: Collection[str] = (),
    separator: str | None = None,
    sheet: str | None = None,
) -> list[Measured]:
    """Measure the bytes of a file; one result, for a workbook one a sheet.

    Args:
        data: All bytes of the file.
        name: A format of `FORMATS`.
        limit: What a file may hold, in bytes; bounds what a workbook may unpack to.
        wanted: Paths and headings that a contract names.
        separator: Between cells; by default that of the format.
        sheet: Only this sheet.
    """
    found = mismatch(name, data)
    if found is not None:
        return [failed("format_mismatch", found, sheet)]
    if name == "xlsx":
        return measure_xlsx(data, limit=limit, sheet=sheet)
    if name in ("csv", "tsv", "bed"):
        return [measure_csv(data, separator or FORMATS[name].separator)]
    by_name = {
        "json": lambda: measure_json(data, wanted),
        "jsonl": lambda: measure_jsonl(data, wanted),
        "parquet": lambda: measure_parquet(data),
        "markdown": lambda: measure_markdown(data),
        "text": lambda: measure_text(data, wanted),
    }
    return [by_name[name]() if name in by_name else Measured()]
