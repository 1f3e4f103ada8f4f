"""What a caller hands to a compile: one path, or a TraceSet of which a table was filtered."""

from __future__ import annotations

from pathlib import Path

import pytest

import expcomp as xc
from tests.helpers import ROOT

ORDERS = ROOT / "data/traces/plain/orders.jsonl"


@pytest.fixture
def few(tmp_path: Path) -> Path:
    path = tmp_path / "orders.jsonl"
    path.write_text("\n".join(ORDERS.read_text("utf-8").splitlines()[:4]) + "\n", "utf-8")
    return path


def test_a_table_that_was_filtered_alone_is_refused_with_the_way_out(few: Path) -> None:
    ts = xc.read_traces(few)
    attempts = ts.attempts.head(1)
    with pytest.raises(xc.ExpcompError, match=r"steps holds \d+ lines of 3 attempts that attempts does not hold.*semi"):
        xc.compile(xc.TraceSet({**ts.tables, "attempts": attempts}))
    alike = {
        name: ts[name].join(attempts, on="attempt_id", how="semi", maintain_order="left")
        for name in ("steps", "messages", "grades")
    }
    made = xc.compile(xc.TraceSet({**ts.tables, "attempts": attempts, **alike}))
    assert made.rows["process_supervision"]["attempt_id"].unique().to_list() == attempts["attempt_id"].to_list()


def test_one_path_and_one_target_need_no_list(few: Path, tmp_path: Path) -> None:
    report = xc.compile_paths(few, tmp_path / "out", processes=1)
    assert report["attempts"] == {"hf_trajectories": 4}
    made = xc.write_datasets(tmp_path / "out", "trl-sft", tmp_path / "ds", processes=1)
    assert [c["config"] for c in made["configs"]] == ["sft"]
