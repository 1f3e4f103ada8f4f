"""Decisions of cases, their routes and the review of pairs."""

from __future__ import annotations

import pytest

from expcomp.ledger.decide import decide, decision_documents
from expcomp.ledger.entries import entries
from expcomp.ledger.pairs import review_pairs
from expcomp.ledger.upsert import upsert
from tests.ledger.runs import DEFAULT, LOOPX, entry, frame, passed

TREATMENT = {"arm_id": "y_treatment"}


def decision(*given, pack=LOOPX):
    return decide(frame(*given), pack).get_column("decision").to_list()


@pytest.mark.parametrize(
    ("runs", "expected"),
    [
        ([entry("b")], "baseline_failed_treatment_candidate"),
        ([passed("b")], "baseline_passed_not_current_treatment_priority"),
        ([entry("t", **TREATMENT)], "single_arm_recorded"),
        ([entry("b"), passed("t", **TREATMENT)], "paired_treatment_improved"),
        ([passed("b"), entry("t", **TREATMENT)], "paired_treatment_regressed"),
        ([passed("b"), passed("t", **TREATMENT)], "paired_baseline_solved_treatment_preserved"),
        ([entry("b"), entry("t", **TREATMENT)], "paired_no_score_uplift"),
        ([entry("b", failure_scope="attribution_required")], "baseline_failed_requires_attribution"),
        (
            [entry("b", failure_scope="runner_or_setup", repair_class="runner_setup_timeout")],
            "baseline_setup_timeout_repair_required",
        ),
        ([entry("b", archive_state="archived")], "archived_only"),
    ],
)
def test_a_case_is_decided(runs, expected):
    assert decision(*runs) == [expected]


def test_cases_come_by_name_with_the_rule_that_decided():
    found = decide(frame(entry("r", case_id="z"), passed("s", case_id="a")), LOOPX)
    assert found.select("filed_case", "decision_rule").rows() == [("a", "baseline_passed"), ("z", "baseline_candidate")]


def test_the_last_run_of_a_role_decides_whatever_the_order_of_rows():
    old, new = passed("r9", recorded_at="2026-01-01"), entry("r1", recorded_at="2026-01-02")
    assert decision(old, new) == decision(new, old) == ["baseline_failed_treatment_candidate"]
    tie = [entry("r1"), passed("r2")]
    assert decision(*tie) == decision(*reversed(tie)) == ["baseline_passed_not_current_treatment_priority"]


def test_no_runs_give_no_decisions():
    assert decide(frame(), LOOPX).is_empty()


def test_every_timeout_of_a_case_counts_for_its_route():
    slow = {"repair_class": "case_timeout_research", "repair_priority": "P1"}
    runs = [entry("r1", **slow), entry("r2", **slow), passed("r3", recorded_at="2026-02-01")]
    document = decision_documents(decide(frame(*runs), LOOPX), LOOPX)[0]
    assert document["case_routing"]["class"] == "timeout_tier_policy_candidate"
    assert document["case_routing"]["evidence"] == "case_timeout_research_count=2"


def records(*given):
    made = [
        {
            "schema_version": "benchmark_run_v0",
            "benchmark_id": "b",
            "case_id": "c",
            "job_name": f"j{i}",
            "official_task_score": {"value": score, "passed": score == 1},
            "score_failure_attribution": "solution_incorrect",
        }
        for i, (_, score) in enumerate(given)
    ]
    return made, [{"arm_id": arm} for arm, _ in given]


@pytest.mark.parametrize(("pack", "paired"), [(LOOPX, True), (DEFAULT, False)])
def test_an_arm_with_both_words_is_paired_with_itself_only_by_the_ancestor(pack, paired):
    made, options = records(("treatment-baseline-safe", 1.0))
    found = decide(entries(made, pack, options, recorded_at="2026-01-01T00:00:00+00:00"), pack)
    assert found.get_column("decision").to_list() == [
        "paired_baseline_solved_treatment_preserved" if paired else "single_arm_recorded"
    ]


def test_taking_an_old_run_again_does_not_flip_a_decision():
    made, options = records(("x_baseline", 0.0), ("x_baseline", 1.0))
    for record, day in zip(made, ("2026-01-01", "2026-01-02"), strict=True):
        record["ended_at"] = f"{day}T00:00:00+00:00"
    first = entries(made, DEFAULT, options, recorded_at="2026-01-03T00:00:00+00:00")
    runs, _ = upsert(first.clear(), first, DEFAULT)
    before = decide(runs, DEFAULT)
    again = entries(made[:1], DEFAULT, options[:1], recorded_at="2026-01-09T00:00:00+00:00")
    runs, report = upsert(runs, again, DEFAULT)
    assert report.count("replaced") == 1
    assert decide(runs, DEFAULT).equals(before)


def test_times_are_compared_as_times_by_us():
    made, options = records(("x_baseline", 0.0), ("x_baseline", 1.0))
    made[0]["ended_at"] = "2026-01-01T23:00:00-05:00"  # later than the other, though its text is less
    made[1]["ended_at"] = "2026-01-02T01:00:00+00:00"
    found = decide(entries(made, DEFAULT, options, recorded_at="2026-01-09T00:00:00+00:00"), DEFAULT)
    assert found.get_column("decision").to_list() == ["baseline_failed_treatment_candidate"]


def test_a_review_of_pairs_keeps_their_order_and_needs_no_run():
    found = review_pairs([{"case_id": "a"}, {}], [{"case_id": "a"}, {}], LOOPX)
    assert found.get_column("case_id").to_list() == ["a", ""]
    assert found.get_column("complete").to_list() == [False, False]
    assert review_pairs([], [], LOOPX).is_empty()
