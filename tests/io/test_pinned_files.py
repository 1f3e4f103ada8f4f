"""Files that are hashed once: what is read is what was there, or it is refused."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from expcomp.io.pinned_files import PinnedFileError, hash_file


def test_digest_size_and_content(tmp_path: Path) -> None:
    content = os.urandom(3 << 20)
    path = tmp_path / "f"
    path.write_bytes(content)
    made = hash_file(path, 3 << 20, capture=True)
    assert (made.digest, made.size) == ("sha256:" + hashlib.sha256(content).hexdigest(), 3 << 20)
    assert made.content == content
    assert hash_file(path, 3 << 20).content is None


def test_an_empty_file_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "f").touch()
    assert hash_file(tmp_path / "f", 0, capture=True).content == b""


def test_what_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"12345")
    (tmp_path / "link").symlink_to(tmp_path / "f")
    os.mkfifo(tmp_path / "pipe")
    for name, code in (
        ("link", "not_regular_file"),
        ("pipe", "not_regular_file"),
        (".", "not_regular_file"),
        ("none", "not_regular_file"),
        ("f", "too_large"),
    ):
        with pytest.raises(PinnedFileError) as caught:
            hash_file(tmp_path / name, 4)
        assert caught.value.code == code


@pytest.mark.parametrize("change", [b"123456", b"1234", b"54321"])
def test_a_change_while_it_is_read(tmp_path: Path, change: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"12345")
    os.utime(path, ns=(1, 1))
    real = os.read
    done = []

    def reading(handle: int, size: int) -> bytes:
        if not done:
            done.append(path.write_bytes(change))
        return real(handle, size)

    monkeypatch.setattr("expcomp.io.pinned_files.os.read", reading)
    with pytest.raises(PinnedFileError) as caught:
        hash_file(path, 100)
    assert caught.value.code == "changed"


def test_it_can_be_cancelled(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"12345")
    with pytest.raises(PinnedFileError, match="cancelled"):
        hash_file(tmp_path / "f", 100, cancelled=lambda: True)
