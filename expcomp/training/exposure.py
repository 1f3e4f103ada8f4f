"""Which tasks a lineage of training runs could see, in both partitions, as one table that held-out sets are joined with."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from io import BytesIO
from pathlib import Path

import polars as pl

from expcomp.datasets.identity import COLUMNS, task_set_digest
from expcomp.errors import SourceError
from expcomp.io.canonical_rows import json_text
from expcomp.io.digest import PREFIX
from expcomp.io.pinned_files import hash_file
from expcomp.io.row_files import replacing
from expcomp.io.sinks import write_parquet
from expcomp.tables.digests import schema_digest
from expcomp.tables.training import EXPOSURE, TRAINING_TASKS
from expcomp.training.documents import DocumentError, TamperedError, document_digest
from expcomp.training.identity import task_frame
from expcomp.training.profile import Profile
from expcomp.training.receipts import TrainingReceipt

_LIMIT = 8 << 30
_BATCH = 65_536
_ESCAPED = r'[\x00-\x1f"\\]'
_SCHEMA, _CONTENT = "expcomp.schema", "expcomp.exposure"


@dataclass(frozen=True)
class ExposureIndex:
    """The tasks of a lineage (`EXPOSURE`), a line for each task, receipt and partition.

    Attributes:
        frame: Nearest receipt first.
    """

    frame: pl.DataFrame

    @classmethod
    def of(
        cls, receipts: Sequence[TrainingReceipt], inventories: Mapping[str, pl.DataFrame] | None = None
    ) -> ExposureIndex:
        """Index of receipts.

        Args:
            receipts: Nearest first, as `TrainingAncestry.resolved` gives them.
            inventories: Task tables by digest of their file (`read_inventories`), for receipts that do not list their tasks.

        Raises:
            TamperedError: An inventory has other tasks than its receipt says.
            DocumentError: An inventory is not there.
        """
        parts = [_seen(receipt, depth, inventories or {}) for depth, receipt in enumerate(receipts)]
        return cls(pl.concat([EXPOSURE.empty(), *parts]))

    @classmethod
    def of_profile(
        cls,
        profile: Profile,
        *,
        store: Mapping[str, TrainingReceipt] | None = None,
        inventories: Mapping[str, pl.DataFrame] | None = None,
    ) -> ExposureIndex:
        """Index of the current receipt of a profile and of all before it; empty when it declares no training.

        Raises:
            DocumentError: A receipt or an inventory is not there, or not what it has to be.
        """
        training = profile.training
        return cls.of([] if training is None else training.resolved(store or {}, "metadata.training"), inventories)

    @cached_property
    def tasks(self) -> pl.DataFrame:
        """benchmark, task, content_digest; a task that several runs saw is there once."""
        return self.frame.select(COLUMNS).unique(maintain_order=True)

    @cached_property
    def digest(self) -> str:
        """Digest of the canonical JSON object of the columns, each a list."""
        made = hashlib.sha256()
        for number, name in enumerate(sorted(EXPOSURE.columns)):
            value = pl.col(name).cast(pl.String)
            # Looking for what has to be escaped costs a fraction of escaping what need not be.
            plain = not self.frame.select(value.str.contains(_ESCAPED).any()).item()
            quoted = pl.concat_str(pl.lit('"'), value, pl.lit('"')) if plain else json_text(value)
            values = (value if name == "depth" else quoted).fill_null("null")
            made.update(f'{"," if number else "{"}"{name}":['.encode())
            for at, part in enumerate(self.frame.iter_slices(_BATCH)):
                made.update((b"," if at else b"") + part.select(values.str.join(",")).item().encode())
            made.update(b"]")
        made.update(b"}")
        return PREFIX + made.hexdigest()

    def write(self, path: Path, *, force: bool = False) -> None:
        """Write one Parquet file, in one step, with the digest of its content.

        Raises:
            OutputError: `path` exists, or cannot be written.
        """
        with replacing(path, force=force) as beside:
            write_parquet(self.frame, beside, {_SCHEMA: schema_digest(EXPOSURE), _CONTENT: self.digest})

    @classmethod
    def read(cls, path: Path) -> ExposureIndex:
        """An index from its file.

        Raises:
            TamperedError: It holds other lines than were written.
            SourceError: It cannot be read, or is no index.
        """
        content = hash_file(path, _LIMIT, capture=True).content or b""
        try:
            told = pl.read_parquet_metadata(BytesIO(content))
            frame = pl.read_parquet(BytesIO(content))
        except (pl.exceptions.PolarsError, OSError) as error:
            msg = f"{path}: no index of exposures ({error}); make one with `expcomp exposure index`"
            raise SourceError(msg) from error
        if told.get(_SCHEMA) != schema_digest(EXPOSURE) or frame.schema != EXPOSURE.schema:
            msg = f"{path}: no index of exposures; make one with `expcomp exposure index`"
            raise SourceError(msg)
        index = cls(frame)
        if index.digest != told.get(_CONTENT):
            raise TamperedError(
                str(path), "digest_mismatch", "", index.digest, f"{told.get(_CONTENT)}, which was written"
            )
        return index


def read_inventories(paths: Iterable[Path]) -> dict[str, pl.DataFrame]:
    """Inventory files of datasets (`TRAINING_TASKS`) by the digest of their bytes.

    Raises:
        SourceError: One cannot be read, or is no inventory.
    """
    found = {}
    for path in paths:
        file = hash_file(path, _LIMIT, capture=True)
        try:
            frame = pl.read_parquet(BytesIO(file.content or b""))
        except pl.exceptions.PolarsError as error:
            msg = f"{path}: no inventory of a training dataset ({error})"
            raise SourceError(msg) from error
        if frame.schema != TRAINING_TASKS.schema:
            msg = f"{path}: no inventory of a training dataset; it has {', '.join(frame.columns)}"
            raise SourceError(msg)
        found[file.digest] = frame
    return found


def _seen(receipt: TrainingReceipt, depth: int, inventories: Mapping[str, pl.DataFrame]) -> pl.DataFrame:
    dataset, name = receipt.dataset, "receipt" if depth == 0 else f"ancestors[{depth - 1}]"
    if isinstance(dataset.tasks, tuple):
        tasks = task_frame(dataset.tasks).with_columns(partition=pl.lit(None, pl.String))
    else:
        wanted = str(dataset.inventory.digest)  # type: ignore[union-attr]
        listed = inventories.get(wanted)
        if listed is None:
            expected = f"the file with digest {wanted}; name it with --inventory"
            raise DocumentError(name, "inventory_missing", "dataset.inventory", "no such file", expected)
        computed = task_set_digest(listed)
        if computed != dataset.task_set_digest:
            raise TamperedError(
                name, "identity_task_set_digest", "dataset.taskSetDigest", dataset.task_set_digest, computed
            )
        tasks = listed
    made = tasks.with_columns(receipt_digest=pl.lit(document_digest(receipt)), depth=pl.lit(depth, pl.Int64))
    return made.select(EXPOSURE.columns.keys()).cast(EXPOSURE.schema)
