"""What a run was asked to do, without paths of the machine: a job's `run.json`. Everything in it is public."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from msgspec import Meta

from expcomp.training.documents import Document, Name, NotNegative, Positive, Rule, Sha256, distinct
from expcomp.training.public import not_public
from expcomp.training.receipts import TrainerIdentity

FileName = Annotated[str, Meta(pattern=r"\A(?!\.{1,2}\Z)[^/\\\x00\n]{1,255}\Z")]
CHECKPOINTS = {"file": "checkpoint.bin", "directory": "checkpoint"}
"""Where a trainer puts its result, by form."""


class TrainerInput(Document, frozen=True, kw_only=True):
    """A file that the command is given as `inputs/<name>`."""

    name: FileName
    digest: Sha256


class CommandDescription(Document, frozen=True, kw_only=True):
    """All that decides what a command does; its digest is the revision of the trainer.

    Attributes:
        executable_digest: Of the program itself.
        args: After the program; inputs are named as `inputs/<name>`.
        environment: All of it.
        loader: Variables that make the program load other code, allowed by name.
        limits: Resource limits of setrlimit(2).
        max_output_bytes: Of standard output and error together.
    """

    id: Name
    executable_digest: Sha256
    args: tuple[str, ...]
    inputs: tuple[TrainerInput, ...]
    environment: dict[str, str]
    loader: tuple[str, ...]
    limits: dict[str, Positive]
    max_output_bytes: Positive

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule("inputs_duplicate", "inputs", lambda c: distinct(tuple(i.name for i in c.inputs)), "each name once"),
        Rule(
            "environment_not_public",
            "environment",
            lambda c: not_public(c.environment) is None,
            "no credential: neither a name nor a value like one",
            lambda c: not_public(c.environment),
        ),
        Rule(
            "args_not_public",
            "args",
            lambda c: not_public(c.args) is None,
            "no value like a credential",
            lambda c: not_public(c.args),
        ),
    )


class RunPlan(Document, frozen=True, kw_only=True):
    """What one run was asked to do.

    Attributes:
        invocation_id: Random; what the trainer is told, too.
        dataset_form: `document` (dataset.json) or `bundle` (dataset/).
        parent_profile_digest: Of parent-profile.json.
        trainer: Its identity, with the parameters of this run.
        command: Of a command trainer; null for a managed one.
        checkpoint: One file (checkpoint.bin) or a folder (checkpoint/).
        timeout: Seconds for the whole run; null for no limit.
    """

    version: Literal[1]
    invocation_id: Name
    dataset_form: Literal["document", "bundle"]
    dataset_digest: Sha256
    parent_profile_digest: Sha256
    execution_ref: Sha256
    trainer: TrainerIdentity
    command: CommandDescription | None
    checkpoint: Literal["file", "directory"]
    max_checkpoint_bytes: Positive
    timeout: NotNegative | None

    @property
    def parameters(self) -> dict[str, Any]:
        """What the trainer is told to do."""
        return self.trainer.parameters

    @property
    def dataset_name(self) -> str:
        """Name of the dataset in the job folder."""
        return "dataset" if self.dataset_form == "bundle" else "dataset.json"

    @property
    def checkpoint_name(self) -> str:
        """Name of the checkpoint in the job folder."""
        return CHECKPOINTS[self.checkpoint]
