"""The stages of a run: each a function from context to context, which fails by raising."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from expcomp.errors import SourceError, UsageError
from expcomp.io.job_files import copy_file, copy_tree, freeze_tree, hash_tree, make_job_folder, publish_file
from expcomp.io.pinned_files import hash_file
from expcomp.training.bundle import write_inventory
from expcomp.training.dataset import TrainingDataset, read_dataset
from expcomp.training.documents import document_bytes, document_digest, from_wire, to_wire
from expcomp.training.identity import INLINE, DatasetIdentity, InventoryFile
from expcomp.training.receipts import (
    Checkpoint,
    TrainingReceipt,
    TrainingRequest,
    trained_model_id,
)
from expcomp.training.run.admitting import exposure_of
from expcomp.training.run.calls import call_serving, call_trainer, prepare_trainer
from expcomp.training.run.candidate import check_validators, derive_candidate, validate_candidate
from expcomp.training.run.context import Context, StageError
from expcomp.training.run.journal import Journal, now
from expcomp.training.run.observed import observations
from expcomp.training.run.paying import paid
from expcomp.training.run.plan import RunPlan
from expcomp.training.run.results import Stage
from expcomp.training.run.serving import ServingOrder
from expcomp.training.run.trainer import TrainerError, check_command_inputs

PLAN = "run.json"
PARENT = "parent-profile.json"
INVENTORY = "inventory.parquet"
RECEIPT = "receipt.json"
PROFILE = "profile.json"
OBSERVATIONS = "observations.json"
EXPOSURE = "exposure.json"
EXPOSED = "exposed-tasks.parquet"
_SMALL = 64 << 20


def admission(ctx: Context) -> Context:
    """Check all that can be checked before anything is made; make the job folder."""
    options = ctx.options
    assert options is not None
    check_validators(options.validators)
    if options.heldout is not None:
        options.heldout.check()
    if options.timeout is not None and options.timeout <= 0:
        raise UsageError(f"timeout {options.timeout}: expected a positive number of seconds")
    trainer, command = options.trainer, options.trainer.command
    wire = {
        "version": 1,
        "invocationId": secrets.token_hex(16),
        "datasetForm": "bundle" if options.dataset.is_dir() else "document",
        "datasetDigest": options.dataset_digest,
        "parentProfileDigest": document_digest(ctx.parent),
        "executionRef": options.execution_ref,
        "trainer": {
            "mode": trainer.mode,
            "id": trainer.id,
            "revision": trainer.revision,
            "parameters": dict(options.parameters),
        },
        "command": None if command is None else to_wire(command),
        "checkpoint": options.checkpoint,
        "maxCheckpointBytes": options.max_checkpoint_bytes,
        "timeout": options.timeout,
    }
    plan = from_wire(RunPlan, wire, "options")
    planned = document_bytes(plan)
    ctx = ctx.with_(plan=plan, deadline=None if options.timeout is None else time.monotonic() + options.timeout)
    validate_candidate(options.validators, ctx.parent, None)
    ctx.go_on()
    ctx.trace.job = job = make_job_folder(options.out, "job-")
    publish_file(job / PLAN, planned)
    ctx.trace.journal = Journal(job)
    facts = {"plan": document_digest(plan), "parentProfile": plan.parent_profile_digest}
    return ctx.with_(facts=facts | _guarded(ctx))


def _guarded(ctx: Context) -> dict[str, str]:
    """Hold dataset and ancestors against the held-out tasks, if there are any to hold them against.

    Counts go into the job folder; which tasks were found only where no trainer will run beside them.
    """
    options, job = ctx.options, ctx.place
    assert options is not None
    if options.heldout is None:
        return {}
    made = read_dataset(options.dataset, expected_digest=options.dataset_digest, limits=options.limits)
    found = exposure_of(options.heldout, ctx.parent, made)
    ctx.trace.exposure = found.report
    publish_file(job / EXPOSURE, document_bytes(found.report))
    if found.report.verdict == "refused":
        found.write_private(job / EXPOSED)
    found.refuse()
    return {"exposure": document_digest(found.report), "exposureVerdict": found.report.verdict}


def dataset(ctx: Context) -> Context:
    """Copy dataset and parent profile into the job folder; check the copy, which is what the trainer reads."""
    options, plan, job = ctx.options, ctx.order, ctx.place
    assert options is not None
    limits = options.limits
    if plan.dataset_form == "bundle":
        copy_tree(options.dataset, job / plan.dataset_name, limits.shard_bytes, cancelled=ctx.stopped)
    else:
        copy_file(options.dataset, job / plan.dataset_name, limits.document_bytes, cancelled=ctx.stopped)
    publish_file(job / PARENT, document_bytes(ctx.parent))
    made = read_dataset(job / plan.dataset_name, expected_digest=plan.dataset_digest, limits=limits)
    identity = identity_of(made, job, make=True)
    facts = {"dataset": identity.digest, "taskSet": identity.task_set_digest, "rows": made.rows.height}
    return ctx.with_(dataset=identity, facts=facts)


def training(ctx: Context) -> Context:
    """Call the trainer; anything but its explicit success is a failure."""
    options, plan, job = ctx.options, ctx.order, ctx.place
    assert options is not None
    prepare_trainer(ctx, options.trainer)
    ctx.go_on()
    with paid(options.costs, plan):
        started = now()
        facts, seconds = call_trainer(ctx, options.trainer, request_of(plan))
    if ctx.trace.journal is not None:
        ctx.trace.journal.verify()
    check_inputs(ctx)
    measured = observations(plan, started, seconds, facts, job / OBSERVATIONS)
    return ctx.with_(measured=measured, facts=measured)


def checkpoint(ctx: Context) -> Context:
    """Hold the inputs to their digests; hash the checkpoint, make it read-only and durable."""
    check_inputs(ctx)
    found = hash_tree(ctx.checkpoint, ctx.order.max_checkpoint_bytes, cancelled=ctx.stopped)
    freeze_tree(ctx.checkpoint)
    facts = {"artifact": found.digest, "bytes": found.size, "files": max(1, len(found.files))}
    return ctx.with_(artifact=(found.digest, found.size), facts=facts)


def serving(ctx: Context) -> Context:
    """Have the checkpoint served, if anybody does; make the receipt."""
    digest, size = _artifact(ctx)
    port, served = ctx.ports.serving, None
    if port is not None:
        order = ServingOrder(artifact_digest=digest, artifact_bytes=size, model_id=trained_model_id(digest))
        served = call_serving(ctx, port, order)
    receipt = receipt_of(ctx, None if served is None else served.evidence_digest)
    facts = {"receipt": document_digest(receipt), "serving": receipt.checkpoint.serving_digest}
    _unchanged(ctx)
    return ctx.with_(served=served, receipt=receipt, facts=facts)


def profile(ctx: Context) -> Context:
    """Derive the candidate and ask the validators; they are foreign code, so the checkpoint is hashed once more."""
    assert ctx.receipt is not None
    candidate = derive_candidate(ctx.parent, ctx.receipt)
    validate_candidate(ctx.ports.validators, candidate, ctx.receipt)
    _unchanged(ctx)
    return ctx.with_(candidate=candidate, facts={"profile": document_digest(candidate)})


def persistence(ctx: Context) -> Context:
    """Publish the receipt, then the profile."""
    assert ctx.receipt is not None
    assert ctx.candidate is not None
    again = ctx.options is None
    publish_file(ctx.place / RECEIPT, document_bytes(ctx.receipt), same=again)
    publish_file(ctx.place / PROFILE, document_bytes(ctx.candidate), same=again)
    return ctx.with_(facts={"receipt": document_digest(ctx.receipt), "profile": document_digest(ctx.candidate)})


FUNCTIONS: Mapping[Stage, Callable[[Context], Context]] = {
    "admission": admission,
    "dataset": dataset,
    "training": training,
    "checkpoint": checkpoint,
    "serving": serving,
    "profile": profile,
    "persistence": persistence,
}


def request_of(plan: RunPlan) -> TrainingRequest:
    """What the trainer is given."""
    return TrainingRequest(
        version=1,
        invocation_id=plan.invocation_id,
        dataset_path=plan.dataset_name,
        checkpoint_path=plan.checkpoint_name,
        parent_profile_path=PARENT,
        parent_profile_digest=plan.parent_profile_digest,
        parameters=plan.parameters,
        execution_ref=plan.execution_ref,
    )


def receipt_of(ctx: Context, serving_digest: str | None) -> TrainingReceipt:
    """The receipt of a run whose checkpoint is known."""
    digest, size = _artifact(ctx)
    before = ctx.parent.training
    assert ctx.dataset is not None
    return TrainingReceipt(
        version=1,
        dataset=ctx.dataset,
        parent_profile_digest=ctx.order.parent_profile_digest,
        parent_receipt_digest=None if before is None else document_digest(before.receipt),
        execution_ref=ctx.order.execution_ref,
        trainer=ctx.order.trainer,
        checkpoint=Checkpoint(
            artifact_digest=digest,
            artifact_bytes=size,
            router_model_id=trained_model_id(digest),
            serving_digest=serving_digest,
        ),
        observations=dict(ctx.measured),
    )


def identity_of(made: TrainingDataset, job: Path, *, make: bool = False) -> DatasetIdentity:
    """Identity of a job's dataset; a document with many tasks has its inventory beside it.

    Args:
        made: The dataset in the job folder.
        job: The folder.
        make: Write the inventory; else it has to be there.

    Raises:
        OutputError: It cannot be written.
        PinnedFileError: It is not there.
    """
    if made.inventory_file is not None or made.tasks.height <= INLINE:
        return made.identity()
    if make:
        return made.identity(write_inventory(made.rows, job / INVENTORY))
    file = hash_file(job / INVENTORY, _SMALL)
    return made.identity(InventoryFile(digest=file.digest, bytes=file.size))


def check_inputs(ctx: Context) -> None:
    """Hold what the trainer was given to its digests.

    Raises:
        StageError: It was changed, by name.
    """
    plan, job = ctx.order, ctx.place
    expected = [(PLAN, document_digest(plan)), (PARENT, plan.parent_profile_digest)]
    name = plan.dataset_name
    try:
        for file, digest in expected:
            _same(file, hash_file(job / file, _SMALL).digest, digest)
        if plan.dataset_form == "document":
            _same(name, hash_file(job / name, ctx.ports.limits.document_bytes).digest, plan.dataset_digest)
        else:
            read_dataset(job / name, expected_digest=plan.dataset_digest, limits=ctx.ports.limits)
    except SourceError as error:
        raise StageError(f"an input was changed: {error}") from error
    if plan.command is not None:
        try:
            check_command_inputs(plan.command, job)
        except (SourceError, TrainerError) as error:
            raise StageError(f"an input was changed: {error}") from error


def _same(name: str, found: str, expected: str) -> None:
    if found != expected:
        raise StageError(f"an input was changed: {name}: found {found}, expected {expected}")


def _artifact(ctx: Context) -> tuple[str, int]:
    assert ctx.artifact is not None
    return ctx.artifact


def _unchanged(ctx: Context) -> None:
    digest, size = _artifact(ctx)
    try:
        found = hash_tree(ctx.checkpoint, size, cancelled=ctx.stopped)
    except SourceError as error:
        ctx.go_on()
        raise StageError(f"the checkpoint was changed after it was hashed: {error}") from error
    if found.digest != digest:
        raise StageError(f"the checkpoint was changed after it was hashed: found {found.digest}, expected {digest}")
