"""The datasets that a lineage was trained on, each read once and held to the digest in its receipt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from expcomp.errors import UsageError
from expcomp.training.dataset import Limits, TrainingDataset, read_dataset
from expcomp.training.documents import DocumentError, document_digest
from expcomp.training.profile import Profile
from expcomp.training.receipts import TrainingReceipt


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
