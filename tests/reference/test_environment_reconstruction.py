"""Reconstruction without a model on every recorded world of the reference data, families left out in turn."""

from __future__ import annotations

import polars as pl
import pytest

from expcomp.environments.induction.evaluate import cross_validate
from expcomp.environments.induction.reconstruct import reconstruct
from tests.environments.induction.recorded import recorded
from tests.reference.environments import ROOT

pytestmark = pytest.mark.reference
CHATS, ORACLE, LEDGER = (recorded(ROOT, x) for x in ("chats", "oracle", "ledger"))


def test_there_are_worlds() -> None:
    assert CHATS
    assert ORACLE
    assert LEDGER


@pytest.mark.parametrize("name", CHATS)
def test_real_traces_reach_the_floors(name: str) -> None:
    found = cross_validate(CHATS[name])
    got = found.summary().row(0, named=True)
    assert got["leaky"] is False
    assert got["n"] == CHATS[name].height
    assert got["exact"] >= 0.55
    assert got["coverage_99"] >= 0.50


@pytest.mark.parametrize("name", ORACLE)
def test_oracle_traces_reach_the_floors_on_a_fold(name: str) -> None:
    by = {
        r["counterfactual"]: r for r in cross_validate(ORACLE[name], only=[0, 1]).summary(["counterfactual"]).to_dicts()
    }
    assert by[False]["exact"] >= 0.65
    assert by[True]["outcome"] >= 0.92
    assert by[False]["state"] >= 0.80
    assert by[True]["state"] >= 0.80


@pytest.mark.parametrize("name", LEDGER)
def test_five_episodes_of_a_ledger_teach_it_all(name: str) -> None:
    rows = LEDGER[name]
    groups = rows["group"].unique(maintain_order=True)
    few = reconstruct(rows.filter(pl.col("group").is_in(groups[:5].implode())))
    rest = rows.filter(~pl.col("group").is_in(groups[:5].implode()))
    got = few.predict(rest).join(rest, on="transition_id")
    told = pl.col("answer").str.json_decode(pl.String)
    assert got.select((told == pl.col("observation")).mean()).item() == 1.0
    assert got.select((pl.col("failed") == pl.col("is_error")).mean()).item() == 1.0
    boundary = few.tables["conditions"]
    assert boundary.filter(pl.col("op") == "lte").height == boundary.height == 1
    assert few.tables["rules"]["status"].to_list() == ["supported"] * 4


@pytest.mark.parametrize("name", LEDGER)
def test_without_a_call_at_the_boundary_the_rule_is_tentative(name: str) -> None:
    rows = LEDGER[name]
    emptied = rows.filter(
        pl.col("action_type").str.starts_with("withdraw"), pl.col("observation").str.ends_with(" 0.0")
    )
    clear = rows.filter(~pl.col("episode_id").is_in(emptied["episode_id"].implode()))
    found = reconstruct(clear)
    told = found.tables["unresolved"].filter(pl.col("stage") == "contrast")["owner_id"]
    status = found.tables["rules"].filter(pl.col("rule_id").is_in(told.implode()))["status"].to_list()
    assert status == ["tentative"]
    below = found.tables["conditions"].filter(~pl.col("owner_id").is_in(told.implode()))
    assert below["right"].to_list() == ["false"]  # the calls of the tentative rule do not fall to the rule below it
