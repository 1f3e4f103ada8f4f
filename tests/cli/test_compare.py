"""`compare`, `gap` and `power` on the command line: what they print, and their exit codes."""

from __future__ import annotations

import csv
import json
from types import SimpleNamespace

import polars as pl
import pytest
from typer.testing import CliRunner

import expcomp as xc
from expcomp.cli.main import app
from expcomp.errors import ExpcompError
from tests.comparing.frames import noisy, singles
from tests.helpers import compile_cli

RUNNER = CliRunner()


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "trials.parquet"
    singles(20, 2, 15, 10).with_columns(domain=pl.when(pl.col("task") < "t020").then(pl.lit("x"))).write_parquet(path)
    return path


def run(*args, code=0):
    """In this process: a new one for each call spends its time on imports."""
    done = RUNNER.invoke(app, [str(a) for a in args])
    refused = done.exception if isinstance(done.exception, ExpcompError) else None
    assert (refused.exit_code if refused else done.exit_code) == code, (done.output, done.exception)
    return SimpleNamespace(stdout=done.stdout, stderr=str(refused))


def test_compare_prints_the_decision_and_what_it_hangs_on(file):
    out = run("compare", file, "-b", "a", "-t", "b", "--slice", "domain", "--margin", "0.05").stdout
    assert out.startswith("b vs a: -0.277 [")
    assert "47 tasks, regressed" in out
    assert "not shown to be non-inferior at margin 0.05" in out
    assert "2 of 2 slices" in out


def test_a_process_of_its_own_ends_with_the_same_code_and_words(file):
    done = compile_cli("compare", file, "-b", "a", "-t", "b", "--fail-on", "regressed")
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout == run("compare", file, "-b", "a", "-t", "b").stdout


def test_json_holds_the_comparison(file):
    told = json.loads(run("compare", file, "-b", "a", "-t", "b", "--json").stdout)
    found = xc.compare(pl.read_parquet(file), "a", "b")
    assert [c["treatment"] for c in told] == ["b"]
    assert (told[0]["low"], told[0]["high"], told[0]["p_value"]) == (found.low, found.high, found.p_value)
    assert len(told[0]["table"]) == 47
    assert told[0]["table"][0]["task"] == "t000"


def test_csv_holds_the_tasks(file):
    rows = list(csv.DictReader(run("compare", file, "-b", "a", "-t", "b", "--csv").stdout.splitlines()))
    assert len(rows) == 47
    assert {r["treatment"] for r in rows} == {"b"}


@pytest.mark.parametrize(("word", "code"), [("regressed", 1), ("not_improved", 1), ("need_more_data", 0), ("guard", 0)])
def test_a_gate_sets_the_exit_code(file, word, code):
    assert run("compare", file, "-b", "a", "-t", "b", "--fail-on", word, "--quiet", code=code).stdout == ""


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("-b", "a", "-t", "c"), "there is no arm or role 'c'"),
        (("-b", "a", "-t", "b", "--fail-on", "worse"), "--fail-on worse: expected one of regressed"),
        (("-b", "a", "-t", "b", "--guard", "tokens=few"), "--guard tokens=few: expected NAME=INCREASE"),
        (("-b", "a", "-t", "b", "--missing", "zero"), "missing is 'zero'"),
        (("-b", "a", "-t", "b", "--json", "--csv"), "--json and --csv exclude each other"),
    ],
)
def test_a_wrong_call_says_what_to_do(file, args, words):
    assert words in run("compare", file, *args, code=2).stderr


def test_a_file_of_trials_is_taken_alone(file, tmp_path):
    assert (
        "is a file of trials and is taken alone" in run("compare", file, tmp_path, "-b", "a", "-t", "b", code=2).stderr
    )


def test_gap_and_power(tmp_path):
    path = tmp_path / "trials.csv"
    noisy(30, 4, 0.2).write_csv(path)
    out = run("gap", path, "--weak", "a", "--strong", "b", "-n", "3").stdout
    assert "over 30 of 30 tasks" in out
    assert "3 of 30 tasks, largest gap first" in out
    told = json.loads(run("gap", path, "--json").stdout)
    assert (told["weak"], len(told["frame"])) == (None, 30)
    assert len(run("gap", path, "--csv").stdout.splitlines()) == 31
    plan = json.loads(run("power", path, "-b", "a", "-t", "b", "--delta", "0.1", "--tasks", "60", "--json").stdout)
    assert [r["tasks"] for r in plan["mde"]] == [60] * 5
    assert len(plan["needed"]) == 5
    assert "tasks for a difference of 0.1" in run("power", path, "-b", "a", "-t", "b", "--delta", "0.1").stdout


def test_compare_reads_traces_and_ledgers(tmp_path):
    rows = [
        {
            "messages": [{"role": "user", "content": "add"}, {"role": "assistant", "content": "2"}],
            "task_id": f"t{t}",
            "arm": arm,
        }
        for arm in "ab"
        for t in range(3)
    ]
    path = tmp_path / "chat.jsonl"
    path.write_text("".join(json.dumps(r) + "\n" for r in rows), "utf-8")
    ledger = xc.Ledger(tmp_path / "ledger", create=True)
    ledger.add(xc.read_traces(path, arm="arm", task_id="task_id"))
    told = json.loads(run("compare", tmp_path / "ledger", "-b", "a", "-t", "b", "--json").stdout)[0]
    assert (told["n_units"], told["decision"]) == (0, "need_more_data")
    assert len(told["table"]) == 3
