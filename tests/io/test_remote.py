"""Inputs at addresses: the same trees, and names that stay inside."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from expcomp.errors import ConfigError, SourceError, UsageError
from expcomp.io.pool import HERE
from expcomp.io.remote import is_address, local_paths
from tests.helpers import tree

fsspec = pytest.importorskip("fsspec")


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
    with local_paths(["memory://bucket/runs"], HERE, beside=out) as (top,):
        assert Path(top).name == "runs"
        assert Path(top).is_relative_to(tmp_path)
        assert sorted(tree(Path(top))) == ["a/deep/er/two.jsonl", "a/one.jsonl", "b/three.jsonl"]
        assert (Path(top) / "a/one.jsonl").read_text() == "runs/a/one.jsonl"
    assert not list(tmp_path.iterdir())


def test_files_wildcards_and_several_addresses(store: dict[str, object], tmp_path: Path) -> None:
    def found(*addresses: str) -> list[str]:
        with local_paths(addresses, HERE, beside=tmp_path / "out") as tops:
            return sorted(p.name for t in tops for p in [Path(t), *Path(t).rglob("*")] if p.is_file())

    assert found("memory://bucket/runs/b/three.jsonl") == ["three.jsonl"]
    assert found("memory://bucket/runs/*/*.jsonl") == ["one.jsonl", "three.jsonl"]
    assert found("memory://bucket/runs/b", "memory://bucket/other") == ["four.jsonl", "three.jsonl"]


def test_places_here_are_left_as_they_are(tmp_path: Path) -> None:
    with local_paths([tmp_path, "a/b"], HERE) as same:
        assert same == [tmp_path, "a/b"]


@pytest.mark.parametrize(
    "name", ["/bucket/runs/../../evil", "/bucket/runs/./x", "/bucket/runs//x", "/bucket/runs/a\\b", "/bucket/runs/a\0b"]
)
def test_names_that_are_no_paths_below_are_refused(store: dict[str, object], tmp_path: Path, name: str) -> None:
    store[name] = store["/bucket/runs/a/one.jsonl"]
    with (
        pytest.raises(SourceError, match="cannot be a path below"),
        local_paths(["memory://bucket/runs"], HERE, beside=tmp_path / "x"),
    ):
        pass
    assert not list(tmp_path.iterdir())


def test_what_cannot_be_read_is_told(store: dict[str, object], tmp_path: Path) -> None:
    for addresses, error, said in (
        (["memory://bucket/none"], SourceError, "memory://bucket/none"),
        (["memory://bucket/runs", str(tmp_path)], UsageError, "no common root"),
        (["nosuch://bucket/runs"], ConfigError, "nosuch"),
    ):
        with pytest.raises(error, match=said), local_paths(addresses, HERE):
            pass
