"""A training dataset in one of its two forms: a JSON document, or a bundle of shards. Both have the same rows, tasks and checks."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import polars as pl

from expcomp.datasets.identity import COLUMNS, TASK, inventory
from expcomp.io.canonical_rows import json_text
from expcomp.io.digest import PREFIX, sha256_expr
from expcomp.io.pinned_files import PinnedFileError, hash_file
from expcomp.tables.training import TRAINING_ROWS, TRAINING_TASKS
from expcomp.training.checks import DatasetError, Refused, Severity, finding, joined
from expcomp.training.identity import DatasetIdentity, InventoryFile, dataset_identity
from expcomp.training.parsing import parse_rows, split_document
from expcomp.training.validate import validate_rows

_BATCH = 32_768

ROW = pl.concat_str(
    pl.lit('{"data":'), pl.col("data"), pl.lit(',"partition":'), json_text(pl.col("partition").cast(pl.String)),
    pl.lit(',"task":'), TASK, pl.lit("}"),
)  # fmt: skip
"""Canonical JSON of a row."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What is read at the most.

    Attributes:
        document_bytes: Of a document.
        shard_bytes: Of one file of a bundle.
        rows: Of either.
    """

    document_bytes: int = 128 << 20
    shard_bytes: int = 8 << 30
    rows: int = 1_000_000


Form = Literal["document", "bundle"]


@dataclass(frozen=True)
class TrainingDataset:
    """A dataset that passed its checks.

    Attributes:
        name: Path it was read from.
        form: `document` or `bundle`.
        kind: `sft`, `dpo` or `grpo`.
        digest: Of the bytes of the document, or of the canonical manifest of the bundle.
        rows: Columns of `validate.ROWS`.
        inventory_file: Of a bundle: the file that lists its tasks.
    """

    name: str
    form: Form
    kind: str
    digest: str
    rows: pl.DataFrame
    inventory_file: InventoryFile | None = None

    def identity(self, inventory_file: InventoryFile | None = None) -> DatasetIdentity:
        """What a receipt says of it.

        Args:
            inventory_file: Of a document with more tasks than an identity lists (`bundle.write_inventory`); a bundle has its own.

        Raises:
            TableError: There are more, and there is no such file.
        """
        return dataset_identity(self.rows, self.digest, inventory_file=inventory_file or self.inventory_file)

    @property
    def frame(self) -> pl.DataFrame:
        """The rows with their digests (`TRAINING_ROWS`)."""
        made = self.rows.with_columns(format=pl.lit(self.kind), row_digest=row_digests(self.rows))
        return made.select(TRAINING_ROWS.columns.keys()).cast(TRAINING_ROWS.schema)

    @property
    def tasks(self) -> pl.DataFrame:
        """Its tasks by partition (`TRAINING_TASKS`)."""
        return task_table(self.rows)


@dataclass(frozen=True)
class CheckedDataset:
    """What the checks of a dataset found.

    Attributes:
        findings: `TRAINING_FINDINGS`.
        dataset: None when it is refused.
    """

    findings: pl.DataFrame
    dataset: TrainingDataset | None


def check_dataset(
    path: Path,
    *,
    expected_digest: str | None = None,
    limits: Limits | None = None,
    severities: Mapping[str, Severity] | None = None,
) -> CheckedDataset:
    """Run every check of a dataset.

    Args:
        path: A JSON document, or the folder of a bundle.
        expected_digest: Digest that the caller pinned.
        limits: Bytes and rows that are read.
        severities: By code, in place of those of `checks.CHECKS`.
    """
    from expcomp.training.bundle import load_bundle

    try:
        load = load_bundle if path.is_dir() else _load_document
        dataset, found = load(path, expected_digest, limits or Limits())
    except Refused as error:
        return CheckedDataset(finding(error.code, error.document or path.name, error.found, path=error.path), None)
    found = joined([found, validate_rows(dataset.rows, dataset.kind, document=path.name, severities=severities)])
    return CheckedDataset(found, None if (found["severity"] == "error").any() else dataset)


def read_dataset(
    path: Path,
    *,
    expected_digest: str | None = None,
    limits: Limits | None = None,
    severities: Mapping[str, Severity] | None = None,
) -> TrainingDataset:
    """A dataset that passes its checks; arguments as for `check_dataset`.

    Raises:
        DatasetError: A check refuses it; the error carries all findings.
    """
    checked = check_dataset(path, expected_digest=expected_digest, limits=limits, severities=severities)
    if checked.dataset is None:
        raise DatasetError(checked.findings)
    return checked.dataset


def refuse_rows(rows: pl.DataFrame, kind: str) -> None:
    """Hold rows that are to be written to the checks.

    Raises:
        DatasetError: One refuses them.
    """
    found = validate_rows(rows, kind)
    if not rows.height:
        found = joined([finding("dataset_empty", "dataset", "no rows"), found])
    if (found["severity"] == "error").any():
        raise DatasetError(found)


def row_digests(rows: pl.DataFrame) -> pl.Series:
    """`sha256:` digest of the canonical form of each row."""
    parts = [
        part.select(pl.concat_str(pl.lit(PREFIX), sha256_expr(ROW)).alias("row_digest")).to_series()
        for part in rows.iter_slices(_BATCH)
    ]
    return pl.concat([pl.Series("row_digest", [], dtype=pl.String), *parts])


def document_parts(rows: pl.DataFrame, kind: str) -> Iterator[bytes]:
    """Bytes of the canonical document of rows, in parts."""
    yield f'{{"format":"{kind}","rows":['.encode()
    for number, part in enumerate(rows.iter_slices(_BATCH)):
        yield (b"," if number else b"") + part.select(ROW.str.join(",")).item().encode()
    yield b'],"version":1}'


def canonical_document_digest(rows: pl.DataFrame, kind: str) -> str:
    """Digest of the canonical document of rows: what both forms of a dataset have in common."""
    digest = hashlib.sha256()
    for part in document_parts(rows, kind):
        digest.update(part)
    return PREFIX + digest.hexdigest()


def task_table(rows: pl.DataFrame) -> pl.DataFrame:
    """Tasks of rows by partition (`TRAINING_TASKS`), in the order of an inventory."""
    counted = rows.group_by(*COLUMNS, "partition", maintain_order=True).agg(n_rows=pl.len())
    order = inventory(rows).with_row_index("_at")
    made = counted.join(order, on=list(COLUMNS), how="left", maintain_order="left").sort("_at", "partition")
    return made.select(TRAINING_TASKS.columns.keys()).cast(TRAINING_TASKS.schema)


def pinned(path: Path, limit: int, document: str, *, capture: bool = True) -> tuple[str, int, bytes]:
    """Digest, size and bytes of a file of a dataset.

    Raises:
        Refused: It cannot be hashed.
    """
    try:
        found = hash_file(path, limit, capture=capture)
    except PinnedFileError as error:
        raise Refused(f"dataset_{error.code}", error.found, document=document) from error
    return found.digest, found.size, found.content or b""


def same_digest(found: str, expected: str | None) -> None:
    """Hold a dataset to the digest that the caller pinned.

    Raises:
        Refused: It is another one.
    """
    if expected is not None and found != expected:
        raise Refused("dataset_digest_mismatch", f"{found}, asked for {expected}")


def count_rows(rows: int, limits: Limits) -> None:
    """Hold a dataset to the number of rows.

    Raises:
        Refused: There are none, or too many.
    """
    if not rows:
        raise Refused("dataset_empty", "no rows", path="rows")
    if rows > limits.rows:
        raise Refused("dataset_too_many_rows", f"{rows:,} rows, the limit is {limits.rows:,}", path="rows")


def _load_document(path: Path, expected: str | None, limits: Limits) -> tuple[TrainingDataset, pl.DataFrame]:
    digest, _, content = pinned(path, limits.document_bytes, path.name)
    same_digest(digest, expected)
    kind, raw = split_document(content)
    count_rows(len(raw), limits)
    rows, found = parse_rows(raw, path.name)
    return TrainingDataset(str(path), "document", kind, digest, rows), found
