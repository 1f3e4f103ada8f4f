"""Publishing is all or nothing, whatever ends the run."""

from __future__ import annotations

import errno
import os
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import polars as pl
import pytest

from expcomp.errors import OutputError, SourceError
from expcomp.io.publish import publish, start_sync
from expcomp.io.whole import disk_error


def write(folder: Path, text: str) -> None:
    (folder / "rows").mkdir()
    (folder / "rows/a.txt").write_text(text, encoding="utf-8")
    (folder / "manifest.json").write_text("{}", encoding="utf-8")


def read(folder: Path) -> str:
    return (folder / "rows/a.txt").read_text(encoding="utf-8")


def left_over(parent: Path) -> list[str]:
    return sorted(p.name for p in parent.iterdir() if p.name.startswith("."))


def test_a_new_folder_appears_whole(tmp_path: Path) -> None:
    out = tmp_path / "deep/out"
    with publish(out) as staging:
        write(staging, "one")
        assert not out.exists()
        assert staging.parent == out.parent
        assert staging.name.startswith(".out.expcomp-")
    assert read(out) == "one"
    assert left_over(out.parent) == []


def test_an_output_is_replaced_only_by_force(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with publish(out) as staging:
        write(staging, "one")
    with pytest.raises(OutputError, match="force"), publish(out):
        pytest.fail("entered")
    with publish(out, force=True) as staging:
        write(staging, "two")
        assert read(out) == "one"
    assert read(out) == "two"
    assert left_over(tmp_path) == []


def test_a_folder_of_someone_else_is_never_replaced(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "thesis.txt").write_text("x", encoding="utf-8")
    with pytest.raises(OutputError, match=r"manifest\.json"), publish(out, force=True):
        pytest.fail("entered")
    assert [p.name for p in out.iterdir()] == ["thesis.txt"]


def test_an_empty_folder_is_replaced_by_force(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    with publish(tmp_path / "out", force=True) as staging:
        write(staging, "one")
    assert read(tmp_path / "out") == "one"


def test_files_and_links_in_the_way(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x", encoding="utf-8")
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    for name in ("file", "link"):
        with pytest.raises(OutputError, match=name), publish(tmp_path / name, force=True):
            pytest.fail("entered")


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_an_error_leaves_the_old(tmp_path: Path, error: type[BaseException]) -> None:
    out = tmp_path / "out"
    with publish(out) as staging:
        write(staging, "one")

    def fail() -> None:
        with publish(out, force=True) as staging:
            write(staging, "two")
            raise error

    with pytest.raises(error):
        fail()
    assert read(out) == "one"
    assert left_over(tmp_path) == []


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x", encoding="utf-8")
    with pytest.raises(OutputError, match="file"), publish(tmp_path / "file/out"):
        pytest.fail("entered")


def test_without_exchange_the_old_is_moved_aside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("expcomp.io.publish._exchanged", lambda *_: False)
    out = tmp_path / "out"
    for text in ("one", "two"):
        with publish(out, force=True) as staging:
            write(staging, text)
    assert read(out) == "two"
    assert left_over(tmp_path) == []


def test_a_run_that_was_killed_while_the_old_stood_aside_loses_nothing(tmp_path: Path) -> None:
    out, staging = tmp_path / "out", tmp_path / ".out.expcomp-0a"
    for folder, text in ((staging, "new"), (staging.with_name(staging.name + "-old"), "old")):
        folder.mkdir()
        write(folder, text)
    staging.with_name(staging.name + ".lock").touch()
    with pytest.raises(ValueError, match="stop"), publish(out, force=True):
        raise ValueError("stop")
    assert read(out) == "old"
    assert left_over(tmp_path) == []


def test_a_second_rename_that_fails_puts_the_old_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("expcomp.io.publish._exchanged", lambda *_: False)
    out = tmp_path / "out"
    with publish(out) as staging:
        write(staging, "one")
    rename = Path.rename
    monkeypatch.setattr(
        Path, "rename", lambda a, b: full() if ".expcomp-" in a.name and a.name[-4:] != "-old" else rename(a, b)
    )
    with pytest.raises(OutputError, match="cannot be written"), publish(out, force=True) as staging:
        write(staging, "two")
    assert read(out) == "one"
    assert left_over(tmp_path) == []


def full() -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), "No space left on device"),
        (pl.exceptions.ComputeError("parquet: underlying IO error: No space left on device (os error 28)"), "No space left on device"),
        (pl.exceptions.ComputeError("parquet: Invalid thrift: transport error"), "no space left, or the file too large"),
        (pl.exceptions.ComputeError("cannot compare string with numeric type"), None),
        (SourceError("a.json cannot be read: No such file (os error 2)"), None),
        (sqlite3.OperationalError("no such table: x"), None),
    ],
)  # fmt: skip
def test_what_the_disk_said_is_told_and_nothing_else_is_taken_for_it(error: Exception, said: str | None) -> None:
    assert disk_error(error) == said


RUN = """
import sys
from pathlib import Path
from expcomp.io.publish import publish
out, text, pause = Path(sys.argv[1]), sys.argv[2], sys.argv[3] == "pause"
n = 0
while True:
    with publish(out, force=True) as staging:
        (staging / "rows").mkdir()
        (staging / "rows/a.txt").write_text(f"{text}{n}" * 1000)
        (staging / "manifest.json").write_text("{}")
        if pause:
            print("staged", flush=True)
            sys.stdin.read()
    n += 1
    print(n, flush=True)
"""


def start(out: Path, mode: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", RUN, str(out), "v", mode],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=dict(os.environ),
    )


def kill(run: subprocess.Popen[str]) -> None:
    run.send_signal(signal.SIGKILL)
    run.wait()
    assert run.stdin is not None
    assert run.stdout is not None
    run.stdin.close()
    run.stdout.close()


@pytest.mark.slow
def test_kill_at_any_moment_leaves_a_whole_output(tmp_path: Path) -> None:
    out = tmp_path / "out"
    for delay in (0.0, 0.003, 0.011):
        run = start(out, "loop")
        assert run.stdout is not None
        run.stdout.readline()
        time.sleep(delay)
        kill(run)
        text = read(out)
        assert (out / "manifest.json").is_file()
        assert len(text) == 1000 * len(text[: text.index("v", 1)])
    with publish(out, force=True) as staging:
        write(staging, "last")
    assert read(out) == "last"
    assert left_over(tmp_path) == []


@pytest.mark.slow
def test_the_staging_of_a_dead_run_is_removed_and_of_a_live_one_is_not(tmp_path: Path) -> None:
    out = tmp_path / "out"
    run = start(out, "pause")
    assert run.stdout is not None
    assert run.stdout.readline() == "staged\n"
    with publish(out, force=True) as staging:
        write(staging, "mine")
        assert len([n for n in left_over(tmp_path) if not n.endswith(".lock")]) == 2
    assert len([n for n in left_over(tmp_path) if not n.endswith(".lock")]) == 1
    kill(run)
    with publish(out, force=True) as staging:
        write(staging, "again")
    assert left_over(tmp_path) == []


def test_a_tilde_is_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(OutputError, match=r"give it in full, as Path\.home\(\)"), publish(Path("~/out")):
        pass
    assert list(tmp_path.iterdir()) == []


def test_a_file_on_its_way_to_disk_is_what_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"a" * 10_000)
    start_sync(path)
    monkeypatch.setattr("ctypes.CDLL", lambda _: object())  # a system without the call
    start_sync(path)
    assert path.read_bytes() == b"a" * 10_000
