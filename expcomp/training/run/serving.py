"""The port through which a checkpoint is served, and a command that verifies one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from expcomp.errors import ExpcompError, SourceError
from expcomp.io.job_files import hash_tree
from expcomp.training.documents import Document, Name, Positive, Sha256, document_digest


class ServingError(ExpcompError):
    """A checkpoint that is not served.

    Attributes:
        undone: It is proven that nothing serves it.
    """

    exit_code = 1

    def __init__(self, message: str, *, undone: bool = False) -> None:
        super().__init__(message)
        self.undone = undone


class ServingOrder(Document, frozen=True, kw_only=True):
    """What is to be served: the checkpoint, and the model id that its digest gives."""

    artifact_digest: Sha256
    artifact_bytes: Positive
    model_id: Name


@dataclass(frozen=True, slots=True)
class Served:
    """What a serving port says it did.

    Attributes:
        model_id: Served under it.
        artifact_digest: Of the artifact that it verified itself.
        evidence_digest: Of its evidence.
    """

    model_id: str
    artifact_digest: str
    evidence_digest: str


class ServingPort(Protocol):
    """Whoever serves checkpoints."""

    def publish(self, artifact: Path, order: ServingOrder, cancelled: Callable[[], bool]) -> Served:
        """Serve an artifact.

        Raises:
            ServingError: It is not served.
        """
        ...


@dataclass(frozen=True, slots=True)
class StaticServing:
    """Serving from files: the artifact is hashed where it is served from.

    Args:
        path: File or folder that is served; None: the checkpoint in the job folder itself.
    """

    path: Path | None = None

    def publish(self, artifact: Path, order: ServingOrder, cancelled: Callable[[], bool]) -> Served:
        """Hash what is served; the evidence is the order.

        Raises:
            ServingError: It cannot be hashed; that it is another artifact is for the run to refuse.
        """
        try:
            found = hash_tree(self.path or artifact, order.artifact_bytes, cancelled=cancelled)
        except SourceError as error:
            raise ServingError(str(error), undone=True) from error
        return Served(order.model_id, found.digest, document_digest(order))


def served_as_ordered(order: ServingOrder, served: object) -> Served:
    """Hold a port to what it was asked for.

    Raises:
        ServingError: It gave no `Served`, or one that names another artifact or model.
    """
    if not isinstance(served, Served):
        raise ServingError(f"serving gave {type(served).__name__}, expected Served")
    for what, found, expected in (
        ("artifact", served.artifact_digest, order.artifact_digest),
        ("model", served.model_id, order.model_id),
    ):
        if found != expected:
            raise ServingError(f"serving gave evidence of {what} {found}, not of {expected}")
    return served
