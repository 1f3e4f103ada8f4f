"""Builds on every recorded world of the reference data: real traces and transcripts, end to end, no model, no network."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl
import pytest

from expcomp.environments.build import build_environment
from expcomp.environments.folder import verify_package
from expcomp.environments.gathering import gather
from expcomp.environments.starting import GIVEN, states_around
from tests.environments.induction.recorded import documents, paths_of
from tests.reference.environments import ROOT

if TYPE_CHECKING:
    from tests.reference.conftest import Built

pytestmark = pytest.mark.reference
LEDGER_EPISODES = 30
CHATS, LEDGER = (paths_of(ROOT, x) for x in ("chats", "ledger"))
LOGS = [p for x in ("oracle", "ledger", "workshop") for p in paths_of(ROOT, x)]


def test_there_are_worlds() -> None:
    assert CHATS
    assert LEDGER
    assert LOGS


def test_real_traces_give_a_package_whose_answers_can_be_trusted(chats: Built) -> None:
    built, out = chats.build, chats.folder
    found = built.report["evaluation"]
    assert verify_package(out) == []
    assert built.validated is not bool(built.report["reasons"])
    assert not found["leaky"]
    assert found["headline"]["selective_exact"] >= 0.95
    assert found["headline"]["coverage"] >= 0.25  # a fifth of the tasks; the floors are measured on five folds
    assert found["overall"]["knowable"] < 1.0
    assert sum(r["n"] for r in found["per_action"]) == found["steps"] == built.steps.height


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


@pytest.mark.parametrize("path", LOGS, ids=lambda p: p.name)
def test_recorded_worlds_are_read_as_they_are(path: Path) -> None:
    records = documents(path)
    found = gather([path])
    kinds = found.events["kind"].cast(pl.String)
    told = [len(r["steps"]) if "steps" in r else 1 for r in records]
    assert ((kinds == "action").sum(), (kinds == "observation").sum()) == (sum(told), sum(told))
    families = {r.get("group", r.get("task_id")) for r in records}
    assert set(found.episodes["trajectory_group"]) == families
    assert found.episodes.group_by("trajectory_group").agg(pl.col("split").n_unique())["split"].max() == 1
    around = states_around(found.events).drop_nulls()
    # Calls with both states, or what the recording tells of them.
    assert around.height == sum("state_after" in r for r in records) or "steps" in records[0]


@pytest.mark.parametrize("path", LEDGER, ids=lambda p: p.name)
def test_a_recorded_world_is_learned_with_its_states(path: Path, tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    log.write_text("".join(json.dumps(r) + "\n" for r in documents(path)[:LEDGER_EPISODES]), encoding="utf-8")
    built = build_environment(log, environment_id="ledger")
    overall = built.report["evaluation"]["overall"]
    assert (built.validated, overall["exact"], overall["state"], built.report["metrics"]["state"]) == (
        True,
        1.0,
        1.0,
        1.0,
    )


def test_remembered_answers_cite_the_turns_they_rest_on(chats: Built) -> None:
    built = chats.build
    learned = built.package["transitions"].filter(pl.col("action_type").str.starts_with("get_")).sort("transition_id")
    row = learned.row(0, named=True)
    said = built.responder().reply(row["action_type"], json.loads(row["arguments_json"]), {"world": {}}, [])
    assert said is not None
    assert said.observation == json.dumps(json.loads(said.observation), ensure_ascii=False)
    events = built.package["events"].filter(pl.col("event_id").is_in(said.citations))
    assert events.height == len(said.citations) > 0
    assert set(events["kind"].cast(pl.String)) == {"observation"}
