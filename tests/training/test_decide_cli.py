"""`expcomp decide`: what it takes, how it ends, and that nothing that was tampered with passes, each refused by its name."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from typer.testing import CliRunner, Result

from expcomp.cli.main import app
from expcomp.errors import ExpcompError
from expcomp.ledger.archive import Filter
from expcomp.ledger.store import Ledger
from expcomp.training.costs import CostLedger
from expcomp.training.documents import document_bytes, read_document
from expcomp.training.profile import Profile
from tests.ledger.attempts import many
from tests.training.made import ancestry, profile, row, sha, write
from tests.training.measured import CANDIDATE, all_receipts, changed, experiment, trials, write_sealed
from tests.training.run.jobs import dataset, made

POLICY = "resamples = 200\n"


def call(*args: object) -> Result:
    return CliRunner().invoke(app, ["decide", *map(str, args)])


def refused(*args: object) -> ExpcompError:
    result = call(*args)
    assert isinstance(result.exception, ExpcompError), result.output
    return result.exception


@pytest.fixture
def given(tmp_path: Path) -> list[object]:
    """Runs, policy and arms."""
    trials(0.2).write_parquet(tmp_path / "trials.parquet")
    (tmp_path / "policy.toml").write_text(POLICY)
    return [tmp_path / "trials.parquet", "-b", "plain", "-c", "tuned", "--policy", tmp_path / "policy.toml"]


def test_ship_is_0_and_every_figure_is_there(given: list[object], tmp_path: Path) -> None:
    args = (*given, "--untrained", "--preparation-usd", 1)
    result = call(*args, "--out", tmp_path / "decided")
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("ship\n")
    told = json.loads(call(*args, "--json").stdout)
    assert told["decision"]["outcome"] == "ship"
    assert (told["exposure"]["receipts"], told["exposure"]["heldoutTasks"]) == (0, 24)
    assert told["comparison"]["accounting"]["preparationNanos"] == 1_000_000_000
    assert sorted(f.name for f in (tmp_path / "decided").iterdir()) == [
        "comparison.json",
        "decision.json",
        "exposure.json",
        "policy.json",
    ]
    assert call("--check", tmp_path / "decided").exit_code == 0
    assert "exists" in str(refused(*args, "--out", tmp_path / "decided"))


def test_two_runs_write_the_same_bytes(given: list[object], tmp_path: Path) -> None:
    for name in "ab":
        call(*given, "--untrained", "--preparation-usd", 1, "--out", tmp_path / name)
    one, two = ({f.name: f.read_bytes() for f in (tmp_path / n).iterdir()} for n in "ab")
    assert one == two


def test_hold_is_1_with_its_reasons(given: list[object]) -> None:
    result = call(*given, "--untrained")
    assert result.exit_code == 1
    assert result.stdout.startswith("hold\n  cost_accounting_incomplete: ")
    assert call(*given, "--untrained", "--quiet").stdout == ""


def test_two_files_of_trials_the_baseline_first(tmp_path: Path, given: list[object]) -> None:
    for arm in ("plain", "tuned"):
        trials(0.2).filter(arm=arm).drop("arm").write_csv(tmp_path / f"{arm}.csv")
    files = (tmp_path / "plain.csv", tmp_path / "tuned.csv")
    more = ("--untrained", "--preparation-usd", 0, "--policy", tmp_path / "policy.toml", "--json")
    told = json.loads(call(*files, *more).stdout)
    assert told["decision"]["outcome"] == "ship"
    assert json.loads(call(*reversed(files), *more).stdout)["decision"]["outcome"] == "hold"
    assert "holds 2 arms" in str(refused(given[0], tmp_path / "tuned.csv", *more))


def test_a_profile_that_was_trained_on_the_tasks_of_the_runs(given: list[object], tmp_path: Path) -> None:
    path = tmp_path / "profile.json"
    path.write_bytes(document_bytes(CANDIDATE))
    told = call(*given, "--profile", path, "--preparation-usd", 0)
    assert told.stdout.startswith("ship")
    frame = trials(0.2).with_columns(
        benchmark=pl.when(pl.col("task") == "t00").then(pl.lit("bench")).otherwise("benchmark"),
        task=pl.col("task").replace("t00", "one"),
    )
    frame.write_parquet(str(given[0]))
    result = call(*given, "--profile", path, "--preparation-usd", 0)
    assert (result.exit_code, "held_out_exposure" in result.stdout) == (1, True)
    (tmp_path / "receipt.json").write_bytes(document_bytes(CANDIDATE.training.receipt))  # type: ignore[union-attr]
    assert "held_out_exposure" in call(*given, "--receipt", tmp_path / "receipt.json").stdout
    # A set that is named is looked for beside the tasks of the runs, not in their place.
    part = write(tmp_path / "heldout.jsonl", json.dumps({"task": "t01", "benchmark": "garden"}))
    result = call(*given, "--profile", path, "--heldout", part, "--preparation-usd", 0)
    assert "held_out_exposure" in result.stdout
    assert "24 held-out tasks, refused" in result.stdout
    other = write(tmp_path / "other.jsonl", json.dumps({"task": "new", "benchmark": "garden"}))
    error = refused(*given, "--profile", path, "--heldout", other)
    assert (error.exit_code, "holds none of the 24 tasks" in str(error)) == (2, True)


def test_a_report_of_the_guard(given: list[object], tmp_path: Path) -> None:
    path, report = tmp_path / "profile.json", tmp_path / "report.json"
    path.write_bytes(document_bytes(CANDIDATE))
    for tasks, fine in ((24, True), (23, False)):
        held = write(tmp_path / "h.jsonl", "".join(json.dumps({"task": f"t{n:02}"}) + "\n" for n in range(tasks)))
        shown = CliRunner().invoke(app, ["exposure", "check", "--profile", str(path), "--heldout", str(held), "--json"])
        report.write_text(shown.stdout)
        args = (*given, "--exposure", report, "--preparation-usd", 0)
        if fine:
            assert call(*args).exit_code == 0
        else:
            assert "asked about 23 tasks" in str(refused(*args))


def test_runs_in_the_archive_are_told(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "l", create=True)
    ledger.add(many(40))
    ledger.archive(Filter(benchmark="bench", cases=("case-3",)), reason="a bad case")
    told = call(tmp_path / "l", "-b", "control", "-c", "new", "--untrained").stdout
    assert "  archive: 4 runs are left out; 1 task has no other\n" in told


def test_trials_of_another_model_than_was_trained(given: list[object], tmp_path: Path) -> None:
    (tmp_path / "profile.json").write_bytes(document_bytes(CANDIDATE))
    for model, fine in (
        (CANDIDATE.model.default, True),
        ("served/by-another-name", True),
        (f"local/{'0' * 64}", False),
    ):
        trials(0.2, model=pl.lit(model)).write_parquet(str(given[0]))
        args = (*given, "--profile", tmp_path / "profile.json", "--preparation-usd", 0)
        if fine:
            assert call(*args).exit_code == 0
        else:
            assert "trials_of_other_model" in str(refused(*args))


def test_a_cost_ledger(given: list[object], tmp_path: Path) -> None:
    with CostLedger(tmp_path / "costs.jsonl", ceiling_nanos=100) as ledger:
        ledger.admit("train", channel="other", model="trl", phase="preparation", maximum_nanos=100)
        ledger.settle("train", cost_nanos=100)
    assert call(*given, "--untrained", "--costs", tmp_path / "costs.jsonl").exit_code == 0
    (tmp_path / "costs.jsonl").write_bytes(b"{}\n")
    assert refused(*given, "--untrained", "--costs", tmp_path / "costs.jsonl").exit_code == 3


@pytest.mark.parametrize(
    ("args", "named", "code"),
    [
        ((), "nothing says what the candidate was trained on", 2),
        (("--untrained", "--profile", "p.json"), "--profile and --untrained", 2),
        (("--untrained", "--receipt", "r.json"), "--untrained and --receipt", 2),
        (("--receipt", "a.json", "--receipt", "b.json"), "several --receipt", 2),
        (("--untrained", "--benchmark", "b.json"), "a sealed experiment is", 2),
        (("--untrained", "-c", "none"), "none", 2),
        (("--profile", "none.json"), "none.json", 3),
        (("--untrained", "--costs", "none.jsonl"), "none.jsonl", 3),
        (("--untrained", "--policy", "none.toml"), "none.toml", 2),
    ],
)
def test_what_cannot_be_used_is_refused(given: list[object], args: tuple[str, ...], named: str, code: int) -> None:
    error = refused(*given, *args)
    assert (error.exit_code, named in str(error)) == (code, True), error


SMALL = {"tasks": 20, "repetitions": 1}
E, B = experiment(**SMALL)


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A job of the second generation, and the sealed experiment about what it made."""
    folder = tmp_path_factory.mktemp("measured")
    rows = dataset(folder, *(row(f"r{n}") for n in range(3)))
    made(folder, profile(ancestry("parent")), dataset=rows)
    (job,) = (folder / "runs").iterdir()
    of, benchmark = experiment(candidate=read_document(Profile, job / "profile.json"), **SMALL)
    write_sealed(folder, all_receipts(of, benchmark), of, benchmark)
    job.rename(folder / "job")
    return folder


@pytest.fixture
def folder(tmp_path: Path, measured: Path) -> Path:
    return Path(shutil.copytree(measured, tmp_path / "measured"))


def options(folder: Path) -> list[object]:
    files = {"experiment": "experiment.json", "benchmark": "benchmark.json", "receipts": "receipts.jsonl", "job": "job"}
    return [*(part for name, file in files.items() for part in (f"--{name}", folder / file)), "--preparation-usd", 0]


def test_a_sealed_experiment_with_the_job_of_its_candidate(folder: Path) -> None:
    result = call(*options(folder), "--json")
    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)
    assert (told["decision"]["outcome"], told["findings"]) == ("ship", [])
    assert (told["exposure"]["receipts"], told["exposure"]["heldoutTasks"]) == (2, 20)
    assert refused(*options(folder), "--policy", folder / "x.toml").exit_code == 2
    (folder / "receipts.jsonl").write_bytes(b"\n".join((folder / "receipts.jsonl").read_bytes().split(b"\n")[1:]))
    result = call(*options(folder))
    assert (result.exit_code, "receipt_missing" in result.stdout) == (1, True)


def _bytes(name: str, old: bytes, new: bytes) -> Callable[[Path], None]:
    def edit(folder: Path) -> None:
        path = folder / name
        path.chmod(0o600)
        data = path.read_bytes()
        assert old in data
        path.write_bytes(data.replace(old, new, 1))

    return edit


def _wire(name: str, edit: Callable[[Any], Any]) -> Callable[[Path], None]:
    return lambda folder: changed(folder / name, edit)


def _ancestor(wire: Any) -> None:
    wire["metadata"]["training"]["ancestors"][0]["dataset"]["digest"] = sha("clean")


TAMPERED: dict[str, tuple[Callable[[Path], None], str]] = {
    "dataset": (_bytes("job/dataset.json", b"Twelve", b"Eleven"), "job/dataset.json"),
    "checkpoint": (_bytes("job/checkpoint.bin", b"weights", b"wEights"), "job/checkpoint.bin"),
    "training receipt": (
        _wire("job/receipt.json", lambda r: r["dataset"].update(digest=sha("clean"))),
        "job/receipt.json",
    ),
    "ancestor": (_wire("job/profile.json", _ancestor), "job/profile.json"),
    "benchmark": (_wire("benchmark.json", lambda b: b["tasks"][0]["scenario"].update(id="easier")), "benchmark.json"),
    "another benchmark": (
        lambda folder: (folder / "benchmark.json").write_bytes(document_bytes(experiment(tasks=5)[1])) and None,
        "benchmark.json",
    ),
    "experiment": (_wire("experiment.json", lambda e: e["policy"].update(minimumLift=0.01)), "experiment.json"),
    "run receipt": (_wire("receipts.jsonl", lambda r: r["grading"].update(score=1.0)), "receipts.jsonl, line 1"),
    "another candidate": (
        lambda folder: write_sealed(folder, all_receipts(E, B), E, B) and None,
        "candidate profile",
    ),
}


@pytest.mark.parametrize(("edit", "named"), TAMPERED.values(), ids=TAMPERED.keys())
def test_what_was_tampered_with_is_refused_by_name(folder: Path, edit: Callable[[Path], None], named: str) -> None:
    edit(folder)
    error = refused(*options(folder))
    assert error.exit_code == 1, error
    assert str(error).removeprefix(f"{folder}/").startswith(named), error


@pytest.mark.parametrize("name", [n for n in TAMPERED if TAMPERED[n][1].startswith("job/")])
def test_the_same_is_refused_by_train_verify(folder: Path, name: str) -> None:
    edit, named = TAMPERED[name]
    edit(folder)
    result = CliRunner().invoke(app, ["train", "verify", str(folder / "job")])
    assert result.exit_code == 1
    assert any(line.startswith(named.removeprefix("job/")) for line in result.stdout.splitlines())


@pytest.mark.parametrize(
    ("name", "edit"),
    [
        ("comparison.json", lambda c: c["score"].update(pValue=0.5)),
        ("exposure.json", lambda e: e.update(heldoutTasks=99)),
        ("policy.json", lambda p: p.update(minimumLift=0.5)),
        ("decision.json", lambda d: d.update(low=0.9)),
    ],
)
def test_a_folder_of_a_decision_is_checked_in_full(
    given: list[object], tmp_path: Path, name: str, edit: Callable[[Any], Any]
) -> None:
    call(*given, "--untrained", "--preparation-usd", 1, "--out", tmp_path / "decided")
    changed(tmp_path / "decided" / name, edit)
    error = refused("--check", tmp_path / "decided")
    assert error.exit_code == 1
    assert name.partition(".")[0] in str(error)
