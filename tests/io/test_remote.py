"""Inputs at addresses: the same trees, and names that stay inside."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from expcomp.compiler.build import compile_paths
from expcomp.errors import ConfigError, OutputError, SourceError, UsageError
from expcomp.io import fetch
from expcomp.io.addresses import is_address
from expcomp.io.remote import local_paths
from expcomp.sources.load import read_traces, scan_traces
from tests.helpers import package, published, tree

fsspec = pytest.importorskip("fsspec")
MEMORY = type(fsspec.filesystem("memory"))


@pytest.fixture
def store() -> Iterator[dict[str, object]]:
    """An object store in memory, which takes any text for a name."""
    system = fsspec.filesystem("memory")
    system.store.clear()
    for name in ("runs/a/one.jsonl", "runs/a/deep/er/two.jsonl", "runs/b/three.jsonl", "other/four.jsonl"):
        system.pipe_file(f"/bucket/{name}", name.encode())
    yield system.store
    system.store.clear()


@pytest.mark.parametrize(
    ("path", "is_one"),
    [
        ("s3://bucket/runs", True),
        ("gs://b", True),
        ("file:///data", True),
        ("runs/", False),
        ("/data/s3:/x", False),
        ("c://x", False),
        (Path("s3://b/x"), False),
    ],
)
def test_addresses_have_a_protocol(path: str | Path, is_one: bool) -> None:
    assert is_address(path) is is_one


def test_a_tree_keeps_its_names_and_goes_when_it_was_read(store: dict[str, object], tmp_path: Path) -> None:
    out = tmp_path / "out"
    with local_paths(["memory://bucket/runs"], beside=out) as (top,):
        assert Path(top).name == "runs"
        assert Path(top).is_relative_to(tmp_path)
        assert sorted(tree(Path(top))) == ["a/deep/er/two.jsonl", "a/one.jsonl", "b/three.jsonl"]
        assert (Path(top) / "a/one.jsonl").read_text() == "runs/a/one.jsonl"
    assert not list(tmp_path.iterdir())


def test_files_wildcards_and_several_addresses(store: dict[str, object], tmp_path: Path) -> None:
    def found(*addresses: str) -> list[str]:
        with local_paths(addresses, beside=tmp_path / "out") as tops:
            return sorted(p.name for t in tops for p in [Path(t), *Path(t).rglob("*")] if p.is_file())

    assert found("memory://bucket/runs/b/three.jsonl") == ["three.jsonl"]
    assert found("memory://bucket/runs/*/*.jsonl") == ["one.jsonl", "three.jsonl"]
    assert found("memory://bucket/runs/b", "memory://bucket/other") == ["four.jsonl", "three.jsonl"]


def test_places_here_are_left_as_they_are(tmp_path: Path) -> None:
    with local_paths([tmp_path, "a/b"]) as same:
        assert same == [tmp_path, "a/b"]


@pytest.mark.parametrize(
    "name", ["/bucket/runs/../../evil", "/bucket/runs/./x", "/bucket/runs//x", "/bucket/runs/a\\b", "/bucket/runs/a\0b"]
)
def test_names_that_are_no_paths_below_are_refused(store: dict[str, object], tmp_path: Path, name: str) -> None:
    store[name] = store["/bucket/runs/a/one.jsonl"]
    with (
        pytest.raises(SourceError, match="cannot be a path below"),
        local_paths(["memory://bucket/runs"], beside=tmp_path / "x"),
    ):
        pass
    assert not list(tmp_path.iterdir())


def test_what_cannot_be_read_is_told(store: dict[str, object], tmp_path: Path) -> None:
    for addresses, error, said in (
        (["memory://bucket/none"], SourceError, "memory://bucket/none"),
        (["memory://bucket/runs", str(tmp_path)], UsageError, "no common root"),
        (["nosuch://bucket/runs"], ConfigError, "nosuch"),
    ):
        with pytest.raises(error, match=said), local_paths(addresses):
            pass


def inodes(folder: Path) -> dict[str, int]:
    return {p.name: p.stat().st_ino for p in folder.rglob("*.jsonl")}


def test_a_cache_fetches_only_what_changed(store: dict[str, object], tmp_path: Path) -> None:
    cache, system = tmp_path / "cache", fsspec.filesystem("memory")

    def fetched() -> dict[str, str]:
        with local_paths(["memory://bucket/runs"], cache=cache) as (top,):
            return tree(Path(top))

    first, before = fetched(), inodes(cache)
    assert fetched() == first
    assert inodes(cache) == before
    system.pipe_file("/bucket/runs/b/three.jsonl", b"changed")
    system.pipe_file("/bucket/runs/c/five.jsonl", b"new")
    system.rm_file("/bucket/runs/a/deep/er/two.jsonl")
    with local_paths(["memory://bucket/runs"]) as (fresh,):
        assert fetched() == tree(Path(fresh)) != first
    now = inodes(cache)
    assert {n for n in now if now[n] == before.get(n)} == {"one.jsonl"}
    assert not list(cache.rglob("deep"))  # a folder in which nothing is left goes, too
    (cache / "objects/memory/bucket/runs/a/one.jsonl").write_text("not what was fetched")
    (cache / "mine.txt").write_text("not below the copies")
    assert fetched()["a/one.jsonl"] == first["a/one.jsonl"]
    assert (cache / "mine.txt").exists()


def test_a_cache_is_a_folder_of_its_own_for_one_run_at_a_time(store: dict[str, object], tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(OutputError, match="something else than copies"), _cached(tmp_path):
        pass
    with _cached(tmp_path / "cache"), pytest.raises(OutputError, match="in use"), _cached(tmp_path / "cache"):
        pass
    assert (tmp_path / "mine.txt").read_text() == "mine"


def _cached(cache: Path) -> AbstractContextManager[list[str | Path]]:
    return local_paths(["memory://bucket/runs"], cache=cache)


def test_an_error_that_passes_is_waited_for(
    store: dict[str, object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetch, "PAUSE", 0.0)
    real, calls = MEMORY._open, list[str]()

    def falters(system: Any, path: str, *args: object, **more: object) -> object:
        calls.append(path)
        if len(calls) % fetch.TRIES:
            msg = "reset by peer"
            raise ConnectionResetError(msg)
        return real(system, path, *args, **more)

    monkeypatch.setattr(MEMORY, "_open", falters)
    with local_paths(["memory://bucket/runs"]) as (top,):
        assert len(tree(Path(top))) == 3
    assert len(calls) == 3 * fetch.TRIES


@pytest.mark.parametrize(
    ("error", "said", "tries"),
    [
        (PermissionError("no"), "give credentials", 1),
        (RuntimeError("Unable to locate credentials"), "give credentials", 1),
        (FileNotFoundError("it went"), "cannot be read: FileNotFoundError", 1),
        (TimeoutError("slow"), "cannot be read: TimeoutError: slow$", fetch.TRIES),
    ],
)
def test_an_error_that_stays_is_told(
    error: Exception, said: str, tries: int, store: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetch, "PAUSE", 0.0)
    calls = list[str]()

    def fails(system: Any, path: str, *args: object, **more: object) -> object:
        calls.append(path)
        raise error

    monkeypatch.setattr(MEMORY, "_open", fails)
    with pytest.raises(SourceError, match=f"memory:///bucket/runs/.*{said}"), local_paths(["memory://bucket/runs"]):
        pass
    assert len(calls) == tries


def test_a_copy_that_does_not_fit_is_refused_before_the_first_byte(
    store: dict[str, object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=10))
    with (
        pytest.raises(OutputError, match="are to be fetched"),
        local_paths(["memory://bucket/runs"], beside=tmp_path / "x"),
    ):
        pass
    assert not list(tmp_path.iterdir())


def test_a_worker_that_does_not_see_the_copy_makes_none_of_its_own(store: dict[str, object], tmp_path: Path) -> None:
    job = fetch.FetchJob(tmp_path / "gone", (fetch.Remote("memory://bucket/other/four.jsonl", "memory/x", 4),))
    with pytest.raises(FileNotFoundError) as found:
        fetch.run_fetch(job)
    assert found.value.filename == str(tmp_path / "gone")
    assert not list(tmp_path.iterdir())


def test_an_update_compiles_what_changed_in_the_store(store: dict[str, object], tmp_path: Path) -> None:
    system = fsspec.filesystem("memory")
    for number in range(3):
        package(tmp_path / "source", f"package_{number}", task_id=f"task_{number}")
    system.put(f"{tmp_path}/source/", "/bucket/packages/", recursive=True)
    where = ["memory://bucket/packages"]
    compile_paths(where, tmp_path / "out", cache=tmp_path / "cache", processes=1)
    package(tmp_path / "more", "package_1", task_id="task_1", step_count=9)
    system.put(f"{tmp_path}/more/", "/bucket/packages/", recursive=True)
    report = compile_paths(where, tmp_path / "out", cache=tmp_path / "cache", processes=1, update=True)
    assert (report["run"]["cells"], report["run"]["cells_compiled"]) == (3, 1)
    compile_paths(where, tmp_path / "full", processes=1)
    assert published(tmp_path / "out") == published(tmp_path / "full")


def test_functions_take_addresses(store: dict[str, object], tmp_path: Path) -> None:
    line = (
        b'{"messages": [{"role": "user", "content": "Add."}, {"role": "assistant", "content": "Two."}], "task_id": "t"}'
    )
    fsspec.filesystem("memory").pipe_file("/chats/set.jsonl", line)
    assert read_traces("memory://chats").attempts.height == 1
    assert read_traces("memory://chats/set.jsonl").attempts.height == 1
    with pytest.raises(UsageError, match="give cache=FOLDER"):
        scan_traces("memory://chats")
    assert scan_traces("memory://chats", cache=tmp_path / "cache").attempts.collect().height == 1
    with pytest.raises(UsageError, match=r"s3://bucket/out is an address; outputs go to a folder"):
        compile_paths([tmp_path], "s3://bucket/out")
    with pytest.raises(UsageError, match="lie inside each other"):
        compile_paths(["memory://chats"], tmp_path / "out", cache=tmp_path / "out" / "cache")
    with pytest.raises(UsageError, match="an address inside another"):
        read_traces("zip://x::memory://chats")
