"""A training run in a cost ledger: one call of the preparation, settled however the run ends."""

from __future__ import annotations

from pathlib import Path

import pytest

from expcomp.training.cost_frames import cost_frame
from expcomp.training.costs import CostLedger
from expcomp.training.run.context import RunCosts
from expcomp.training.run.results import TrainingSuccess
from expcomp.training.run.spec import read_run
from tests.training.run.jobs import InProcess, failed, run
from tests.training.run.test_cli import spec


def broken(job: Path) -> None:
    raise RuntimeError("no memory")


@pytest.mark.parametrize("price", [None, 0, 10**9])
def test_a_run_is_a_call_of_the_preparation(tmp_path: Path, price: int | None) -> None:
    ledger = tmp_path / "costs.jsonl"
    result = run(tmp_path, costs=RunCosts(ledger=ledger, maximum_nanos=10**12, nanos_per_second=price))
    assert isinstance(result, TrainingSuccess)
    call = cost_frame(ledger).row(0, named=True)
    assert (call["phase"], call["model"], call["maximum_nanos"]) == ("preparation", "in-process", 10**12)
    assert call["provenance"] == ("uncaptured" if price is None else "estimated")
    assert (call["cost_nanos"] is None) == (price is None)
    assert (call["cost_nanos"] == 0) == (price == 0)


def test_a_run_that_fails_was_paid_for_too(tmp_path: Path) -> None:
    ledger = tmp_path / "costs.jsonl"
    failed(run(tmp_path, trainer=InProcess(broken), costs=RunCosts(ledger=ledger, nanos_per_second=1)))
    call = cost_frame(ledger).row(0, named=True)
    assert (call["state"], call["failure"]) == ("known", "StageError")


def test_a_run_above_the_ceiling_does_not_start(tmp_path: Path) -> None:
    ledger, trainer = tmp_path / "costs.jsonl", InProcess()
    CostLedger(ledger, ceiling_nanos=5).close()
    result = failed(run(tmp_path, trainer=trainer, costs=RunCosts(ledger=ledger, maximum_nanos=6)))
    assert (result.stage, "above_ceiling" in result.reason, result.training_may_exist) == ("training", True, False)
    assert trainer.requests == []
    assert cost_frame(ledger).is_empty()


def test_a_spec_names_the_ledger_and_the_price(tmp_path: Path) -> None:
    top = '[costs]\nledger = "costs.jsonl"\nmaximum_usd = 2.5\nusd_per_hour = 3.6\n'
    _, options = read_run(spec(tmp_path, top=top))
    assert options.costs == RunCosts(
        ledger=tmp_path / "costs.jsonl", maximum_nanos=2_500_000_000, nanos_per_second=1_000_000
    )
