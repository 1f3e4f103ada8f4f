from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from expcomp.errors import ExpcompError, OutputError, UsageError
from expcomp.io.canon import dumps
from expcomp.training.documents import document_digest, read_document, to_wire
from expcomp.training.profile import Profile
from expcomp.training.receipts import TrainingReceipt
from expcomp.training.run import context, stages
from expcomp.training.run.context import Context, Ports
from expcomp.training.run.journal import Journal, journal_frame, read_journal
from expcomp.training.run.machine import resume_training
from expcomp.training.run.results import RESUMABLE, STAGES, TrainingSuccess
from expcomp.training.run.verify import verify_job
from tests.training.made import profile, row, sha
from tests.training.run.jobs import WEIGHTS, InProcess, dataset, failed, made, names, options, run

INPUTS = ["dataset.json", "journal.jsonl", "parent-profile.json", "run.json"]
LEFT = {
    "admission": ["journal.jsonl", "run.json"],
    "dataset": INPUTS,
    "training": ["checkpoint.bin", *INPUTS],
    "checkpoint": ["checkpoint.bin", *INPUTS],
    "serving": ["checkpoint.bin", *INPUTS],
    "profile": ["checkpoint.bin", *INPUTS],
    "persistence": ["checkpoint.bin", *INPUTS, "receipt.json"],
}
BEFORE: dict[str, list[str] | None] = {
    "admission": None,
    "dataset": ["journal.jsonl", "run.json"],
    "training": INPUTS,
    **{s: ["checkpoint.bin", *INPUTS] for s in RESUMABLE},
}


def test_a_run_gives_a_candidate_and_a_receipt(tmp_path: Path) -> None:
    parent, trainer = profile(), InProcess()
    result = run(tmp_path, parent, trainer=trainer)
    assert isinstance(result, TrainingSuccess)
    job = Path(result.output_directory)
    assert names(job) == sorted([*LEFT["checkpoint"], "profile.json", "receipt.json"])
    receipt = read_document(TrainingReceipt, job / "receipt.json")
    candidate = read_document(Profile, job / "profile.json")
    assert document_digest(receipt) == result.receipt_digest
    assert document_digest(candidate) == result.profile_digest
    assert receipt.parent_profile_digest == document_digest(parent)
    assert (receipt.parent_receipt_digest, receipt.checkpoint.serving_digest, result.served) == (None, None, False)
    assert receipt.checkpoint.artifact_bytes == len(WEIGHTS)
    assert candidate.model.default == receipt.checkpoint.router_model_id == result.model
    assert [t.task for t in receipt.dataset.tasks] == ["t1", "t2"]  # type: ignore[union-attr]
    assert [f.stat().st_mode & 0o777 for f in sorted(job.iterdir()) if f.name != "journal.jsonl"] == [0o400] * 6
    assert job.stat().st_mode & 0o777 == 0o700
    (request,) = trainer.requests
    assert (request.dataset_path, request.checkpoint_path, request.parameters) == (
        "dataset.json",
        "checkpoint.bin",
        {"steps": 2},
    )
    assert str(tmp_path) not in dumps(to_wire(request)).decode()


def test_the_journal_tells_every_stage(tmp_path: Path) -> None:
    frame = journal_frame(read_journal(made(tmp_path)))
    assert frame.filter(frame["event"] == "ended")["stage"].to_list() == list(STAGES)
    assert frame["number"].to_list() == list(range(frame.height))
    assert frame["at"].is_sorted()


def test_no_machine_path_is_in_a_file_of_the_job(tmp_path: Path) -> None:
    job = made(tmp_path)
    assert [f.name for f in job.iterdir() if str(tmp_path).encode() in f.read_bytes()] == []


def test_two_equal_runs_differ_in_nothing_that_a_digest_covers(tmp_path: Path) -> None:
    one, two = (run(tmp_path / n) for n in "ab")
    assert isinstance(one, TrainingSuccess)
    assert isinstance(two, TrainingSuccess)
    assert (one.receipt_digest, one.profile_digest) == (two.receipt_digest, two.profile_digest)


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_failure_of_every_stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stage: Any, when: str) -> None:
    work = stages.FUNCTIONS[stage]

    def broken(ctx: Context) -> Context:
        if when == "after":
            work(ctx)
        raise ExpcompError("injected")

    with monkeypatch.context() as patch:
        patch.setattr(stages, "FUNCTIONS", {**stages.FUNCTIONS, stage: broken})
        result = failed(run(tmp_path))
    assert (result.stage, result.reason, result.mode) == (stage, "injected", "managed")
    assert (result.training_may_exist, result.serving_may_exist, result.cleanup_error) == (False, False, None)
    left = LEFT[stage] if when == "after" else BEFORE[stage]
    assert result.resumable == (stage in RESUMABLE)
    if left is None:
        assert result.output_directory is None
        assert not (tmp_path / "runs").exists()
        return
    job = Path(str(result.output_directory))
    assert names(job) == sorted(left)
    last = read_journal(job)[-1]
    assert (last.stage, last.event, last.facts) == (stage, "failed", {"reason": "injected"})
    if not result.resumable:
        with pytest.raises(UsageError, match="start a new run"):
            resume_training(job)
        return
    again = resume_training(job)
    assert isinstance(again, TrainingSuccess)
    assert not verify_job(job).filter("ok").is_empty()
    assert verify_job(job).filter(~verify_job(job)["ok"]).is_empty()
    with pytest.raises(UsageError, match="complete"):
        resume_training(job)


def test_a_run_and_one_that_was_taken_up_have_the_same_receipt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = run(tmp_path / "a")
    with monkeypatch.context() as patch:
        patch.setattr(stages, "FUNCTIONS", {**stages.FUNCTIONS, "serving": stopped})
        half = failed(run(tmp_path / "b"))
    again = resume_training(Path(str(half.output_directory)))
    assert isinstance(whole, TrainingSuccess)
    assert isinstance(again, TrainingSuccess)
    assert again.receipt_digest == whole.receipt_digest


def stopped(ctx: Context) -> Context:
    raise OSError(28, "No space left on device")


def test_an_interrupt_is_no_result_but_is_in_the_journal(tmp_path: Path) -> None:
    def interrupt(job: Path) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, trainer=InProcess(interrupt))
    (job,) = (tmp_path / "runs").iterdir()
    assert (read_journal(job)[-1].stage, read_journal(job)[-1].event) == ("training", "failed")


def test_a_run_that_was_killed_is_taken_up(tmp_path: Path) -> None:
    job = made(tmp_path)
    lines = (job / "journal.jsonl").read_bytes().splitlines(keepends=True)
    for cut in range(6, len(lines)):
        (job / "profile.json").unlink(missing_ok=True)
        (job / "journal.jsonl").write_bytes(b"".join(lines[:cut]) + lines[cut][:20])
        again = resume_training(job)
        assert isinstance(again, TrainingSuccess), (cut, again)


@pytest.mark.parametrize("stage", STAGES)
def test_cancelling_in_every_stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stage: Any) -> None:
    cancelled: list[bool] = []
    work = stages.FUNCTIONS[stage]

    def then_cancel(ctx: Context) -> Context:
        ctx = work(ctx)
        cancelled.append(True)
        return ctx

    monkeypatch.setattr(stages, "FUNCTIONS", {**stages.FUNCTIONS, stage: then_cancel})
    result = run(tmp_path, cancelled=lambda: bool(cancelled))
    if stage == "persistence":  # a late cancel takes nothing back
        assert isinstance(result, TrainingSuccess)
        return
    assert (failed(result).stage, failed(result).reason) == (stage, "the run was cancelled")
    assert "profile.json" not in names(failed(result).output_directory)


def test_the_time_of_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    late: list[float] = []
    monkeypatch.setattr(context, "time", SimpleNamespace(monotonic=lambda: time.monotonic() + sum(late)))
    result = failed(run(tmp_path, trainer=InProcess(lambda _: late.append(1_000)), timeout=900))
    assert (result.stage, result.reason) == ("training", "the time of the run was up")
    assert failed(run(tmp_path / "b", timeout=-1)).stage == "admission"


@pytest.mark.parametrize("name", ["dataset.json", "parent-profile.json", "run.json", "journal.jsonl"])
def test_a_trainer_that_changes_a_file_of_the_job_fails_by_its_name(tmp_path: Path, name: str) -> None:
    def work(job: Path) -> None:
        (job / "checkpoint.bin").write_bytes(WEIGHTS)
        (job / name).chmod(0o600)
        (job / name).write_bytes((job / name).read_bytes() + b" ")

    result = failed(run(tmp_path, trainer=InProcess(work)))
    assert result.stage == "training"
    assert name in result.reason
    assert not result.resumable


def link(job: Path) -> None:
    (job / "checkpoint.bin").symlink_to("dataset.json")


def folder(job: Path) -> None:
    (job / "checkpoint.bin").mkdir()
    (job / "checkpoint.bin" / "w").symlink_to("../dataset.json")


CHECKPOINTS: list[tuple[str, Callable[[Path], object]]] = [
    ("is not there", lambda job: None),
    ("holds no bytes", lambda job: (job / "checkpoint.bin").touch()),
    ("holds 9 bytes, more than 8", lambda job: (job / "checkpoint.bin").write_bytes(b"x" * 9)),
    ("cannot be opened", link),
    ("is a link", folder),
]


@pytest.mark.parametrize(("told", "work"), CHECKPOINTS, ids=[t for t, _ in CHECKPOINTS])
def test_a_checkpoint_that_is_none(tmp_path: Path, told: str, work: Callable[[Path], object]) -> None:
    result = failed(run(tmp_path, trainer=InProcess(work), max_checkpoint_bytes=8))
    assert result.stage == "checkpoint"
    assert told in result.reason


def weights(job: Path) -> None:
    (job / "checkpoint" / "part").mkdir(parents=True)
    (job / "checkpoint" / "part" / "b.safetensors").write_bytes(b"b")
    (job / "checkpoint" / "a.json").write_bytes(b"{}")


def test_a_checkpoint_may_be_a_folder(tmp_path: Path) -> None:
    one, two = (made(tmp_path / n, trainer=InProcess(weights), checkpoint="directory") for n in "ab")
    receipts = [read_document(TrainingReceipt, j / "receipt.json") for j in (one, two)]
    assert receipts[0].checkpoint == receipts[1].checkpoint
    assert receipts[0].checkpoint.artifact_bytes == 3
    assert (one / "checkpoint" / "part" / "b.safetensors").stat().st_mode & 0o777 == 0o400
    (one / "checkpoint" / "a.json").rename(one / "checkpoint" / "c.json")
    bad = verify_job(one)
    assert bad.filter(~bad["ok"])["document"].to_list() == ["checkpoint"]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"dataset_digest": sha("other")}, "dataset_digest_mismatch"),
        ({"rows": [row("t1"), row("t1", "validation")]}, "partition_overlap_name"),
    ],
)
def test_a_dataset_that_is_refused(tmp_path: Path, given: dict[str, Any], told: str) -> None:
    rows = given.pop("rows", ())
    result = failed(run(tmp_path, dataset=dataset(tmp_path, *rows), **given))
    assert result.stage == "dataset"
    assert told in result.reason


def test_a_dataset_that_is_a_link(tmp_path: Path) -> None:
    (tmp_path / "link.json").symlink_to(dataset(tmp_path))
    result = failed(run(tmp_path, dataset=tmp_path / "link.json"))
    assert (result.stage, "link.json" in result.reason) == ("dataset", True)


def test_a_receipt_that_is_there_already(tmp_path: Path) -> None:
    def work(job: Path) -> None:
        (job / "checkpoint.bin").write_bytes(WEIGHTS)
        (job / "receipt.json").write_text("{}")
        (job / "profile.json").write_text("{}")

    result = failed(run(tmp_path, trainer=InProcess(work)))
    assert (result.stage, "receipt.json" in result.reason) == ("persistence", True)
    assert "profile.json" not in names(result.output_directory)
    assert failed(resume_training(Path(str(result.output_directory)))).stage == "persistence"


def test_a_checkpoint_that_was_changed_before_it_is_taken_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(stages, "FUNCTIONS", {**stages.FUNCTIONS, "serving": stopped})
        job = Path(str(failed(run(tmp_path)).output_directory))
    (job / "checkpoint.bin").chmod(0o600)
    (job / "checkpoint.bin").write_bytes(b"others")
    result = failed(resume_training(job))
    assert result.stage == "checkpoint"
    assert "checkpoint was changed" in result.reason


@pytest.mark.parametrize("name", ["dataset.json", "parent-profile.json", "run.json"])
def test_an_input_that_was_changed_before_it_is_taken_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(stages, "FUNCTIONS", {**stages.FUNCTIONS, "serving": stopped})
        job = Path(str(failed(run(tmp_path)).output_directory))
    (job / name).chmod(0o600)
    (job / name).write_bytes(
        (job / name).read_bytes().replace(b"loop", b"hoop").replace(b"t1", b"t9").replace(b"64", b"65")
    )
    try:
        told = failed(resume_training(job)).reason
    except ExpcompError as error:
        told = str(error)
    assert name in told


def test_one_job_one_process(tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stages, "FUNCTIONS", {**stages.FUNCTIONS, "serving": stopped})
        job = Path(str(failed(run(tmp_path)).output_directory))
    held = Journal(job)
    with pytest.raises(OutputError, match="another process"):
        resume_training(job)
    held.close()
    assert isinstance(resume_training(job), TrainingSuccess)


def test_what_a_trainer_measured_is_outside_of_the_digest(tmp_path: Path) -> None:
    def work(data: bytes) -> Callable[[Path], object]:
        def do(job: Path) -> None:
            (job / "checkpoint.bin").write_bytes(WEIGHTS)
            (job / "observations.json").write_bytes(data)

        return do

    jobs = [
        made(tmp_path / str(n), trainer=InProcess(work(data), {"exitCode": 0}))
        for n, data in enumerate(
            [b'{"loss":0.5}', b"no json", b"[1]", b'{"api_key":"x"}', b'{"n":9007199254740993}', b'{"costNanos":-1}']
        )
    ]
    receipts = [read_document(TrainingReceipt, job / "receipt.json") for job in jobs]
    assert len({document_digest(r) for r in receipts}) == 1
    seen: list[Any] = [r.observations for r in receipts]
    assert (seen[0]["trainer"], seen[0]["exitCode"]) == ({"loss": 0.5}, 0)
    assert [s["trainerRefused"][:7] for s in seen[2:4]] == ["no JSON", "api_key"]
    assert [("trainerRefused" in s, s["costNanos"]) for s in seen] == [
        (False, None),
        *[(True, None)] * 4,
        (False, None),
    ]
    assert {(s["seed"], s["hardware"], s["versions"]) for s in seen} == {(None, None, None)}, (
        "a managed trainer is elsewhere"
    )


def test_private_parameters_are_refused_before_anything_is_made(tmp_path: Path) -> None:
    result = failed(run(tmp_path, parameters={"api_key": "x"}))
    assert (result.stage, result.output_directory) == ("admission", None)
    assert "parameters_not_public" in result.reason


def test_foreign_code_that_raises_anything_is_a_failure(tmp_path: Path) -> None:
    result = failed(run(tmp_path, trainer=InProcess(lambda _: 1 // 0)))
    assert (result.stage, result.training_may_exist) == ("training", True)
    assert "ZeroDivisionError" in result.reason
    serving: Any = SimpleNamespace(publish=None)
    result = failed(run(tmp_path, serving=serving))
    assert (result.stage, result.serving_may_exist) == ("serving", True)


def test_resuming_what_is_no_job(tmp_path: Path) -> None:
    with pytest.raises(ExpcompError, match="journal_missing"):
        resume_training(tmp_path, Ports())


def test_options_of_a_run_are_ports_too(tmp_path: Path) -> None:
    assert isinstance(options(tmp_path), Ports)
