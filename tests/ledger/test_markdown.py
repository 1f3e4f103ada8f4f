"""The report of a ledger as Markdown."""

from __future__ import annotations

import pytest

from expcomp.ledger.markdown import markdown
from tests.ledger.runs import DEFAULT, LOOPX, entry, frame, passed
from tests.ledger.tables import parse_markdown


def sections(runs, pack=LOOPX):
    return {s["heading"]: s["rows"] for s in parse_markdown(markdown(runs, pack))["sections"]}


def test_an_empty_ledger_has_its_two_tables():
    report = parse_markdown(markdown(frame(), LOOPX, updated_at="now"))
    assert [s["heading"] for s in report["sections"]] == ["Case Decisions", "Runs"]
    assert report["facts"]["active_run_count"] == "0"
    assert report["facts"]["updated_at"] == "now"


def test_archived_runs_are_counted_and_not_shown():
    found = sections(frame(entry("r1"), entry("r2", archive_state="archived")))
    assert found["Archived Run Summary"] == [["`b`", "`1`", "`1`"]]
    assert found["Case Decisions"][0][-1] == "`1 active / 1 archived`"
    assert len(found["Runs"]) == 1


def test_repairs_come_by_priority_and_only_of_the_last_run_of_an_arm():
    later = {"repair_priority": "P1", "repair_class": "case_timeout_research", "next_action": "Look."}
    first = {"repair_priority": "P0", "repair_class": "runner_result_materialization", "next_action": "Repair."}
    runs = [
        entry("r1", **first),
        passed("r2", recorded_at="2026-02-01"),
        entry("r3", case_id="d", **later),
        entry("r4", case_id="e", **first),
    ]
    assert [(r[0], r[2]) for r in sections(frame(*runs))["Repair Backlog"]] == [("`P0`", "`e`"), ("`P1`", "`d`")]


@pytest.mark.parametrize(("pack", "cell"), [(LOOPX, "`c|d`"), (DEFAULT, "`c\\|d`")])
def test_a_bar_in_a_name_breaks_no_row_of_ours(pack, cell):
    assert sections(frame(entry("r", case_id="c|d")), pack)["Runs"][0][1] == cell


def test_rounds_are_shown_with_what_is_known_of_them():
    rounds = [
        {"agent_round": 1, "reward": 0.25},
        {"agent_round": 2, "reward_present": False},
        {"agent_round": 3},
        {"agent_round": 4, "reward": 1.0, "passed": True},
    ]
    row = sections(frame(entry("r", round_rewards=rounds), entry("s")))["Runs"]
    assert [r[6] for r in row] == ["`1:0.25,2:missing,3:unknown,4:1*`", "``"]
