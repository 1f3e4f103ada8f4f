"""Runs with worker processes that are killed or interrupted: no process stays, the output is the old or the new, Ctrl-C is one line."""

from __future__ import annotations

import os
import random
import signal
from pathlib import Path

import pytest

from tests.faults.conftest import Faults, contents, names, restore
from tests.faults.given import __name__ as GIVEN  # noqa: N812
from tests.faults.verbs import VERBS, Verb

MANY = int(os.environ.get("EXPCOMP_KILL_TRIES", "40"))
STOPPED = "expcomp: stopped; nothing was published\n"
SIGNALS = (signal.SIGKILL, signal.SIGINT)

pytestmark = pytest.mark.slow


def with_workers(name: str) -> Verb:
    verb = next(v for v in VERBS if v.name == name)
    words = verb.words.replace("--workers 1", "").replace(
        "{given}/chats.jsonl", "{given}/chats.jsonl {given}/fewer.jsonl"
    )
    return verb._replace(words=f"{GIVEN}:in_processes {words} --workers 2")


def stop(faults: Faults, verb: Verb, folder: Path, tries: int) -> None:
    place = faults.place(verb, folder)
    old = contents(verb, place)
    whole = faults.run(verb.words, place)
    assert (whole.code, whole.left) == (0, 0), whole.err
    new, there = contents(verb, place), names(place)
    restore(place)
    stopped = 0
    for number in range(tries):
        how = SIGNALS[number % 2]
        after = whole.seconds * (number + random.Random(f"{verb.name}:{number}").random()) / tries
        done = faults.warm.end(faults.start(verb.words, place), after, how)
        where = f"{how.name} after {after:.3f} s of {whole.seconds:.3f} s, exit {done.code}: {done.err}"
        assert done.left == 0, f"processes left, {where}"
        found = contents(verb, place)
        assert found in (old, new), where
        stopped += done.code != 0
        if how == signal.SIGINT:
            assert done.code in (0, 130), where
            # A writer thread inside Polars may add that it was stopped, too, before anything of ours hears of it.
            assert done.code == 0 or done.err.split("\nthread '")[0] == STOPPED, where
        if found != old:
            restore(place)
    assert stopped > 0, "every run had ended before it was stopped; the test saw nothing"
    assert faults.run(verb.words, place).code == 0
    assert contents(verb, place) == new
    assert names(place) == there, "something is left behind"


def test_a_compile_with_workers(faults: Faults, tmp_path: Path) -> None:
    stop(faults, with_workers("compile"), tmp_path, 2)


@pytest.mark.stress
@pytest.mark.parametrize("name", ["compile", "compile (update)", "dataset", "read"])
def test_many_moments_with_workers(faults: Faults, name: str, tmp_path: Path) -> None:
    stop(faults, with_workers(name), tmp_path, MANY)
