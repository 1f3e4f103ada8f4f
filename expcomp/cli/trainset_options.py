"""Options that the verbs of `expcomp trainset` share."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from expcomp.training.dataset import Limits

Dataset = Annotated[
    Path, typer.Argument(help="Document (.json) or folder of a bundle.", metavar="DATASET", show_default=False)
]
Digest = Annotated[str | None, typer.Option(help="Digest that the dataset has to have.")]
MaxBytes = Annotated[
    int | None, typer.Option(min=1, help="Bytes of a document (default 128 MiB) or of one shard, at the most.")
]
MaxRows = Annotated[int | None, typer.Option(min=1, help="Rows at the most; default 1,000,000.")]


def limits_of(max_bytes: int | None, max_rows: int | None) -> Limits:
    """Limits that options give."""
    from expcomp.training.dataset import Limits

    default = Limits()
    return Limits(
        document_bytes=max_bytes or default.document_bytes,
        shard_bytes=max_bytes or default.shard_bytes,
        rows=max_rows or default.rows,
    )


def show_described(told: dict[str, Any]) -> None:
    """Print the digests of a dataset."""
    print(f"{told['rows']:,} {told['kind']} rows of {told['task_count']:,} tasks, {told['form']}")
    for name in ("digest", "document_digest", "task_set_digest"):
        print(f"  {name.replace('_', ' '):16}{told[name]}")
