"""What scripts hold on to: exit codes of losses and crashes, one row a line in a pipe, nothing cut off on a narrow terminal."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from rich.console import Console
from typer.testing import CliRunner

import expcomp
from expcomp.cli import main as entry
from expcomp.cli import terminal
from expcomp.cli.main import app
from expcomp.errors import SourceError
from tests.helpers import ROOT, environment

ORDERS = ROOT / "data/traces/plain/orders.jsonl"


def run(*words: str | Path) -> tuple[int, str]:
    done = CliRunner().invoke(app, [os.fspath(w) for w in words])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.exit_code, done.stdout


@pytest.fixture
def some(tmp_path: Path) -> Path:
    """Eight rollouts, and one whose line is cut."""
    lines = ORDERS.read_text("utf-8").splitlines()
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "orders.jsonl").write_text("\n".join([*lines[:8], lines[8][:99]]) + "\n", "utf-8")
    return folder


# -- exit codes ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["", "--json", "--quiet"])
def test_read_ends_with_4_when_something_could_not_be_read(some: Path, form: str) -> None:
    code, said = run("read", some, "--workers", "1", *form.split())
    assert code == 4
    if form == "--json":
        found = [d for d in json.loads(said)["diagnostics"] if d["severity"] == "error"]
        assert [(d["code"], d["lines"]) for d in found] == [("bad_json", 1)]
    elif not form:
        assert "error bad_json 1: orders.jsonl: " in said


def test_read_ends_with_0_when_all_was_read_and_with_4_when_nothing_could_be(some: Path) -> None:
    whole, broken = some / "whole.jsonl", some / "broken.traj"
    whole.write_text("\n".join(ORDERS.read_text("utf-8").splitlines()[:2]) + "\n", "utf-8")
    broken.write_text('{"trajectory": [{"action": "ls"', "utf-8")
    assert run("read", whole, "--workers", "1")[0] == 0
    assert run("read", broken, "--format", "swe_agent", "--workers", "1")[0] == 4


def test_compile_ends_with_4_and_says_what_was_left_out(some: Path, tmp_path: Path) -> None:
    code, said = run("compile", some, "--out", tmp_path / "out", "--workers", "1")
    assert code == 4
    assert "Could not be read and was left out: bad_json 1; each is an error in diagnostics.parquet." in said
    (some / "orders.jsonl").write_text("\n".join(ORDERS.read_text("utf-8").splitlines()[:8]) + "\n", "utf-8")
    assert run("compile", some, "--update", tmp_path / "out", "--workers", "1", "--quiet") == (0, "")


@pytest.mark.parametrize("verb", ["compare", "gap", "power", "report"])
def test_what_looks_at_arms_tells_of_runs_that_could_not_be_read(some: Path, verb: str) -> None:
    whole = (ROOT / "data/traces/with-skills/orders.jsonl").read_text("utf-8").splitlines()
    (some / "other.jsonl").write_text("\n".join(whole[:8]) + "\n", "utf-8")
    arms = {"gap": ("--weak", "plain", "--strong", "with-skills")}.get(verb, ("-b", "plain", "-t", "with-skills"))
    done = CliRunner().invoke(app, [verb, os.fspath(some), *arms, "--json"])
    json.loads(done.stdout)
    told = "expcomp: could not be read and was left out: bad_json 1; `expcomp read` says where\n"
    assert (done.exit_code, done.stderr) == (4, told)


def test_a_damaged_archive_is_told_and_counts_as_left_out(some: Path) -> None:
    damaged = some / "more.jsonl.gz"
    damaged.write_bytes(b"\x1f\x8b\x08\x00 no archive")
    (some / "orders.jsonl").write_text("\n".join(ORDERS.read_text("utf-8").splitlines()[:8]) + "\n", "utf-8")
    code, said = run("read", some, "--workers", "1")
    assert code == 4
    assert "error bad_archive 1: more.jsonl.gz: cannot decompress the file" in said
    with pytest.raises(SourceError, match=r"nothing could be read in .*: more\.jsonl\.gz: cannot decompress"):
        expcomp.read_traces(damaged)


def test_a_file_that_cannot_be_read_is_named(some: Path, tmp_path: Path) -> None:
    held = tmp_path / "held.jsonl"
    os.mkfifo(held)
    with pytest.raises(SourceError, match=rf"{held} cannot be read: "):
        expcomp.held_out(held)
    run("compile", some, "--out", tmp_path / "out", "--workers", "1", "--quiet")
    family = tmp_path / "out/rows/training_example.parquet"
    family.write_bytes(family.read_bytes()[:99])
    with pytest.raises(SourceError, match=rf"{family} cannot be read: "):
        expcomp.open_compilation(tmp_path / "out").rows["training_example"]


def test_a_crash_is_no_finding(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def crash() -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(entry, "app", crash)
    with pytest.raises(SystemExit) as end:
        entry.main()
    said = capsys.readouterr()
    assert (end.value.code, said.out) == (70, "")
    assert "ZeroDivisionError" in said.err
    assert said.err.endswith("expcomp: a fault of expcomp itself; please report it with the lines above\n")


@pytest.mark.parametrize("buffered", [True, False])
def test_a_full_disk_below_stdout_is_one_message(buffered: bool) -> None:
    more = {"PYTHONUNBUFFERED": "" if buffered else "1"}
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        done = subprocess.run(
            [sys.executable, "-m", "expcomp", "formats", "--json"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            env=environment(more),
        )
    assert (done.returncode, done.stderr) == (2, "expcomp: the output cannot be written: No space left on device\n")


def test_the_package_runs_as_a_module() -> None:
    words = [sys.executable, "-m", "expcomp", "--version"]
    done = subprocess.run(words, capture_output=True, text=True, check=True, env=environment())
    assert done.stdout == f"expcomp {expcomp.__version__}\n"


def test_which_verbs_print_json_and_which_can_be_quiet() -> None:
    def walk(verb: Any, *path: str) -> Iterator[tuple[str, set[str]]]:
        for name, below in getattr(verb, "commands", {}).items():
            yield from walk(below, *path, name)
        if not hasattr(verb, "commands"):
            yield " ".join(path), {option for p in verb.params for option in p.opts}

    verbs = dict(walk(typer.main.get_command(app)))
    assert {v for v, known in verbs.items() if "--json" not in known} == {"schema show", "pack contract"}
    looks = {"rows", "formats", "schema show", "pack show", "pack search", "pack contract"}
    assert {v for v, known in verbs.items() if "--quiet" not in known} == looks | {
        f"env {word}" for word in ("show", "search", "play", "score")
    }


# -- tables --------------------------------------------------------------------------------------------------------------------

COLUMNS = (("format", False), ("arm", False), ("no verdict", True), ("ended otherwise", False))
LINES = (
    ("swe_bench_report", "claude-code@2.1.197/claude-sonnet-4-5-20250929", "1,234,567", "unknown 80, infra_error 2"),
    ("atif", "[red]", "0", ""),
)


def drawn(width: int, *, tty: bool) -> list[str]:
    out = io.StringIO()
    console = Console(file=out, width=width, force_terminal=tty, color_system=None, highlight=False)
    terminal.table(console, COLUMNS, LINES)
    return out.getvalue().splitlines()


@pytest.mark.parametrize("width", [20, 40, 60, 80, 200])
def test_a_terminal_folds_and_loses_nothing(width: int) -> None:
    lines = drawn(width, tty=True)
    assert max(map(len, lines)) <= width
    letters = sorted(c for line in lines for c in line if not c.isspace())
    for cell in (c for line in LINES for c in line):
        assert all(letters.count(c) >= cell.count(c) for c in set(cell) - {" "}), cell
    assert any("1,234,567" in line for line in lines), "a number is never folded"


def test_in_a_pipe_a_row_is_a_line() -> None:
    lines = drawn(40, tty=False)
    assert len(lines) == 1 + len(LINES)
    assert all(cell in line for line, row in zip(lines[1:], LINES, strict=True) for cell in row)


# -- names ---------------------------------------------------------------------------------------------------------------------


def test_a_folder_may_be_called_anything(tmp_path: Path) -> None:
    home = tmp_path / "runs [red] [1] *?{a} ü"
    home.mkdir()
    (home / "orders.jsonl").write_text("\n".join(ORDERS.read_text("utf-8").splitlines()[:12]) + "\n", "utf-8")
    one = ("--workers", "1")
    assert run("read", home / "orders.jsonl", "--out", home / "traces", *one)[0] == 0
    code, said = run("compile", home / "traces", "--out", home / "out", *one)
    assert code == 0
    assert f"Wrote {home / 'out'} in " in said
    assert f"expcomp verify '{home / 'out'}'." in said, "a command that can be copied"
    assert run("compile", home / "traces", "--update", home / "out", *one)[0] == 0
    assert run("verify", home / "out")[0] == 0
    assert run("rows", home / "out", "training_example", "--json")[0] == 0
    held = home / "out/rows/training_example.jsonl"
    assert run("decontaminate", held, "--against", held, "--quiet")[0] == 1
    assert run("dataset", home / "out", "--to", "trl-sft", "--against", held, "--out", home / "ds", *one)[0] in (0, 4)
    assert run("verify", home / "ds")[0] == 0
