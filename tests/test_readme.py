"""The README, followed from top to bottom: every command and block runs in order, and what is shown is what comes out."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib as mpl
import pytest
from typer.main import get_command
from typer.testing import CliRunner

from expcomp.cli.main import app
from expcomp.errors import ExpcompError
from tests.helpers import ROOT

TEXT = (ROOT / "README.md").read_text("utf-8")
CODES = {"expcomp env play world --case ID": 2}
"""Commands that are shown to fail."""
ELSEWHERE = ("python ", "expcomp train run", "expcomp train score", "expcomp decide ", "expcomp train verify")
"""Installation, the checks themselves, and what needs a trainer: `tests/clients/test_end_to_end.py` runs that chain."""


class Block(NamedTuple):
    """A fenced block."""

    language: str
    lines: list[str]

    @property
    def commands(self) -> list[str]:
        """Its commands; none when it shows output or a folder."""
        joined = "\n".join(self.lines).replace("\\\n", "").splitlines()
        return [line for line in joined if re.match(r"(expcomp|python|cp) ", line)]


def blocks(text: str) -> Iterator[Block]:
    for language, body in re.findall(r"^```(\w*)\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL):
        yield Block(language, body.splitlines())


def inline(text: str) -> list[str]:
    """Commands in the text, as far as their first placeholder of choice."""
    prose = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    return [" ".join(c.split()) for c in re.findall(r"`(expcomp [^`]+)`", prose)]


def call(command: str) -> str:
    """What a command prints; its exit code has to be the one that is expected."""
    code = CODES.get(command, 0)
    if command.startswith("cp "):
        for part in command.split(" && "):
            _, *flags, source, target = part.split()
            shutil.copytree(source, target) if "-r" in flags else shutil.copy(source, target)
        return ""
    done = CliRunner().invoke(app, shlex.split(command)[1:])
    given = done.exception.exit_code if isinstance(done.exception, ExpcompError) else done.exit_code
    assert given == code, (command, done.exception, done.output)
    return done.stdout


@pytest.mark.slow
def test_every_command_and_block_runs_in_order_and_gives_what_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0})  # no worker processes: they would only import
    monkeypatch.setenv("COLUMNS", "140")
    (tmp_path / "data").symlink_to(ROOT / "data")
    (tmp_path / "base").mkdir()
    (tmp_path / "base/weights").write_text("w")
    parent = re.search(r'`(\{"harness".*?\})`', TEXT)
    assert parent
    (tmp_path / "profile.json").write_text(parent[1])
    mpl.use("Agg")
    printed = call("expcomp demo")
    names: dict[str, Any] = {}
    shown = []
    for block in blocks(TEXT):
        if block.language == "python":
            exec(compile("\n".join(block.lines), "README.md", "exec"), names)
        elif block.language == "toml":
            (tmp_path / "expcomp.toml").write_text("\n".join(block.lines))
        elif block.commands:
            for command in block.commands:
                if not command.startswith(ELSEWHERE):
                    printed += call(command)
        elif block.lines[0].endswith("/"):
            there = {p.name for p in (tmp_path / block.lines[0]).iterdir()}
            words = re.findall(r"^  (\S+?)/?(?: |/.*|$)", "\n".join(block.lines), flags=re.MULTILINE)
            assert set(words) - {"<config>", "decontamination_*.parquet"} <= there, (block.lines[0], there)
        else:
            shown += block.lines
    shown += [line for line in TEXT.splitlines() if line.startswith("| garden-")]
    assert len(shown) > 5
    assert [line for line in shown if line not in printed] == []
    for command in inline(TEXT):
        if " out/demo" in command and "--endpoint" not in command:
            call(command)
    capsys.readouterr()


def examples(verb: Any) -> Iterator[str]:
    """Commands that the help of verbs shows."""
    for below in getattr(verb, "commands", {}).values():
        yield from examples(below)
    shown = re.search(r"Example: (expcomp .+)", verb.help or "")
    if shown and not hasattr(verb, "commands"):
        yield shown[1]


def test_every_verb_and_option_in_the_text_and_in_examples_is_one_of_the_command_line() -> None:
    root = get_command(app)
    fenced = (c for b in blocks(TEXT) for part in b.commands for c in part.split(" && "))
    shown = list(examples(root))
    assert len(shown) > 50
    for command in [*inline(TEXT), *fenced, *shown]:
        words = command.replace("[", "").replace("]", "").split()
        if words[0] != "expcomp" or "|" in words[-1]:
            continue
        verb: Any = root
        for word in words[1:]:
            if not hasattr(verb, "commands"):
                break
            assert word in verb.commands, (command, word)
            verb = verb.commands[word]
        known = {o for p in verb.params for o in p.opts} | {"-h", "--help"}
        assert {w for w in words if re.fullmatch(r"--?[a-z][a-z-]*", w)} <= known, command


def test_the_parent_profile_that_is_shown_is_one() -> None:
    parent = re.search(r'`(\{"harness".*?\})`', TEXT)
    assert parent
    assert set(json.loads(parent[1])) == {"harness", "model"}
