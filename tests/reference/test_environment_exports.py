"""Exports of packages that were built from the reference data, and of the formats it holds samples of."""

from __future__ import annotations

import json
import os
from pathlib import Path

import polars as pl
import pytest

from expcomp.environments.build import EnvironmentBuild, build_environment
from expcomp.environments.cases import read_cases
from expcomp.environments.exports.awb import read_cases_of_rows, read_rows, rows_of, rows_text, turns_of
from expcomp.environments.exports.oracle import oracle_scores
from expcomp.environments.exports.targets import export_environment
from expcomp.environments.exports.trace2env import read_layout
from expcomp.environments.frames import frames
from expcomp.environments.package import compile_package
from tests.environments.worlds import AUTHORED, LEDGER

REFERENCE = os.environ.get("EXPCOMP_REFERENCE")
if REFERENCE is None:
    if os.environ.get("CI") == "true":
        pytest.fail("EXPCOMP_REFERENCE is not set; CI has to run the reference environments", pytrace=False)
    pytest.skip("EXPCOMP_REFERENCE is not set; it names the folder with the reference data", allow_module_level=True)

pytestmark = pytest.mark.reference
ROOT = Path(REFERENCE) / "environment"
ROWS = sorted((ROOT / "agentworldbench").glob("*.jsonl"))
CASES = sorted((ROOT / "replay").glob("*ledger*.jsonl"))
CHATS = sorted(ROOT.glob("tau_*.json.gz"))


def test_there_are_samples() -> None:
    assert ROWS
    assert CASES
    assert CHATS


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


@pytest.fixture(scope="module", params=CHATS, ids=lambda p: p.name)
def built(request: pytest.FixtureRequest) -> EnvironmentBuild:
    return build_environment(request.param, environment_id="world")


def test_real_tables_survive_the_layout(built: EnvironmentBuild, tmp_path: Path) -> None:
    export_environment(built.package, tmp_path / "out", to="trace2env")
    back = read_layout(tmp_path / "out")
    assert back.artifact_digest == built.package.artifact_digest
    assert back.config == built.package.config


def test_a_held_out_task_is_walked_to_its_end(built: EnvironmentBuild, tmp_path: Path) -> None:
    pytest.importorskip("gymnasium")
    from expcomp.environments.gym import ReplayEnv

    built.write(tmp_path / "pkg")
    env = ReplayEnv(tmp_path / "pkg", predict=True, allow_unvalidated=True)
    steps = env.environment.case_steps
    sizes = steps.group_by("case_id", maintain_order=True).agg(n=pl.len()).sort("n", "case_id")
    case, n = sizes.row(-1)
    env = ReplayEnv(env.environment, max_steps=n)
    env.reset(options={"case_id": case})
    calls = steps.filter(pl.col("case_id") == case).sort("ordinal").select("action_type", "arguments_json")
    ends, routes = [], []
    for action, arguments in calls.rows():
        _, _, terminated, truncated, info = env.step({"tool": action, "arguments": arguments})
        ends.append(terminated or truncated)
        routes.append(info["route"])
    assert ends[-1]
    assert set(routes) - {"abstain", "error"}
