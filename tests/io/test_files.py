"""Reading is bounded and follows no link."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from expcomp.errors import SourceError
from expcomp.io.files import listing, read_bytes, read_fast, walk

LIMIT = 1000


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    for folder in ("a/b", "node_modules/x", "a/__pycache__", ".git", "empty"):
        (root / folder).mkdir(parents=True)
    for name in (
        "z.txt",
        "a/b/f.txt",
        "a/é ü.txt",
        "node_modules/x/y.js",
        "a/__pycache__/m.pyc",
        ".git/config",
        ".hidden",
    ):
        (root / name).write_text(name, encoding="utf-8")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/secret.txt").write_text("outside", encoding="utf-8")
    (root / "link.txt").symlink_to(tmp_path / "outside/secret.txt")
    (root / "folder_link").symlink_to(tmp_path / "outside")
    (root / "loop").symlink_to(root)
    os.mkfifo(root / "pipe")
    return root


def test_walk_lists_files_and_links_sorted_and_skips_tools(root: Path) -> None:
    found = walk(root)
    assert list(found) == [".hidden", "a/b/f.txt", "a/é ü.txt", "folder_link", "link.txt", "loop", "z.txt"]
    assert {name for name, entry in found.items() if entry.is_symlink} == {"folder_link", "link.txt", "loop"}
    assert walk(str(root)) == found


def test_a_root_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="none"):
        walk(tmp_path / "none")


def test_reads_what_is_there(root: Path) -> None:
    assert read_bytes(root, "a/b/f.txt", limit=LIMIT) == b"a/b/f.txt"
    assert read_bytes(str(root), "z.txt", limit=5) == b"z.txt"
    assert read_fast(str(root / "z.txt"), limit=LIMIT) == b"z.txt"


def test_reads_files_of_every_size_around_a_block(tmp_path: Path) -> None:
    for size in (0, 1, (1 << 18) - 1, 1 << 18, (1 << 18) + 1, 3_000_000):
        (tmp_path / "f").write_bytes(b"x" * size)
        assert len(read_fast(str(tmp_path / "f"), limit=size)) == size
        if size:
            with pytest.raises(SourceError, match=r"limit|more than"):
                read_fast(str(tmp_path / "f"), limit=size - 1)


@pytest.mark.parametrize(
    "rel",
    [
        "link.txt",
        "folder_link/secret.txt",
        "loop/z.txt",
        "../outside/secret.txt",
        "a/../z.txt",
        "/etc/hostname",
        "",
        "a\0b",
        "pipe",
        "a",
        "gone.txt",
        "z.txt/x",
    ],
)
def test_refuses(root: Path, rel: str) -> None:
    with pytest.raises(SourceError) as caught:
        read_bytes(root, rel, limit=LIMIT)
    assert not rel or repr(rel)[1:-1] in str(caught.value)


def test_a_file_without_permission(root: Path) -> None:
    (root / "z.txt").chmod(0)
    if os.access(root / "z.txt", os.R_OK):
        pytest.skip("this user reads everything")
    with pytest.raises(SourceError, match=r"z\.txt"):
        read_bytes(root, "z.txt", limit=LIMIT)


def test_a_device_is_bounded(tmp_path: Path) -> None:
    with pytest.raises(SourceError):
        read_fast("/dev/zero", limit=LIMIT)


def test_a_listing_has_every_link(root: Path) -> None:
    """Also one that leads to a folder: what is checked against a list has no hidden entry."""
    before = listing(root)
    (root / "a/out").symlink_to("/usr")
    (root / "gone").symlink_to("nowhere")
    assert listing(root) == sorted([*before, "a/out", "gone"])
