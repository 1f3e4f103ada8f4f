"""The machine that drives a run through its stages, and takes one up again."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from msgspec import UNSET

from expcomp.errors import ExpcompError, UsageError
from expcomp.io.job_files import remove_file
from expcomp.training.dataset import read_dataset
from expcomp.training.documents import document_digest, read_document
from expcomp.training.profile import Profile
from expcomp.training.run import stages
from expcomp.training.run.context import Context, Ports, RunOptions, StageError, Trace
from expcomp.training.run.journal import Journal, StageRecord, last_ended, read_journal
from expcomp.training.run.plan import RunPlan
from expcomp.training.run.results import RESUMABLE, STAGES, Stage, TrainingFailure, TrainingSuccess

Mode = Literal["command", "managed"]


def run_training(parent: Profile, options: RunOptions) -> TrainingSuccess | TrainingFailure:
    """Turn one pinned dataset into one candidate profile, in a new job folder below `options.out`.

    Nothing is decided about the candidate, and no live agent is changed.

    Args:
        parent: Profile to start from.
        options: All the rest; those that cannot be used are a failure of `admission`.
    """
    return _drive(Context(ports=options, options=options, parent=parent), STAGES, options.trainer.mode)


def resume_training(
    job: Path, ports: Ports | None = None, *, timeout: float | None = None
) -> TrainingSuccess | TrainingFailure:
    """Take up a job whose training succeeded, from its checkpoint on; nothing is trained again.

    Args:
        job: Job folder.
        ports: Serving, validators, cancelling.
        timeout: Seconds; None for no limit.

    Raises:
        UsageError: Training did not succeed, or the job is complete.
        OutputError: Another process is at work in it.
        SourceError: It is no job folder, or a file of it was changed.
    """
    ports = ports or Ports()
    why_not = not_resumable(read_journal(job))
    if why_not is not None:
        raise UsageError(f"{job}: {why_not}")
    plan = read_document(RunPlan, job / stages.PLAN)
    parent = read_document(Profile, job / stages.PARENT)
    journal = Journal(job)
    ctx = Context(
        ports=ports,
        options=None,
        parent=parent,
        trace=Trace(job=job, journal=journal),
        plan=plan,
        deadline=None if timeout is None else time.monotonic() + timeout,
    )
    try:
        ctx = _taken_up(ctx, journal)
    except BaseException:
        journal.close()
        raise
    return _drive(ctx, RESUMABLE, plan.trainer.mode)


def not_resumable(records: Sequence[StageRecord]) -> str | None:
    """Why a job cannot be taken up; None when it can."""
    if last_ended(list(records), "training") is None:
        return "training did not succeed, and is not repeated in the same job; start a new run"
    if last_ended(list(records), "persistence") is not None:
        return "is complete; `expcomp train verify` checks it"
    return None


def _taken_up(ctx: Context, journal: Journal) -> Context:
    """The context after training, from the files; each is held to what the journal says of it."""
    admitted, trained = journal.ended("admission"), journal.ended("training")
    assert admitted is not None
    assert trained is not None
    if admitted.facts.get("plan") != document_digest(ctx.order):
        raise StageError(f"{stages.PLAN} was changed: it is not the one that the journal names")
    made = read_dataset(
        ctx.place / ctx.order.dataset_name, expected_digest=ctx.order.dataset_digest, limits=ctx.ports.limits
    )
    return ctx.with_(dataset=stages.identity_of(made, ctx.place), measured=trained.facts)


def _drive(ctx: Context, names: Sequence[Stage], mode: Mode) -> TrainingSuccess | TrainingFailure:
    trace = ctx.trace
    try:
        for name in names:
            try:
                ctx = _step(ctx, name)
            except (ExpcompError, OSError) as error:
                return _failed(trace, name, error, mode)
            except BaseException as error:
                _failed(trace, name, error, mode)
                raise
    finally:
        if trace.journal is not None:
            trace.journal.close()
    return _succeeded(ctx, mode)


def _step(ctx: Context, name: Stage) -> Context:
    if ctx.trace.journal is not None:
        ctx.trace.journal.write(name, "started", {})
    ctx.go_on()
    before = None if ctx.trace.journal is None else ctx.trace.journal.ended("checkpoint")
    ctx = stages.FUNCTIONS[name](ctx)
    if name == "checkpoint" and before is not None and before.facts["artifact"] != ctx.facts["artifact"]:
        raise StageError(
            f"the checkpoint was changed: found {ctx.facts['artifact']}, the journal says {before.facts['artifact']}"
        )
    if name != STAGES[-1]:  # what is published is not taken back
        ctx.go_on()
    assert ctx.trace.journal is not None
    ctx.trace.journal.write(name, "ended", dict(ctx.facts))
    return ctx


def _failed(trace: Trace, stage: Stage, error: BaseException, mode: Mode) -> TrainingFailure:
    reason = str(error) or type(error).__name__
    troubles, resumable = [], False
    if trace.job is not None:
        try:
            remove_file(trace.job / stages.PROFILE)
        except OSError as trouble:
            troubles.append(f"{stages.PROFILE}: {trouble.strerror}")
    if trace.journal is not None:
        resumable = trace.journal.ended("training") is not None
        try:
            trace.journal.write(stage, "failed", {"reason": reason})
        except (ExpcompError, OSError) as trouble:
            troubles.append(str(trouble))
            resumable = False
    return TrainingFailure(
        mode=mode,
        stage=stage,
        reason=reason,
        output_directory=None if trace.job is None else str(trace.job),
        training_may_exist=trace.training_may_exist,
        serving_may_exist=trace.serving_may_exist,
        resumable=resumable,
        cleanup_error="; ".join(troubles) or None,
        exposure=UNSET if trace.exposure is None else trace.exposure,
    )


def _succeeded(ctx: Context, mode: Mode) -> TrainingSuccess:
    assert ctx.receipt is not None
    assert ctx.candidate is not None
    return TrainingSuccess(
        mode=mode,
        output_directory=str(ctx.place),
        profile_digest=document_digest(ctx.candidate),
        receipt_digest=document_digest(ctx.receipt),
        model=ctx.receipt.checkpoint.router_model_id,
        served=ctx.receipt.checkpoint.serving_digest is not None,
        profile_path=str(ctx.place / stages.PROFILE),
        receipt_path=str(ctx.place / stages.RECEIPT),
        checkpoint_path=str(ctx.checkpoint),
    )
