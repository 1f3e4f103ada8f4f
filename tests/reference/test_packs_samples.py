"""Packs of third-party samples and of packages of the shared generator: every statement cites, nothing is a constant."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

from expcomp.compiler.build import compile_paths
from expcomp.compiler.compilation import open_compilation
from expcomp.config import CompileOptions
from expcomp.packs.pack import Packs, build_packs
from tests.packs.test_pack_files import check_folder

REFERENCE = os.environ.get("EXPCOMP_REFERENCE")
if REFERENCE is None:
    if os.environ.get("CI") == "true":
        pytest.fail("EXPCOMP_REFERENCE is not set; CI has to run the reference samples", pytrace=False)
    pytest.skip("EXPCOMP_REFERENCE is not set; it names the folder with the reference samples", allow_module_level=True)

pytestmark = pytest.mark.reference
ROOT = Path(REFERENCE)
TOOL = Path(os.environ.get("EXPCOMP_TOOLS", ROOT.parent / "tools")) / "make_packages.py"


def packed(source: Path, folder: Path) -> Packs:
    compile_paths([source], folder / "compiled", options=CompileOptions(allow_unlabelled=True), processes=1)
    packs = build_packs(folder / "compiled")
    packs.write(folder / "packs")
    check_folder(folder / "packs", open_compilation(folder / "compiled"))
    return packs


def test_harbor_trials_of_one_set_are_compared(tmp_path: Path) -> None:
    packs = packed(ROOT / "traces/harbor", tmp_path)
    family = packs.packs.filter(pl.col("pack_kind") == "family").row(0, named=True)
    assert (family["n_passed"], family["n_failed"]) == (8, 8)
    step = packs.statements.filter((pl.col("pack_id") == family["pack_id"]) & (pl.col("kind") == "step"))
    assert step.select("subject", "support", "total").rows() == [("exec_command", 8, 8)]


def test_tau_runs_of_one_domain_are_compared(tmp_path: Path) -> None:
    packs = packed(ROOT / "traces/tau", tmp_path)
    families = packs.packs.filter(pl.col("pack_kind") == "family")
    assert "tau_bench/airline" in families["source"].to_list()
    gaps = packs.statements.filter(pl.col("kind") == "measure_gap")
    assert gaps.join(families, on="pack_id", how="semi").height > 2


def test_sessions_without_a_verdict_state_no_practice(tmp_path: Path) -> None:
    packs = packed(ROOT / "traces/claude_code", tmp_path)
    kinds = set(packs.statements["kind"])
    assert {"request", "unrated_use", "step_failure"} <= kinds
    assert not kinds & {"step", "order", "program", "sequence", "tool_gap", "measure_gap"}


@pytest.mark.skipif(not TOOL.is_file(), reason="needs make_packages.py (EXPCOMP_TOOLS)")
@pytest.mark.parametrize(("seed", "more"), [(7, ()), (11, ("--defects",))])
def test_fifty_packages_have_no_constant_file(seed: int, more: tuple[str, ...], tmp_path: Path) -> None:
    args = ("--packages", "50", "--steps", "8", "--seed", str(seed), "--no-evidence-files", *more)
    subprocess.run(
        [sys.executable, TOOL, "--out", tmp_path / "in", *args], check=True, capture_output=True, timeout=300
    )
    packs = packed(tmp_path / "in", tmp_path)
    assert packs.packs.filter(pl.col("pack_kind") == "package").height >= 50
    assert packs.packs.filter(pl.col("pack_kind") == "family").height >= 10
    assert {"criterion_gap", "step_failure", "review", "criterion"} <= set(packs.statements["kind"])
