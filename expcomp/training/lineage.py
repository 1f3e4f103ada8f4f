"""What a lineage was trained on: its datasets, each held to the digest in its receipt, and its tasks against held-out ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from expcomp.datasets.decontaminate.heldout import Source, held_out
from expcomp.errors import UsageError
from expcomp.training.dataset import Limits, TrainingDataset, read_dataset
from expcomp.training.documents import DocumentError, document_digest, read_document
from expcomp.training.exposure import ExposureIndex, read_inventories
from expcomp.training.guard import Exposure, GuardPolicy, Level, guard
from expcomp.training.profile import Profile
from expcomp.training.receipts import TrainingReceipt, read_store


def lineage_datasets(
    profile: Profile,
    paths: Sequence[Path],
    *,
    store: Mapping[str, TrainingReceipt] | None = None,
    limits: Limits | None = None,
) -> tuple[list[TrainingDataset], dict[str, str]]:
    """Datasets of a profile and its ancestors, and the digest of the dataset by that of its receipt.

    Raises:
        DatasetError: A dataset is refused by its checks.
        UsageError: A dataset belongs to no receipt.
        DocumentError: A receipt's dataset, or a receipt, is not there.
    """
    training = profile.training
    receipts = [] if training is None else training.resolved(store or {}, "metadata.training")
    digests = {document_digest(r): r.dataset.digest for r in receipts}
    datasets = {d.digest: d for d in (read_dataset(p, limits=limits) for p in paths)}
    for dataset in datasets.values():
        if dataset.digest not in digests.values():
            msg = f"{dataset.name}: no receipt of the profile names a dataset with digest {dataset.digest}"
            raise UsageError(msg)
    for depth, (receipt, digest) in enumerate(digests.items()):
        if digest not in datasets:
            name = "receipt" if depth == 0 else f"ancestors[{depth - 1}]"
            expected = f"the dataset of receipt {receipt}; name it with --dataset"
            raise DocumentError(name, "dataset_missing", "dataset.digest", digest, expected)
    return list(datasets.values()), digests


def check_exposure(
    trained: Profile | ExposureIndex | TrainingReceipt | Path | str,
    heldout: Source,
    *,
    level: Level = "name",
    datasets: Sequence[Path] = (),
    receipts: Sequence[Path] = (),
    inventories: Sequence[Path] = (),
    policy: GuardPolicy | None = None,
    columns: Mapping[str, str] | None = None,
) -> Exposure:
    """Held-out tasks that the training of a candidate could see, its ancestors counted.

    Args:
        trained: Profile, or its file; one receipt (then its ancestors are not known); or an index of a lineage.
        heldout: See `held_out`.
        level: `exact` compares contents, `name` names, too, `near` also looks for texts in rows.
        datasets: near: those of the lineage.
        receipts: Receipts that the profile only names by digest.
        inventories: Inventories of datasets whose receipts do not list their tasks.
        policy: Severities and thresholds.
        columns: Where a part of a held-out task stands.

    Raises:
        UsageError: `near` without a profile and its datasets.
        SourceError: A file cannot be read, or a receipt or dataset is not there.
    """
    store = read_store(receipts)
    if isinstance(trained, str | Path):
        trained = read_document(Profile, Path(trained))
    listed = read_inventories(inventories)
    rows: list[TrainingDataset] = []
    digests: dict[str, str] = {}
    if level == "near":
        if not isinstance(trained, Profile):
            raise UsageError("level near looks at the rows of a lineage; give the profile, and its datasets")
        rows, digests = lineage_datasets(trained, datasets, store=store)
    if isinstance(trained, Profile):
        index = ExposureIndex.of_profile(trained, store=store, inventories=listed)
    else:
        index = trained if isinstance(trained, ExposureIndex) else ExposureIndex.of([trained], listed)
    found = held_out(heldout, columns=columns)
    return guard(index, found, level=level, datasets=rows, dataset_digests=digests, policy=policy)
