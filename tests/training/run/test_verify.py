from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from expcomp.io.canon import dumps
from expcomp.training.documents import TamperedError, document_digest, from_wire, read_document
from expcomp.training.identity import INLINE
from expcomp.training.profile import Profile
from expcomp.training.receipts import TrainingReceipt
from expcomp.training.run.verify import JOB_CHECKS, verify_job
from tests.training.made import ancestry, profile, row, sha
from tests.training.run.jobs import command, dataset, made

GENERATIONS = ("grandparent", "parent")


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished job of the third generation."""
    folder = tmp_path_factory.mktemp("job")
    return made(folder, profile(ancestry(*GENERATIONS)), trainer=command(folder))


@pytest.fixture
def copy(job: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(job, tmp_path / "job"))


def bad(job: Path, **more: Any) -> dict[str, str]:
    frame = verify_job(job, **more)
    assert dict(frame.schema) == JOB_CHECKS
    failing = frame.filter(~frame["ok"].fill_null(value=True))
    return dict(zip(failing["check"], failing["document"], strict=True))


def change(path: Path, edit: Callable[[Any], object]) -> None:
    value = json.loads(path.read_bytes())
    edit(value)
    replace(path, dumps(value))


def replace(path: Path, data: bytes) -> None:
    path.chmod(0o600)
    path.write_bytes(data)


def test_a_job_that_nobody_touched(job: Path) -> None:
    frame = verify_job(job)
    assert bad(job) == {}
    assert frame.filter(frame["ok"].is_null())["check"].to_list() == ["receipt_pinned", "exposure"]
    receipt = document_digest(read_document(TrainingReceipt, job / "receipt.json"))
    assert bad(job, receipt_digest=receipt) == {}
    assert bad(job, receipt_digest=sha("other")) == {"receipt_pinned": "receipt.json"}


@pytest.mark.parametrize(
    ("name", "data"),
    [("dataset.json", None), ("checkpoint.bin", b"other!!"), ("checkpoint.bin", b"w"), ("inputs/train.py", b"pass")],
)
def test_a_file_that_was_changed_is_named(copy: Path, name: str, data: bytes | None) -> None:
    replace(copy / name, (copy / name).read_bytes().replace(b"Twelve", b"Thirty") if data is None else data)
    assert name.split("/", maxsplit=1)[0] in bad(copy).values()


@pytest.mark.parametrize("name", ["dataset.json", "checkpoint.bin", "receipt.json", "profile.json", "run.json", "inputs/train.py",
                                  "parent-profile.json", "journal.jsonl"])  # fmt: skip
def test_a_file_that_is_gone_is_named(copy: Path, name: str) -> None:
    (copy / name).unlink()
    assert name.split("/", maxsplit=1)[0] in bad(copy).values()


FIELDS: list[tuple[str, Callable[[Any], object]]] = [
    ("dataset", lambda r: r["dataset"].update(digest=sha("other"))),
    ("executionRef", lambda r: r.update(executionRef=sha("other"))),
    ("parentProfileDigest", lambda r: r.update(parentProfileDigest=sha("other"))),
    ("parentReceiptDigest", lambda r: r.update(parentReceiptDigest=None)),
    ("trainer", lambda r: r["trainer"]["parameters"].update(steps=3)),
    ("revision", lambda r: r["trainer"].update(revision=sha("other"))),
    ("artifactBytes", lambda r: r["checkpoint"].update(artifactBytes=1)),
    ("artifactDigest", lambda r: r["checkpoint"].update(artifactDigest=sha("other"))),
    ("servingDigest", lambda r: r["checkpoint"].update(servingDigest=sha("other"))),
    ("tasks", lambda r: r["dataset"]["tasks"].pop()),
]


@pytest.mark.parametrize(("field", "edit"), FIELDS, ids=[f for f, _ in FIELDS])
def test_every_field_of_a_receipt_is_recomputed(copy: Path, field: str, edit: Callable[[Any], object]) -> None:
    change(copy / "receipt.json", edit)
    assert "receipt.json" in bad(copy).values()
    assert {"profile", "lineage"} <= bad(copy).keys()


def test_a_receipt_in_another_form_of_json(copy: Path) -> None:
    replace(copy / "receipt.json", json.dumps(json.loads((copy / "receipt.json").read_bytes())).encode())
    assert bad(copy) == {"receipt_canonical": "receipt.json"}


def test_a_dataset_of_an_ancestor_cannot_be_laundered(copy: Path) -> None:
    def launder(of: Any) -> None:
        of["metadata"]["training"]["ancestors"][0]["dataset"].update(digest=sha("clean"))

    change(copy / "profile.json", launder)
    with pytest.raises(TamperedError, match=r"profile\.json.*ancestors"):
        read_document(Profile, copy / "profile.json")
    assert bad(copy)["lineage"] == "profile.json"
    assert "ancestry_broken" in str(verify_job(copy).filter(check="lineage")["found"][0])


def test_an_ancestor_that_was_left_out(copy: Path) -> None:
    change(copy / "parent-profile.json", lambda p: p["metadata"].pop("training") and p["model"].update(default="base"))
    assert {"parent_profile", "parent_receipt"} <= bad(copy).keys()


def test_a_profile_with_another_prompt(copy: Path) -> None:
    change(copy / "profile.json", lambda p: p.update(prompts={"system": "Cheat."}))
    assert bad(copy) == {"profile": "profile.json"}


def test_the_lineage_of_the_candidate(job: Path) -> None:
    training = read_document(Profile, job / "profile.json").training
    assert training is not None
    assert [r.trainer.id for r in training.resolved()] == ["script", "trl-sft", "trl-sft"]


def test_a_dataset_with_more_tasks_than_a_receipt_lists(tmp_path: Path) -> None:
    job = made(tmp_path, dataset=dataset(tmp_path, *(row(f"t{n}") for n in range(INLINE + 1))))
    assert bad(job) == {}
    receipt = read_document(TrainingReceipt, job / "receipt.json")
    assert receipt.dataset.size == INLINE + 1
    replace(job / "inventory.parquet", b"other")
    assert bad(job)["dataset_identity"] == "inventory.parquet"


def test_a_bundle(tmp_path: Path) -> None:
    from expcomp.io.digest import sha256_file
    from expcomp.training.bundle import write_bundle
    from expcomp.training.dataset import read_dataset

    rows = read_dataset(dataset(tmp_path)).rows
    digest = write_bundle(rows, "sft", tmp_path / "bundle")
    job = made(tmp_path, dataset=tmp_path / "bundle", dataset_digest=digest)
    assert bad(job) == {}
    shard = next((job / "dataset").glob("rows-*"))
    replace(shard, shard.read_bytes()[:-1] + b"x")
    assert sha256_file(shard) != digest
    assert bad(job)["dataset"] == "dataset"


def test_a_folder_that_is_no_job(tmp_path: Path) -> None:
    assert "receipt.json" in bad(tmp_path).values()


def test_a_receipt_can_be_read_by_its_digest_alone(job: Path) -> None:
    wire = json.loads((job / "receipt.json").read_bytes())
    before = document_digest(from_wire(TrainingReceipt, wire))
    wire["observations"] = {"seconds": 1}
    assert document_digest(from_wire(TrainingReceipt, wire)) == before
