"""`verify` knows the folders of a compile, a dataset and a report, and finds what was changed in them."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

import expcomp as xc
from expcomp.errors import SourceError


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    trials = pl.DataFrame({"task": ["a", "a", "b", "b"], "arm": ["x", "y"] * 2, "passed": [True, False, True, True]})
    out = tmp_path_factory.mktemp("report") / "out"
    xc.report(trials, baseline="x", treatment="y").write(out)
    return out


def test_a_report_as_written_is_verified(written: Path) -> None:
    found = xc.verify(written)
    assert found.ok
    assert found.files == len([p for p in written.rglob("*") if p.is_file()]) - 1


def test_what_was_changed_added_or_taken_away_is_named(written: Path) -> None:
    page = written / "report.html"
    kept = page.read_bytes()
    page.write_bytes(kept[:-1] + b"!")
    assert xc.verify(written).problems == ["report.html: its bytes are not those that were written"]
    page.write_bytes(kept + b"!")
    assert "bytes, manifest.json says" in xc.verify(written).problems[0]
    page.unlink()
    assert xc.verify(written).problems == ["report.html: listed in manifest.json, but not there"]
    page.write_bytes(kept)
    (written / "more.txt").write_text("x")
    assert xc.verify(written).problems == ["more.txt: not listed in manifest.json"]
    (written / "more.txt").unlink()
    assert xc.verify(written).ok


def test_a_folder_without_a_manifest_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"manifest\.json"):
        xc.verify(tmp_path)
