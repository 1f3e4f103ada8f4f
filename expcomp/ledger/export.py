"""A ledger as one file for other tools: the ancestor's document or Markdown, or the runs as Parquet or CSV."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from expcomp.errors import UsageError
from expcomp.io.documents import write_text
from expcomp.io.row_files import check_out, replacing
from expcomp.io.text_tables import csv_table
from expcomp.ledger.document import document_bytes, ledger_document
from expcomp.ledger.markdown import markdown
from expcomp.ledger.select import Where, select

if TYPE_CHECKING:
    import polars as pl

    from expcomp.ledger.store import Ledger

KINDS = ("json", "md", "parquet", "csv")


def export(
    ledger: Ledger, out: Path, *, kind: str | None = None, where: Where | None = None, force: bool = False
) -> dict[str, Any]:
    """Write a ledger, or one of its versions, to a file.

    Args:
        ledger: The ledger.
        out: The file.
        kind: `json` the ancestor's document, its runs as they were written; `md` its Markdown; `parquet` and `csv` the table of runs; by
            default the file's ending.
        where: Which runs; all by default.
        force: Replace a file.

    Returns:
        `out`, `kind`, `runs`, `version`.

    Raises:
        OutputError: The file exists, or cannot be written.
        UsageError: An unknown kind, or a file inside the ledger.
    """
    kind = kind or out.suffix.removeprefix(".").lower()
    if kind not in KINDS:
        raise UsageError(f"{out}: {kind or 'no ending'} is no kind of export; expected one of {', '.join(KINDS)}")
    if "://" not in str(ledger.path):
        check_out(Path(ledger.path), out)
    runs = ledger.collect(select(ledger.runs, where or Where()))
    with replacing(out, force=force) as file:
        _write(file, kind, runs, ledger, whole=where is None or where == Where())
    return {"out": str(out), "kind": kind, "runs": runs.height, "version": ledger.version}


def _write(file: Path, kind: str, runs: pl.DataFrame, ledger: Ledger, *, whole: bool) -> None:
    if kind == "parquet":
        runs.write_parquet(file, compression="zstd", compression_level=3)
    elif kind == "csv":
        write_text(file, csv_table(runs))
    elif kind == "md":
        write_text(file, markdown(runs, ledger.pack, updated_at=ledger.head.get("updated_at")))
    elif whole:
        write_text(file, document_bytes(ledger.document(derived=False)).decode())
    else:
        # A run may be filed under another case when it is derived again; its key stays.
        part = ledger.stored.join(runs.lazy(), on=["filed_benchmark", "run_key"], how="semi", maintain_order="left")
        write_text(file, document_bytes(ledger_document(part.collect(), ledger.pack)).decode())
