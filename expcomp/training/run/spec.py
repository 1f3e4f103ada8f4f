"""A run as a TOML file says it. Paths are relative to the file; those of programs and inputs are absolute."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import msgspec

from expcomp.errors import ConfigError, ExpcompError
from expcomp.io.toml_files import read_toml
from expcomp.training.documents import Name, Positive, Sha256, Text, read_document
from expcomp.training.profile import Profile
from expcomp.training.run.context import Ports, RunOptions
from expcomp.training.run.plan import FileName
from expcomp.training.run.serve_command import CommandServing
from expcomp.training.run.serving import ServingPort, StaticServing
from expcomp.training.run.trainer import CommandTrainer, PinnedFile


class _File(msgspec.Struct, forbid_unknown_fields=True):
    path: Text
    digest: Sha256
    name: FileName | None = None


class _Command(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    executable: Text
    executable_digest: Sha256
    args: list[str] = []
    environment: dict[str, str] = {}
    loader: list[str] = []


class _Trainer(_Command, forbid_unknown_fields=True, kw_only=True):
    id: Name
    inputs: list[_File] = []
    limits: dict[str, Positive] = {}
    max_output_bytes: Positive = 16 << 20


class _Spec(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    profile: Text
    dataset: Text
    dataset_digest: Sha256
    execution_ref: Sha256
    trainer: _Trainer
    parameters: dict[str, Any] = {}
    out: Text = "runs"
    checkpoint: Literal["file", "directory"] = "file"
    max_checkpoint_bytes: Positive = 64 << 30
    timeout: float | None = None
    serving: Literal["none", "static"] | _Command = "none"


def read_run(path: Path) -> tuple[Profile, RunOptions]:
    """Parent profile and options of the run that a TOML file describes.

    Raises:
        ConfigError: It cannot be read, or a value of it cannot be used; the message names the field.
        SourceError: The profile is none.
    """
    spec, root = _read(path), path.parent
    try:
        options = RunOptions(
            trainer=_trainer(spec.trainer),
            dataset=root / spec.dataset,
            dataset_digest=spec.dataset_digest,
            execution_ref=spec.execution_ref,
            out=root / spec.out,
            parameters=spec.parameters,
            checkpoint=spec.checkpoint,
            max_checkpoint_bytes=spec.max_checkpoint_bytes,
            timeout=spec.timeout,
            serving=_serving(spec.serving),
        )
    except ExpcompError as error:
        raise ConfigError(f"{path}: {error}") from error
    return read_document(Profile, root / spec.profile), options


def read_ports(path: Path) -> Ports:
    """What taking up a run needs of its TOML file: who serves.

    Raises:
        ConfigError: As `read_run`.
    """
    return Ports(serving=_serving(_read(path).serving))


def _read(path: Path) -> _Spec:
    try:
        return msgspec.convert(read_toml(path), _Spec, strict=True)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{path}: {error}") from error


def _trainer(spec: _Trainer) -> CommandTrainer:
    return CommandTrainer(
        id=spec.id,
        executable=PinnedFile(Path(spec.executable), spec.executable_digest),
        args=tuple(spec.args),
        inputs=tuple(PinnedFile(Path(i.path), i.digest, i.name or "") for i in spec.inputs),
        environment=spec.environment,
        loader=tuple(spec.loader),
        limits=spec.limits,
        max_output_bytes=spec.max_output_bytes,
    )


def _serving(spec: str | _Command) -> ServingPort | None:
    if isinstance(spec, _Command):
        program = PinnedFile(Path(spec.executable), spec.executable_digest)
        return CommandServing(program, tuple(spec.args), spec.environment, tuple(spec.loader))
    return StaticServing() if spec == "static" else None
