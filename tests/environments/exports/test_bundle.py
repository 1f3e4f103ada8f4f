"""What holds for every export."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path

import pytest

from expcomp.cli.env_export import export as export_command
from expcomp.environments.cases import read_cases
from expcomp.environments.exports.case_lines import case_text
from expcomp.environments.exports.targets import TARGETS, export_environment
from expcomp.environments.folder import open_package
from expcomp.environments.package import EnvironmentPackage
from expcomp.errors import OutputError, UsageError
from tests.environments.exports.conftest import Export, Frames
from tests.helpers import compile_cli, tree


@pytest.mark.parametrize("to", TARGETS)
def test_two_exports_are_the_same_bytes(export: Export, tmp_path: Path, to: str) -> None:
    assert export(to, "a") == export(to, "b")
    assert tree(tmp_path / "a") == tree(tmp_path / "b")
    assert str(tmp_path).encode() not in b"".join(p.read_bytes() for p in (tmp_path / "a").rglob("*") if p.is_file())


@pytest.mark.parametrize("to", [t for t, spec in TARGETS.items() if not spec.own_manifest])
def test_every_export_says_what_it_is(export: Export, package: EnvironmentPackage, tmp_path: Path, to: str) -> None:
    export(to)
    told = json.loads((tmp_path / "out/manifest.json").read_text())
    assert (told["target"], told["artifact_digest"]) == (to, package.artifact_digest)
    assert {f["path"]: f["sha256"].removeprefix("sha256:") for f in told["files"]} == {
        k: v for k, v in tree(tmp_path / "out").items() if k != "manifest.json"
    }


def test_an_export_is_replaced_only_on_demand(export: Export, tmp_path: Path) -> None:
    export("awb")
    with pytest.raises(OutputError, match="exists"):
        export("awb")
    export("awb", force=True)
    (tmp_path / "other").mkdir()
    (tmp_path / "other/file").write_text("x")
    with pytest.raises(OutputError, match="something else"):
        export("awb", "other", force=True)


def test_cases_of_a_promotion_are_taken_by_default(folder: Path, tmp_path: Path) -> None:
    assert export_environment(open_package(folder), tmp_path / "a", to="harbor") == {}
    assert (tmp_path / "a/c1/task.toml").is_file()


def test_case_lines_are_read_back(two: Frames, tmp_path: Path) -> None:
    path = tmp_path / "cases.jsonl"
    path.write_text(case_text(*two))
    cases, steps = read_cases(path)
    text = ["initial_state_json", "arguments_json", "expected_state_json"]  # equal as JSON
    assert cases.drop(text, strict=False).equals(two[0].sort("case_id").drop(text, strict=False))
    assert case_text(cases, steps) == path.read_text()
    assert steps.drop(text, strict=False).equals(two[1].sort("case_id", "ordinal").drop(text, strict=False))


def test_wrong_use_is_said(package: EnvironmentPackage, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="target 'x': expected one of gymnasium, openenv"):
        export_environment(package, tmp_path / "a", to="x")
    with pytest.raises(UsageError, match="instruction for 'c9': there is no such case"):
        export_environment(package, tmp_path / "a", to="harbor", instructions={"c9": "go"})


def test_the_gymnasium_package_registers_itself(
    export: Export, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gymnasium = pytest.importorskip("gymnasium")
    export("gymnasium")
    monkeypatch.syspath_prepend(tmp_path / "out")
    monkeypatch.delitem(sys.modules, "ledger", raising=False)
    env = gymnasium.make("ledger:expcomp/ledger-v0").unwrapped
    _, info = env.reset(options={"case_id": "c1"})
    assert info["case_id"] == "c1"
    assert env.step({"tool": "balance", "arguments": {}})[0] == "Balance: 100.0"
    del sys.modules["ledger"]


def test_the_command_line_takes_instructions_and_tells_what_is_left_out(
    folder: Path, two: Frames, tmp_path: Path
) -> None:
    (tmp_path / "cases.jsonl").write_text(case_text(*two))
    told = tmp_path / "told.jsonl"
    told.write_text('{"case_id": "c1", "instruction": "Do it."}\n')
    command = ["env", "export", folder, "--to", "harbor", "--cases", tmp_path / "cases.jsonl", "--instructions", told]
    done = compile_cli(*command, "--out", tmp_path / "a", "--json")
    assert (done.returncode, list(json.loads(done.stdout)["left_out"])) == (0, ["Two words/2"]), done.stderr
    assert (tmp_path / "a/c1/instruction.md").read_text().startswith("Do it.\n")
    (tmp_path / "one.jsonl").write_text(next(x for x in case_text(*two).splitlines() if "Two words/2" in x) + "\n")
    done = compile_cli(*command[:5], "--cases", tmp_path / "one.jsonl", "--out", tmp_path / "b", "--quiet")
    assert (done.returncode, done.stdout, done.stderr) == (4, "", ""), "none became a task"


@pytest.mark.parametrize("line", ['{"case_id": "c1"}', "[1]", '{"case_id": 1, "instruction": "x"}'])
def test_instructions_are_checked(folder: Path, tmp_path: Path, line: str) -> None:
    (tmp_path / "told.jsonl").write_text(line + "\n")
    with pytest.raises(UsageError, match="record 1: expected an object of the texts"):
        export_command(folder, "harbor", tmp_path / "a", instructions=tmp_path / "told.jsonl")


def test_targets_are_told_without_the_libraries_they_are_for() -> None:
    importlib.import_module("expcomp.environments.exports.targets")
    assert not {"openenv", "verifiers", "tau2"} & set(sys.modules)
