"""A dataset in either form, by the name of what is written, and what both forms have in common."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import polars as pl

from expcomp.datasets.identity import COLUMNS, task_set_digest
from expcomp.training.bundle import SHARD_ROWS, write_bundle, write_document
from expcomp.training.dataset import Form, TrainingDataset, canonical_document_digest

DOCUMENT = ".json"
"""How the name of a document ends; any other name is that of a bundle."""
Shards = Literal["parquet", "jsonl"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Described:
    """A dataset in figures.

    Attributes:
        form: `document` or `bundle`.
        kind: `sft`, `dpo` or `grpo`.
        rows: Their number.
        digest: Of the bytes of the document, or of the manifest of the bundle.
        document_digest: Of the canonical document: equal for equal rows in equal order, whatever their form and shards.
        task_set_digest: Of the canonical sorted list of the distinct tasks.
        task_count: Their number.
    """

    form: Form
    kind: str
    rows: int
    digest: str
    document_digest: str
    task_set_digest: str
    task_count: int

    def to_dict(self) -> dict[str, Any]:
        """By name."""
        return asdict(self)


def describe(dataset: TrainingDataset) -> Described:
    """A dataset that was read."""
    rows, kind = dataset.rows, dataset.kind
    return _described(rows, kind, dataset.form, dataset.digest, canonical_document_digest(rows, kind))


def write_dataset(
    rows: pl.DataFrame,
    kind: str,
    out: Path,
    *,
    shards: Shards = "parquet",
    shard_rows: int | None = None,
    force: bool = False,
) -> Described:
    """Write rows (`validate.ROWS`, `data` canonical) as a document when the name ends in `.json`, else as a bundle.

    Raises:
        DatasetError: A check refuses the rows.
        OutputError: `out` exists, or cannot be written.
    """
    if out.suffix.lower() == DOCUMENT:
        made = write_document(rows, kind, out, force=force)  # canonical, so that its digest is both
        return _described(rows, kind, "document", made, made)
    made = write_bundle(rows, kind, out, shard_rows=shard_rows or SHARD_ROWS, suffix=shards, force=force)
    return _described(rows, kind, "bundle", made, canonical_document_digest(rows, kind))


def _described(rows: pl.DataFrame, kind: str, form: Form, digest: str, document_digest: str) -> Described:
    return Described(
        form=form,
        kind=kind,
        rows=rows.height,
        digest=digest,
        document_digest=document_digest,
        task_set_digest=task_set_digest(rows),
        task_count=rows.select(pl.struct(COLUMNS).n_unique()).item(),
    )
