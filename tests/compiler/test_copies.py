"""What a source says twice: one row, and copies of it that are told; never an end of the compile."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import expcomp as xc
from expcomp.compiler.verify import verify
from tests.helpers import edit, package

REPORT = "attempts/baseline/artifacts/report.md"


def criteria(root: Path) -> None:
    edit(root / "grading/baseline_grader_result.json", lambda d: d.update(failed_criteria=["counted"] * 3))


def items(root: Path) -> None:
    edit(root / "rubric/rubric.json", lambda d: d["rubric_items"].extend([dict(d["rubric_items"][0])] * 2))


def spellings(root: Path) -> None:
    refs = [REPORT, f"./{REPORT}", REPORT.replace("/", "\\")]
    edit(
        root / "attempts/baseline/agent_trace.json",
        lambda d: d["steps"][1].update(modality="image", artifact_refs=refs),
    )


@pytest.mark.parametrize(
    ("change", "family", "rows"),
    [(criteria, "failure_case", 1), (items, "evaluation_example", 2), (spellings, "multimodal_artifact", 1)],
)
def test_copies_are_rejected_as_such_and_the_compile_goes_on(
    change: Callable[[Path], Any], family: str, rows: int, tmp_path: Path
) -> None:
    change(package(tmp_path / "in", "pkg_a"))
    package(tmp_path / "in", "pkg_b", task_id="task_b")
    xc.compile_paths([tmp_path / "in"], tmp_path / "out", processes=1)
    assert verify(tmp_path / "out").ok
    compilation = xc.open_compilation(tmp_path / "out")
    mine = pl.col("package_id") == "pkg_a"
    rejected = compilation.rejected[family].filter(mine & pl.col("reject_reasons").list.contains("duplicate_exact"))
    assert rejected.height == 2 * rows
    assert rejected["row_id"].n_unique() == rejected.height
    assert rejected["content_hash"].n_unique() == rows
    assert set(rejected["content_hash"]) <= set(compilation.rows[family]["content_hash"])
    assert compilation.report["packages"]["pkg_b"]["accepted"] > 0
