"""The held-out guard of a run: what the trainer is about to see, and all that its parent saw, against held-out tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl

from expcomp.datasets.decontaminate.heldout import held_out
from expcomp.errors import UsageError
from expcomp.tables.training import EXPOSURE
from expcomp.training.dataset import TrainingDataset
from expcomp.training.exposure import ExposureIndex, read_inventories
from expcomp.training.guard import LEVELS, Exposure, GuardPolicy, Level, guard
from expcomp.training.profile import Profile
from expcomp.training.receipts import read_store


@dataclass(frozen=True, kw_only=True)
class HeldOut:
    """What a run may not be trained on.

    Attributes:
        sources: Held-out files, inventories of datasets, compile outputs, dataset folders, or indexes of exposures.
        level: `exact`, `name` or `near`; `near` looks at the rows of this run only, its ancestors are compared by content and name.
        columns: Where a part of a held-out task stands, by part.
        policy: How hits count.
        receipts: Receipts that the parent only names by digest.
        inventories: Inventories of ancestors whose receipts do not list their tasks.
    """

    sources: Sequence[Path]
    level: Level = "name"
    columns: Mapping[str, str] = field(default_factory=dict)
    policy: GuardPolicy = field(default_factory=GuardPolicy)
    receipts: Sequence[Path] = ()
    inventories: Sequence[Path] = ()

    def check(self) -> None:
        """Refuse what cannot be compared.

        Raises:
            UsageError: No source, or a level that there is not.
        """
        if not self.sources:
            raise UsageError("heldout, sources: none; name a held-out file, an inventory or an index of exposures")
        if self.level not in LEVELS:
            raise UsageError(f"heldout, level: found {self.level}, expected {', '.join(LEVELS)}")


def exposure_of(held: HeldOut, parent: Profile, dataset: TrainingDataset) -> Exposure:
    """What a run on this dataset, starting from this parent, could see of held-out tasks.

    The dataset stands for a receipt that is not there yet: at depth 0, under its own digest; the receipts of the parent follow.

    Raises:
        SourceError: A held-out source cannot be read, or a receipt or an inventory is not there.
    """
    before = ExposureIndex.of_profile(
        parent, store=read_store(held.receipts), inventories=read_inventories(held.inventories)
    ).frame
    now = dataset.tasks.with_columns(receipt_digest=pl.lit(dataset.digest), depth=pl.lit(0, pl.Int64))
    frame = pl.concat(
        [
            now.select(EXPOSURE.columns.keys()).cast(EXPOSURE.schema),
            before.with_columns(pl.col("depth") + 1),
        ]
    )
    return guard(
        ExposureIndex(frame),
        held_out(list(held.sources), columns=held.columns),
        level=held.level,
        datasets=[dataset],
        dataset_digests={dataset.digest: dataset.digest},
        policy=held.policy,
    )
