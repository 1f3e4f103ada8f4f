"""The two forms as files: a canonical JSON document, and a bundle of Parquet or JSONL shards with a manifest and an inventory."""

from __future__ import annotations

from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import ClassVar, Literal

import polars as pl

from expcomp.datasets.identity import COLUMNS, RULES, task_set_digest
from expcomp.io.canonical_rows import canonical_texts, parse_exactly
from expcomp.io.digest import sha256_file
from expcomp.io.files import listing
from expcomp.io.publish import publish
from expcomp.io.row_files import replacing
from expcomp.io.sinks import write_lines, write_parquet, write_pieces
from expcomp.tables.training import FORMAT, PARTITION, TRAINING_TASKS
from expcomp.training.checks import Refused, finding, joined
from expcomp.training.dataset import (
    ROW,
    Limits,
    TrainingDataset,
    canonical_document_digest,
    count_rows,
    document_parts,
    pinned,
    refuse_rows,
    same_digest,
    task_table,
)
from expcomp.training.documents import (
    Count,
    Document,
    DocumentError,
    Positive,
    Rule,
    Sha256,
    distinct,
    document_bytes,
    from_wire,
)
from expcomp.training.identity import InventoryFile
from expcomp.training.parsing import parse_rows, refused_findings, refused_texts
from expcomp.training.receipts import RelativePath
from expcomp.training.validate import ROWS

MANIFEST = "manifest.json"
INVENTORY = "inventory.parquet"
SHARD_ROWS = 100_000
_MANIFEST_BYTES = 64 << 20
_STORED = [c for c in ROWS if c != "row"]


class BundleFile(Document, frozen=True, kw_only=True):
    """One file of a bundle."""

    path: RelativePath
    bytes: Positive
    rows: Count
    sha256: Sha256


class BundleManifest(Document, frozen=True, kw_only=True):
    """What a bundle holds; its digest is that of the dataset.

    Attributes:
        rows: Over all shards, which follow one another in this order.
        document_digest: Digest of the canonical document with the same rows: equal datasets have it in common, whatever
            their form and shards.
        inventory: `training_tasks`.
    """

    version: Literal[1]
    format: Literal["sft", "dpo", "grpo"]
    rows: Count
    document_digest: Sha256
    task_set_digest: Sha256
    task_count: Count
    shards: tuple[BundleFile, ...]
    inventory: BundleFile

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule("bundle_rows", "rows", lambda m: m.rows == sum(s.rows for s in m.shards), "the rows of all shards", lambda m: m.rows),
        Rule(
            "bundle_files",
            "shards",
            lambda m: distinct((MANIFEST, m.inventory.path, *(s.path for s in m.shards))),
            "each file once",
        ),
        Rule(
            "bundle_kinds",
            "shards",
            lambda m: all(s.path.endswith((".parquet", ".jsonl")) for s in m.shards),
            "shards that end in .parquet or .jsonl",
        ),
    )  # fmt: skip


def write_document(rows: pl.DataFrame, kind: str, path: Path, *, force: bool = False) -> str:
    """Write rows (`validate.ROWS`, `data` canonical) as a canonical document, in one step; returns its digest.

    Raises:
        DatasetError: A check refuses the rows.
        OutputError: `path` exists, or cannot be written.
    """
    refuse_rows(rows, kind)
    with replacing(path, force=force) as beside:
        write_pieces(document_parts(rows, kind), beside)
        return sha256_file(beside)


def write_bundle(
    rows: pl.DataFrame,
    kind: str,
    out: Path,
    *,
    shard_rows: int = SHARD_ROWS,
    suffix: Literal["parquet", "jsonl"] = "parquet",
    force: bool = False,
) -> str:
    """Write rows (`validate.ROWS`, `data` canonical) as a bundle, in one step; returns the digest of the dataset.

    Raises:
        DatasetError: A check refuses the rows.
        OutputError: `out` exists, or cannot be written.
    """
    refuse_rows(rows, kind)
    tasks = task_table(rows)
    with publish(out, force=force) as staging:
        shards = []
        for number, part in enumerate(rows.iter_slices(shard_rows)):
            path = staging / f"rows-{number:05}.{suffix}"
            if suffix == "parquet":
                write_parquet(part.select(_STORED), path, {})
            else:
                write_lines(part.select(ROW.alias("row")).to_series(), path)
            shards.append(_file(path, part.height))
        write_parquet(tasks, staging / INVENTORY, {})
        manifest = BundleManifest(
            version=1,
            format=kind,  # type: ignore[arg-type]
            rows=rows.height,
            document_digest=canonical_document_digest(rows, kind),
            task_set_digest=task_set_digest(tasks),
            task_count=tasks.select(pl.struct(COLUMNS).n_unique()).item(),
            shards=tuple(shards),
            inventory=_file(staging / INVENTORY, tasks.height),
        )
        write_pieces([document_bytes(manifest)], staging / MANIFEST)
        return sha256_file(staging / MANIFEST)


def write_inventory(rows: pl.DataFrame, path: Path, *, force: bool = False) -> InventoryFile:
    """Write the tasks of rows (`TRAINING_TASKS`) as Parquet, in one step: for the identity of a document with many of them.

    Raises:
        OutputError: `path` exists, or cannot be written.
    """
    with replacing(path, force=force) as beside:
        write_parquet(task_table(rows), beside, {})
        return InventoryFile(digest=sha256_file(beside), bytes=beside.stat().st_size)


def _file(path: Path, rows: int) -> BundleFile:
    return BundleFile(path=path.name, bytes=path.stat().st_size, rows=rows, sha256=sha256_file(path))


def load_bundle(path: Path, expected: str | None, limits: Limits) -> tuple[TrainingDataset, pl.DataFrame]:
    """A bundle with what is wrong with its rows (`TRAINING_FINDINGS`).

    Raises:
        Refused: The manifest, or a file that it lists, is not what it has to be.
    """
    if not (path / MANIFEST).is_file():
        raise Refused("dataset_file_missing", f"no {MANIFEST}", document=path.name)
    digest, _, content = pinned(path / MANIFEST, _MANIFEST_BYTES, MANIFEST)
    same_digest(digest, expected)
    manifest = _manifest(content)
    count_rows(manifest.rows, limits)
    listed = {MANIFEST, manifest.inventory.path, *(s.path for s in manifest.shards)}
    there = set(listing(path))
    for code, names in (("dataset_file_missing", listed - there), ("dataset_file_unlisted", there - listed)):
        if names:
            raise Refused(code, ", ".join(sorted(names)), document=path.name)
    frames, found, first = [pl.DataFrame(schema=ROWS)], [], 0
    for shard in manifest.shards:
        rows, bad = _shard(shard.path, _content(path, shard, limits), first)
        if rows.height + bad["row"].n_unique() != shard.rows:
            raise Refused("dataset_file_mismatch", f"{rows.height:,} rows, not {shard.rows:,}", document=shard.path)
        frames.append(rows)
        found.append(bad)
        first += shard.rows
    rows, bad = pl.concat(frames, rechunk=False), joined(found)
    sound = pl.all_horizontal(*RULES.values(), pl.col("partition").is_in(PARTITION.categories.to_list()))
    if not bad.height and rows.select(sound.all()).item():
        listed_tasks = _parquet(manifest.inventory.path, _content(path, manifest.inventory, limits))
        bad = joined(
            [finding("dataset_identity_mismatch", MANIFEST, f, path=p) for p, f in _other(manifest, rows, listed_tasks)]
        )
    tasks = InventoryFile(digest=manifest.inventory.sha256, bytes=manifest.inventory.bytes)
    return TrainingDataset(str(path), "bundle", manifest.format, digest, rows, tasks), bad


def _manifest(content: bytes) -> BundleManifest:
    try:
        manifest = from_wire(BundleManifest, parse_exactly(content), MANIFEST)
    except (ValueError, RecursionError) as error:
        raise Refused("dataset_not_json", str(error), document=MANIFEST) from error
    except DocumentError as error:
        raise Refused(
            "dataset_bad_shape", f"{error.found}, not {error.expected}", path=error.path, document=MANIFEST
        ) from error
    if document_bytes(manifest) != content:
        raise Refused("dataset_bad_shape", "another form of its JSON than the canonical one", document=MANIFEST)
    return manifest


def _content(root: Path, file: BundleFile, limits: Limits) -> bytes:
    digest, size, content = pinned(root / file.path, limits.shard_bytes, file.path)
    if (digest, size) != (file.sha256, file.bytes):
        raise Refused("dataset_file_mismatch", f"{size:,} bytes with {digest}, not {file.sha256}", document=file.path)
    return content


def _parquet(name: str, content: bytes) -> pl.DataFrame:
    try:
        return pl.read_parquet(BytesIO(content))
    except pl.exceptions.PolarsError as error:
        raise Refused("dataset_bad_shape", str(error), document=name) from error


def _shard(name: str, content: bytes, first: int) -> tuple[pl.DataFrame, pl.DataFrame]:
    if name.endswith(".jsonl"):
        return parse_rows(content.removesuffix(b"\n").split(b"\n"), name, first=first)
    frame = _parquet(name, content)
    if frame.columns != _STORED or any(t not in (pl.String, FORMAT) for t in frame.dtypes):
        raise Refused("dataset_bad_shape", f"columns {frame.schema}", path="columns", document=name)
    frame = frame.with_columns(row=pl.int_range(pl.len()) + first)
    made = canonical_texts(frame["data"]).with_columns(frame["row"])
    bad = refused_findings(refused_texts(made, "data"), name)
    fine = made["text"].is_not_null()
    return frame.with_columns(data=made["text"]).filter(fine).select(ROWS.keys()).cast(ROWS), bad  # type: ignore[arg-type]


def _other(manifest: BundleManifest, rows: pl.DataFrame, tasks: pl.DataFrame) -> Iterator[tuple[str, str]]:
    """What the manifest or the inventory says otherwise than the rows: path, found."""
    if dict(tasks.schema) != dict(TRAINING_TASKS.schema) or not tasks.equals(task_table(rows)):
        yield "inventory", "other tasks than those of the rows"
    if manifest.task_set_digest != task_set_digest(rows):
        yield "taskSetDigest", manifest.task_set_digest
    if manifest.task_count != rows.select(pl.struct(COLUMNS).n_unique()).item():
        yield "taskCount", str(manifest.task_count)
    if manifest.document_digest != canonical_document_digest(rows, manifest.format):
        yield "documentDigest", manifest.document_digest
