"""The third-party samples as input of a ledger: every attempt is a run or a refusal with its reason, and nothing is there twice."""

from __future__ import annotations

import os
from pathlib import Path

import polars as pl
import pytest

import expcomp as xc
from expcomp.ledger.store import Ledger

REFERENCE = os.environ.get("EXPCOMP_REFERENCE")
TRACES = Path(REFERENCE or "") / "traces"

pytestmark = [
    pytest.mark.reference,
    pytest.mark.slow,
    pytest.mark.skipif(not REFERENCE, reason="EXPCOMP_REFERENCE is not set"),
    pytest.mark.filterwarnings("error"),
]

# Of these each attempt has a task; of the others of `traces` some or all are sessions, which no ledger can file.
BENCHMARKS = (
    "harbor/jobs",
    "terminal_bench/goose_claude-4-sonnet",
    "terminal_bench/trial_token_usage.csv",
    "inspect",
    "swebench",
    "tau/tau_bench_v1",
    "tau/tau_bench_v1_retail_arms",
    "tau/tau2_models",
    "tau/tau2_multitrial",
    "tau/tau2_paired",
    "verifiers",
)
FOLDERS = sorted(p.name for p in TRACES.iterdir() if p.is_dir()) if REFERENCE else []


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "ledger", create=True)


@pytest.mark.parametrize("name", FOLDERS)
def test_every_attempt_is_a_run_or_a_refusal_and_adding_again_adds_nothing(ledger: Ledger, name: str) -> None:
    ts = xc.read_traces(TRACES / name)
    told = ledger.add(ts)
    assert told.actions.height + told.refused.height == ts.attempts.height
    assert told.refused.select("name", "field", "reason").null_count().sum_horizontal().item() == 0
    assert set(told.counts) <= {"inserted", "refused"}
    runs = ledger.runs.collect()
    assert set(runs["attempt_id"]) | set(told.refused["name"]) == set(ts.attempts["attempt_id"])
    assert runs["run_key"].is_unique().all()
    version = ledger.version
    for again in (ts, TRACES / name):
        counts = ledger.add(again).counts
        assert counts.get("identical", 0) == runs.height
        assert set(counts) <= {"identical", "refused"}
    assert (ledger.version, ledger.runs.collect().equals(runs)) == (version, True)


@pytest.mark.parametrize("name", BENCHMARKS)
def test_scores_verdicts_and_facts_come_through_as_they_were(ledger: Ledger, name: str) -> None:
    ts = xc.read_traces(TRACES / name)
    assert ledger.add(ts).count("inserted") == ts.attempts.height > 0
    both = ledger.runs.collect().join(ts.attempts, on="attempt_id", how="inner", suffix="_given", maintain_order="left")
    assert both.height == ts.attempts.height
    usable = pl.col("score_valid").fill_null(value=True)
    for column in ("score", "score_norm", "passed"):
        wanted = pl.when(usable).then(f"{column}_given").cast(pl.Float64)
        found = pl.col(column).cast(pl.Float64)
        same = found.eq_missing(wanted) | ((found - wanted).abs() < 1e-12).fill_null(value=False)
        assert both.filter(~same).select("filed_case", column, f"{column}_given").rows() == []
    for column in ("cost_usd", "input_tokens", "output_tokens", "duration_s", "seed", "agent", "model"):
        assert both.filter(~pl.col(column).eq_missing(pl.col(f"{column}_given"))).height == 0
    assert both["official_score"].equals(both["score_given"].alias("official_score"))


@pytest.mark.parametrize("name", BENCHMARKS)
def test_denominators_add_up_and_the_policies_bracket(ledger: Ledger, name: str) -> None:
    ledger.add(TRACES / name)
    for estimator in ("mean_of_case_means", "latest", "best_of_n"):
        told = ledger.estimate(estimator)
        assert told["runs"].sum() == ledger.runs.collect().height
        parts = pl.sum_horizontal("runs_scored", "runs_infra", "runs_unscored")
        assert told.filter(parts != pl.col("runs")).height == 0
        assert told.filter(pl.col("runs_unscored") < 0).height == 0
        low, value, high = pl.col("lower_bound"), pl.col("value"), pl.col("upper_bound")
        known = told.filter(low.is_not_null() & value.is_not_null())
        assert known.filter((low > value + 1e-12) | (value > high + 1e-12)).height == 0
        whole = known.filter(pl.col("runs") == pl.col("runs_scored"))
        assert whole.filter((high - low).abs() > 1e-12).height == 0


@pytest.mark.parametrize(
    ("name", "scored", "infra"),
    [
        ("harbor/jobs", 20, 2),
        ("terminal_bench/goose_claude-4-sonnet", 19, 1),
        ("terminal_bench/trial_token_usage.csv", 449, 0),
        ("swebench/run_reports", 69, 0),
        ("swebench/preds", 0, 69),
        ("tau/tau_bench_v1_retail_arms", 27, 9),
        ("tau/tau2_paired", 24, 0),
    ],
)
def test_known_counts(ledger: Ledger, name: str, scored: int, infra: int) -> None:
    ledger.add(TRACES / name)
    counts = ledger.runs.select(pl.col("score").count(), pl.col("infra").sum()).collect()
    assert counts.row(0) == (scored, infra)


def test_a_score_on_no_stated_scale_is_no_verdict(ledger: Ledger) -> None:
    ledger.add(TRACES / "verifiers")
    unknown = ledger.runs.filter(pl.col("score").is_not_null() & pl.col("score_norm").is_null()).collect()
    assert unknown.height > 0
    assert unknown["passed"].null_count() == unknown.height
    assert unknown["failure_class"].unique().to_list() == ["none"]
    assert unknown["issues"].list.contains("scale_unknown").all()


def test_two_arms_of_the_samples_are_decided_by_name(ledger: Ledger) -> None:
    ledger.add(TRACES / "tau" / "tau2_paired")
    arms = ledger.runs.select("arm_id").collect()["arm_id"].unique().sort().to_list()
    there, back = ledger.decide(*arms), ledger.decide(*reversed(arms))
    assert (there["official_score_delta"] == -back["official_score_delta"]).all()
    assert there.height == back.height == 12
    means = ledger.estimate("mean_of_case_means").sort("arm_id")["value"]
    assert there["official_score_delta"].mean() == pytest.approx(means[1] - means[0])
