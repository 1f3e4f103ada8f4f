"""The held-out guard inside a run: what it refuses, what it tells whom, and what it leaves behind."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from expcomp.errors import ConfigError
from expcomp.training.documents import read_document
from expcomp.training.exposure import ExposureIndex
from expcomp.training.guard import ExposureReport, GuardPolicy
from expcomp.training.profile import Profile
from expcomp.training.run.admitting import HeldOut
from expcomp.training.run.journal import read_journal
from expcomp.training.run.machine import resume_training
from expcomp.training.run.results import TrainingSuccess
from expcomp.training.run.spec import read_run
from expcomp.training.run.verify import verify_job
from tests.training.made import ancestry, profile, row, sha
from tests.training.run.jobs import InProcess, dataset, failed, names, run
from tests.training.run.test_cli import call, spec, told

SECRET = "held-out-task-9"


def held(folder: Path, *tasks: dict[str, str], name: str = "heldout.jsonl") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    if path.suffix == ".parquet":
        pl.DataFrame(list(tasks)).write_parquet(path)
    else:
        path.write_text("".join(json.dumps(t) + "\n" for t in tasks))
    return path


BY_CONTENT = {"benchmark": "other", "task": SECRET, "content_digest": sha("t1")}
BY_NAME = {"benchmark": "bench", "task": "t2", "content_digest": sha(SECRET)}
OF_ANCESTOR = {"benchmark": "other", "task": SECRET, "content_digest": sha("grandparent")}
NEW = {"benchmark": "bench", "task": SECRET, "content_digest": sha(SECRET)}


@pytest.mark.parametrize(
    ("task", "counts"),
    [(BY_CONTENT, (1, 0)), (BY_NAME, (0, 1)), (OF_ANCESTOR, (1, 0))],
    ids=["content", "name of a validation row", "ancestor"],
)
@pytest.mark.parametrize("name", ["heldout.jsonl", "inventory.parquet"])
def test_a_run_on_held_out_tasks_is_refused_before_anything_is_trained(
    tmp_path: Path, task: dict[str, str], counts: tuple[int, int], name: str
) -> None:
    trainer = InProcess()
    parent = profile(ancestry("grandparent", "parent"))
    result = failed(run(tmp_path, parent, trainer=trainer, heldout=HeldOut(sources=[held(tmp_path, task, name=name)])))
    assert (result.stage, result.resumable, trainer.requests) == ("admission", False, [])
    assert isinstance(result.exposure, ExposureReport)
    assert (result.exposure.found.content, result.exposure.found.name) == counts
    job = Path(str(result.output_directory))
    assert names(job) == ["exposed-tasks.parquet", "exposure.json", "journal.jsonl", "run.json"]
    assert read_document(ExposureReport, job / "exposure.json") == result.exposure
    assert (job / "exposed-tasks.parquet").stat().st_mode & 0o777 == 0o600
    assert pl.read_parquet(job / "exposed-tasks.parquet")["heldout_task"].to_list() == [task["task"]]
    public = [f for f in job.iterdir() if f.name != "exposed-tasks.parquet"]
    assert [f.name for f in public if SECRET.encode() in f.read_bytes()] == []
    assert task["task"] not in result.reason


def test_a_clean_run_says_so_in_its_job(tmp_path: Path) -> None:
    result = run(tmp_path, heldout=HeldOut(sources=[held(tmp_path, NEW)]))
    assert isinstance(result, TrainingSuccess)
    job = Path(result.output_directory)
    report = read_document(ExposureReport, job / "exposure.json")
    assert (report.verdict, report.tasks_seen, report.heldout_tasks) == ("clear", 2, 1)
    assert read_journal(job)[0].facts["exposureVerdict"] == "clear"
    assert "exposed-tasks.parquet" not in names(job)
    assert False not in verify_job(job)["ok"].to_list()
    (job / "exposure.json").chmod(0o600)
    (job / "exposure.json").write_bytes(
        (job / "exposure.json").read_bytes().replace(b'"tasksSeen":2', b'"tasksSeen":9')
    )
    checks = verify_job(job)
    assert checks.filter(~checks["ok"].fill_null(value=True))["document"].to_list() == ["exposure.json"]


def test_a_new_rendering_may_be_a_warning(tmp_path: Path) -> None:
    given = HeldOut(sources=[held(tmp_path, BY_NAME)], policy=GuardPolicy(name="warning"))
    result = run(tmp_path, heldout=given)
    assert isinstance(result, TrainingSuccess)
    job = Path(result.output_directory)
    assert read_document(ExposureReport, job / "exposure.json").verdict == "warning"
    assert "exposed-tasks.parquet" not in names(job)  # the trainer ran beside it


def test_text_of_a_held_out_task_in_a_row(tmp_path: Path) -> None:
    prompt = "Count the seed packets on the shelf of the fern house and write their number down twice."
    one = row("t1")
    one["data"]["messages"][0]["content"] = f"Please do this: {prompt}"
    file = held(tmp_path, {"task": "x", "prompt": prompt})
    data = dataset(tmp_path, one, row("t2", "validation"))
    assert isinstance(run(tmp_path, dataset=data, heldout=HeldOut(sources=[file])), TrainingSuccess)
    result = failed(run(tmp_path, dataset=data, heldout=HeldOut(sources=[file], level="near")))
    assert isinstance(result.exposure, ExposureReport)
    assert result.exposure.found.near == 1


def test_another_lineage_may_be_what_is_held_out(tmp_path: Path) -> None:
    index = tmp_path / "exposure.parquet"
    ExposureIndex.of_profile(profile(ancestry("t1"))).write(index)
    assert failed(run(tmp_path, heldout=HeldOut(sources=[index]))).stage == "admission"


def test_a_run_that_was_admitted_is_taken_up_without_the_held_out_set(tmp_path: Path) -> None:
    file = held(tmp_path, NEW)

    class Down:
        def publish(self, *_: Any) -> Any:
            raise OSError("nobody there")

    result = failed(run(tmp_path, serving=Down(), heldout=HeldOut(sources=[file])))
    assert (result.stage, isinstance(result.exposure, ExposureReport)) == ("serving", True)
    file.unlink()
    assert isinstance(resume_training(Path(str(result.output_directory))), TrainingSuccess)


TOP = '[heldout]\nsources = ["heldout.jsonl"]\n'


def test_the_command_line_prints_counts_and_ends_with_1(tmp_path: Path) -> None:
    held(tmp_path, BY_CONTENT)
    path = spec(tmp_path, top=TOP)
    shown = told("run", path, code=1)
    assert (shown["stage"], shown["exposure"]["errors"]) == ("admission", 1)
    result = call("run", path)
    assert (result.exit_code, SECRET in result.stdout) == (1, False)
    assert "Held-out tasks found: 1" in result.stdout
    held(tmp_path, NEW)
    job = Path(told("run", path)["outputDirectory"])
    assert read_document(Profile, job / "profile.json").training is not None


@pytest.mark.parametrize(
    ("top", "named"),
    [
        (TOP.replace("heldout.jsonl", ""), "sources"),
        ("[heldout]\nsources = []\n", "sources"),
        (f'{TOP}level = "fuzzy"\n', "level"),
        (f"{TOP}tasks = 1\n", "tasks"),
    ],
)
def test_a_held_out_set_that_cannot_be_used_is_refused_by_field(tmp_path: Path, top: str, named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        read_run(spec(tmp_path, top=top))


def test_a_held_out_file_that_is_not_there(tmp_path: Path) -> None:
    result = failed(run(tmp_path, heldout=HeldOut(sources=[tmp_path / "none.jsonl"])))
    assert (result.stage, "none.jsonl" in result.reason) == ("admission", True)
