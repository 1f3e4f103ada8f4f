"""What a training run is asked for, what it proves afterwards, and the chain of runs before it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import polars as pl
from msgspec import UNSET, Meta, UnsetType

from expcomp.training.documents import (
    Document,
    DocumentError,
    Name,
    Positive,
    Rule,
    Sha256,
    Text,
    document_digest,
    link_digest,
    read_document,
)
from expcomp.training.identity import DatasetIdentity
from expcomp.training.public import not_public

MODEL_PREFIX = "expcomp-trained/"
MAX_INLINE = 8
"""Ancestors that a profile carries whole; older ones it names by digest."""

ModelId = Annotated[str, Meta(pattern=r"\A\S+/[0-9a-f]{64}\Z")]
RelativePath = Annotated[str, Meta(min_length=1, pattern=r"\A(?!/)(?!.*(?:\A|/)\.\.(?:/|\Z))[^\x00\\]+\Z")]


def trained_model_id(artifact_digest: str, prefix: str = MODEL_PREFIX) -> str:
    """Model id of a checkpoint: the prefix and the hex digest. It moves with the content, so it is no alias."""
    return prefix + artifact_digest.removeprefix("sha256:")


def is_trained(model: str) -> bool:
    """Whether a model id is one that `trained_model_id` gives, with any prefix that ends in `trained/`."""
    head, _, digest = model.rpartition("/")
    return head.endswith("trained") and len(digest) == 64 and set(digest) <= set("0123456789abcdef")


_PUBLIC = Rule(
    "parameters_not_public",
    "parameters",
    lambda d: not_public(d.parameters) is None,
    "no credential: neither a name nor a value like one",
    lambda d: not_public(d.parameters),
)


class TrainingRequest(Document, frozen=True, kw_only=True):
    """What a trainer is given on its standard input. Paths are relative to the job directory, which is its working directory."""

    version: Literal[1]
    invocation_id: Name
    dataset_path: RelativePath
    checkpoint_path: RelativePath
    parent_profile_path: RelativePath
    parent_profile_digest: Sha256
    parameters: dict[str, Any]
    execution_ref: Sha256

    RULES: ClassVar[tuple[Rule, ...]] = (_PUBLIC,)


class TrainerIdentity(Document, frozen=True, kw_only=True):
    """Who trained: `revision` is the digest of the whole description of the trainer."""

    mode: Literal["command", "managed"]
    id: Name
    revision: Sha256
    parameters: dict[str, Any]

    RULES: ClassVar[tuple[Rule, ...]] = (_PUBLIC,)


class Checkpoint(Document, frozen=True, kw_only=True):
    """What training made. `servingDigest` is null for a checkpoint that nobody serves."""

    artifact_digest: Sha256
    artifact_bytes: Positive
    router_model_id: ModelId
    serving_digest: Sha256 | None

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "model_id_not_of_artifact",
            "routerModelId",
            lambda c: c.router_model_id.rpartition("/")[2] == c.artifact_digest.removeprefix("sha256:"),
            "a model id that ends in the hex digest of the artifact",
            lambda c: c.router_model_id,
            tampered=True,
        ),
    )


class TrainingReceipt(Document, frozen=True, kw_only=True):
    """Record of one successful training run.

    Attributes:
        dataset: What the trainer could see, in both partitions.
        parent_profile_digest: Profile that the run started from.
        parent_receipt_digest: Its receipt; null for a first generation.
        execution_ref: Digest that pins trainer, serving adapter and private dependencies.
        observations: Wall time, cost, hardware, seed, versions, metrics; outside the digest.
    """

    OUTSIDE: ClassVar[tuple[str, ...]] = ("observations",)

    version: Literal[1]
    dataset: DatasetIdentity
    parent_profile_digest: Sha256
    parent_receipt_digest: Sha256 | None
    execution_ref: Sha256
    trainer: TrainerIdentity
    checkpoint: Checkpoint
    observations: dict[Text, Any] | UnsetType = UNSET


def _unbroken(ancestry: TrainingAncestry) -> str | None:
    """The first link of the chain that does not hold, in words."""
    chain = (ancestry.receipt, *ancestry.ancestors)
    named = [*(link_digest(a) for a in ancestry.ancestors), *ancestry.older, None]
    for number, (receipt, expected) in enumerate(zip(chain, named, strict=False)):
        if receipt.parent_receipt_digest != expected:
            who = "receipt" if number == 0 else f"ancestors[{number - 1}]"
            parent = f"ancestors[{number}]" if number < len(ancestry.ancestors) else "the receipt before it"
            return f"{who}.parentReceiptDigest {receipt.parent_receipt_digest}, and {parent} with digest {expected}"
    return None


class TrainingAncestry(Document, frozen=True, kw_only=True, omit_defaults=True):
    """A receipt and all receipts before it, nearest first; what stands in `metadata.training` of a profile.

    Attributes:
        receipt: Of the run that made the profile.
        ancestors: Receipts before it, whole.
        older: Digests of those before these, nearest first; `resolved` takes them from a store.
    """

    receipt: TrainingReceipt
    ancestors: tuple[TrainingReceipt, ...]
    older: tuple[Sha256, ...] = ()

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "ancestry_too_long",
            "ancestors",
            lambda a: len(a.ancestors) <= MAX_INLINE,
            f"at most {MAX_INLINE} whole receipts; name those before them by digest in older",
            lambda a: len(a.ancestors),
        ),
        Rule(
            "ancestry_broken",
            "ancestors",
            lambda a: _unbroken(a) is None,
            "each receipt to name the digest of the next one, and the oldest none",
            _unbroken,
            tampered=True,
        ),
    )

    def resolved(self, store: Mapping[str, TrainingReceipt] = {}, name: str = "training") -> list[TrainingReceipt]:
        """All receipts, nearest first.

        Args:
            store: Receipts by digest, for those that are only named.
            name: What errors call the ancestry.

        Raises:
            DocumentError: A receipt is not in the store, is not the one that is named, or does not name the next one.
        """
        chain = [self.receipt, *self.ancestors]
        for number, digest in enumerate(self.older):
            at = f"{name}.older[{number}]"
            receipt = store.get(digest)
            if receipt is None:
                raise DocumentError(
                    at, "receipt_missing", "", digest, "the receipt with this digest, in the store of receipts"
                )
            if document_digest(receipt) != digest:
                raise DocumentError(
                    at, "ancestry_broken", "", document_digest(receipt), f"a receipt with digest {digest}"
                )
            chain.append(receipt)
            after = self.older[number + 1] if number + 1 < len(self.older) else None
            if receipt.parent_receipt_digest != after:
                raise DocumentError(
                    at, "ancestry_broken", "parentReceiptDigest", str(receipt.parent_receipt_digest), str(after)
                )
        return chain


def extended(receipt: TrainingReceipt, parent: TrainingAncestry | None) -> TrainingAncestry:
    """Ancestry of a new receipt, given that of the profile it started from."""
    if parent is None:
        return TrainingAncestry(receipt=receipt, ancestors=())
    before = (parent.receipt, *parent.ancestors)
    cut = tuple(document_digest(r) for r in before[MAX_INLINE:])
    return TrainingAncestry(receipt=receipt, ancestors=before[:MAX_INLINE], older=(*cut, *parent.older))


def read_store(paths: Iterable[Path]) -> dict[str, TrainingReceipt]:
    """Receipts of files, by their digest: what `TrainingAncestry.resolved` looks up.

    Raises:
        SourceError: A file is no receipt.
    """
    return {document_digest(r): r for r in (read_document(TrainingReceipt, p) for p in paths)}


def receipt_frame(receipts: list[TrainingReceipt]) -> pl.DataFrame:
    """One line a receipt, nearest first: depth, receipt_digest, dataset_digest, task_set_digest, n_tasks, trainer, model."""
    return pl.DataFrame(
        {
            "depth": range(len(receipts)),
            "receipt_digest": [document_digest(r) for r in receipts],
            "dataset_digest": [r.dataset.digest for r in receipts],
            "task_set_digest": [r.dataset.task_set_digest for r in receipts],
            "n_tasks": [r.dataset.size for r in receipts],
            "trainer": [r.trainer.id for r in receipts],
            "model": [r.checkpoint.router_model_id for r in receipts],
        },
        schema={
            "depth": pl.Int64(),
            **dict.fromkeys(("receipt_digest", "dataset_digest", "task_set_digest"), pl.String()),
            "n_tasks": pl.Int64(),
            **dict.fromkeys(("trainer", "model"), pl.String()),
        },
    )
