"""Upsert, archive, merge, drift, aggregate and estimators on runs."""

from __future__ import annotations

import json
import random
import time

import polars as pl
import pytest

from expcomp.errors import SourceError, UsageError
from expcomp.ledger.aggregate import Lane, aggregate
from expcomp.ledger.archive import Filter, archive, restore
from expcomp.ledger.decide import decide
from expcomp.ledger.document import ledger_document, read_ledger_document
from expcomp.ledger.drift import drift, history_runs
from expcomp.ledger.estimates import estimate
from expcomp.ledger.merge import merge
from expcomp.ledger.upsert import upsert
from tests.ledger.runs import DEFAULT, LOOPX, canonical, entry, frame, passed, upsert_one

NOW = "2026-01-01T00:00:00+00:00"
NONE = frame()


def some_entry(r):
    extra = {
        "max_rounds_budget": r.choice([1, 2, "odd"]) if r.random() < 0.3 else None,
        "round_reward_count": r.randint(0, 3) if r.random() < 0.3 else None,
        "max_rounds_budget_applies_to": 7 if r.random() < 0.2 else None,
        "archive_state": r.choice(["archived", "other"]) if r.random() < 0.15 else None,
        "archive_reason": r.choice("pq") if r.random() < 0.15 else None,
        "job_name": "j" if r.random() < 0.8 else None,
        "official_score": r.choice([0.0, 1.0]) if r.random() < 0.8 else None,
    }
    return entry(
        r.choice("uvwxyz"),
        case_id=r.choice("cd"),
        recorded_at=f"2026-01-0{r.randint(1, 4)}",
        status=r.choice(["completed"] * 5 + ["running", "recorded"]),
        arm_id=r.choice(["x_baseline", "y_treatment"]),
        run_group_id=r.choice("ggh"),
        failure_class=r.choice(["none", "a"]),
        **extra,
    )


@pytest.mark.parametrize("seed", range(60))
def test_a_batch_gives_what_one_run_after_the_other_gives(seed):
    r = random.Random(seed)
    given = [some_entry(r) for _ in range(r.randint(1, 14))]
    cut = r.randint(0, len(given))
    plain = {}
    done = [upsert_one(plain, e, LOOPX.data("operations")["upsert"]) for e in given]
    runs, _ = upsert(NONE, frame(*given[:cut]), LOOPX)
    runs, report = upsert(runs, frame(*given[cut:]), LOOPX)
    assert canonical(runs) == sorted(json.dumps(e, sort_keys=True) for case in plain.values() for e in case)
    assert report.actions.get_column("action").to_list() == done[cut:]


@pytest.mark.parametrize("cases", [1, 700])
def test_ten_thousand_runs_in_one_batch_are_linear(cases):
    new = frame(*(entry(f"r{i:05}", case_id=f"c{i % cases}") for i in range(10_000)))
    began = time.process_time()
    once, _ = upsert(NONE, new, LOOPX)
    twice, report = upsert(once, new.with_columns(official_score=1.0), LOOPX)
    assert time.process_time() - began < 4
    assert (once.height, twice.height, report.count("replaced")) == (10_000, 10_000, 10_000)


def test_equal_repeats_are_swallowed_by_the_ancestor_and_kept_by_us():
    repeats = [frame(entry(f"r{i}", job_name="j")) for i in range(5)]
    assert merge(NONE, repeats, LOOPX)[0].height == 1
    assert merge(NONE, repeats, DEFAULT)[0].height == 5


def test_a_new_record_of_an_archived_run_stays_archived():
    runs, _ = archive(frame(entry("r")), Filter("b", cases=("c",)), LOOPX, reason="old", at=NOW)
    again, _ = upsert(runs, frame(passed("r")), LOOPX)
    assert again.select("archive_state", "archive_reason", "official_score").rows() == [("archived", "old", 1.0)]


def test_archiving_hides_and_restoring_brings_back():
    runs = frame(entry("r1", run_group_id="old-1"), entry("r2", run_group_id="old-2"), entry("r3", run_group_id="new"))
    which = Filter("b", groups=("old",), keep=("old-2",))
    hidden, report = archive(runs, which, LOOPX, reason="gone", at=NOW)
    assert (report["matched_run_count"], report["kept_run_count"], report["newly_archived_run_count"]) == (1, 1, 1)
    assert decide(hidden, LOOPX).select("active_run_count", "archived_run_count").row(0) == (2, 1)
    back, changed = restore(hidden, which)
    assert changed.get_column("archive_reason").to_list() == ["gone"]
    assert back.equals(runs)


@pytest.mark.parametrize(
    ("which", "reason"), [(Filter("b"), "why"), (Filter("b", cases=("c",)), " "), (Filter(" ", everything=True), "why")]
)
def test_archiving_without_a_filter_or_a_reason_is_refused(which, reason):
    with pytest.raises(UsageError):
        archive(frame(entry("r")), which, LOOPX, reason=reason, at=NOW)


def test_a_merge_counts_what_it_leaves_out_and_changes_nothing_on_a_dry_run():
    source = frame(entry("r1"), entry("r2", benchmark_id="other"), entry("r3", status="running"))
    merged, report = merge(NONE, [source, None], LOOPX, benchmarks=["b"], dry_run=True)
    assert merged.is_empty()
    assert report["skipped_by_reason"] == {"benchmark_filter": 1, "non_terminal": 1}
    assert (report["missing_source_count"], report["merged_run_count"], report["updated"]) == (1, 1, False)
    with pytest.raises(UsageError):
        merge(NONE, [], LOOPX)


def test_drift_lists_what_the_ledger_lacks():
    record = {
        "schema_version": "benchmark_run_v0",
        "benchmark_id": "b",
        "case_id": "c",
        "official_task_score": {"value": 1.0},
    }
    history = history_runs([{"benchmark_run": record, "generated_at": NOW}, "junk", {"schema_version": "x"}], LOOPX)
    report = drift(NONE, history, LOOPX, ledger="my ledger")
    assert (report["checked_history_run_count"], report["drift_detected"]) == (1, True)
    assert "my ledger" in report["missing_runs"][0]["catch_up_command_template"]
    assert drift(history, history, LOOPX)["drift_detected"] is False
    assert drift(NONE, history, LOOPX, limit=0)["truncated"] is True


def test_the_best_of_all_attempts_stands_for_a_case():
    runs = frame(entry("r1"), passed("r2"), entry("r3", recorded_at="2026-02-01"), entry("r4", case_id="d"))
    found = aggregate(runs, LOOPX, "b", canonical=["c", "e", "d", "c"])
    assert found.cases.select("case", "bucket").rows() == [
        ("c", "pass"),
        ("e", "missing"),
        ("d", "official_zero"),
        ("c", "pass"),
    ]


def test_a_lane_prefers_its_own_runs_that_count():
    runs = frame(passed("r1", run_group_id="full"), entry("r2", run_group_id="lane"), passed("r3", run_group_id="else"))
    found = aggregate(runs, LOOPX, "b", lane=Lane(target=("LANE",), backfill=("full",)))
    assert found.cases.select("run_id", "lane").rows() == [("r2", "current_countable")]


def test_estimators_are_named_and_differ():
    days = [f"2026-01-0{i}" for i in (1, 2, 3)]
    runs = frame(
        passed("r1", recorded_at=days[0]),
        entry("r2", recorded_at=days[1]),
        entry("r3", recorded_at=days[2]),
        entry("r4", case_id="d", official_score=None, countable_score=None, failure_class="score_missing"),
    )
    found = {e: estimate(runs, e).row(0, named=True) for e in ("mean_of_case_means", "latest", "best_of_n")}
    assert [round(f["value"], 3) for f in found.values()] == [0.333, 0.0, 1.0]
    best = found["best_of_n"]
    assert (best["cases"], best["cases_scored"], best["runs"], best["runs_scored"]) == (2, 1, 4, 3)
    assert (best["value_missing_as_zero"], best["max_runs_per_case"]) == (0.5, 3)
    with pytest.raises(UsageError):
        estimate(runs, "average")


def test_runs_without_a_counted_score_tell_neither_scale_nor_bounds():
    lost = {"official_score": None, "countable_score": None, "failure_class": "score_missing"}
    runs = frame(entry("r1", **lost), entry("r2", arm_id="y_treatment"))
    told = estimate(runs, "mean_of_case_means").rows(named=True)
    named = [[r[n] for n in ("scale", "value", "value_missing_as_zero", "lower_bound", "upper_bound")] for r in told]
    assert named == [[None, None, 0.0, None, None], ["raw", 0.0, 0.0, None, None]]


def test_a_document_comes_back_as_it_was():
    runs = frame(entry("r1", odd={"a": [1]}, failure_scope="case_or_solution"), passed("r2", arm_id="y_treatment"))
    document = ledger_document(runs, LOOPX, updated_at=NOW)
    again = read_ledger_document(document, LOOPX, as_written=True)
    assert canonical(again.runs) == canonical(runs)
    assert ledger_document(again.runs, LOOPX, updated_at=again.updated_at, header=again.header) == document


@pytest.mark.parametrize("document", [[1], "x", {}, {"schema_version": "x"}])
def test_another_schema_is_refused(document):
    with pytest.raises(SourceError):
        read_ledger_document(document, LOOPX)


def test_a_run_under_a_key_that_is_there_twice_counts_once():
    node = {"runs": [entry("r"), passed("r")]}
    document = {"schema_version": "benchmark_run_ledger_v0", "benchmarks": {"b": {"cases": {"c": node}}}}
    found = read_ledger_document(document, LOOPX).runs
    assert found.select("run_id", "official_score").rows() == [("r", 1.0)]
    assert found.filter(pl.col("archive_state").is_null()).height == 1
