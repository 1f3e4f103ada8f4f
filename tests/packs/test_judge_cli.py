"""`expcomp pack judge`: verdicts as a folder; a run that was killed goes on where it ended."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
from pathlib import Path
from typing import NamedTuple

import polars as pl
import pytest

from expcomp.errors import ExpcompError
from tests.helpers import RUN_CLI, environment, package
from tests.packs.judge_stub import Say, serving

pytest.importorskip("openai")


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A compile with a family of some rows."""
    from expcomp.compiler.build import compile_paths

    folder = tmp_path_factory.mktemp("in")
    for n in range(3):
        package(folder, f"pkg_{n}", task_id=f"task_{n}")
    out = tmp_path_factory.mktemp("out") / "out"
    compile_paths([folder], out, processes=1)
    return out


def env() -> dict[str, str]:
    return {k: v for k, v in environment().items() if not k.lower().endswith("_proxy")}


class Cli(NamedTuple):
    """`expcomp pack judge` in this process: starting another costs seconds."""

    capsys: pytest.CaptureFixture[str]

    def __call__(self, *args: object) -> tuple[int, str]:
        from expcomp.cli.main import app

        self.capsys.readouterr()
        code = app(["pack", "judge", *map(str, args)], standalone_mode=False)
        return int(code or 0), self.capsys.readouterr().out


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cli:
    monkeypatch.chdir(tmp_path)
    for name in [n for n in os.environ if n.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)
    return Cli(capsys)


FAMILY = "process_supervision"
"""A family of which six contents differ in `many`."""


def test_the_gates_judge_without_an_endpoint(many: Path, tmp_path: Path, cli: Cli) -> None:
    code, out = cli(many, "environment_response_pair", "--rejected", "--out", "v", "--json")
    assert code == 0
    report = json.loads(out)
    made = pl.read_parquet(tmp_path / "v" / "verdicts.parquet")
    assert report["rows"] == made.height == sum(report["verdicts"].values())
    assert set(report["verdicts"]) == {"accept", "reject"}
    assert report["label_sources"] == {"heuristic": made.height}
    assert json.loads((tmp_path / "v" / "manifest.json").read_text())["judge"] == "rules"
    assert not (tmp_path / "judge.sqlite").exists()


def test_a_run_that_was_killed_makes_only_the_calls_that_are_missing(many: Path, tmp_path: Path, cli: Cli) -> None:
    never, reached = threading.Event(), threading.Event()
    asked = []

    def script(content: str, _before: int) -> Say:
        asked.append(content)
        if len(asked) == 4 and not reached.is_set():
            reached.set()
            return Say(hold=never)
        return Say()

    with serving(script) as stub:
        args = (many, FAMILY, "--endpoint", stub.url, "--model", "m", "--concurrency", "1")
        command = [*RUN_CLI, "pack", "judge", *map(str, args), "--out", "v"]
        running = subprocess.Popen(command, cwd=tmp_path, env=env(), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        try:
            assert reached.wait(60)
        finally:
            os.kill(running.pid, signal.SIGKILL)
            running.communicate()
        assert not (tmp_path / "v").exists()
        before = len(stub.requests)
        plan = json.loads(cli(*args, "--dry-run", "--json")[1])
        assert (plan["kept"], len(stub.requests)) == (3, before)
        code, out = cli(*args, "--out", "v", "--json")
        report = json.loads(out)
        assert code == 0
        assert report["run"]["calls"] == plan["missing"] == len(stub.requests) - before
        assert len(set(stub.contents)) == plan["contents"] == len(stub.requests) - 1
    assert report["label_sources"] == {"model_judge": report["rows"]}


def test_a_budget_leaves_rows_without_a_verdict_and_says_so(many: Path, tmp_path: Path, cli: Cli) -> None:
    with serving() as stub:
        code, out = cli(many, FAMILY, "--endpoint", stub.url, "--model", "m", "--out", "v", "--max-calls", "2")
    assert code == 4
    assert "max_calls 2 is used up" in out
    assert stub.url not in (tmp_path / "v" / "report.json").read_text() + (tmp_path / "v" / "manifest.json").read_text()
    assert sorted(p.name for p in (tmp_path / "v").iterdir()) == ["manifest.json", "report.json", "verdicts.parquet"]


ENDPOINT = ("--endpoint", "http://127.0.0.1:9/v1")
WRONG = {
    "no model": ((FAMILY, *ENDPOINT, "--out", "v"), "--model"),
    "no folder": ((FAMILY,), "--out"),
    "a folder that is there": ((FAMILY, *ENDPOINT, "--model", "m", "--out", "there"), "exists"),
    "no such family": (("no_family", "--out", "v"), "no_family"),
    "no such key": ((FAMILY, *ENDPOINT, "--model", "m", "--out", "v", "--api-key-env", "NO_SUCH_NAME"), "NO_SUCH_NAME"),
    "cost without prices": ((FAMILY, *ENDPOINT, "--model", "m", "--out", "v", "--max-usd", "1"), "price_in"),
    "no prompt": ((FAMILY, *ENDPOINT, "--model", "m", "--out", "v", "--prompt", "none.txt"), "none.txt"),
}


@pytest.mark.parametrize(("args", "said"), WRONG.values(), ids=WRONG.keys())
def test_wrong_usage_is_said(many: Path, tmp_path: Path, cli: Cli, args: tuple[str, ...], said: str) -> None:
    (tmp_path / "there").mkdir()
    with pytest.raises(ExpcompError, match=said) as caught:
        cli(many, *args)
    assert caught.value.exit_code == 2


def test_a_key_comes_from_the_variable_that_is_named(many: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", "mine")
    with serving() as stub:
        cli(
            many,
            FAMILY,
            "--endpoint",
            stub.url,
            "--model",
            "m",
            "--out",
            "v",
            "--api-key-env",
            "MY_KEY",
            "--limit",
            "1",
        )
    assert [h["authorization"] for h in stub.headers] == ["Bearer mine"]
