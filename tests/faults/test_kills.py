"""Every verb that writes, stopped at any moment or unable to write: each output is the old or the new, whole; the next run succeeds.

Two ways to stop it: at a random moment of the run, and before a random one of the writes that Python makes. In the short form most of
the moments are looked at without an end: what stands on the disk is copied in the midst of one run, and is what a kill there leaves.
The figures of a long campaign are in KILLS.md; `EXPCOMP_KILL_RECORD=file` adds a line to a file for each verb.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.faults.conftest import Faults, contents, names, restore
from tests.faults.states import CONTENT, NOTHING
from tests.faults.verbs import VERBS, Verb
from tests.faults.warm import Ran

SEED = int(os.environ.get("EXPCOMP_KILL_SEED", "7"))
MANY = int(os.environ.get("EXPCOMP_KILL_TRIES", "200"))
WATCHED = 10
FULL_EVERY = 50
LONG = ("demo", "compile (new)")
"""Only in the long form: `demo` is `compile` of larger inputs, and `read (new)` publishes where nothing stands as `compile` does."""

COSTLY = ("compile", "compile (update)", "report", "env build", "decide", "train run")
"""Looked at in the midst of one run, and run again; the faults of a disk are met late in a run, and these write as the others do."""

FULL = ("File too large", "No space left", "no space left", "disk I/O error", "disk is full")

pytestmark = pytest.mark.slow


class Killing:
    """A verb with what its outputs may be, and a count of what they were."""

    def __init__(self, faults: Faults, verb: Verb, folder: Path) -> None:
        self.faults, self.verb, self.kind = faults, verb, CONTENT[verb.content]
        self.place = faults.place(verb, folder)
        self.old = contents(verb, self.place)
        self.watched = folder / "watched"
        self.watched.mkdir()
        self.whole = self.run(watch=str(self.watched), watched=WATCHED)
        assert self.whole.code == verb.code, self.whole.err
        self.new, self.names = contents(verb, self.place), names(self.place)
        assert self.new != self.old
        self.done = folder / "done"
        shutil.copytree(self.place, self.done)
        self.seen: Counter[str] = Counter()

    def run(self, kill_after: float | None = None, **how: object) -> Ran:
        return self.faults.run(self.verb.words, self.place, self.verb.text, kill_after, **how)

    def look(self, place: Path, where: str) -> list[object]:
        """Hold the outputs at a place to what they may be."""
        found = contents(self.verb, place)
        for name, old, new, one in zip(self.verb.outs, self.old, self.new, found, strict=True):
            self.seen["outputs"] += 1
            self.seen["lost"] += one is NOTHING and old is not NOTHING
            assert one is not NOTHING or old is NOTHING, f"{name} is gone, {where}"
            assert self.kind.may_be(old, new, one), f"{name} is neither the old nor the new, {where}"
            self.seen["old" if one == old else "new" if one == new else "between"] += 1
        return found

    def kill(self, number: int, tries: int) -> None:
        """Stop a run: one half at moments in equal parts of the time, one half before writes in equal parts of those."""
        share = (number + random.Random(f"{SEED}:{self.verb.name}:{number}").random()) / tries
        if number % 2 and self.whole.writes > 2:
            at = int(share * self.whole.writes)
            done, where = self.run(kill_at=at), f"killed before write {at} of {self.whole.writes}"
        else:
            after = share * self.whole.seconds
            done, where = self.run(kill_after=after), f"killed after {after:.3f} s of {self.whole.seconds:.3f} s"
        assert done.code in (-9, self.verb.code), f"{where}: {done.err}"
        assert done.left == 0, f"processes left, {where}"
        self.seen["kills"] += done.code == -9
        if self.look(self.place, where) != self.old:
            restore(self.place)

    def finish(self) -> None:
        """The next run succeeds, gives the same, and cleans up."""
        done = self.run()
        assert done.code == self.verb.code, done.err
        for new, found in zip(self.new, contents(self.verb, self.place), strict=True):
            assert self.kind.done(new, found), "the next run gave something else"
        if self.verb.content != "jobs":
            assert names(self.place) == self.names, "something is left behind"
        self.seen["runs"] += 1
        restore(self.place)

    def record(self) -> None:
        if path := os.environ.get("EXPCOMP_KILL_RECORD"):
            with Path(path).open("a", encoding="utf-8") as file:
                file.write(json.dumps({"verb": self.verb.name, **self.seen}) + "\n")


@pytest.mark.parametrize("verb", [v for v in VERBS if v.name not in LONG], ids=lambda v: v.name)
def test_a_verb_that_is_stopped_or_cannot_write(faults: Faults, verb: Verb, tmp_path: Path) -> None:
    killing = Killing(faults, verb, tmp_path)
    copies = sorted(killing.watched.iterdir())
    for copy in copies:
        killing.look(copy, f"in copy {copy.name} of what stood there during a run")
    if verb.name not in COSTLY:
        refused_in_a_read_only_folder(killing)
        told_of_a_full_disk(killing)
        for number in range(1 + WATCHED - len(copies)):
            killing.kill(number, 1 + WATCHED - len(copies))
    # The next run begins where one was stopped before it had published anything.
    begun = [copy for copy in copies if contents(verb, copy) == killing.old]
    restore(killing.place)
    if begun:
        shutil.rmtree(killing.place)
        shutil.copytree(random.Random(verb.name).choice(begun), killing.place)
    killing.finish()


def refused_in_a_read_only_folder(killing: Killing) -> None:
    """Nothing there may be written: the run says so, and changes nothing."""
    restore(killing.place)
    folders = [killing.place, *(p for p in killing.place.rglob("*") if p.is_dir())]
    for folder in folders:
        folder.chmod(0o555)
    done = killing.run(unprivileged=True)
    for folder in folders:
        folder.chmod(0o755)
    unwritten(killing, done, ("Permission denied", "readonly", "Could not create local directory"))


def told_of_a_full_disk(killing: Killing) -> None:
    """No file may grow to more than half of the largest that the verb writes."""
    files = [
        p for out in killing.verb.outs for p in (killing.done / out, *(killing.done / out).rglob("*")) if p.is_file()
    ]
    done = killing.run(file_bytes=max(p.stat().st_size for p in files) // 2)
    unwritten(killing, done, FULL)


def unwritten(killing: Killing, done: Ran, reasons: tuple[str, ...]) -> None:
    """The run ended with its code, names an output and the reason, and left the old outputs and nothing else."""
    verb, said = killing.verb, done.err + done.out
    assert done.code == verb.fails, said
    assert any(reason in said for reason in reasons), said
    assert any(out.partition("/")[0] in said or str(killing.place) in said for out in verb.outs), said
    assert "Traceback" not in said
    killing.look(killing.place, "after what could not be written")
    if verb.content not in ("jobs", "session"):
        assert names(killing.place) <= killing.names, "something is left behind"
    restore(killing.place)


@pytest.mark.stress
@pytest.mark.parametrize("verb", VERBS, ids=lambda v: v.name)
def test_many_moments_of_a_verb(faults: Faults, verb: Verb, tmp_path: Path) -> None:
    killing = Killing(faults, verb, tmp_path)
    restore(killing.place)
    for number in range(MANY):
        killing.kill(number, MANY)
        if number % FULL_EVERY == FULL_EVERY - 1:
            killing.finish()
    assert killing.seen["kills"] > MANY // 2, "most runs had ended before they were killed; the test saw little"
    killing.record()


def tmpfs(folder: Path, size: int) -> Iterator[Path]:
    """A small disk, where this process may have one."""
    folder.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", os.fspath(folder)],
        capture_output=True,
        text=True,
        check=False,
    )
    if made.returncode:
        pytest.skip(f"no disk of our own: {made.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", os.fspath(folder)], check=True)


@pytest.mark.skipif(shutil.which("mount") is None, reason="no mount")
@pytest.mark.parametrize("name", ["dataset", "ledger add", "env patch", "trainset pack"])
def test_a_disk_that_is_full_and_then_read_only(faults: Faults, name: str, tmp_path: Path) -> None:
    verb = next(v for v in VERBS if v.name == name)
    with contextmanager(tmpfs)(tmp_path / "disk", 4 << 20) as disk:
        place = faults.place(verb, disk)
        shutil.rmtree(disk / "before")
        old, there = contents(verb, place), names(place)
        free = shutil.disk_usage(disk).free
        (disk / "filler").write_bytes(bytes(free - 8192))
        full = faults.run(verb.words, place, verb.text)
        assert (full.code, any(reason in full.err for reason in FULL)) == (2, True), full.err
        assert (contents(verb, place), names(place)) == (old, there)
        (disk / "filler").unlink()
        subprocess.run(["mount", "-o", "remount,ro", os.fspath(disk)], check=True)
        shut = faults.run(verb.words, place, verb.text)
        assert (shut.code, "Read-only file system" in shut.err) == (2, True), shut.err
        assert (contents(verb, place), names(place)) == (old, there)
        subprocess.run(["mount", "-o", "remount,rw", os.fspath(disk)], check=True)
        assert faults.run(verb.words, place, verb.text).code == verb.code
        assert contents(verb, place) != old
