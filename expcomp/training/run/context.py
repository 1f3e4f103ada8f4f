"""What the stages of a run hand on to each other."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from expcomp.errors import ExpcompError
from expcomp.training.dataset import Limits
from expcomp.training.guard import ExposureReport
from expcomp.training.identity import DatasetIdentity
from expcomp.training.profile import Profile
from expcomp.training.receipts import TrainingReceipt
from expcomp.training.run.admitting import HeldOut
from expcomp.training.run.candidate import Validator
from expcomp.training.run.journal import Journal
from expcomp.training.run.plan import RunPlan
from expcomp.training.run.serving import Served, ServingPort
from expcomp.training.run.trainer import Trainer


class StageError(ExpcompError):
    """What ends a stage badly."""

    exit_code = 1


@dataclass(frozen=True, kw_only=True)
class Ports:
    """Whom a run calls, and what bounds it; the part of the options that a job folder does not hold.

    Attributes:
        serving: None leaves the checkpoint unserved.
        validators: Asked about the parent, then about the candidate.
        cancelled: Asked some times a second, from any thread.
        limits: Of the dataset.
    """

    serving: ServingPort | None = None
    validators: Sequence[Validator] = ()
    cancelled: Callable[[], bool] = lambda: False
    limits: Limits = field(default_factory=Limits)


@dataclass(frozen=True, kw_only=True)
class RunCosts:
    """Where a run is entered as a paid call of the preparation.

    Attributes:
        ledger: Cost ledger; made when it is not there.
        maximum_nanos: What the run may cost at the most, in billionths of a dollar; needed where the ledger has a ceiling.
        nanos_per_second: Price of its time; None: nobody knows what it cost.
    """

    ledger: Path
    maximum_nanos: int | None = None
    nanos_per_second: int | None = None


@dataclass(frozen=True, kw_only=True)
class RunOptions(Ports):
    """A training run.

    Attributes:
        trainer: Who trains.
        dataset: Document or bundle.
        dataset_digest: The digest it has to have.
        execution_ref: Digest that pins trainer, serving adapter and private dependencies.
        parameters: What the trainer is told; public JSON.
        out: Folder in which the job folder is made.
        checkpoint: One file (`checkpoint.bin`) or a folder (`checkpoint/`).
        max_checkpoint_bytes: Largest checkpoint.
        timeout: Seconds for the whole run; None for no limit.
        heldout: What may not be trained on; None: nobody looks.
        costs: Where the run is entered as a paid call; None: nowhere.
    """

    trainer: Trainer
    dataset: Path
    dataset_digest: str
    execution_ref: str
    out: Path
    parameters: Mapping[str, Any] = field(default_factory=dict)
    checkpoint: Literal["file", "directory"] = "file"
    max_checkpoint_bytes: int = 64 << 30
    timeout: float | None = None
    heldout: HeldOut | None = None
    costs: RunCosts | None = None


@dataclass(kw_only=True)
class Trace:
    """What a run has left in the world so far; it holds also when a stage fails half way.

    Attributes:
        job: Job folder.
        exposure: What the held-out guard found, in counts.
        training_may_exist, serving_may_exist: See `TrainingFailure`.
    """

    job: Path | None = None
    journal: Journal | None = None
    exposure: ExposureReport | None = None
    training_may_exist: bool = False
    serving_may_exist: bool = False


@dataclass(frozen=True, kw_only=True)
class Context:
    """A run between two stages.

    Attributes:
        options: None for a run that is taken up again.
        measured: Outside of every digest: what is in the receipt's observations.
        artifact: Digest and size of the checkpoint.
        facts: What the last stage measured; it goes into the journal.
    """

    ports: Ports
    options: RunOptions | None
    parent: Profile
    deadline: float | None = None
    trace: Trace = field(default_factory=Trace)
    plan: RunPlan | None = None
    dataset: DatasetIdentity | None = None
    measured: Mapping[str, Any] = field(default_factory=dict)
    artifact: tuple[str, int] | None = None
    served: Served | None = None
    receipt: TrainingReceipt | None = None
    candidate: Profile | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)

    def with_(self, **changes: Any) -> Context:
        """The same with other values."""
        return replace(self, **changes)

    @property
    def left(self) -> float | None:
        """Seconds to the deadline."""
        return None if self.deadline is None else max(0.0, self.deadline - time.monotonic())

    def stopped(self) -> bool:
        """Whether it was cancelled or its time is up."""
        return self.ports.cancelled() or self.left == 0.0

    def go_on(self) -> None:
        """Refuse to go on when that is so.

        Raises:
            StageError: It is.
        """
        if self.ports.cancelled():
            raise StageError("the run was cancelled")
        if self.left == 0.0:
            raise StageError("the time of the run was up")

    @property
    def place(self) -> Path:
        """Job folder, once there is one."""
        assert self.trace.job is not None
        return self.trace.job

    @property
    def order(self) -> RunPlan:
        """Plan, once there is one."""
        assert self.plan is not None
        return self.plan

    @property
    def checkpoint(self) -> Path:
        """Where the checkpoint is."""
        return self.place / self.order.checkpoint_name
