"""A name that is not known is answered with the one that is near it."""

from __future__ import annotations

import pytest

import expcomp as xc
from expcomp.io.nearest import nearest
from tests.helpers import ROOT


@pytest.mark.parametrize(
    ("given", "told"),
    [("harbr", "; did you mean 'harbor'?"), ("Tau-Bench", "; did you mean 'tau_bench'?"), ("zebra", ""), ("", "")],
)
def test_the_nearest_name_is_told_if_there_is_one(given: str, told: str) -> None:
    assert nearest(given, ("harbor", "tau_bench", "tau2_bench")) == told


def test_errors_of_the_api_end_with_it() -> None:
    traces = ROOT / "data/traces/plain"
    for what, name in (
        (lambda: xc.read_traces(traces, format="hf-trajectory", processes=1), "hf_trajectories"),
        (lambda: xc.model("step"), "steps"),
        (lambda: xc.write_datasets(traces, ["trl-dop"], traces / "ds"), "trl-dpo"),
    ):
        with pytest.raises(xc.ExpcompError, match=rf"did you mean '{name}'\?$"):
            what()


def test_what_a_notebook_completes_and_shows() -> None:
    ts = xc.read_traces(ROOT / "data/traces/plain", processes=1)
    assert {"attempts", "steps", "diagnostics", "summary", "write"} <= set(dir(ts))
    with pytest.raises(xc.ExpcompError, match="compile_paths"):
        xc.compile(ROOT / "data/traces/plain")  # type: ignore[arg-type]
    assert "preference_pair" in repr(xc.compile(ts).rows)
