from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from expcomp.errors import OutputError
from expcomp.io.canon import digest, digest_bytes
from expcomp.io.job_files import (
    LineFile,
    copy_file,
    copy_tree,
    freeze_tree,
    hash_tree,
    make_job_folder,
    publish_file,
    read_lines,
    remove_file,
    tree_files,
)
from expcomp.io.pinned_files import PinnedFileError


def tree(root: Path, **files: bytes) -> Path:
    for name, data in files.items():
        path = root / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return root


def test_a_file_is_published_once_and_nobody_may_write_it(tmp_path: Path) -> None:
    publish_file(tmp_path / "f", b"one")
    assert (tmp_path / "f").read_bytes() == b"one"
    assert (tmp_path / "f").stat().st_mode & 0o777 == 0o400
    assert (tmp_path / "f").stat().st_nlink == 1
    for data in (b"one", b"two"):
        with pytest.raises(OutputError, match="f: is there already"):
            publish_file(tmp_path / "f", data)
    publish_file(tmp_path / "f", b"one", same=True)
    with pytest.raises(OutputError):
        publish_file(tmp_path / "f", b"two", same=True)
    assert os.listdir(tmp_path) == ["f"]  # noqa: PTH208


def test_a_link_is_never_written_through(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("elsewhere")
    for same in (True, False):
        with pytest.raises(OutputError):
            publish_file(tmp_path / "link", b"x", same=same)
    assert not (tmp_path / "elsewhere").exists()
    with pytest.raises(OutputError):
        publish_file(tmp_path / "none" / "f", b"x")


def test_removing_what_is_not_there(tmp_path: Path) -> None:
    remove_file(tmp_path / "f")
    (tmp_path / "f").touch()
    remove_file(tmp_path / "f")
    assert not (tmp_path / "f").exists()


def test_a_copy_holds_what_was_hashed(tmp_path: Path) -> None:
    data = os.urandom(3 << 20)
    (tmp_path / "f").write_bytes(data)
    assert copy_file(tmp_path / "f", tmp_path / "g", 3 << 20).digest == digest_bytes(data)
    assert (tmp_path / "g").read_bytes() == data
    assert (tmp_path / "g").stat().st_mode & 0o777 == 0o400
    with pytest.raises(OutputError):
        copy_file(tmp_path / "f", tmp_path / "g", 3 << 20)
    with pytest.raises(PinnedFileError):
        copy_file(tmp_path / "f", tmp_path / "h", 1)


def test_nothing_is_left_of_a_copy_that_failed(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"12345")
    for source, limit in ((tmp_path / "none", 10), (tmp_path / "a", 4)):
        with pytest.raises(PinnedFileError):
            copy_file(source, tmp_path / "b", limit)
    assert [f.name for f in tmp_path.iterdir()] == ["a"]


def test_a_folder_is_copied_without_links(tmp_path: Path) -> None:
    source = tree(tmp_path / "a", x=b"1", y__z=b"2")
    copy_tree(source, tmp_path / "b", 10)
    assert tree_files(tmp_path / "b") == ["x", "y/z"]
    (source / "y" / "link").symlink_to("z")
    with pytest.raises(PinnedFileError, match="link"):
        copy_tree(source, tmp_path / "c", 10)


def test_the_digest_of_a_folder_is_that_of_the_list_of_its_files(tmp_path: Path) -> None:
    root = tree(tmp_path / "a", b=b"two", a__c=b"three")
    (root / "empty").mkdir()
    expected = [
        {"path": "a/c", "bytes": 5, "sha256": digest_bytes(b"three")},
        {"path": "b", "bytes": 3, "sha256": digest_bytes(b"two")},
    ]
    found = hash_tree(root, 8)
    assert (found.digest, found.size, found.files) == (digest(expected), 8, ("a/c", "b"))
    assert hash_tree(root / "b", 3).digest == digest_bytes(b"two")
    with pytest.raises(PinnedFileError):
        hash_tree(root, 7)


NAMES = st.text("ab/é😀\uffff", min_size=1, max_size=6).filter(lambda n: all(n.split("/")) and n.isprintable())


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(files=st.dictionaries(NAMES, st.binary(min_size=1, max_size=4), min_size=1, max_size=4))
def test_two_folders_have_one_digest_only_if_they_are_equal(
    tmp_path_factory: pytest.TempPathFactory, files: dict[str, bytes]
) -> None:
    parts = [p for name in files for p in Path(name).parents]
    if any(str(p) in files for p in parts):
        return  # a name cannot be a file and a folder
    made = []
    for order in (list(files), list(reversed(files))):
        root = tmp_path_factory.mktemp("t")
        for name in order:
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_bytes(files[name])
        made.append(root)
    one, two = (hash_tree(r, 100) for r in made)
    assert one == two
    first = made[0] / next(iter(files))
    first.write_bytes(first.read_bytes() + b"x")
    assert hash_tree(made[0], 100).digest != two.digest


def test_a_folder_that_has_no_digest(tmp_path: Path) -> None:
    for name, make in (
        ("link", lambda p: (p / "l").symlink_to("x")),
        ("fifo", lambda p: os.mkfifo(p / "f")),
        ("empty", lambda p: None),
        ("zero", lambda p: (p / "f").touch()),
        ("line", lambda p: (p / "a\nb").write_bytes(b"x")),
        ("bytes", lambda p: Path(os.fsdecode(os.fsencode(p) + b"/\xff")).write_bytes(b"x")),
    ):
        root = tmp_path / name
        root.mkdir()
        make(root)
        with pytest.raises(PinnedFileError):
            hash_tree(root, 100)
    with pytest.raises(PinnedFileError, match="not there"):
        hash_tree(tmp_path / "none", 100)


def test_a_frozen_folder(tmp_path: Path) -> None:
    root = tree(tmp_path / "a", x=b"1", y__z=b"2")
    freeze_tree(root)
    assert {(root / n).stat().st_mode & 0o777 for n in tree_files(root)} == {0o400}
    (root / "link").symlink_to("x")
    with pytest.raises(PinnedFileError):
        freeze_tree(root)
    with pytest.raises(PinnedFileError):
        freeze_tree(root / "link")


def test_a_job_folder_is_private_and_new(tmp_path: Path) -> None:
    one, two = (make_job_folder(tmp_path / "runs", "job-") for _ in range(2))
    assert one != two
    assert one.stat().st_mode & 0o777 == 0o700
    (tmp_path / "file").touch()
    with pytest.raises(OutputError, match="file"):
        make_job_folder(tmp_path / "file", "job-")


def test_lines_are_added_and_a_line_that_was_cut_off_does_not_count(tmp_path: Path) -> None:
    path = tmp_path / "f"
    lines = LineFile(path)
    lines.append(b"one")
    lines.append(b"two")
    lines.close()
    path.write_bytes(path.read_bytes() + b"thr")
    assert read_lines(path) == b"one\ntwo\n"
    lines = LineFile(path)
    assert lines.data == b"one\ntwo\n"
    lines.append(b"three")
    lines.close()
    assert path.read_bytes() == b"one\ntwo\nthree\n"
    assert read_lines(tmp_path / "none") is None


def test_a_file_of_lines_has_one_writer(tmp_path: Path) -> None:
    lines = LineFile(tmp_path / "f")
    with pytest.raises(OutputError, match="another process"):
        LineFile(tmp_path / "f")
    lines.close()
    (tmp_path / "link").symlink_to("f")
    with pytest.raises(OutputError):
        LineFile(tmp_path / "link")


def test_what_somebody_else_wrote_is_seen(tmp_path: Path) -> None:
    path = tmp_path / "f"
    lines = LineFile(path)
    lines.append(b"one")
    path.write_bytes(b"on3\n")
    with pytest.raises(OutputError, match="changed by somebody else"):
        lines.append(b"two")
    path.write_bytes(b"one\n")
    lines.verify()
    (tmp_path / "other").write_bytes(b"one\n")
    (tmp_path / "other").rename(path)
    with pytest.raises(OutputError, match="changed by somebody else"):
        lines.verify()
    lines.close()
