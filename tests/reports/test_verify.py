"""`verify` knows the folders that verbs write by their manifests, and finds what was changed in them."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

import expcomp as xc
from expcomp.errors import SourceError
from tests.helpers import ROOT


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


def test_packs_environments_exports_and_traces_are_known_by_their_manifest(tmp_path: Path) -> None:
    traces = xc.read_traces(ROOT / "data/traces/plain", processes=1)
    traces.write(tmp_path / "traces")
    xc.build_packs(xc.compile(traces)).write(tmp_path / "packs")
    built = xc.build_environment([ROOT / "data/traces/plain"], environment_id="orders")
    built.write(tmp_path / "world")
    xc.export_environment(built.package, tmp_path / "gym", to="gymnasium")
    report = tmp_path / "packs/report.json"
    said = report.read_text()
    report.write_text(said.replace('"packs_without_statements": ', '"packs_without_statements": 7'))
    assert xc.verify(tmp_path / "packs").problems[0].startswith("report.json: packs_without_statements says 7")
    report.write_text(said)
    for name in ("traces", "packs", "world", "gym"):
        folder = tmp_path / name
        found = xc.verify(folder)
        assert (found.problems, found.files > 5) == ([], True), name
        (folder / "more.txt").write_text("x")
        assert xc.verify(folder).problems == ["more.txt: not listed in manifest.json"]
        (folder / "more.txt").unlink()
        changed = next(p for p in sorted(folder.rglob("*.parquet")))
        changed.write_bytes(changed.read_bytes()[:-1] + b"!")
        assert changed.name in xc.verify(folder).problems[0], name


def test_what_is_no_output_of_ours_is_told_apart(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text('{"kind": "other"}')
    for folder, told in (
        (tmp_path / "none", "no such folder"),
        (tmp_path / "manifest.json", "no folder"),
        (tmp_path, "none of"),
    ):
        with pytest.raises(SourceError, match=told):
            xc.verify(folder)
