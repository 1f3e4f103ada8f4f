"""Bytes of files on disk and in archives."""

from __future__ import annotations

import gzip
import os
import zipfile

import pytest

from expcomp.sources._archive import ArchivePath
from expcomp.sources._bytes import HEAD, UnreadableError, open_plain, read_bytes, read_head

SIZES = (0, 1, HEAD - 1, HEAD, HEAD + 1, HEAD + 2, 3 * HEAD, 20 * HEAD + 5)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("packed", [False, True])
def test_every_size_is_read_whole_and_its_head_too(tmp_path, size, packed):
    data = os.urandom(size).hex().encode()[:size]
    stored = gzip.compress(data, 1) if packed else data
    (tmp_path / "f").write_bytes(stored)
    with zipfile.ZipFile(tmp_path / "a.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.write(tmp_path / "f", "f")
    for path in (tmp_path / "f", str(tmp_path / "f"), ArchivePath(tmp_path / "a.zip" / "f")):
        assert read_bytes(path, 1 << 30) == (data, stored)
        assert read_head(path) == data[:HEAD]


@pytest.mark.parametrize("size", SIZES[1:])
def test_a_limit_is_kept(tmp_path, size):
    data = b"x" * size
    (tmp_path / "f").write_bytes(data)
    (tmp_path / "g").write_bytes(gzip.compress(data))
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.write(tmp_path / "f", "f")
    paths = [tmp_path / "f", ArchivePath(tmp_path / "a.zip" / "f")]
    for path in [*paths, tmp_path / "g"] if size > 64 else paths:
        assert read_bytes(path, size)[0] == data
        with pytest.raises(UnreadableError) as found:
            read_bytes(path, size - 1)
        assert found.value.code == "too_large"


def test_what_is_no_file_is_told(tmp_path):
    for path in (tmp_path, tmp_path / "missing", str(tmp_path / "missing")):
        with pytest.raises(UnreadableError) as found:
            read_bytes(path, 100)
        assert found.value.code == "unreadable"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes")
def test_a_pipe_is_refused_and_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UnreadableError, match="no regular file"):
        read_bytes(tmp_path / "pipe", 100)
    with pytest.raises(OSError, match="no regular file"):
        open_plain(tmp_path / "pipe")
