"""The backlog: what each repair blocks, and what it would unlock."""

from __future__ import annotations

from collections import defaultdict
from itertools import combinations
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from expcomp.ledger.backlog import READ, backlog
from expcomp.tables.ledger import RUNS
from expcomp.tables.ledger_views import BACKLOG
from expcomp.tables.models import validate

ROLES = {"plain": "baseline", "skills": "treatment"}
P0, P1 = ("P0", "setup"), ("P1", "timeout")


def frame(*runs: dict[str, Any]) -> pl.DataFrame:
    """Runs with what the backlog reads; a `repair` is priority and class."""
    rows = []
    for run in runs:
        arm, (priority, repair) = run["arm"], run.get("repair") or (None, None)
        rows.append(
            {
                "filed_benchmark": run.get("benchmark", "b"),
                "filed_case": run["case"],
                "arm_id": arm,
                "archive_state": "archived" if run.get("archived") else None,
                "status": run.get("status", "completed"),
                "countable_score": run.get("score"),
                "is_baseline": ROLES.get(arm) == "baseline",
                "is_treatment": ROLES.get(arm) == "treatment",
                "repair_priority": priority,
                "repair_class": repair,
                "failure_class": run.get("failure", repair),
                "next_action": None if repair is None else f"do {repair}",
            }
        )
    return pl.DataFrame(rows, schema={c: RUNS.schema[c] for c in READ}, orient="row")


def one(*runs: dict[str, Any]) -> dict[str, Any]:
    found = backlog(frame(*runs))
    assert found.height == 1
    return found.row(0, named=True)


def test_a_blocked_arm_unlocks_the_pair_of_its_case() -> None:
    told = one(
        {"case": "c1", "arm": "plain", "score": 1.0},
        {"case": "c1", "arm": "skills", "repair": P0, "failure": "no_disk"},
        {"case": "c1", "arm": "skills", "repair": P0, "failure": "no_net"},
    )
    assert told == {
        "repair_priority": "P0",
        "filed_benchmark": "b",
        "repair_class": "setup",
        "failure_classes": ["no_disk", "no_net"],
        "next_action": "do setup",
        "arms": ["skills"],
        "runs": 2,
        "cases": 1,
        "cases_blocked": 1,
        "blocked_cases": ["c1"],
        "cases_unlocked": 0,
        "pairs_unlocked": 1,
        "comparisons_unlocked": 1,
    }


def test_a_rerun_with_a_score_unblocks_the_case() -> None:
    told = one({"case": "c1", "arm": "skills", "repair": P0}, {"case": "c1", "arm": "skills", "score": 0.0})
    assert (told["runs"], told["cases"], told["cases_blocked"], told["comparisons_unlocked"]) == (1, 1, 0, 0)


def test_a_case_without_any_score_is_unlocked_as_a_whole() -> None:
    told = one({"case": "c1", "arm": "plain", "repair": P0}, {"case": "c1", "arm": "skills", "repair": P0})
    assert (told["cases_unlocked"], told["pairs_unlocked"], told["comparisons_unlocked"]) == (1, 1, 1)
    told = one({"case": "c1", "arm": "plain", "repair": P0})
    assert (told["cases_unlocked"], told["pairs_unlocked"], told["comparisons_unlocked"]) == (1, 0, 0)


def test_a_third_arm_adds_a_comparison_with_each_other_arm() -> None:
    scored = [{"case": "c1", "arm": a, "score": 1.0} for a in ("plain", "skills", "other")]
    told = one(*scored, {"case": "c1", "arm": "new", "repair": P0})
    assert (told["pairs_unlocked"], told["comparisons_unlocked"]) == (0, 3)


@pytest.mark.parametrize("hidden", [{"archived": True}, {"status": "running"}])
def test_archived_and_running_runs_are_no_work(hidden: dict[str, Any]) -> None:
    assert backlog(frame({"case": "c1", "arm": "plain", "repair": P0} | hidden)).height == 0
    told = one({"case": "c1", "arm": "plain", "score": 1.0} | hidden, {"case": "c1", "arm": "plain", "repair": P0})
    assert told["cases_blocked"] == 1


def test_the_most_urgent_and_most_blocking_comes_first() -> None:
    runs = [{"case": f"c{i}", "arm": "plain", "repair": ("P1", "a")} for i in range(3)]
    runs += [{"case": f"c{i}", "arm": "skills", "repair": ("P0", "z")} for i in range(2)]
    runs += [
        {"case": "c0", "arm": "other", "repair": ("P0", "b")},
        {"case": "c9", "arm": "plain", "repair": ("P7", "c")},
    ]
    assert backlog(frame(*runs))["repair_class"].to_list() == ["z", "b", "a", "c"]


def test_benchmarks_are_apart() -> None:
    runs = [{"case": "c", "arm": "plain", "benchmark": b, "repair": P0} for b in ("x", "y")]
    assert backlog(frame(*runs))["filed_benchmark"].to_list() == ["x", "y"]


def test_without_runs_it_is_empty_and_whole() -> None:
    assert backlog(frame()).schema == BACKLOG.schema
    assert backlog(frame({"case": "c", "arm": "plain", "score": 1.0})).height == 0


RUN = st.fixed_dictionaries(
    {
        "benchmark": st.sampled_from(["b", "b2"]),
        "case": st.sampled_from(["c1", "c2"]),
        "arm": st.sampled_from(["plain", "skills", "x", "y"]),
        "repair": st.sampled_from([None, P0, P1]),
        "score": st.sampled_from([None, None, 0.5]),
        "archived": st.sampled_from([False, False, True]),
    }
)


@settings(deadline=None, max_examples=60)
@given(st.lists(RUN, max_size=14))
def test_it_counts_what_a_plain_count_counts(runs: list[dict[str, Any]]) -> None:
    found = backlog(frame(*runs))
    validate("backlog", found)
    live = [r for r in runs if not r["archived"]]
    scored: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
    for r in live:
        if r["score"] is not None:
            scored[r["benchmark"], r["case"]].add(r["arm"])
    expected = {}
    for benchmark, repair in {(r["benchmark"], r["repair"][1]) for r in live if r["repair"]}:
        own = [r for r in live if r["repair"] and (r["benchmark"], r["repair"][1]) == (benchmark, repair)]
        blocked, dark, pairs, comparisons = [], 0, 0, 0
        for case in sorted({r["case"] for r in own}):
            now = scored[benchmark, case]
            then = now | {r["arm"] for r in own if r["case"] == case}
            if then == now:
                continue
            blocked.append(case)
            dark += not now
            pairs += set(ROLES) <= then and not set(ROLES) <= now
            comparisons += len(list(combinations(then, 2))) - len(list(combinations(now, 2)))
        expected[benchmark, repair] = (len(own), len({r["case"] for r in own}), blocked, dark, pairs, comparisons)
    columns = ("runs", "cases", "blocked_cases", "cases_unlocked", "pairs_unlocked", "comparisons_unlocked")
    told = zip(found["filed_benchmark"], found["repair_class"], found.select(columns).rows(), strict=True)
    assert {(b, r): values for b, r, values in told} == expected
