"""Two runs at once on one output: one whole output, no row lost, nothing left behind; who was too late says so."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.faults.conftest import Faults, contents, names, restore
from tests.faults.states import CONTENT, NOTHING
from tests.faults.verbs import VERBS, Verb

ROUNDS = int(os.environ.get("EXPCOMP_RACE_ROUNDS", "20"))
FEW = (
    "read (new)",
    "dataset",
    "ledger add",
    "ledger add (new)",
    "env play",
    "train prepare",
    "trainset pack",
)
BY_NAME = {v.name: v for v in VERBS}

pytestmark = pytest.mark.slow


def race(faults: Faults, verb: Verb, folder: Path, rounds: int) -> None:
    place = faults.place(verb, folder)
    assert faults.run(verb.words, place, verb.text).code == verb.code
    new, there, kind = contents(verb, place), names(place), CONTENT[verb.content]
    won = 0
    for _ in range(rounds):
        restore(place)
        runs = [faults.start(verb.words, place, verb.text) for _ in range(2)]
        for done in [faults.warm.end(run) for run in runs]:
            assert done.code in (verb.code, verb.fails), done.err
            assert "Traceback" not in done.err
            won += done.code == verb.code
        found = contents(verb, place)
        assert all(kind.done(a, b) for a, b in zip(new, found, strict=True)), (
            "neither of the two outputs, or a part of one"
        )
        if verb.content != "jobs":
            assert names(place) == there, "something is left behind"
    assert won >= rounds


@pytest.mark.parametrize("name", FEW)
def test_two_runs_at_once(faults: Faults, name: str, tmp_path: Path) -> None:
    race(faults, BY_NAME[name], tmp_path, 1)


@pytest.mark.stress
@pytest.mark.parametrize("verb", VERBS, ids=lambda v: v.name)
def test_two_runs_at_once_many_times(faults: Faults, verb: Verb, tmp_path: Path) -> None:
    race(faults, verb, tmp_path, ROUNDS)


def test_two_writers_of_other_runs_lose_none(faults: Faults, tmp_path: Path) -> None:
    files = ("first", "second")
    for _ in range(2):
        runs = [faults.start(f"ledger add book {{given}}/{file}.jsonl", tmp_path) for file in files]
        assert [faults.warm.end(run).code for run in runs] == [0, 0]
    (found,) = contents(BY_NAME["ledger add"], tmp_path)
    assert found is not NOTHING
    assert found[1] == 12, "rows of both, each once"  # type: ignore[index]


@pytest.mark.stress
def test_an_update_and_a_full_run_at_once_leave_the_same(faults: Faults, tmp_path: Path) -> None:
    verb = BY_NAME["compile (update)"]
    place = faults.place(verb, tmp_path)
    lines = (verb.words, "compile src --out out --force --workers 1")
    for done in [faults.warm.end(run) for run in [faults.start(line, place) for line in lines]]:
        assert done.code == 0 or (done.code == 2 and "run again" in done.err), done.err
    raced = contents(verb, place)
    assert faults.run("compile src --out full --workers 1", place).code == 0
    assert raced == [CONTENT["compile"].of(place / "full")]
    assert names(place) == {"src", "out", "full"}
