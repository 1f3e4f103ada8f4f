"""An update compiles what changed and publishes the bytes of a full run."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import expcomp as xc
from expcomp.compiler.previous import STATE
from expcomp.compiler.verify import verify
from expcomp.config import CompileOptions
from expcomp.errors import OutputError
from expcomp.io.stat_digest import FRESH_NS
from expcomp.io.state_file import read_state
from tests.helpers import STEPS, edit, package, published, put

COUNT = 3


def settle() -> None:
    """Wait until what was written is no longer so fresh that a further write might not show."""
    time.sleep(2 * FRESH_NS / 1e9)


def compiled_cells(out: Path) -> int:
    report = json.loads((out / "report.json").read_text("utf-8"))
    return int(report["run"]["cells_compiled"])


def read_cells(out: Path) -> int:
    report = json.loads((out / "report.json").read_text("utf-8"))
    return int(report["run"]["cells_read"])


class Place:
    """An input of some packages and a chat file, its output, and another place for full runs."""

    def __init__(self, root: Path) -> None:
        self.source, self.out, self.full = root / "in", root / "out", root / "full"

    def update(self, **more: Any) -> int:
        settle()
        xc.compile_paths([self.source], self.out, update=True, processes=1, **more)
        return compiled_cells(self.out)

    def as_full_run(self, **more: Any) -> bool:
        xc.compile_paths([self.source], self.full, force=True, processes=1, **more)
        return published(self.out) == published(self.full)


def conversation(task: str, reward: float, answer: str) -> str:
    said = [{"role": "user", "content": "Count the gauges."}, {"role": "assistant", "content": answer}]
    return json.dumps({"messages": said, "task_id": task, "reward": reward}) + "\n"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("update")
    for i in range(COUNT):
        package(root / "in", f"pkg_{i}", task_id=f"task_{i}", steps=STEPS[:3], loops=i == 1)
    put(root / "in/chats/a.jsonl", conversation("t", 1.0, "Twelve.") + conversation("t", 0.0, "Nine."))
    # Diagnostics of the discovery, which belong to no cell, stand before those of the packages.
    put(root / "in/stray.json", '{"a": 1}')
    for i in range(COUNT):
        (root / f"in/pkg_{i}/attempts/baseline/artifacts/report.md").write_bytes(b"\xff" * (i + 1))
    settle()
    xc.compile_paths([root / "in"], root / "out", processes=1)
    return root


@pytest.fixture
def place(made: Path, tmp_path: Path) -> Place:
    shutil.copytree(made / "in", tmp_path / "in")
    # The state knows files by inode and time of change: those of a copy are other ones, so the copy is compiled again, once.
    shutil.copytree(made / "out", tmp_path / "out")
    return Place(tmp_path)


def test_without_a_change_nothing_is_compiled_and_every_byte_stays(made: Path, tmp_path: Path) -> None:
    place = Place(made)
    before = published(place.out)
    assert place.update() == 0
    assert published(place.out) == before
    assert verify(place.out).ok
    # Also an output that was moved or copied can be brought up to date: its files are compared by their digests.
    shutil.copytree(place.out, tmp_path / "copy")
    xc.compile_paths([place.source], tmp_path / "copy", update=True, processes=1)
    assert compiled_cells(tmp_path / "copy") == 0
    assert published(tmp_path / "copy") == before


def test_a_copy_of_the_input_is_read_again_and_not_compiled(place: Place, made: Path) -> None:
    assert place.update() == 0
    assert read_cells(place.out) == COUNT + 1
    assert published(place.out) == published(made / "out")
    assert place.update() == 0
    assert read_cells(place.out) == 0


def changed_text(place: Place) -> None:
    def change(spec: dict[str, Any]) -> None:
        spec["normalized_instruction"] = "Count the gauges again."

    edit(place.source / "pkg_2/task/task_intake_spec.json", change)


def removed(place: Place) -> None:
    shutil.rmtree(place.source / "pkg_1")


def added(place: Place) -> None:
    package(place.source, "pkg_new", task_id="task_new", steps=STEPS[:3])
    package(place.source, "pkg_twin", task_id="task_0", steps=STEPS[:2])


def chat_grew(place: Place) -> None:
    put(place.source / "chats/b.jsonl", conversation("t", 0.5, "Eleven."))


def test_changes_are_seen_and_the_output_is_that_of_a_full_run(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    # With so few rows a chunk the files have many chunks, which are copied where nothing changed in them.
    monkeypatch.setattr("expcomp.compiler.layout.CHUNK_ROWS", 2)
    settle()
    xc.compile_paths([place.source], place.out, force=True, processes=1)
    changes: list[tuple[Callable[[Place], None], int]] = [(changed_text, 1), (removed, 0), (added, 2), (chat_grew, 1)]
    for change, cells in changes:
        change(place)
        assert place.update() == cells, change.__name__
    assert place.as_full_run()
    assert verify(place.out).ok


def test_other_options_compile_everything(made: Path, tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.source = made / "in"
    shutil.copytree(made / "out", place.out)
    assert place.update(options=CompileOptions(max_text_chars=10)) == COUNT + 1
    assert published(place.out) != published(made / "out")


@pytest.mark.parametrize("damage", ["the state is gone", "a file was written to"])
def test_an_output_that_cannot_be_relied_on_is_made_anew(made: Path, tmp_path: Path, damage: str) -> None:
    place = Place(tmp_path)
    place.source = made / "in"
    shutil.copytree(made / "out", place.out)
    rows = place.out / "rows/environment_response_pair.jsonl"
    if damage == "the state is gone":
        (place.out / STATE).unlink()
    else:
        put(rows, rows.read_text("utf-8").replace("gauges", "GAUGES"))
    assert place.update() == COUNT + 1
    assert published(place.out) == published(made / "out")


def test_an_output_replaced_meanwhile_is_left_alone(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = published(made / "out")
    monkeypatch.setattr("expcomp.compiler.build.still_there", lambda _: False)
    with pytest.raises(OutputError, match="was replaced while it was updated"):
        xc.compile_paths([made / "in"], made / "out", update=True, processes=1)
    assert published(made / "out") == before


@pytest.mark.parametrize("text", [b"", b"something else", b"ARROW1" + bytes(40)])
def test_a_damaged_state_is_none(tmp_path: Path, text: bytes) -> None:
    (tmp_path / STATE).write_bytes(text)
    assert read_state(tmp_path / STATE) is None


def test_a_file_that_is_written_again_at_once_is_not_missed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = Place(tmp_path)
    package(place.source, steps=STEPS[:2])
    with monkeypatch.context() as slow:
        slow.setattr("expcomp.io.stat_digest.FRESH_NS", 3600 * 10**9)  # however slow this machine is
        xc.compile_paths([place.source], place.out, processes=1)
    # Written less than a moment before it was read: the next update does not take its word for it.
    place.update()
    assert read_cells(place.out) == 1
    place.update()
    assert read_cells(place.out) == 0


def test_packages_whose_tasks_turn_out_to_be_one_do_not_depend_on_their_company(tmp_path: Path) -> None:
    place = Place(tmp_path)
    for name in ("pkg_a", "pkg_b", "pkg_c"):
        package(place.source, name, task_id=f"task_{name}", steps=STEPS[:2], loops=False)
    # Only redaction makes the ids of two tasks one.
    for name, user in (("pkg_a", "ann"), ("pkg_b", "bob")):
        edit(
            place.source / name / "task/task_intake_spec.json",
            lambda spec, user=user: spec.update(task_id=f"/home/{user}/task"),
        )
    settle()
    xc.compile_paths([place.source], place.out, processes=1)
    attempts = pl.read_parquet(place.out / "tables/attempts.parquet")
    assert attempts.filter(pl.col("package_id") != "pkg_c")["task_id"].n_unique() == 1
    before = published(place.out)
    os.utime(place.source / "pkg_b/task/task_intake_spec.json")
    assert place.update() == 0
    assert read_cells(place.out) == 1
    assert published(place.out) == before


def test_of_spread_sources_only_buckets_of_changed_tasks_are_compiled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = Place(tmp_path)
    monkeypatch.setattr("expcomp.sources.spread.BUCKET_BYTES", 700)
    monkeypatch.setattr("expcomp.sources.spread.MOST_BUCKETS", 2)
    for i in range(12):
        put(place.source / f"{i:02}.jsonl", conversation(f"task_{i}", i % 2, f"{i} gauges." * 10))
    settle()
    xc.compile_paths([place.source], place.out, processes=1)
    buckets = compiled_cells(place.out)
    assert buckets == 2
    # Touched, then grown by an attempt at its own task, then renamed and another removed.
    os.utime(place.source / "04.jsonl")
    assert place.update() == 0
    assert read_cells(place.out) == buckets
    put(place.source / "04.jsonl", conversation("task_4", 1.0, "Four.") * 2)
    assert 0 < place.update() < buckets
    (place.source / "05.jsonl").rename(place.source / "99.jsonl")
    (place.source / "07.jsonl").unlink()
    put(place.source / "20.jsonl", conversation("task_1", 1.0, "A task of two files."))
    place.update()
    assert place.as_full_run()
    assert verify(place.out).ok
