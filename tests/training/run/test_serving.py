from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from expcomp.training.documents import read_document
from expcomp.training.receipts import TrainingReceipt
from expcomp.training.run.context import Ports
from expcomp.training.run.machine import resume_training
from expcomp.training.run.results import TrainingSuccess
from expcomp.training.run.serve_command import CommandServing
from expcomp.training.run.serving import Served, ServingError, ServingOrder, StaticServing
from expcomp.training.run.trainer import PinnedFile
from expcomp.training.run.verify import verify_job
from tests.training.made import sha
from tests.training.run.jobs import PYTHON, PYTHON_DIGEST, failed, run


@dataclass
class Port:
    change: dict[str, Any] = field(default_factory=dict)
    error: ServingError | None = None
    work: Callable[[Path], object] = lambda artifact: None

    def publish(self, artifact: Path, order: ServingOrder, cancelled: Callable[[], bool]) -> Served:
        self.work(artifact)
        if self.error is not None:
            raise self.error
        right = {
            "model_id": order.model_id,
            "artifact_digest": order.artifact_digest,
            "evidence_digest": sha("evidence"),
        }
        return Served(**right | self.change)


def succeeded(result: object) -> Path:
    assert isinstance(result, TrainingSuccess), result
    assert result.served
    return Path(result.output_directory)


def test_the_digest_of_the_evidence_is_in_the_receipt(tmp_path: Path) -> None:
    job = succeeded(run(tmp_path, serving=Port()))
    assert read_document(TrainingReceipt, job / "receipt.json").checkpoint.serving_digest == sha("evidence")
    assert False not in verify_job(job)["ok"].to_list()


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"artifact_digest": sha("other")}, sha("other")),
        ({"model_id": "expcomp-trained/latest"}, "expcomp-trained/latest"),
        ({"evidence_digest": "none"}, "servingDigest"),
    ],
)
def test_evidence_about_something_else_is_refused(tmp_path: Path, change: dict[str, Any], told: str) -> None:
    result = failed(run(tmp_path, serving=Port(change)))
    assert (result.stage, result.serving_may_exist, result.resumable) == ("serving", True, True)
    assert told in result.reason


@pytest.mark.parametrize("undone", [True, False])
def test_a_port_that_fails_says_whether_it_is_undone(tmp_path: Path, *, undone: bool) -> None:
    result = failed(run(tmp_path, serving=Port(error=ServingError("router down", undone=undone))))
    assert (result.reason, result.serving_may_exist) == ("router down", not undone)


def test_training_is_not_lost_when_serving_fails(tmp_path: Path) -> None:
    result = failed(run(tmp_path, serving=Port(error=ServingError("router down"))))
    job = Path(str(result.output_directory))
    assert succeeded(resume_training(job, Ports(serving=Port()))) == job
    assert False not in verify_job(job)["ok"].to_list()


def test_a_port_that_changes_the_checkpoint(tmp_path: Path) -> None:
    def change(artifact: Path) -> None:
        artifact.chmod(0o600)
        artifact.write_bytes(b"another")

    result = failed(run(tmp_path, serving=Port(work=change)))
    assert result.stage == "serving"
    assert "the checkpoint was changed" in result.reason


def test_static_serving(tmp_path: Path) -> None:
    succeeded(run(tmp_path, serving=StaticServing()))
    (tmp_path / "f").write_bytes(b"weights")
    order = ServingOrder(artifact_digest=sha("weights"), artifact_bytes=7, model_id="x/y")
    with pytest.raises(ServingError, match="not there") as error:
        StaticServing().publish(tmp_path / "none", order, lambda: False)
    assert error.value.undone


ANSWER = """
import json, os, sys
order = json.load(sys.stdin)
assert os.path.getsize(order["artifactPath"]) == order["artifactBytes"]
print("deploying")
print(json.dumps({"modelId": order["modelId"], "artifactDigest": order["artifactDigest"], "evidence": {"url": "local"}}))
"""


def served_by(code: str) -> CommandServing:
    return CommandServing(PinnedFile(PYTHON, PYTHON_DIGEST), ("-I", "-S", "-c", code))


@pytest.mark.skipif(sys.platform != "linux", reason="Linux only")
def test_a_command_serves(tmp_path: Path) -> None:
    succeeded(run(tmp_path, serving=served_by(ANSWER)))


@pytest.mark.skipif(sys.platform != "linux", reason="Linux only")
@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("print('fine')", "last line"),
        ("print('{}')", "last line"),
        ("raise SystemExit(2)", "exit code 2"),
        ("", "last line"),
    ],
)
def test_a_command_that_does_not_serve(tmp_path: Path, code: str, told: str) -> None:
    result = failed(run(tmp_path, serving=served_by(code)))
    assert (result.stage, result.serving_may_exist) == ("serving", True)
    assert told in result.reason


@pytest.mark.skipif(sys.platform != "linux", reason="Linux only")
def test_a_serving_command_that_is_not_the_pinned_one(tmp_path: Path) -> None:
    result = failed(run(tmp_path, serving=CommandServing(PinnedFile(PYTHON, sha("other")))))
    assert "expected the pinned" in result.reason
