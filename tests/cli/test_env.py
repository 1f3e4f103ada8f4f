"""`expcomp env`: exit codes, what is printed, an interactive session."""

from __future__ import annotations

import contextlib
import io
import json
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from typer.testing import CliRunner

from expcomp.cli.env_play import loop, parse
from expcomp.cli.main import app
from expcomp.environments.folder import open_package
from expcomp.environments.frames import frames
from expcomp.environments.package import compile_package
from expcomp.environments.session import open_session
from expcomp.errors import ExpcompError, RevisionConflictError, UsageError
from tests.environments.reconstructed import CONFIG, package_frames
from tests.environments.test_replay import GOOD, OTHER, case_steps
from tests.environments.worlds import AUTHORED, LEDGER
from tests.helpers import RUN_CLI, environment


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("env")
    compile_package(frames(LEDGER), AUTHORED).write(folder / "authored")
    compile_package(package_frames(), CONFIG).write(folder / "candidate")
    steps = case_steps(GOOD)
    case = {
        "id": "c1",
        "trajectory_group": "h1",
        "source_ids": [OTHER],
        "split": "validation",
        "initial_state": {"world": {"balance": 100.0}},
        "steps": steps,
    }
    (folder / "cases.jsonl").write_text(json.dumps(case) + "\n", encoding="utf-8")
    bad = case | {"steps": [steps[0] | {"expected_observation": "?"}]}
    (folder / "bad.jsonl").write_text(json.dumps(bad) + "\n", encoding="utf-8")
    (folder / "start.json").write_text('{"world": {"balance": 100.0}}', encoding="utf-8")
    return folder


class Done(NamedTuple):
    """What a command gave."""

    returncode: int
    stdout: str
    stderr: str


def run(root: Path, *args: str, text: str | None = None) -> Done:
    """A command in this process, which is some ten times faster than one of its own; errors become exit codes as in `main`."""
    with contextlib.chdir(root):
        found = CliRunner().invoke(app, ["env", *args], input=text)
    if isinstance(found.exception, ExpcompError):
        return Done(found.exception.exit_code, found.stdout, str(found.exception))
    if found.exception is not None and not isinstance(found.exception, SystemExit):
        raise found.exception
    return Done(found.exit_code, found.stdout, found.stderr)


def said(done: Done) -> Any:
    """The JSON document that was printed."""
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_the_command_line_itself(root: Path) -> None:
    done = subprocess.run(
        [*RUN_CLI, "env", "show", "candidate", "fly"],
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
        env=environment(),
        timeout=120,
    )
    assert (done.returncode, done.stderr[:42]) == (2, "expcomp: there is no action 'fly'; known a")


def test_verify_says_what_is_wrong_and_exits_with_1(root: Path) -> None:
    assert said(run(root, "verify", "authored", "--json")) == {"ok": True, "problems": []}
    (root / "authored" / "x.txt").write_text("x", encoding="utf-8")
    done = run(root, "verify", "authored")
    (root / "authored" / "x.txt").unlink()
    assert (done.returncode, done.stdout.splitlines()[0]) == (1, "x.txt: not listed in manifest.json")


def test_show_and_search(root: Path) -> None:
    assert "status candidate" in run(root, "show", "candidate").stdout
    shown = said(run(root, "show", "candidate", "withdraw", "--json"))
    assert [r["rule_id"] for r in shown["rules"]] == ["r_short", "r_withdraw"]
    hits = said(run(root, "search", "candidate", "insufficient funds", "--kind", "rule", "--json"))
    assert [h["id"] for h in hits] == ["r_short"]
    assert run(root, "search", "candidate", "x", "--kind", "song").returncode == 2
    assert run(root, "show", "candidate", "fly").returncode == 2


def test_replay_and_promotion(root: Path, tmp_path: Path) -> None:
    report = said(
        run(root, "replay", "candidate", "cases.jsonl", "--strict", "--promote", str(tmp_path / "ok"), "--json")
    )
    assert (report["eligible"], report["metrics"]["cases_passed"]) == (True, 1)
    assert said(run(tmp_path, "verify", "ok", "--json"))["ok"]
    done = run(root, "replay", "candidate", "bad.jsonl")
    assert (done.returncode, "1 of 1 steps answered, 0.0% of these exact" in done.stdout) == (1, True)
    done = run(root, "replay", "candidate", "bad.jsonl", "--promote", str(tmp_path / "no"))
    assert (done.returncode, (tmp_path / "no").exists()) == (1, False)
    assert run(root, "replay", "candidate", "cases.jsonl", "--teacher-forced", "--promote", "x").returncode == 2
    quiet = run(root, "replay", "candidate", "bad.jsonl", "--quiet")
    assert (quiet.returncode, quiet.stdout, quiet.stderr) == (1, "", "")


def test_play_is_a_session_that_goes_on_after_a_refusal(root: Path, tmp_path: Path) -> None:
    done = run(
        root,
        "play",
        "authored",
        "--state",
        "start.json",
        "--session",
        str(tmp_path / "s"),
        text='deposit amount=5\nfly\nwithdraw {"amount": 1000}\n:state\n',
    )
    assert done.returncode == 0
    lines = done.stdout.splitlines()
    assert lines[0] == "Deposited 5. Balance: 105.0"
    assert lines[1].startswith("refused: there is no action 'fly'")
    assert lines[2] == "Insufficient funds. Balance: 105.0"
    again = run(root, "play", "authored", "--session", str(tmp_path / "s"), "--json", text="balance\n:quit\nnever\n")
    assert [json.loads(x)["observation"] for x in again.stdout.splitlines()] == ["Balance: 105.0"]
    assert run(root, "play", "candidate", "--state", "start.json", text="").returncode == 2


@pytest.mark.parametrize("as_json", [False, True])
def test_play_ends_when_another_session_plays_on(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], as_json: bool
) -> None:
    package = open_package(root / "authored")
    late, first = (open_session(package, tmp_path / "s", start={"world": {"balance": 100.0}}) for _ in range(2))
    first.step("deposit", {"amount": 5})
    with pytest.raises(RevisionConflictError, match="another session plays on") as told:
        loop(late, io.StringIO("deposit amount=1\ndeposit amount=1\n"), as_json=as_json)
    assert told.value.exit_code == 2
    said = capsys.readouterr().out.splitlines()
    assert [json.loads(line)["error"] for line in said] == (["RevisionConflictError"] if as_json else [])


def test_play_with_a_closed_stdin_ends_at_once(root: Path) -> None:
    words = ["sh", "-c", '"$@" <&-', "sh", *RUN_CLI, "env", "play", "authored", "--state", "start.json"]
    done = subprocess.run(words, cwd=root, capture_output=True, text=True, check=False, env=environment())
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_patch_makes_a_new_candidate(root: Path, tmp_path: Path) -> None:
    base = json.loads((root / "candidate/manifest.json").read_text("utf-8"))["artifact_digest"]
    fix = {"base": base, "edits": [{"op": "remove", "table": "notes", "key": {"note_id": "n_1"}}]}
    (tmp_path / "fix.json").write_text(json.dumps(fix), encoding="utf-8")
    told = said(run(root, "patch", "candidate", str(tmp_path / "fix.json"), "--out", str(tmp_path / "new"), "--json"))
    assert told["status"] == "candidate"
    assert told["artifact_digest"] != base
    assert run(root, "patch", "candidate", str(tmp_path / "fix.json"), "--out", str(tmp_path / "new")).returncode == 2


@pytest.mark.parametrize(
    ("line", "want"),
    [
        ("go", ("go", {})),
        ('go {"a": [1]}', ("go", {"a": [1]})),
        (
            'go a=1 b=x c="two words" d=true e=[1,2]',
            ("go", {"a": 1, "b": "x", "c": "two words", "d": True, "e": [1, 2]}),
        ),
    ],
)
def test_a_line_of_play(line: str, want: tuple[str, dict[str, Any]]) -> None:
    assert parse(line) == want


@pytest.mark.parametrize("line", ["go {", "go 5", 'go a="x', "go =1"])
def test_a_line_that_is_no_action(line: str) -> None:
    with pytest.raises(UsageError):
        parse(line)
