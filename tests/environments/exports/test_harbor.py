"""Harbor tasks: the scripts of the task itself are run."""

from __future__ import annotations

import json
import os
import subprocess
import tomllib
from pathlib import Path

import pytest

from expcomp.environments.core import Score
from expcomp.environments.exports.case_lines import case_text
from expcomp.environments.exports.scoring import score_session
from expcomp.environments.folder import open_package, verify_package
from expcomp.environments.session import open_session
from expcomp.errors import PackageIntegrityError, UsageError
from tests.environments.exports.conftest import Export, Frames
from tests.helpers import RUN_CLI, environment


@pytest.fixture
def task(export: Export, tmp_path: Path) -> Path:
    export("harbor")
    return tmp_path / "out" / "c1"


def run(task: Path, tmp_path: Path, script: str, *arguments: str, given: str = "") -> str:
    """Run a script of a task with the folders of a container below `tmp_path`."""
    tools = tmp_path / "bin"
    tools.mkdir(exist_ok=True)
    (tools / "expcomp").write_text(f'#!/bin/sh\nexec "{RUN_CLI[0]}" {" ".join(RUN_CLI[1:])} "$@"\n')
    (tools / "world").write_text(f'#!/bin/sh\nexec sh "{task}/environment/world" "$@"\n')
    for tool in tools.iterdir():
        tool.chmod(0o755)
    places = {"WORLD": f"{task}/environment", "LOGS": f"{tmp_path}/logs", "SESSION": f"{tmp_path}/session"}
    env = environment() | places
    env["PATH"] = f"{tools}{os.pathsep}{env.get('PATH', os.defpath)}"
    done = subprocess.run(
        ["sh", f"{task}/{script}", *arguments],
        input=given,
        capture_output=True,
        text=True,
        env=env,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def reward(tmp_path: Path) -> float:
    return float((tmp_path / "logs" / "reward.txt").read_text())


def test_the_oracle_scores_one(task: Path, tmp_path: Path) -> None:
    told = run(task, tmp_path, "solution/solve.sh")
    assert told.splitlines()[-1] == "Insufficient funds. Balance: 80.0"
    run(task, tmp_path, "tests/test.sh")
    assert reward(tmp_path) == 1.0
    assert json.loads((tmp_path / "logs/score.json").read_text()) == {"reward": 1.0, "state": 1.0, "calls": 1.0}


def test_a_session_is_believed_for_its_calls_only(task: Path, two: Frames, tmp_path: Path) -> None:
    package, case = task / "environment/package", task / "tests/case.jsonl"
    assert score_session(package, case, tmp_path / "none") == Score(0.0, 0.0, 0.0)  # doing nothing scores nothing
    session = open_session(
        open_package(package), tmp_path / "s", start={"world": {"balance": 80.0}}, allow_unvalidated=True
    )
    session.step("balance")
    session.close()
    assert score_session(package, case, tmp_path / "s") == Score(0.0, 1 / 3, 0.0)  # it began with the wanted balance
    (tmp_path / "two.jsonl").write_text(case_text(*two))
    with pytest.raises(UsageError, match="2 cases; say which one"):
        score_session(package, tmp_path / "two.jsonl", tmp_path / "s")
    with pytest.raises(PackageIntegrityError, match="expected sha256:0"):
        score_session(package, case, tmp_path / "s", artifact_digest="sha256:0")


def test_an_agent_calls_one_action_at_a_time(task: Path, tmp_path: Path) -> None:
    assert run(task, tmp_path, "environment/world", "deposit", '{"amount":\n 5}') == "Deposited 5. Balance: 105.0\n"
    run(task, tmp_path, "tests/test.sh")
    assert reward(tmp_path) == 0.0  # one of three calls, and not the recorded balance


def test_a_task_holds_no_answer_where_the_agent_can_read_it(task: Path) -> None:
    world = task / "environment"
    assert verify_package(world / "package") == []
    made = open_package(world / "package")
    assert (made.status, (world / "package/validation").exists()) == ("candidate", False)
    assert json.loads((world / "start.json").read_text()) == {"world": {"balance": 100.0}}
    seen = "".join(p.read_text() for p in world.glob("*") if p.is_file())
    assert "Insufficient" not in seen


def test_a_task_says_what_it_is(task: Path) -> None:
    told = tomllib.loads((task / "task.toml").read_text())
    assert (told["schema_version"], told["task"]["name"], told["metadata"]["case_id"]) == ("1.1", "ledger/c1", "c1")
    assert "`world.balance` is `80.0`" in (task / "instruction.md").read_text()


def test_a_case_that_its_calls_do_not_solve_is_no_task(export: Export, tmp_path: Path) -> None:
    left = export("harbor", instructions={"c1": "Take out 25."})
    assert left == {"Two words/2": "its recorded calls do not solve it in this package: state 0.000, calls 1.000"}
    told = [json.loads(line) for line in (tmp_path / "out/left_out.jsonl").read_text().splitlines()]
    assert told == [{"case_id": k, "reason": v} for k, v in left.items()]
    assert (tmp_path / "out/c1/instruction.md").read_text().startswith("Take out 25.\n")
    assert sorted(p.name for p in (tmp_path / "out").iterdir() if p.is_dir()) == ["c1"]
