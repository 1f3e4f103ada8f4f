"""What attempts, records and results of lm-evaluation-harness become in a ledger."""

from __future__ import annotations

import json
import math
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import expcomp
from expcomp.errors import SourceError
from expcomp.ledger.inputs import from_attempts
from expcomp.ledger.lm_eval import is_results
from expcomp.ledger.pack import read_pack
from expcomp.ledger.recompute import recompute
from expcomp.ledger.store import Ledger
from tests.helpers import ROOT
from tests.ledger.attempts import many, one

REFERENCE = os.environ.get("EXPCOMP_REFERENCE")
pytestmark = pytest.mark.filterwarnings("error")


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "ledger", create=True)


def only(ledger: Ledger) -> dict[str, Any]:
    frame = ledger.runs.collect()
    assert frame.height == 1
    return {name: frame[name][0] for name in frame.columns}


# Attempts


@pytest.mark.parametrize(
    ("changes", "scope", "infra"),
    [
        ({"passed": True}, "passed", False),
        ({"passed": False, "score": 0.0}, "case_or_solution", False),
        ({"status": "limit", "passed": False}, "case_or_solution", False),
        ({"status": "limit", "passed": True}, "passed", False),
        ({"status": "agent_error", "passed": None, "score": None}, "case_or_solution", False),
        ({"status": "infra_error", "passed": None, "score": None}, "runner_or_setup", True),
        ({"status": "infra_error", "passed": True}, "passed", False),
        ({"status": "cancelled", "passed": None, "score": None}, "runner_or_setup", True),
        ({"passed": None, "score": None}, "score_missing", True),
        ({"passed": None, "score": 1.0}, "passed", False),
        ({"passed": None, "score": 0.5}, "case_or_solution", False),
        ({"passed": None, "score": 85.0, "score_max": 100.0, "score_norm": 0.85}, "case_or_solution", False),
        ({"passed": True, "score_valid": False, "score_issue": "label_not_run"}, "verifier_or_infra", True),
    ],
)
def test_whose_failure_it_is(changes: dict[str, Any], scope: str, infra: bool) -> None:
    run = recompute(from_attempts(one(**changes)).runs, read_pack("default"))
    assert run.select("failure_scope", "infra").row(0) == (scope, infra)
    assert run["failure_class"][0] == "none" if scope == "passed" else run["failure_class"][0] != "none"


def test_a_score_its_source_calls_unusable_is_left_out_with_the_reason(ledger: Ledger) -> None:
    ledger.add(one(score_valid=False, score_issue="score_out_of_scale", passed=None))
    run = only(ledger)
    assert (run["score"], run["passed"], run["score_issue"]) == (None, None, "source_score_out_of_scale")
    assert run["official_score_countable"] is False


def test_facts_stand_in_columns_of_their_own(ledger: Ledger) -> None:
    ledger.add(one(seed=7, cost_usd=0.5, agent_version="2.1", stop_reason="done"), arm="mine", group="tuesday")
    run = only(ledger)
    wanted = {
        "filed_benchmark": "bench", "filed_case": "case-0", "arm_id": "mine", "run_group_id": "tuesday", "attempt": 0, "seed": 7,
        "cost_usd": 0.5, "input_tokens": 0, "output_tokens": 20, "duration_s": 1.5, "model": "a-model", "agent": "an-agent",
        "agent_version": "2.1", "harness": "harbor", "score_min": 0.0, "score_max": 1.0, "score_status": "passed",
        "run_at": datetime(2026, 1, 1, tzinfo=UTC), "runner_return_status": "done", "profile": "default",
    }  # fmt: skip
    assert {k: run[k] for k in wanted} == wanted


def test_a_trial_that_is_only_ordered_claims_no_attempt() -> None:
    assert from_attempts(one(trial_source="ordered")).runs["attempt"].to_list() == [None]


def test_subagents_and_sessions_without_a_task_are_no_runs() -> None:
    frame = pl.concat([one(relation="subagent"), one(relation="root"), one(relation="root", task_id=None)])
    found = from_attempts(frame)
    assert found.runs.height == 1
    assert found.refused.select("record", "field").rows() == [(0, "relation"), (2, "task_id")]


def test_the_benchmark_is_the_data_set_of_the_task_else_the_head_of_its_id_else_as_told() -> None:
    tasks = pl.DataFrame(
        {"task_id": ["a/b/1"], "dataset": ["a/b"], "dataset_version": ["v2"], "task_digest": ["sha256:0"]}
    )
    frame = pl.concat([one(task_id="a/b/1"), one(task_id="c/2"), one(task_id="plain")])
    told = from_attempts(frame, tasks).runs.select("filed_benchmark", "filed_case", "benchmark_version").rows()
    assert told == [("a/b", "1", "v2"), ("c", "2", None), ("unknown-benchmark", "plain", None)]
    assert from_attempts(one(task_id="plain"), benchmark="mine").runs["filed_benchmark"][0] == "mine"


def test_a_trace_set_is_added_whole_and_again_from_elsewhere_only_once(ledger: Ledger, tmp_path: Path) -> None:
    ts = expcomp.read_traces(ROOT / "data" / "packages")
    first = ledger.add(ts)
    assert first.count("inserted") + first.refused.height == ts.attempts.height
    assert ledger.add(ts.lazy()).count("identical") == first.count("inserted")
    assert ledger.add(ROOT / "data" / "packages").count("identical") == first.count("inserted")


@pytest.mark.reference
@pytest.mark.slow
@pytest.mark.skipif(not REFERENCE, reason="EXPCOMP_REFERENCE is not set")
def test_every_attempt_of_the_reference_traces_is_a_run_or_refused_with_a_reason(ledger: Ledger) -> None:
    ts = expcomp.read_traces(Path(str(REFERENCE)) / "traces")
    told = ledger.add(ts)
    assert told.actions.height + told.refused.height == ts.attempts.height
    assert told.refused.select(pl.col("field", "reason").is_not_null().all()).row(0) == (True, True)
    assert ledger.runs.collect().height == told.count("inserted")


# Records


def record(**changes: Any) -> dict[str, Any]:
    body = {
        "schema_version": "benchmark_run_v0",
        "benchmark_id": "b@1",
        "case_id": "c",
        "job_name": "j",
        "official_score": 0.5,
    }
    return body | changes


def test_records_are_taken_from_memory_from_json_and_from_lines(ledger: Ledger, tmp_path: Path) -> None:
    records = [record(case_id=f"c{i}") for i in range(3)]
    assert ledger.add(records).count("inserted") == 3
    (tmp_path / "one.json").write_text(json.dumps(records[0]))
    (tmp_path / "all.jsonl").write_text("\n".join(map(json.dumps, records)) + "\n\n")
    assert ledger.add(tmp_path / "one.json").counts == {"identical": 1, "refused": 0}
    assert ledger.add([tmp_path / "one.json", tmp_path / "all.jsonl"]).counts == {"identical": 4, "refused": 0}
    assert ledger.add(records[0]).counts == {"identical": 1, "refused": 0}


@pytest.mark.parametrize("number", [math.nan, math.inf])
def test_nan_in_a_record_is_refused_with_record_and_field(ledger: Ledger, tmp_path: Path, number: float) -> None:
    bad = record(case_id="bad", official_task_score={"value": number})
    told = ledger.add([record(), bad])
    assert told.count("inserted") == 1
    assert told.refused.row(0) == (1, "bad", "official_task_score.value", "not a finite number", None)
    (tmp_path / "bad.jsonl").write_text(json.dumps(record(case_id="d")) + "\n" + json.dumps(bad) + "\n")
    assert ledger.add(tmp_path / "bad.jsonl").refused.row(0)[0] == 1


def test_a_cut_file_is_an_error_with_its_line_and_changes_nothing(ledger: Ledger, tmp_path: Path) -> None:
    (tmp_path / "cut.jsonl").write_text(json.dumps(record()) + "\n" + json.dumps(record(case_id="d"))[:-4])
    with pytest.raises(SourceError, match=r"cut.jsonl, line 2"):
        ledger.add(tmp_path / "cut.jsonl")
    with pytest.raises(SourceError, match="does not exist"):
        ledger.add(tmp_path / "none.json")
    assert ledger.version == 0


# lm-evaluation-harness


def sample(doc: int, value: float | None, **more: Any) -> dict[str, Any]:
    body = {
        "doc_id": doc,
        "doc": {"q": "?"},
        "target": "4",
        "resps": [["4"]],
        "filtered_resps": ["4"],
        "metrics": ["exact_match"],
    }
    return body | {"filter": "none"} | ({} if value is None else {"exact_match": value}) | more


def results(
    folder: Path, samples: dict[str, list[dict[str, Any]]], *, stamp: str = "2026-01-02T03-04-05.6", **more: Any
) -> Path:
    document = {
        "results": {task: {"exact_match,none": 0.5} for task in samples},
        "configs": {task: {"metadata": {"version": 3.0}} for task in samples},
        "versions": dict.fromkeys(samples, 3.0),
        "n-shot": dict.fromkeys(samples, 5),
        "config": {"model": "hf", "model_args": {"pretrained": "org/model"}, "model_revision": "main", "random_seed": 0},
        "model_name": "org/model", "git_hash": "abc123", "date": 1767323045.6, "task_hashes": dict.fromkeys(samples, "ffee"),
        "lm_eval_version": "0.4.9",
    }  # fmt: skip
    path = folder / f"results_{stamp}.json"
    path.write_text(json.dumps(document | more.pop("inside", {}) | more))
    for task, lines in samples.items():
        (folder / f"samples_{task}_{stamp}.jsonl").write_text("".join(json.dumps(s) + "\n" for s in lines))
    return path


def test_samples_of_the_harness_become_runs(ledger: Ledger, tmp_path: Path) -> None:
    path = results(tmp_path, {"gsm8k": [sample(0, 1.0), sample(1, 0.0)], "gsm8k_cot": [sample(0, 1.0)]})
    assert ledger.add(path, group="g").counts == {"inserted": 3, "refused": 0}
    found = ledger.runs.sort("filed_benchmark", "filed_case").collect()
    columns = (
        "filed_benchmark",
        "filed_case",
        "arm_id",
        "score",
        "passed",
        "failure_scope",
        "benchmark_version",
        "seed",
        "harness_version",
    )
    assert found.select(columns).rows() == [
        ("gsm8k", "0", "org/model", 1.0, True, "passed", "3.0", 0, "0.4.9"),
        ("gsm8k", "1", "org/model", 0.0, False, "case_or_solution", "3.0", 0, "0.4.9"),
        ("gsm8k_cot", "0", "org/model", 1.0, True, "passed", "3.0", 0, "0.4.9"),
    ]
    assert found["run_at"][0] == datetime(2026, 1, 2, 3, 4, 5, 600000, tzinfo=UTC)
    assert ledger.add(path, group="g").counts == {"identical": 3, "refused": 0}


def test_the_same_model_evaluated_again_with_equal_answers_is_a_rerun(ledger: Ledger, tmp_path: Path) -> None:
    ledger.add(results(tmp_path, {"t": [sample(0, 1.0)]}))
    ledger.add(results(tmp_path, {"t": [sample(0, 1.0)]}, stamp="2026-01-09", date=1767928000.0))
    assert ledger.runs.collect().height == 2


def test_two_filters_of_a_task_are_two_benchmarks(ledger: Ledger, tmp_path: Path) -> None:
    samples = [sample(0, 1.0, filter="strict-match"), sample(0, 0.0, filter="flexible-extract")]
    ledger.add(results(tmp_path, {"t": samples}))
    assert ledger.cases.collect().select("filed_benchmark", "runs").rows() == [
        ("t:flexible-extract", 1),
        ("t:strict-match", 1),
    ]


def test_samples_inside_the_document_count(ledger: Ledger, tmp_path: Path) -> None:
    path = results(
        tmp_path, {}, inside={"samples": {"t": [sample(0, 1.0)]}, "results": {"t": {}}, "configs": {"t": {}}}
    )
    assert ledger.add(path).count("inserted") == 1


def test_a_metric_without_a_known_scale_gives_no_verdict(ledger: Ledger, tmp_path: Path) -> None:
    ledger.add(results(tmp_path, {"t": [sample(0, None, metrics=["bleu"], bleu=37.5)]}))
    run = only(ledger)
    assert (run["score"], run["score_norm"], run["passed"], run["score_status"]) == (37.5, None, None, "completed")


def test_bad_samples_are_refused_and_missing_scores_said(ledger: Ledger, tmp_path: Path) -> None:
    path = results(tmp_path, {"t": [sample(0, math.nan), sample(1, None), {"doc": 1}, sample(2, 1.0)]})
    told = ledger.add(path)
    assert told.refused.select("record", "field").rows() == [(0, "exact_match"), (2, "doc_id")]
    assert ledger.runs.sort("filed_case").collect()["failure_scope"].to_list() == ["score_missing", "passed"]


def test_results_without_samples_are_an_error(ledger: Ledger, tmp_path: Path) -> None:
    path = results(tmp_path, {"t": []})
    (tmp_path / "samples_t_2026-01-02T03-04-05.6.jsonl").unlink()
    with pytest.raises(SourceError, match="--log_samples"):
        ledger.add(path)


@pytest.mark.parametrize("document", [[], {}, {"results": 1}, {"results": {}, "configs": []}, {"results": {"a": 1}}])
def test_other_documents_are_none_of_the_harness(document: object) -> None:
    assert not is_results(document)


def test_a_frame_of_runs_of_another_ledger_can_be_filtered_and_added(ledger: Ledger, tmp_path: Path) -> None:
    ledger.add(many(40))
    other = Ledger(tmp_path / "other", create=True)
    other.add(ledger.runs.filter(pl.col("arm_id") == "new"), arm="renamed")
    assert set(other.runs.collect()["arm_id"]) == {"renamed"}
