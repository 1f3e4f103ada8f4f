"""How a run ends: with a candidate, or with the stage and reason of its failure and what may be left of it."""

from __future__ import annotations

from typing import Literal

from msgspec import UNSET, UnsetType

from expcomp.training.documents import Document, Sha256, Text
from expcomp.training.guard import ExposureReport

Stage = Literal["admission", "dataset", "training", "checkpoint", "serving", "profile", "persistence"]
STAGES: tuple[Stage, ...] = ("admission", "dataset", "training", "checkpoint", "serving", "profile", "persistence")
RESUMABLE = STAGES[STAGES.index("checkpoint") :]
"""Stages that a job can be taken up at: training is never repeated."""


class TrainingSuccess(Document, frozen=True, kw_only=True):
    """A candidate was made. It says nothing of whether it may ship.

    Attributes:
        output_directory: Job folder.
        served: Whether somebody serves the checkpoint; a profile that nobody serves cannot run yet.
    """

    succeeded: Literal[True] = True
    mode: Literal["command", "managed"]
    output_directory: Text
    profile_digest: Sha256
    receipt_digest: Sha256
    model: Text
    served: bool
    profile_path: Text
    receipt_path: Text
    checkpoint_path: Text


class TrainingFailure(Document, frozen=True, kw_only=True):
    """No candidate was made; profile.json is not there, all other files stay.

    Attributes:
        output_directory: Job folder, if one was made.
        training_may_exist: A trainer was called and did not report success: something of it may still run.
        serving_may_exist: Serving was called and not proven undone.
        resumable: Training succeeded, so that the job can be taken up at `checkpoint`.
        cleanup_error: Why profile.json could not be removed; null when that was done.
        exposure: Counts of the held-out guard, where it looked; they name no task.
    """

    succeeded: Literal[False] = False
    mode: Literal["command", "managed"]
    stage: Stage
    reason: Text
    output_directory: Text | None
    training_may_exist: bool
    serving_may_exist: bool
    resumable: bool
    cleanup_error: Text | None
    exposure: ExposureReport | UnsetType = UNSET
