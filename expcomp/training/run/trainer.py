"""Trainers: the port, and the one that is a fixed command."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

import polars as pl

from expcomp.errors import ExpcompError, OutputError, UsageError
from expcomp.evidence.redact import redact
from expcomp.io.job_files import copy_file, make_folder, publish_file, remove_file
from expcomp.io.pinned_files import PinnedFileError, hash_file
from expcomp.io.processes import (
    KEEP_OUTPUT,
    LIMITS,
    PinnedExecutableError,
    ProcessResult,
    check_environment,
    open_executable,
    run_process,
)
from expcomp.training.documents import document_bytes, document_digest, from_wire
from expcomp.training.receipts import TrainingRequest
from expcomp.training.run.plan import CommandDescription

INPUTS = "inputs"
LOG = "trainer.log"
_INPUT_BYTES = 1 << 40


class TrainerError(ExpcompError):
    """A trainer that failed.

    Attributes:
        facts: What was measured.
        may_exist: Something of it may still run.
    """

    exit_code = 1

    def __init__(self, message: str, facts: Mapping[str, Any] | None = None, *, may_exist: bool = True) -> None:
        super().__init__(message)
        self.facts, self.may_exist = dict(facts or {}), may_exist


class Trainer(Protocol):
    """Whoever trains. A managed one cancels its remote job when it is cancelled."""

    @property
    def mode(self) -> Literal["command", "managed"]:
        """Whether it is a command or somebody else's service."""
        ...

    @property
    def id(self) -> str:
        """Name."""
        ...

    @property
    def command(self) -> CommandDescription | None:
        """Of a command."""
        ...

    @property
    def revision(self) -> str:
        """Digest of the whole description of the trainer."""
        ...

    def prepare(self, job: Path, cancelled: Callable[[], bool]) -> None:
        """Put what it needs into the job folder.

        Raises:
            ExpcompError: That is not possible.
        """
        ...

    def execute(
        self, request: TrainingRequest, job: Path, timeout: float | None, cancelled: Callable[[], bool]
    ) -> dict[str, Any]:
        """Train; what was measured.

        Raises:
            TrainerError: Anything but an explicit success.
        """
        ...


@dataclass(frozen=True, slots=True)
class PinnedFile:
    """A file of the machine with the digest it has to have.

    Attributes:
        name: Of the copy that the command is given; default: that of the file.
    """

    path: Path
    digest: str
    name: str = ""

    @property
    def copy_name(self) -> str:
        """Name of the copy."""
        return self.name or self.path.name


@dataclass(frozen=True, slots=True)
class CommandTrainer:
    """One fixed command: reads the request on its standard input, writes the checkpoint, ends with 0.

    Its program is opened once, and that open file is hashed and run; its inputs are run from hashed copies in `inputs/`. It works in the
    job folder, with nothing of this process's environment, and no process of it is left when it is over.

    Args:
        id: Name.
        executable: Program, no script.
        args: Name inputs as `inputs/<name>`.
        inputs: Files it is given.
        environment: All of it; public.
        loader: Variables in it that load other code, allowed by name.
        limits: Resource limits (`io.processes.LIMITS`).
        max_output_bytes: Of standard output and error together; more is a failure.

    Raises:
        UsageError: An argument, variable, limit or path that cannot be used.
        DocumentError: The description is not public, or not one.
    """

    id: str
    executable: PinnedFile
    args: Sequence[str] = ()
    inputs: Sequence[PinnedFile] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    loader: Sequence[str] = ()
    limits: Mapping[str, int] = field(default_factory=dict)
    max_output_bytes: int = 16 << 20
    mode: Literal["command", "managed"] = "command"

    def __post_init__(self) -> None:
        check_environment(self.environment, loader=self.loader)
        for file in (self.executable, *self.inputs):
            if not file.path.is_absolute():
                raise UsageError(f"{file.path}: executable and inputs of a trainer need absolute paths")
        for arg in self.args:
            if "\x00" in arg:
                raise UsageError(f"argument {arg!r} holds a NUL")
        if unknown := self.limits.keys() - set(LIMITS):
            raise UsageError(f"limit {min(unknown)}: expected one of {', '.join(LIMITS)}")
        document_digest(self.command)

    @property
    def command(self) -> CommandDescription:
        """All that decides what it does."""
        wire = {
            "id": self.id,
            "executableDigest": self.executable.digest,
            "args": list(self.args),
            "inputs": [{"name": i.copy_name, "digest": i.digest} for i in self.inputs],
            "environment": dict(self.environment),
            "loader": list(self.loader),
            "limits": dict(self.limits),
            "maxOutputBytes": self.max_output_bytes,
        }
        return from_wire(CommandDescription, wire, "trainer")

    @property
    def revision(self) -> str:
        """Digest of the command description."""
        return document_digest(self.command)

    def prepare(self, job: Path, cancelled: Callable[[], bool]) -> None:
        """Copy the inputs into the job folder and hold the copies to their digests.

        Raises:
            TrainerError: One is another file than was pinned.
            PinnedFileError: One cannot be hashed.
            OutputError: The folder cannot be made, or a copy not be written.
        """
        make_folder(job / INPUTS)
        for file in self.inputs:
            made = copy_file(file.path.resolve(), job / INPUTS / file.copy_name, _INPUT_BYTES, cancelled=cancelled)
            _same(f"input {file.copy_name}", made.digest, file.digest)

    def execute(
        self, request: TrainingRequest, job: Path, timeout: float | None, cancelled: Callable[[], bool]
    ) -> dict[str, Any]:
        """Run the command to its end.

        Raises:
            TrainerError: It did not end with 0 within its bounds, or the program or an input changed. The first failure wins.
        """
        try:
            with open_executable(self.executable.path, self.executable.digest) as program:
                result = run_process(
                    program,
                    self.args,
                    cwd=job,
                    environment=self.environment,
                    stdin=document_bytes(request),
                    max_output=self.max_output_bytes,
                    timeout=timeout,
                    cancelled=cancelled,
                    limits=self.limits,
                    loader=self.loader,
                )
                facts = _facts(result, job)
                if result.reason is not None:
                    told = f"; see {LOG}" if result.tail else ""
                    raise TrainerError(
                        f"trainer {self.id}: {result.words}{told}",
                        facts,
                        may_exist=result.reason in ("lost", "survived"),
                    )
                program.verify()
        except PinnedExecutableError as error:
            raise TrainerError(f"trainer {self.id}: {error}", may_exist=False) from error
        check_command_inputs(self.command, job)
        return facts


def check_command_inputs(command: CommandDescription, job: Path) -> None:
    """Hold the copies of a command's inputs to their digests.

    Raises:
        TrainerError: One was changed, is not there any more, or is no file.
    """
    for file in command.inputs:
        try:
            found = hash_file(job / INPUTS / file.name, _INPUT_BYTES).digest
        except PinnedFileError as error:
            raise TrainerError(f"input {file.name}: {error.found}", may_exist=False) from error
        _same(f"input {file.name}", found, file.digest)


def _same(what: str, found: str, expected: str) -> None:
    if found != expected:
        raise TrainerError(f"{what}: found {found}, expected the pinned {expected}", may_exist=False)


def _facts(result: ProcessResult, job: Path) -> dict[str, Any]:
    try:
        _write_log(job / LOG, result)
        trouble = None
    except (OSError, OutputError) as error:  # no reason to throw a checkpoint away
        trouble = str(error)
    return {
        "exitCode": result.code,
        "outputBytes": result.output_bytes,
        "processesLeftRunning": result.left_running,
        "processesEscaped": result.escaped,
        "processesSurvived": result.survived,
        "logError": trouble,
    }


def _write_log(path: Path, result: ProcessResult) -> None:
    """The end of the output, without secrets and private paths."""
    data = result.tail
    if result.output_bytes > KEEP_OUTPUT:
        data = data[data.find(b"\n") + 1 :]  # half a line may be half a secret, which no rule would know
    text = pl.DataFrame({"text": [data.decode("utf-8", "replace")]})
    remove_file(path)
    publish_file(path, redact(text, ["text"])[0].item().encode())
