"""Runs of the tests: a dataset, a parent profile, trainers of a few lines."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from expcomp.io.canon import digest_bytes
from expcomp.io.digest import sha256_file
from expcomp.training.profile import Profile
from expcomp.training.receipts import TrainingRequest
from expcomp.training.run.context import RunOptions
from expcomp.training.run.machine import run_training
from expcomp.training.run.plan import CommandDescription
from expcomp.training.run.results import TrainingFailure, TrainingSuccess
from expcomp.training.run.trainer import CommandTrainer, PinnedFile
from tests.training.made import document, profile, row, sha, write

PYTHON = Path(sys.executable)
PYTHON_DIGEST = sha256_file(PYTHON.resolve())
WEIGHTS = b"weights"
TRAIN = 'open(request["checkpointPath"], "wb").write(b"weights")'
READ_REQUEST = "import json, os, signal, sys, time\nrequest = json.load(sys.stdin)\n"
NO_EXECUTION = digest_bytes(b"execution")


def dataset(folder: Path, *rows: dict[str, Any]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return write(folder / "train.json", document(rows or (row("t1"), row("t2", "validation"))))


@dataclass
class InProcess:
    """A trainer that is a function of the job folder: fast, and easy to break."""

    work: Callable[[Path], object] = lambda job: (job / "checkpoint.bin").write_bytes(WEIGHTS)
    facts: dict[str, Any] = field(default_factory=dict)
    mode: Literal["command", "managed"] = "managed"
    id: str = "in-process"
    revision: str = sha("revision")
    command: CommandDescription | None = None
    requests: list[TrainingRequest] = field(default_factory=list)

    def prepare(self, job: Path, cancelled: Callable[[], bool]) -> None:
        pass

    def execute(
        self, request: TrainingRequest, job: Path, timeout: float | None, cancelled: Callable[[], bool]
    ) -> dict[str, Any]:
        self.requests.append(request)
        self.work(job)
        return self.facts


def command(folder: Path, code: str = TRAIN, **more: Any) -> CommandTrainer:
    """A trainer whose script is its input."""
    folder.mkdir(parents=True, exist_ok=True)
    script = folder / "train.py"
    script.write_text(READ_REQUEST + textwrap.dedent(code))
    given: dict[str, Any] = {
        "id": "script",
        "executable": PinnedFile(PYTHON, PYTHON_DIGEST),
        "args": ("-I", "-S", "inputs/train.py"),
        "inputs": (PinnedFile(script, sha256_file(script)),),
    }
    return CommandTrainer(**given | more)


def options(folder: Path, **more: Any) -> RunOptions:
    given = more.pop("dataset", None) or dataset(folder)
    made: dict[str, Any] = {
        "trainer": InProcess(),
        "dataset": given,
        "dataset_digest": sha256_file(given) if given.is_file() else None,
        "execution_ref": sha("execution"),
        "out": folder / "runs",
        "parameters": {"steps": 2},
    }
    return RunOptions(**made | more)


def run(folder: Path, parent: Profile | None = None, **more: Any) -> TrainingSuccess | TrainingFailure:
    return run_training(parent or profile(), options(folder, **more))


def made(folder: Path, parent: Profile | None = None, **more: Any) -> Path:
    """The job folder of a run that has to succeed."""
    result = run(folder, parent, **more)
    assert isinstance(result, TrainingSuccess), result
    return Path(result.output_directory)


def failed(result: object) -> TrainingFailure:
    assert isinstance(result, TrainingFailure), result
    return result


def names(job: Path | str | None) -> list[str]:
    assert job is not None
    return sorted(f.name for f in Path(job).iterdir())
