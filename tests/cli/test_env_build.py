"""`expcomp env build` and `env evaluate`: exit codes, what is printed, a walk through what was built."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from tests.cli.test_env import run, said
from tests.environments.test_build import ALL, states, write

BUILD = ("build", "ledger", "--env-id", "ledger")


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("env-build")
    write(folder / "ledger", ALL)
    records = [{"episode": e, "state": json.loads(s)} for e, s in states(ALL).rows()]
    (folder / "states.jsonl").write_text("".join(json.dumps(r) + "\n" for r in records), encoding="utf-8")
    done = run(folder, *BUILD, "--initial-states", "states.jsonl", "--out", "world")
    assert done.returncode == 0, done.stderr
    (folder / "told.txt").write_text(done.stdout, encoding="utf-8")
    return folder


def test_a_build_tells_its_headline_conditions_and_status(root: Path) -> None:
    lines = (root / "told.txt").read_text("utf-8").splitlines()
    assert lines[0].startswith("EnvironmentPackage(ledger, validated, ")
    assert lines[1].startswith("answers 100.0% of ")
    assert [x for x in lines if x.startswith("FAILS")] == []
    assert lines[-1] == "validated package in world"
    assert said(run(root, "verify", "world", "--json"))["ok"]


def test_a_candidate_is_published_with_exit_code_3(root: Path) -> None:
    done = run(root, *BUILD, "--holdout", "group:0", "--out", "candidate", "--json")
    told = json.loads(done.stdout)
    assert (done.returncode, told["status"]) == (3, "candidate")
    assert told["report"]["reasons"]
    assert run(root, "verify", "candidate").returncode == 0
    assert run(root, "play", "candidate", text="").returncode == 2
    shown = run(root, "evaluate", "candidate")
    assert (shown.returncode, shown.stdout) == (0, "evaluation: no turn of an unseen task\n")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--holdout", "episode:0.2"), "runs of one task on both sides"),
        (("--holdout", "group:some"), "'some' is no number"),
        (("--holdout", "group:1"), "expected a share"),
        (("--initial-states", "absent.json"), "absent.json"),
        (("--tools", "states.jsonl"), "absent"),
    ],
)
def test_bad_input_is_exit_code_2_and_leaves_nothing(root: Path, options: tuple[str, str], words: str) -> None:
    if options[0] == "--tools":
        (root / "tools.json").write_text('{"absent": 1}', encoding="utf-8")
        options, words = ("--tools", "tools.json"), "JSON array"
    done = run(root, *BUILD, *options, "--out", "never")
    assert (done.returncode, (root / "never").exists()) == (2, False)
    assert words in done.stderr


def test_what_is_there_is_not_replaced(root: Path) -> None:
    assert run(root, *BUILD, "--out", "world").returncode == 2
    assert run(root, "build", "absent", "--env-id", "x", "--out", "never").returncode == 2


def test_evaluate_tells_the_report_or_measures_other_traces(root: Path) -> None:
    stored = said(run(root, "evaluate", "world", "--json"))
    assert stored["headline"]["selective_exact"] == 1.0
    told = run(root, "evaluate", "world", "--out", "report").stdout.splitlines()
    assert told[0].startswith("answers 100.0% of ")
    assert told[-1] == "Wrote report: report.md, report.html, report.json, figures."
    assert (root / "report/report.md").read_text("utf-8").startswith("# Environment ledger\n")
    done = run(root, "evaluate", "world", "ledger")
    assert (done.returncode, done.stdout.startswith("leaky: ")) == (0, True)
    assert said(run(root, "evaluate", "world", "ledger", "--json"))["steps"] == stored["steps"]
    trained = pl.read_parquet(root / "world/tables/sources.parquet")["label"]
    assert run(root, "evaluate", "world", f"ledger/{trained[0]}").returncode == 1
    assert run(root, "evaluate", "world", "--gate", "0.5").returncode == 2


def test_a_held_out_case_is_played_to_its_end(root: Path) -> None:
    steps = pl.read_parquet(root / "world/validation/replay_steps.parquet")
    case = steps["case_id"][0]
    mine = steps.filter(pl.col("case_id") == case).sort("ordinal")
    text = "".join(f"{a} {g}\n" for a, g in mine.select("action_type", "arguments_json").rows())
    done = run(root, "play", "world", "--case", case, text=text)
    assert done.stdout.splitlines() == mine["expected_observation"].to_list()
    assert "there are" in run(root, "play", "world", "--case", "none", text="").stderr
    assert run(root, "play", "world", "--case", case, "--state", "states.jsonl", text="").returncode == 2
