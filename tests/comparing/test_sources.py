"""What comparisons are made of in this repository's own data: packages, compiled or not."""

from __future__ import annotations

import pytest

import expcomp as xc
from tests.helpers import ROOT


@pytest.fixture(scope="module")
def traces():
    return xc.read_traces(ROOT / "data" / "packages")


def test_kinds_of_attempts_of_packages_are_arms(traces):
    found = xc.compare(traces, "baseline", "revised", slices="domain", resamples=500)
    assert found.n_units > 0
    assert found.table.filter("used").height == found.n_units
    assert set(found.slices["slice"]) == {"domain"}
    assert found.scaled


def test_a_compilation_and_its_output_compare_as_its_traces(traces, tmp_path):
    compiled = xc.compile(traces)
    compiled.write(tmp_path / "out")
    wanted = xc.compare(traces, "baseline", "revised", resamples=500).to_dict()
    assert xc.compare(compiled, "baseline", "revised", resamples=500).to_dict() == wanted
    assert xc.compare(xc.open_compilation(tmp_path / "out"), "baseline", "revised", resamples=500).to_dict() == wanted


def test_the_gap_of_packages(traces):
    found = xc.solver_gap(traces, "baseline", "revised", resamples=500)
    assert found.frame["keep_for_grpo"].sum() == (found.frame["keep_reason"] == "spread").sum()
    assert found.explained["contribution"].sum() == pytest.approx(found.estimate)
