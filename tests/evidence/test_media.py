"""Media types by the first bytes."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import polars as pl
import pytest

import expcomp as xc
from expcomp.evidence.media import MARKS, sniffed
from tests.helpers import edit, package

PNG = b"\x89PNG\r\n\x1a\n" + bytes(20)


@pytest.mark.parametrize("mark", MARKS, ids=lambda m: m[3])
def test_every_mark_is_known_whole_and_not_cut(mark: tuple[bytes, int, bytes, str]) -> None:
    start, offset, inside, name = mark
    data = start.ljust(offset, b"\x00") + inside
    assert sniffed(data + b"more") == name
    assert sniffed(data[:-1]) != name


@pytest.mark.parametrize("data", [b"", b"{}", b"RIFF is a format", b"ID3 tags", b"PARIS", b"\xef\xbb\xbfa,b", bytes(8)])
def test_of_text_nothing_is_said(data: bytes) -> None:
    assert sniffed(data) is None


def test_real_writers() -> None:
    table, archive = io.BytesIO(), io.BytesIO()
    pl.DataFrame({"a": [1]}).write_parquet(table)
    with zipfile.ZipFile(archive, "w") as z:
        z.writestr("a", "b")
    assert (sniffed(table.getvalue()), sniffed(archive.getvalue())) == (
        "application/vnd.apache.parquet",
        "application/zip",
    )


def test_a_row_says_what_the_file_is_not_what_it_is_called(tmp_path: Path) -> None:
    root = package(tmp_path, "pkg_a", scores={"baseline": 0.9})
    folder = "attempts/baseline/artifacts"
    (root / folder / "plot.pdf").write_bytes(PNG)
    refs = [f"{folder}/plot.pdf", f"{folder}/report.md", f"{folder}/gone.png"]
    edit(
        root / "attempts/baseline/agent_trace.json",
        lambda d: d["steps"][1].update(modality="image", artifact_refs=refs),
    )
    compilation = xc.compile(xc.read_traces(tmp_path))
    rows = pl.concat([compilation.rows["multimodal_artifact"], compilation.rejected["multimodal_artifact"]])
    assert dict(rows.select("artifact_ref", "artifact_media_type").rows()) == dict(
        zip(refs, ["image/png", None, None], strict=True)
    )
