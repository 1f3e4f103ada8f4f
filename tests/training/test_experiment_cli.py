"""`expcomp experiment`: sealed in one step, its cells told, its receipts held to them."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner, Result

from expcomp.cli.main import app
from expcomp.errors import ExpcompError
from expcomp.io.canon import dumps
from expcomp.training.documents import document_bytes, to_wire
from expcomp.training.verdict_files import read_experiment
from tests.training.made import sha
from tests.training.measured import BASELINE, CANDIDATE, all_receipts, changed


def call(*args: object) -> Result:
    return CliRunner().invoke(app, ["experiment", *map(str, args)])


@pytest.fixture
def given(tmp_path: Path) -> list[object]:
    """What `seal` is told."""
    tasks = {"benchmark": "garden", "task": ["a", "b", "c"], "content_digest": [sha(t) for t in "abc"]}
    pl.DataFrame(tasks).write_parquet(tmp_path / "heldout.parquet")
    (tmp_path / "old.json").write_bytes(document_bytes(BASELINE))
    (tmp_path / "new.json").write_bytes(document_bytes(CANDIDATE))
    (tmp_path / "grade.py").write_text("score = 1.0\n")
    return [
        "seal", tmp_path / "heldout.parquet", "--baseline", tmp_path / "old.json", "--candidate", tmp_path / "new.json",
        "--grader", f"tests={tmp_path / 'grade.py'}", "--execution-ref", sha("execution"), "--run", "job", "--limit", "steps=30",
        "--repetitions", 2, "--out", tmp_path / "sealed",
    ]  # fmt: skip


def test_seal_cells_verify(given: list[object], tmp_path: Path) -> None:
    result = call(*given, "--json")
    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)
    assert (told["tasks"], told["runs"]) == (3, 12)
    sealed = tmp_path / "sealed"
    experiment, benchmark = read_experiment(sealed / "experiment.json", sealed / "benchmark.json")
    assert told["experiment"] == experiment.digest
    assert benchmark.tasks[0].limits == {"steps": 30}
    assert experiment.lineage.runs == ("job",)
    lines = json.loads(call("cells", sealed, "--json").stdout)
    assert len(lines) == pl.read_parquet(sealed / "cells.parquet").height == 12
    assert call("cells", sealed, "--csv").stdout.splitlines()[0].startswith("arm,")
    # The receipts of the tests name their own grader.
    receipts = [r for r in all_receipts(experiment, benchmark) if r.cell.arm == "baseline"]
    file = tmp_path / "receipts.jsonl"
    file.write_bytes(b"".join(dumps(to_wire(r)) + b"\n" for r in receipts))
    result = call("verify", sealed, "--receipts", file, "--json")
    assert result.exit_code == 1
    file.write_bytes(file.read_bytes()[:-1])
    assert call("verify", sealed, "--receipts", file, "--json").stdout == result.stdout
    codes = [line["code"] for line in json.loads(result.stdout)]
    assert codes == ["receipt_missing"] * 6 + ["receipt_other_grader"] * 6
    assert "receipt_missing" in call("verify", sealed, "--receipts", file).stdout
    file.write_bytes(file.read_bytes()[:-1])
    assert "line 6" in str(call("verify", sealed, "--receipts", file).exception)


def test_a_seal_is_not_replaced_and_not_changed(given: list[object], tmp_path: Path) -> None:
    assert call(*given).exit_code == 0
    again = call(*given)
    assert isinstance(again.exception, ExpcompError)
    assert "exists" in str(again.exception)
    changed(tmp_path / "sealed" / "benchmark.json", lambda b: b["tasks"][0].update(model="another"))
    result = call("cells", tmp_path / "sealed")
    assert isinstance(result.exception, ExpcompError)
    assert (result.exception.exit_code, "benchmark.json" in str(result.exception)) == (1, True)


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        ("--grader", "tests", "NAME=FILE"),
        ("--limit", "steps=many", "NAME=NUMBER"),
        ("--limit", "steps=²", "NAME=NUMBER"),
        ("--limit", "=3", "NAME=NUMBER"),
        ("--candidate", "old.json", "lineage_untrained"),
    ],
)
def test_what_cannot_be_sealed_is_refused(given: list[object], tmp_path: Path, old: str, new: str, named: str) -> None:
    given[given.index(old) + 1] = tmp_path / new if new.endswith(".json") else new
    result = call(*given)
    assert isinstance(result.exception, ExpcompError)
    assert named in str(result.exception)
    assert not (tmp_path / "sealed").exists()
