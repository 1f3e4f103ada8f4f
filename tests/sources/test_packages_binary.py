"""A deliverable that is no text is an artifact like any other."""

from __future__ import annotations

from pathlib import Path

from expcomp.io.digest import sha256_file
from expcomp.sources.load import read_traces
from tests.helpers import edit, package


def test_a_binary_deliverable_has_size_and_digest_and_no_content(tmp_path: Path) -> None:
    root = package(tmp_path, "pkg_a")
    ref = "attempts/revised/artifacts/plot.png"
    (root / ref).write_bytes(b"\x89PNG\r\n\x1a\n\x00")
    edit(root / "attempts/revised/actual_outputs.json", lambda doc: doc["deliverable_refs"].append(ref))
    artifacts = read_traces(root).artifacts
    assert artifacts.height == 3
    plot = artifacts.row(artifacts["uri"].to_list().index(ref), named=True)
    assert (plot["bytes"], plot["digest"], plot["content"]) == (9, sha256_file(root / ref), None)
