"""What the fault suite shares: the process whose forks run commands, and the folder of inputs."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.faults.states import CONTENT
from tests.faults.verbs import SHARED, Verb
from tests.faults.warm import Ran, Started, Warm


@dataclass(frozen=True)
class Faults:
    """Runs commands on the shared inputs."""

    warm: Warm
    given: Path

    def words(self, line: str) -> tuple[list[str], bool]:
        """A line of the table, and whether it is a function of the tests."""
        words = line.format(given=self.given).split()
        return words, ":" in words[0]

    def start(self, line: str, cwd: Path, text: str = "", **how: object) -> Started:
        words, call = self.words(line)
        return self.warm.start(words, cwd, text=text, call=call, **how)

    def run(self, line: str, cwd: Path, text: str = "", kill_after: float | None = None, **how: object) -> Ran:
        return self.warm.end(self.start(line, cwd, text, **how), kill_after)

    def place(self, verb: Verb, folder: Path) -> Path:
        """Where a verb is about to run: what stands there before is made, and kept beside."""
        place = folder / "place"
        place.mkdir()
        for line in verb.before:
            done = self.run(line, place)
            assert done.code == 0, f"{line}: {done.err}"
        shutil.copytree(place, folder / "before")
        return place


def restore(place: Path) -> None:
    """What stood there before the verb ran."""
    shutil.rmtree(place)
    shutil.copytree(place.with_name("before"), place)


def contents(verb: Verb, place: Path) -> list[object]:
    """What each of the outputs of a verb holds."""
    return [CONTENT[verb.content].of(place / out) for out in verb.outs]


def names(place: Path) -> set[str]:
    """Everything that stands in a place, parts of outputs apart."""
    return {p.name for p in place.iterdir()} | {
        p.relative_to(place).as_posix() for p in place.rglob(".*") if p.name != ".gitattributes"
    }


@pytest.fixture(scope="session")
def faults(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Faults]:
    if os.name != "posix" or not hasattr(os, "pidfd_open"):
        pytest.skip("processes are watched as Linux does it")
    warm = Warm()
    try:
        given = tmp_path_factory.mktemp("faults") / "given"
        given.mkdir()
        made = Faults(warm, given)
        for line in (f"tests.faults.given:make {given}", *SHARED):
            done = made.run(line, given)
            assert done.code == 0, f"{line}: {done.err}"
        yield made
    finally:
        warm.close()
