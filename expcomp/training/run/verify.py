"""A job recomputed from its files: what its receipt and profile say, against what is there."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import polars as pl

from expcomp.errors import CheckFailedError, ExpcompError
from expcomp.io.canon import digest, digest_bytes
from expcomp.io.job_files import TreeDigest, hash_tree
from expcomp.io.pinned_files import hash_file
from expcomp.training.dataset import Limits, TrainingDataset, read_dataset
from expcomp.training.documents import Document, document_bytes, document_digest, read_document, to_wire
from expcomp.training.guard import ExposureReport
from expcomp.training.profile import Profile
from expcomp.training.receipts import TrainingReceipt
from expcomp.training.run.candidate import derive_candidate
from expcomp.training.run.journal import JOURNAL, StageRecord, last_ended, read_journal
from expcomp.training.run.plan import RunPlan
from expcomp.training.run.results import STAGES, Stage
from expcomp.training.run.stages import EXPOSURE, INVENTORY, PARENT, PLAN, PROFILE, RECEIPT, identity_of
from expcomp.training.run.trainer import INPUTS, check_command_inputs

NONE = "none"
JOB_CHECKS: dict[str, pl.DataType | type[pl.DataType]] = {
    "check": pl.String,
    "document": pl.String,
    "ok": pl.Boolean,
    "found": pl.String,
    "expected": pl.String,
}
"""One line a check. `ok` is null where nothing can be recomputed."""


@dataclass
class Job:
    """The files of a job, each read when a check needs it."""

    path: Path
    limits: Limits = field(default_factory=Limits)
    store: Mapping[str, TrainingReceipt] = field(default_factory=dict)
    receipt_digest: str | None = None

    @cached_property
    def journal(self) -> list[StageRecord]:
        """Records of the journal."""
        return read_journal(self.path)

    @cached_property
    def plan(self) -> RunPlan:
        """run.json."""
        return read_document(RunPlan, self.path / PLAN)

    @cached_property
    def parent(self) -> Profile:
        """parent-profile.json."""
        return read_document(Profile, self.path / PARENT)

    @cached_property
    def receipt(self) -> TrainingReceipt:
        """receipt.json."""
        return read_document(TrainingReceipt, self.path / RECEIPT)

    @cached_property
    def candidate(self) -> Profile:
        """profile.json."""
        return read_document(Profile, self.path / PROFILE)

    @cached_property
    def dataset(self) -> TrainingDataset:
        """The dataset that the trainer was given, checked again in full."""
        return read_dataset(self.path / self.plan.dataset_name, limits=self.limits)

    @cached_property
    def artifact(self) -> TreeDigest:
        """The checkpoint, hashed again."""
        return hash_tree(self.path / self.plan.checkpoint_name, self.plan.max_checkpoint_bytes)

    def fact(self, stage: Stage, name: str) -> str:
        """What the journal says of a stage that ended."""
        record = last_ended(self.journal, stage)
        return NONE if record is None else str(record.facts.get(name) or NONE)


Computed = tuple[str, str] | None


@dataclass(frozen=True, slots=True)
class JobCheck:
    """One check: `compute` gives what was found and what was expected, or None when nothing can be recomputed."""

    name: str
    document: Callable[[Job], str]
    compute: Callable[[Job], Computed]


def verify_job(
    job: Path,
    *,
    limits: Limits | None = None,
    store: Mapping[str, TrainingReceipt] | None = None,
    receipt_digest: str | None = None,
) -> pl.DataFrame:
    """Recompute everything that the receipt and the profile of a job say (`JOB_CHECKS`).

    Args:
        job: Job folder.
        limits: Of the dataset.
        store: Receipts that the profile only names by digest, by it.
        receipt_digest: The digest that the receipt has to have: without one, somebody who changed all files alike stays unknown.
    """
    of = Job(job, limits or Limits(), store or {}, receipt_digest)
    lines = []
    for check in CHECKS:
        try:
            computed = check.compute(of)
        except (ExpcompError, OSError) as error:
            computed = (str(error), "a file that fits the receipt")
        try:
            document = check.document(of)
        except (ExpcompError, OSError):
            document = PLAN
        found, expected = computed or (None, None)
        lines.append((check.name, document, None if computed is None else found == expected, found, expected))
    return pl.DataFrame(lines, schema=JOB_CHECKS, orient="row")


def verified_profile(job: Path) -> Profile:
    """The profile of a job, when everything in its folder holds.

    Raises:
        CheckFailedError: Something does not; the message names the file.
    """
    bad = verify_job(job).filter(ok=False)
    if bad.height:
        told = bad.row(0, named=True)
        raise CheckFailedError(
            f"{job / told['document']}: {told['check']}: found {told['found']}; expected {told['expected']}"
        )
    return read_document(Profile, job / PROFILE)


def _file(name: str) -> Callable[[Job], str]:
    return lambda _: name


def _canonical(name: str, document: Callable[[Job], Document]) -> Callable[[Job], Computed]:
    """Bytes of a file against the canonical bytes of what is in it."""

    def compute(job: Job) -> Computed:
        made = document(job)
        data = document_bytes(made)
        return hash_file(job.path / name, len(data) + 1).digest, digest_bytes(data)

    return compute


def _receipt_before(job: Job) -> Computed:
    before = job.parent.training
    return job.receipt.parent_receipt_digest or NONE, NONE if before is None else document_digest(before.receipt)


def _lineage(job: Job) -> Computed:
    training = job.candidate.training
    if training is None:
        return NONE, document_digest(job.receipt)
    chain = training.resolved(job.store, f"{PROFILE}.metadata.training")
    return document_digest(chain[0]), document_digest(job.receipt)


def _inputs(job: Job) -> Computed:
    if job.plan.command is None:
        return None
    check_command_inputs(job.plan.command, job.path)
    return "unchanged", "unchanged"


def _exposure(job: Job) -> Computed:
    told = job.fact("admission", "exposure")
    if told == NONE and not (job.path / EXPOSURE).exists():
        return None
    return document_digest(read_document(ExposureReport, job.path / EXPOSURE)), told


def _stages(job: Job) -> Computed:
    ended = [s for s in STAGES if last_ended(job.journal, s) is not None]
    return ", ".join(ended), ", ".join(STAGES)


CHECKS = (
    JobCheck(
        "receipt_pinned",
        _file(RECEIPT),
        lambda j: None if j.receipt_digest is None else (document_digest(j.receipt), j.receipt_digest),
    ),
    JobCheck("receipt_canonical", _file(RECEIPT), _canonical(RECEIPT, lambda j: j.receipt)),
    JobCheck(
        "receipt_journal", _file(RECEIPT), lambda j: (document_digest(j.receipt), j.fact("persistence", "receipt"))
    ),
    JobCheck("plan_canonical", _file(PLAN), _canonical(PLAN, lambda j: j.plan)),
    JobCheck("plan_journal", _file(PLAN), lambda j: (document_digest(j.plan), j.fact("admission", "plan"))),
    JobCheck("parent_canonical", _file(PARENT), _canonical(PARENT, lambda j: j.parent)),
    JobCheck("parent_profile", _file(PARENT), lambda j: (document_digest(j.parent), j.receipt.parent_profile_digest)),
    JobCheck("parent_receipt", _file(PARENT), _receipt_before),
    JobCheck("exposure", _file(EXPOSURE), _exposure),
    JobCheck("dataset", lambda j: j.plan.dataset_name, lambda j: (j.dataset.digest, j.receipt.dataset.digest)),
    JobCheck(
        "dataset_identity",
        lambda j: INVENTORY if (j.path / INVENTORY).exists() else j.plan.dataset_name,
        lambda j: (digest(to_wire(identity_of(j.dataset, j.path))), digest(to_wire(j.receipt.dataset))),
    ),
    JobCheck("trainer_inputs", _file(INPUTS), _inputs),
    JobCheck(
        "trainer_revision",
        _file(PLAN),
        lambda j: None if j.plan.command is None else (document_digest(j.plan.command), j.receipt.trainer.revision),
    ),
    JobCheck(
        "trainer", _file(RECEIPT), lambda j: (digest(to_wire(j.receipt.trainer)), digest(to_wire(j.plan.trainer)))
    ),
    JobCheck("execution_ref", _file(RECEIPT), lambda j: (j.receipt.execution_ref, j.plan.execution_ref)),
    JobCheck(
        "checkpoint",
        lambda j: j.plan.checkpoint_name,
        lambda j: (j.artifact.digest, j.receipt.checkpoint.artifact_digest),
    ),
    JobCheck(
        "checkpoint_bytes",
        lambda j: j.plan.checkpoint_name,
        lambda j: (str(j.artifact.size), str(j.receipt.checkpoint.artifact_bytes)),
    ),
    JobCheck(
        "serving", _file(RECEIPT), lambda j: (j.receipt.checkpoint.serving_digest or NONE, j.fact("serving", "serving"))
    ),
    JobCheck("profile_canonical", _file(PROFILE), _canonical(PROFILE, lambda j: j.candidate)),
    JobCheck("lineage", _file(PROFILE), _lineage),
    JobCheck(
        "profile",
        _file(PROFILE),
        lambda j: (document_digest(j.candidate), document_digest(derive_candidate(j.parent, j.receipt))),
    ),
    JobCheck("stages", _file(JOURNAL), _stages),
)
