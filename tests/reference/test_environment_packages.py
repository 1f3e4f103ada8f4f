"""Packages against the recorded cases of the reference data: every case file found there, played by a hand-written ledger."""

from __future__ import annotations

import gzip
import hashlib
import json
from pathlib import Path

import polars as pl
import pytest

from expcomp import read_traces
from expcomp.environments.align import align
from expcomp.environments.assessment import assess
from expcomp.environments.cases import read_cases
from expcomp.environments.frames import frames
from expcomp.environments.package import compile_package
from expcomp.environments.recordings import recordings
from expcomp.environments.transcripts import transcripts
from tests.environments.worlds import AUTHORED, LEDGER
from tests.reference.environments import ROOT

pytestmark = pytest.mark.reference
CASES = sorted((ROOT / "replay").glob("*ledger*.jsonl"))


@pytest.mark.parametrize("mode", ["strict", "graded"])
@pytest.mark.parametrize("path", CASES, ids=lambda p: p.name)
def test_the_authored_ledger_is_exact_covered_and_eligible(path: Path, mode: str, tmp_path: Path) -> None:
    cases, steps = read_cases(path)
    judged = assess(compile_package(frames(LEDGER), AUTHORED), cases, steps, mode=mode)
    m = judged.report["metrics"]
    assert (m["cases"], m["cases_passed"], m["exact"], m["outcome"], m["state"]) == (
        cases.height,
        cases.height,
        1.0,
        1.0,
        1.0,
    )
    assert judged.report["reasons"] == []
    assert m["rules_used"] == 4
    judged.promote(tmp_path / "pkg")


def test_there_are_cases() -> None:
    assert CASES


def test_the_cases_name_their_sources_by_digest() -> None:
    known = {"src_" + hashlib.sha256(p.read_bytes()).hexdigest() for p in (ROOT / "replay").iterdir()}
    for path in CASES:
        cases, _ = read_cases(path)
        assert set(cases["source_ids"].explode()) <= known


def test_the_text_of_each_step_is_the_recorded_one() -> None:
    _, steps = read_cases(CASES[0])
    assert steps["expected_observation"].to_list()[1] == "Deposited 5. Balance: 105.0"


@pytest.mark.parametrize("path", sorted((ROOT / "raw").glob("*.txt")), ids=lambda p: p.name)
def test_a_raw_transcript_gives_its_events(path: Path) -> None:
    text = path.read_text("utf-8")
    found = transcripts(pl.DataFrame({"label": [path.name], "text": [text]}))
    assert found.episodes["n_events"].to_list() == [len(text.splitlines())]
    assert found.sources["source_id"][0] == "src_" + hashlib.sha256(path.read_bytes()).hexdigest()
    kinds = found.events["kind"].cast(pl.String)
    assert kinds.to_list() == ["message", "action", "observation"] * 2
    assert set(found.events["action_name"].drop_nulls()) == {"deposit", "withdraw"}
    transitions = align(found.events)
    assert transitions["usable"].to_list() == [True, True]
    assert [json.loads(a) for a in transitions["arguments_json"]] == [{"amount": 20}, {"amount": 200}]


@pytest.mark.parametrize("path", sorted(ROOT.glob("tau_*.json.gz")), ids=lambda p: p.name)
def test_every_call_of_a_trace_is_an_action_event(path: Path) -> None:
    runs = json.loads(gzip.decompress(path.read_bytes()))
    calls = sum(len(m.get("tool_calls") or ()) for run in runs for m in run["traj"])
    found = recordings(read_traces(path))
    kinds = found.events["kind"].cast(pl.String)
    assert ((kinds == "action").sum(), (kinds == "observation").sum(), found.episodes.height) == (
        calls,
        calls,
        len(runs),
    )
    assert align(found.events)["usable"].sum() == calls
    assert found.episodes["trajectory_group"].n_unique() == len({run["task_id"] for run in runs})
    crossed = found.episodes.group_by("trajectory_group").agg(pl.col("split").n_unique())
    assert crossed["split"].max() == 1
