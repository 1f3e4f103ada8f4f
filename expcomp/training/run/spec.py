"""A run as a TOML file says it. Paths are relative to the file; those of programs and inputs are absolute."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import msgspec

from expcomp.errors import ConfigError, ExpcompError
from expcomp.io.toml_files import read_toml
from expcomp.training.cost_records import nanos
from expcomp.training.documents import Name, NotNegative, Positive, Sha256, Text, read_document
from expcomp.training.guard import GuardPolicy, Level
from expcomp.training.profile import Profile
from expcomp.training.run.admitting import HeldOut
from expcomp.training.run.context import Ports, RunCosts, RunOptions
from expcomp.training.run.plan import FileName
from expcomp.training.run.serve_command import CommandServing
from expcomp.training.run.serve_endpoint import EndpointServing
from expcomp.training.run.serving import ServingPort, StaticServing
from expcomp.training.run.trainer import CommandTrainer, PinnedFile

P = TypeVar("P")


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


class _Endpoint(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    url: Text
    field: Text = "artifactDigest"
    api_key_env: Text | None = None
    timeout: float = 10.0


class _Static(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    path: Text


class _HeldOut(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    sources: Annotated[list[Text], msgspec.Meta(min_length=1)]
    level: Level = "name"
    columns: dict[str, Text] = {}
    name_warning: bool = False
    receipts: list[Text] = []
    inventories: list[Text] = []


class _Costs(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    ledger: Text
    maximum_usd: NotNegative | None = None
    usd_per_hour: NotNegative | None = None


class _Spec(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    profile: Text
    dataset: Text
    dataset_digest: Sha256
    execution_ref: Sha256
    trainer: _Trainer
    parameters: dict[str, Any] = {}
    out: Text = "jobs"
    checkpoint: Literal["file", "directory"] = "file"
    max_checkpoint_bytes: Positive = 64 << 30
    timeout: float | None = None
    serving: Literal["none", "static"] | dict[str, Any] = "none"
    heldout: _HeldOut | None = None
    costs: _Costs | None = None


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
            serving=_serving(spec.serving, root),
            heldout=None if spec.heldout is None else _heldout(spec.heldout, root),
            costs=None if spec.costs is None else _costs(spec.costs, root),
        )
    except ExpcompError as error:
        raise ConfigError(f"{path}: {error}") from error
    return read_document(Profile, root / spec.profile), options


def read_ports(path: Path) -> Ports:
    """What taking up a run needs of its TOML file: who serves.

    Raises:
        ConfigError: As `read_run`.
    """
    spec = _read(path)
    try:
        return Ports(serving=_serving(spec.serving, path.parent))
    except ExpcompError as error:
        raise ConfigError(f"{path}: {error}") from error


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


def _serving(spec: str | dict[str, Any], root: Path) -> ServingPort | None:
    if isinstance(spec, str):
        return StaticServing() if spec == "static" else None
    if "url" in spec:
        of = _part(spec, _Endpoint)
        return EndpointServing(of.url, of.field, of.api_key_env, of.timeout)
    if "path" in spec:
        return StaticServing(root / _part(spec, _Static).path)
    command = _part(spec, _Command)
    program = PinnedFile(Path(command.executable), command.executable_digest)
    return CommandServing(program, tuple(command.args), command.environment, tuple(command.loader))


def _part(spec: dict[str, Any], kind: type[P]) -> P:
    try:
        return msgspec.convert(spec, kind, strict=True)
    except msgspec.ValidationError as error:
        raise ConfigError(f"serving: {error}") from error


def _heldout(spec: _HeldOut, root: Path) -> HeldOut:
    return HeldOut(
        sources=[root / s for s in spec.sources],
        level=spec.level,
        columns=spec.columns,
        policy=GuardPolicy(name="warning" if spec.name_warning else "error"),
        receipts=[root / r for r in spec.receipts],
        inventories=[root / i for i in spec.inventories],
    )


def _costs(spec: _Costs, root: Path) -> RunCosts:
    return RunCosts(
        ledger=root / spec.ledger,
        maximum_nanos=None if spec.maximum_usd is None else nanos(spec.maximum_usd),
        nanos_per_second=None if spec.usd_per_hour is None else nanos(spec.usd_per_hour / 3600),
    )
