"""The views of a ledger hold to the contracts of their tables."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from expcomp import Ledger, validate
from expcomp.ledger.decide import COLUMNS
from expcomp.ledger.names import decision_names
from expcomp.ledger.pack import read_pack
from expcomp.tables.ledger import LEDGER_TABLES
from expcomp.tables.ledger_views import DECISIONS
from tests.helpers import ROOT
from tests.ledger.runs import entry, passed


def filled(where: Path, profile: str) -> Ledger:
    ledger = Ledger(where, profile, create=True)
    if profile == "default":
        ledger.add(ROOT / "data" / "runs")
        return ledger
    runs = [entry("r1", arm_id="x_baseline"), passed("r2", arm_id="x_treatment", case_id="d"), entry("r3", case_id="e")]
    cases = {r["case_id"]: {"case_id": r["case_id"], "runs": [r]} for r in runs}
    document = {"schema_version": "benchmark_run_ledger_v0", "benchmarks": {"b": {"benchmark_id": "b", "cases": cases}}}
    path = where.with_suffix(".json")
    path.write_text(json.dumps(document), encoding="utf-8")
    ledger.add(path)
    return ledger


@pytest.mark.parametrize("profile", ["default", "loopx"])
@pytest.mark.parametrize("name", list(LEDGER_TABLES))
def test_a_view_holds_to_its_table(name: str, profile: str, tmp_path: Path) -> None:
    frame = getattr(filled(tmp_path / "ledger", profile), name).collect()
    assert frame.height > 0 or (name, profile) == ("backlog", "loopx")
    validate(name, frame)
    empty = Ledger(tmp_path / "empty", profile, create=True)
    validate(name, getattr(empty, name).collect())


def test_the_table_of_decisions_names_what_decide_gives() -> None:
    assert list(DECISIONS.columns) == list(COLUMNS)


@pytest.mark.parametrize("profile", ["default", "loopx"])
def test_every_decision_that_is_made_has_a_known_name(profile: str, tmp_path: Path) -> None:
    made = filled(tmp_path / "ledger", profile).decisions.collect()["decision"]
    assert set(made) <= set(decision_names(read_pack(profile)))
