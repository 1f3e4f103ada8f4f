"""Builds on every recorded world of the reference data: real traces and transcripts, end to end, no model, no network."""

from __future__ import annotations

import gzip
import json
import os
import random
import socket
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import expcomp as xc
from expcomp.environments.build import EnvironmentBuild, build_environment
from expcomp.environments.folder import verify_package
from expcomp.environments.starting import GIVEN
from tests.environments.induction.recorded import layout

REFERENCE = os.environ.get("EXPCOMP_REFERENCE")
if REFERENCE is None:
    if os.environ.get("CI") == "true":
        pytest.fail("EXPCOMP_REFERENCE is not set; CI has to run the reference environments", pytrace=False)
    pytest.skip("EXPCOMP_REFERENCE is not set; it names the folder with the reference data", allow_module_level=True)

pytestmark = pytest.mark.reference
ROOT = Path(REFERENCE) / "environment"
LEDGER_EPISODES = 30


def documents(path: Path) -> list[Any]:
    text = gzip.decompress(path.read_bytes()).decode()
    return json.loads(text) if ".jsonl" not in path.name else [json.loads(x) for x in text.splitlines()]


def of(wanted: str) -> list[Path]:
    return [p for p in sorted(ROOT.glob("*.json*.gz")) if layout(documents(p)) == wanted]


CHATS, LEDGER = of("chats"), of("ledger")


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise AssertionError("a build must not open a connection")

    monkeypatch.setattr(socket.socket, "connect", refused)


@pytest.fixture(scope="module", params=CHATS, ids=lambda p: p.name)
def chats(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, EnvironmentBuild, Path]:
    out = tmp_path_factory.mktemp("chats") / "world"
    built = build_environment(request.param, environment_id="chats")
    built.write(out)
    return request.param, built, out


def test_there_are_worlds() -> None:
    assert CHATS
    assert LEDGER


def test_real_traces_give_a_package_whose_answers_can_be_trusted(chats: tuple[Path, EnvironmentBuild, Path]) -> None:
    _, built, out = chats
    found = built.report["evaluation"]
    assert verify_package(out) == []
    assert built.validated is not bool(built.report["reasons"])
    assert not found["leaky"]
    assert found["headline"]["selective_exact"] >= 0.95
    assert found["headline"]["coverage"] >= 0.25  # a fifth of the tasks; the floors are measured on five folds
    assert found["overall"]["knowable"] < 1.0
    assert sum(r["n"] for r in found["per_action"]) == found["steps"] == built.steps.height


def test_a_held_out_task_is_walked_to_its_end(chats: tuple[Path, EnvironmentBuild, Path]) -> None:
    _, built, out = chats
    env = xc.open_environment(out, predict=True, allow_unvalidated=True)
    passed = built.assessment.replay.cases.filter("passed").sort("expected_steps", "case_id")["case_id"]
    env.reset(passed[-1])
    mine = env.case_steps.filter(pl.col("case_id") == passed[-1]).sort("ordinal")
    routes = [env.step(a, json.loads(g)).route for a, g in mine.select("action_type", "arguments_json").rows()]
    assert "abstain" not in routes
    assert env.score().calls == 1.0


def test_shuffled_files_in_another_folder_give_the_same_digests(tmp_path: Path) -> None:
    runs = documents(CHATS[0])
    few = [r for r in runs if r["trial"] == 0][:24]
    found = []
    for number in range(2):
        folder = tmp_path / f"folder-{number}"
        folder.mkdir()
        parts = [few[i::3] for i in range(3)]
        order = list(range(3))
        random.Random(number).shuffle(order)
        for i in order:
            (folder / f"part-{i}.json").write_text(json.dumps(parts[i]), encoding="utf-8")
        paths = sorted(folder.iterdir(), reverse=number == 1)
        built = build_environment(paths, environment_id="chats")
        found.append((built.package.artifact_digest, built.report))
    assert found[0] == found[1]


@pytest.mark.parametrize("path", LEDGER, ids=lambda p: p.name)
def test_transcripts_become_a_validated_package(path: Path, tmp_path: Path) -> None:
    rows = []
    (tmp_path / "runs").mkdir()
    for r in documents(path)[:LEDGER_EPISODES]:
        (tmp_path / "runs" / f"{r['episode_id']}.txt").write_text(r["transcript"], encoding="utf-8")
        rows.append((f"{r['episode_id']}.txt", json.dumps({"world": r["initial_state"]})))
    states = pl.DataFrame(rows, schema=dict(GIVEN), orient="row")
    built = build_environment(tmp_path / "runs", environment_id="ledger", states=states)
    built.write(tmp_path / "world")
    assert (built.validated, verify_package(tmp_path / "world")) == (True, [])
    headline = built.report["evaluation"]["headline"]
    assert (headline["coverage"], headline["selective_exact"]) == (1.0, 1.0)
    assert built.report["evaluation"]["free_running"]["exact_to_the_end"] == 1.0


def test_remembered_answers_cite_the_turns_they_rest_on(chats: tuple[Path, EnvironmentBuild, Path]) -> None:
    _, built, _ = chats
    learned = built.package["transitions"].filter(pl.col("action_type").str.starts_with("get_")).sort("transition_id")
    row = learned.row(0, named=True)
    said = built.responder().reply(row["action_type"], json.loads(row["arguments_json"]), {"world": {}}, [])
    assert said is not None
    assert said.observation == json.dumps(json.loads(said.observation), ensure_ascii=False)
    events = built.package["events"].filter(pl.col("event_id").is_in(said.citations))
    assert events.height == len(said.citations) > 0
    assert set(events["kind"].cast(pl.String)) == {"observation"}
