"""What rows of review loops take from which document."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import expcomp as xc
from tests.helpers import edit, package, put

PACKET = {"diff_from_previous_iteration": {"available": True, "changed_summary": {"report.md": "rewritten"}}}


@pytest.mark.parametrize(
    ("report", "packet", "expected"),
    [
        ({"changed_summary": {"a.md": "new"}}, PACKET, '{"a.md":"new"}'),
        ({"added_refs": ["a.md"]}, PACKET, '{"report.md":"rewritten"}'),
        (None, PACKET, '{"report.md":"rewritten"}'),
        (None, {}, None),
    ],
)
def test_what_changed_stands_in_the_report_or_in_the_packet(
    report: dict[str, Any] | None, packet: dict[str, Any], expected: str | None, tmp_path: Path
) -> None:
    folder = package(tmp_path, "pkg_a") / "loops/iterations/0001"
    (folder / "diff_report.json").unlink(missing_ok=True)
    edit(folder / "review_packet.json", lambda d: d.update(packet))
    if report is not None:
        put(folder / "diff_report.json", report)
    rows = xc.compile(xc.read_traces(tmp_path)).rows["loop_review_row"]
    assert rows["changed_summary"][0] == expected


@pytest.mark.parametrize(
    ("diff", "expected"),
    [
        ({"added_refs": ["a"], "removed_refs": ["b"]}, ["a", "b"]),
        ({"removed_refs": ["b"]}, ["b"]),
        ({"available": True}, None),
    ],
)
def test_a_repair_changed_what_the_next_iteration_added_or_removed(
    diff: dict[str, Any], expected: list[str] | None, tmp_path: Path
) -> None:
    loops = package(tmp_path, "pkg_a") / "loops/iterations"
    put(loops / "0001/contract_repair_plan.json", {"repair_id": "r", "repair_required": True, "issues_to_fix": ["x"],
                                                   "files_to_modify": ["report.md"]})  # fmt: skip
    put(loops / "0002/diff_report.json", diff)
    rows = xc.compile(xc.read_traces(tmp_path)).rows["repair_loop_row"]
    assert rows["changed_refs"].to_list()[0] == expected
