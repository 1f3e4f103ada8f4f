"""What other machines have to see, and the code they have to run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from expcomp.errors import UsageError
from expcomp.io.pool import workers
from expcomp.io.seen import MOST, look, places, same, software


def test_what_is_there_is_seen(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "runs.zip").write_bytes(b"archive")
    found = places([tmp_path, tmp_path / "folder", tmp_path / "runs.zip" / "inside" / "a.json"])
    assert [p.path for p in found] == [tmp_path, tmp_path / "folder", tmp_path / "runs.zip"]
    look(found)


def test_the_first_of_many_is_always_among_the_places(tmp_path: Path) -> None:
    files = [tmp_path / f"{n}.jsonl" for n in range(3 * MOST + 1)]
    for file in files:
        file.touch()
    found = [p.path for p in places(files)]
    assert found[0] == files[0]
    assert MOST // 2 < len(found) <= MOST


def test_a_folder_without_any_of_its_names_is_another_folder(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).touch()
    one_left, none_left = places([tmp_path]), places([tmp_path, tmp_path])
    (tmp_path / "a").unlink()
    look(one_left)
    (tmp_path / "b").rename(tmp_path / "c")
    look(none_left)  # what was seen once in a process is not looked for again
    with pytest.raises(UsageError, match=f"does not see {re.escape(str(tmp_path))}; .*mount the folder there"):
        look((*none_left, *places([tmp_path / "c"])))


def test_other_code_is_refused() -> None:
    same(software())
    with pytest.raises(UsageError, match=r"has expcomp .*\(code .*\), polars .* and the caller expcomp 0"):
        same("expcomp 0")


def test_processes_of_this_machine_look_for_nothing(tmp_path: Path) -> None:
    with workers(1, seen=[tmp_path / "not there"]) as pool:
        assert pool.map(len, ["ab"], lambda _: None) == [2]
