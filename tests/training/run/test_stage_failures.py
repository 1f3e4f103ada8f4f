"""How each stage fails for causes of its own: the object, what is left, and whether the job can be taken up."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from expcomp.errors import UsageError
from expcomp.training.dataset import Limits
from expcomp.training.documents import to_wire
from expcomp.training.run.journal import read_journal
from expcomp.training.run.machine import resume_training
from expcomp.training.run.results import STAGES, TrainingSuccess
from expcomp.training.run.serving import ServingError
from expcomp.training.run.trainer import TrainerError
from expcomp.training.run.verify import verify_job
from tests.training.made import document, row, sha, write
from tests.training.run.jobs import WEIGHTS, InProcess, failed, names, run

START = ("journal.jsonl", "run.json")
INPUTS = (*START, "dataset.json", "parent-profile.json")
TRAINED = (*INPUTS, "checkpoint.bin")


@dataclass
class Prepared(InProcess):
    """A trainer that cannot put its inputs into the job folder."""

    error: Exception = field(default_factory=OSError)

    def prepare(self, job: Path, cancelled: Callable[[], bool]) -> None:
        raise self.error


def raising(error: Exception) -> InProcess:
    def work(job: Path) -> None:
        (job / "checkpoint.bin").write_bytes(WEIGHTS)
        raise error

    return InProcess(work)


def giving(answer: Any) -> InProcess:
    return InProcess(facts=answer)


def doing(work: Callable[[Path], object]) -> InProcess:
    def both(job: Path) -> None:
        (job / "checkpoint.bin").write_bytes(WEIGHTS)
        work(job)

    return InProcess(both)


def serving(answer: Any = None, error: Exception | None = None) -> Any:
    def publish(*_: object) -> Any:
        if error is not None:
            raise error
        return answer

    return SimpleNamespace(publish=publish)


async def asynchronous(given: object) -> None:
    raise AssertionError


def only_candidates(answer: Any) -> Callable[[Any], Any]:
    return lambda given: None if given.is_baseline else answer


def put(name: str, data: bytes = b"{}") -> Callable[[Path], object]:
    return lambda job: (job / name).write_bytes(data)


@dataclass(frozen=True)
class Case:
    """A cause.

    Attributes:
        options: Of the run; a function of the test's folder where it needs that.
        left: Files of the job; None: no job folder is made.
        mended: Whether the job, taken up without the ports, succeeds; None where it cannot be taken up.
    """

    stage: str
    told: str
    options: Mapping[str, Any] | Callable[[Path], Mapping[str, Any]]
    left: tuple[str, ...] | None
    mended: bool | None = None
    training_may_exist: bool = False
    serving_may_exist: bool = False
    cleanup: str | None = None


CASES = [
    Case("admission", "executionRef", {"execution_ref": "latest"}, None),
    Case("admission", "datasetDigest", {"dataset_digest": "sha256:0"}, None),
    Case("admission", "maxCheckpointBytes", {"max_checkpoint_bytes": 0}, None),
    Case("admission", "checkpoint", {"checkpoint": "zip"}, None),
    Case("admission", "timeout", {"timeout": 0}, None),
    Case("admission", "expected a function", {"validators": ("name",)}, None),
    Case("admission", "returns None to accept", {"validators": (lambda _: False,)}, None),
    Case("admission", "returns None to accept", {"validators": (asynchronous,)}, None),
    Case("admission", "revision", {"trainer": InProcess(revision="v1")}, None),
    Case("admission", "id", {"trainer": InProcess(id=" ")}, None),
    Case("admission", "parameters_not_public", {"parameters": {"password": "x"}}, None),
    Case("admission", "not_canonicalizable", {"parameters": {"rate": float("nan")}}, None),
    Case("admission", "cancelled", {"cancelled": lambda: True}, None),
    Case("admission", "runs", lambda f: {"out": write(f / "runs", "a file")}, None),
    Case("dataset", "none.json", lambda f: {"dataset": f / "none.json", "dataset_digest": sha("x")}, START),
    Case("dataset", "dataset_digest_mismatch", {"dataset_digest": sha("other")}, INPUTS),
    Case("dataset", "more than 10", {"limits": Limits(document_bytes=10)}, START),
    Case("dataset", "dataset_too_many_rows", {"limits": Limits(rows=1)}, INPUTS),
    Case("dataset", "no_training_rows", lambda f: {"dataset": write(f / "d.json", document([row("v", "validation")]))}, INPUTS),
    Case("training", "disk full", {"trainer": Prepared(error=OSError("disk full"))}, INPUTS),
    Case("training", "KeyError", {"trainer": Prepared(error=KeyError("x"))}, INPUTS),
    Case("training", "no luck", {"trainer": raising(TrainerError("no luck"))}, TRAINED, training_may_exist=True),
    Case("training", "all ended", {"trainer": raising(TrainerError("all ended", may_exist=False))}, TRAINED),
    Case("training", "ZeroDivisionError", {"trainer": raising(ZeroDivisionError())}, TRAINED, training_may_exist=True),
    Case("training", "gave NoneType", {"trainer": giving(None)}, TRAINED, training_may_exist=True),
    Case("training", "gave bool", {"trainer": giving(True)}, TRAINED, training_may_exist=True),
    Case("training", "dataset.json", {"trainer": doing(lambda job: (job / "checkpoint.bin").replace(job / "dataset.json"))}, INPUTS),
    Case("checkpoint", "is not there", {"trainer": InProcess(lambda _: None)}, INPUTS, mended=False),
    Case("checkpoint", "holds no bytes", {"trainer": InProcess(lambda job: (job / "checkpoint.bin").touch())}, TRAINED, mended=False),
    Case("checkpoint", "checkpoint.bin", {"trainer": InProcess(lambda job: os.mkfifo(job / "checkpoint.bin"))}, TRAINED, mended=False),
    Case("checkpoint", "more than 3", {"max_checkpoint_bytes": 3}, TRAINED, mended=False),
    Case("serving", "router down", {"serving": serving(error=ServingError("router down"))}, TRAINED, mended=True, serving_may_exist=True),
    Case("serving", "refused", {"serving": serving(error=ServingError("refused", undone=True))}, TRAINED, mended=True),
    Case("serving", "ConnectionError", {"serving": serving(error=ConnectionError())}, TRAINED, mended=True, serving_may_exist=True),
    Case("serving", "expected Served", {"serving": serving(answer=True)}, TRAINED, mended=True, serving_may_exist=True),
    Case("profile", "returns None to accept", {"validators": (only_candidates(True),)}, TRAINED, mended=True),
    Case("profile", "returns None to accept", {"validators": (only_candidates(""),)}, TRAINED, mended=True),
    Case("persistence", "receipt.json", {"trainer": doing(put("receipt.json"))}, (*TRAINED, "receipt.json"), mended=False),
    Case("persistence", "profile.json", {"trainer": doing(put("profile.json"))}, (*TRAINED, "receipt.json"), mended=True),
    Case(
        "persistence",
        "profile.json",
        {"trainer": doing(lambda job: (job / "profile.json").mkdir())},
        (*TRAINED, "receipt.json", "profile.json"),
        mended=False,
        cleanup="profile.json: Is a directory",
    ),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=[f"{c.stage}-{n}-{c.told}" for n, c in enumerate(CASES)])
def test_a_cause_of_its_own(tmp_path: Path, case: Case) -> None:
    options = case.options(tmp_path) if callable(case.options) else case.options
    result = failed(run(tmp_path, **options))
    wire = to_wire(result)
    assert case.told in wire.pop("reason")
    folder = wire.pop("outputDirectory")
    assert wire == {
        "succeeded": False,
        "mode": "managed",
        "stage": case.stage,
        "trainingMayExist": case.training_may_exist,
        "servingMayExist": case.serving_may_exist,
        "resumable": case.mended is not None,
        "cleanupError": case.cleanup,
    }
    if case.left is None:
        assert folder is None
        assert not (tmp_path / "runs").is_dir()
        return
    job = Path(folder)
    assert names(job) == sorted(case.left)
    last = read_journal(job)[-1]
    assert (last.stage, last.event, last.facts["reason"]) == (case.stage, "failed", result.reason)
    if case.mended is None:
        with pytest.raises(UsageError, match="start a new run"):
            resume_training(job)
    elif case.mended:
        assert isinstance(resume_training(job), TrainingSuccess)
        assert False not in verify_job(job)["ok"].to_list()
    else:
        assert failed(resume_training(job)).stage == case.stage


def test_every_stage_has_a_cause_of_its_own() -> None:
    assert {c.stage for c in CASES} == set(STAGES)
