"""Exports of packages that were built from the reference data, and of the formats it holds samples of."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from expcomp.environments.cases import read_cases
from expcomp.environments.exports.awb import read_cases_of_rows, read_rows, rows_of, rows_text, turns_of
from expcomp.environments.exports.oracle import oracle_scores
from expcomp.environments.exports.targets import export_environment
from expcomp.environments.exports.trace2env import read_layout
from expcomp.environments.frames import frames
from expcomp.environments.package import compile_package
from tests.environments.worlds import AUTHORED, LEDGER
from tests.reference.environments import ROOT

if TYPE_CHECKING:
    from tests.reference.conftest import Built

pytestmark = pytest.mark.reference
ROWS = sorted((ROOT / "agentworldbench").glob("*.jsonl"))
CASES = sorted((ROOT / "replay").glob("*ledger*.jsonl"))


def test_there_are_samples() -> None:
    assert ROWS
    assert CASES


@pytest.mark.parametrize("path", ROWS, ids=lambda p: p.name)
def test_rows_survive_the_tables(path: Path) -> None:
    turns = turns_of(read_rows(path))
    assert turns.select("action", "observation").null_count().sum_horizontal().item() == 0
    told = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    assert [json.loads(line) for line in rows_text(rows_of(turns)).splitlines()] == told
    assert read_cases_of_rows(path)[1].height == turns.height


@pytest.mark.parametrize("path", CASES, ids=lambda p: p.name)
def test_the_oracle_of_a_recorded_case_scores_one(path: Path, tmp_path: Path) -> None:
    package, cases = compile_package(frames(LEDGER), AUTHORED), read_cases(path)
    assert oracle_scores(package, *cases)["reward"].unique().to_list() == [1.0]
    assert export_environment(package, tmp_path / "tasks", to="harbor", cases=cases) == {}


def test_real_tables_survive_the_layout(chats: Built, tmp_path: Path) -> None:
    package = chats.build.package
    export_environment(package, tmp_path / "out", to="trace2env")
    back = read_layout(tmp_path / "out")
    assert back.artifact_digest == package.artifact_digest
    assert back.config == package.config
