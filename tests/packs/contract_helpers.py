"""An attempt that hands over one file of each format, for the tests of contracts."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import polars as pl

from tests.helpers import put

TABLE = pl.DataFrame(
    {
        "id": ["g1", "g2", "g3"],
        "level": [1.5, 2.25, 3.5],
        "count": [4, 5, 6],
        "day": ["2026-01-02", "2026-01-03", "2026-01-04"],
        "note": ["dry", None, "wet"],
    }
)
SUMMARY: dict[str, Any] = {
    "rows": 3,
    "mean_level": 2.4167,
    "flags": ["dry", "wet"],
    "checked": True,
    "source": {"name": "north", "depth": 2},
    "remark": None,
}
LINES = [{"id": i, "tags": ["a", "b"], "score": i / 2 + 0.25} for i in range(4)]
REPORT = "# Gauges\n\nThree gauges.\n\n## Gaps\n\n```\n# not a heading\n```\n\nMethod\n------\n\nBy eye.\n"
NAMES = (
    "table.csv",
    "table.tsv",
    "summary.json",
    "list.json",
    "lines.jsonl",
    "table.parquet",
    "report.md",
    "notes.txt",
)
PNG = b"\x89PNG\r\n\x1a\n" + bytes(16)


def parquet(frame: pl.DataFrame) -> bytes:
    """A Parquet file."""
    buffer = io.BytesIO()
    frame.write_parquet(buffer)
    return buffer.getvalue()


def typed() -> pl.DataFrame:
    """TABLE with the types that only a typed file has."""
    return TABLE.with_columns(
        pl.col("day").str.to_date(), tags=pl.Series([["x"], ["y", "z"], []]), box=pl.Series([{"a": 1}] * 3)
    )


def workbook(sheets: dict[str, pl.DataFrame]) -> bytes:
    """An XLSX file."""
    import xlsxwriter

    buffer = io.BytesIO()
    with xlsxwriter.Workbook(buffer) as book:
        for name, frame in sheets.items():
            frame.write_excel(book, name)
    return buffer.getvalue()


def hand_over(attempt: Path, kind: str = "revised", *, listed: tuple[str, ...] | None = None) -> Path:
    """Write the files of an attempt below `artifacts/`, and its list of outputs."""
    files = attempt / "artifacts"
    files.mkdir(parents=True, exist_ok=True)
    (files / "table.csv").write_bytes(TABLE.write_csv().encode())
    (files / "table.tsv").write_bytes(TABLE.write_csv(separator="\t").encode())
    put(files / "summary.json", SUMMARY)
    put(files / "list.json", LINES)
    (files / "lines.jsonl").write_text("".join(json.dumps(line) + "\n" for line in LINES), "utf-8")
    (files / "table.parquet").write_bytes(parquet(typed()))
    put(files / "report.md", REPORT)
    put(files / "notes.txt", "All went well.\n")
    (files / "plot.png").write_bytes(PNG)
    names = listed if listed is not None else (*NAMES, "plot.png")
    put(
        attempt / "actual_outputs.json",
        {
            "attempt_id": f"task_a_{kind}",
            "attempt_kind": kind,
            "status": "success",
            "deliverable_refs": [f"attempts/{kind}/artifacts/{name}" for name in names],
            "stdout_ref": f"attempts/{kind}/stdout.txt",
        },
    )
    return attempt
