"""The weaknesses of the ancestor's ledger, by their numbers in the specification: `default` is right, `loopx` is as it was.

Not shown here, and why:

* 16 (totals over all cases at each upsert) is a matter of time alone: `tests/benchmarks/test_ledger.py` measures it, and
  `test_operations.py` holds 10,000 runs in one batch to a bound. 15 is shown by what an add leaves untouched; its time likewise.
* 19 and 21 speak of code. `test_engine.py` finds no vendor in ours; of 19 the constants that reached the output are shown here.
* 23 (exit codes) belongs to the command line; here is what it has to go by. 13 and 14 with real processes and `kill -9` are in
  `tests/faults/test_ledger_writers.py`; of 25 the expiry is no feature: archiving is undone, never forgotten by itself.
"""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from expcomp.errors import SourceError, UsageError
from expcomp.io.delta import DeltaFolder
from expcomp.ledger.adding import ConflictError
from expcomp.ledger.aggregate import aggregate
from expcomp.ledger.archive import Filter, archive
from expcomp.ledger.decide import decide
from expcomp.ledger.document import reload
from expcomp.ledger.drift import drift, history_runs
from expcomp.ledger.entries import entries
from expcomp.ledger.estimates import estimate
from expcomp.ledger.markdown import markdown
from expcomp.ledger.recompute import recompute
from expcomp.ledger.store import Ledger
from tests.helpers import tree
from tests.ledger.attempts import many, one
from tests.ledger.runs import DEFAULT, LOOPX, entry, frame

REFERENCE = os.environ.get("EXPCOMP_REFERENCE")
START = datetime(2026, 1, 1, tzinfo=UTC)
ROLES = {"plain": "baseline", "skills": "treatment"}


@pytest.fixture
def ours(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "ours", create=True, roles=ROLES)


@pytest.fixture
def theirs(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "theirs", "loopx", create=True)


def record(score: float | None = 0.0, *, hour: int = 0, **changes: Any) -> dict[str, Any]:
    """A record that has ended `hour` hours after the start, on the scale 0 to 1; a key that is None is left out."""
    body = {
        "schema_version": "benchmark_run_v0", "benchmark_id": "b@1", "case_id": "c", "job_name": "job", "mode": "m", "arm_id": "plain",
        "official_score": score, "score_min": 0, "score_max": 1, "ended_at": (START + timedelta(hours=hour)).isoformat(),
        "score_failure_attribution": "solution_incorrect",
    }  # fmt: skip
    return {k: v for k, v in (body | changes).items() if v is not None}


def document(folder: Path, *runs: dict[str, Any]) -> Path:
    """A ledger document of the ancestor with runs of one case."""
    path = folder / "document.json"
    cases = {"c": {"case_id": "c", "runs": list(runs)}}
    benchmarks = {"b": {"benchmark_id": "b", "cases": cases}}
    path.write_text(json.dumps({"schema_version": "benchmark_run_ledger_v0", "benchmarks": benchmarks}))
    return path


def decisions(ledger: Ledger) -> list[str]:
    return ledger.decisions.collect()["decision"].to_list()


def row(runs: pl.DataFrame, *columns: str) -> tuple[Any, ...]:
    return runs.select(*columns).row(0)


# Data loss and wrong results


def test_w01_equal_repeats_are_kept(ours: Ledger, theirs: Ledger, tmp_path: Path) -> None:
    source = Ledger(tmp_path / "source", "loopx", create=True)
    source.add(document(tmp_path, *(entry(f"r{i}", job_name="j") for i in range(5))))
    assert ours.merge(source).counts == {"inserted": 5, "refused": 0}
    assert theirs.merge(source).counts == {"appended": 1, "filled": 4, "refused": 0}
    assert [led.runs.collect().height for led in (ours, theirs)] == [5, 1]


@pytest.mark.reference
@pytest.mark.skipif(not REFERENCE, reason="EXPCOMP_REFERENCE is not set")
def test_w01_merging_the_real_ledger_into_an_empty_one_keeps_every_run(
    ours: Ledger, theirs: Ledger, tmp_path: Path
) -> None:
    source = Ledger(tmp_path / "source", "loopx", create=True)
    source.add(Path(str(REFERENCE)) / "ledger" / "benchmark-run-ledger.json")
    assert ours.merge(source).counts == {"inserted": 303, "refused": 0}
    assert theirs.merge(source).counts == {"appended": 291, "filled": 12, "refused": 0}
    assert [led.runs.collect().height for led in (source, ours, theirs)] == [303, 303, 291]


def test_w02_a_rerun_in_the_same_job_is_a_run_of_its_own(ours: Ledger, theirs: Ledger) -> None:
    for led in (ours, theirs):
        led.add([record(1.0, hour=2), record(0.0, hour=1)])
    assert sorted(ours.runs.collect()["official_score"]) == [0.0, 1.0]
    assert theirs.runs.collect()["official_score"].to_list() == [0.0]  # an older result over a newer one


def test_w02_two_records_of_one_attempt_go_by_a_policy(ours: Ledger) -> None:
    ours.add(record(1.0, hour=2, attempt=1))
    assert ours.add(record(0.0, hour=1, attempt=1)).counts == {"conflicting": 1, "refused": 0}
    with pytest.raises(ConflictError, match="attempt 1"):
        ours.add(record(0.0, hour=3, attempt=1), conflict="error")
    assert ours.runs.collect()["official_score"].to_list() == [1.0]
    assert ours.add(record(0.5, hour=3, attempt=1)).counts == {"updated": 1, "refused": 0}
    ours.add(record(0.0, hour=1, attempt=1), conflict="keep_both")
    assert sorted(ours.runs.collect()["official_score"]) == [0.0, 0.5]


def test_w03_all_attempts_of_a_pair_count_not_the_last_alone(ours: Ledger) -> None:
    scores = {"plain": (1.0, 1.0, 0.0), "skills": (0.0, 0.0, 1.0)}
    ours.add([record(s, hour=i, arm_id=a) for a, told in scores.items() for i, s in enumerate(told)])
    found = ours.decisions.collect()
    assert row(found, "decision", "baseline_scored", "treatment_scored") == ("paired_treatment_regressed", 3, 3)
    assert found["official_score_delta"].item() == pytest.approx(-1 / 3)
    runs = [
        entry(f"{a}{i}", arm_id=f"{a}_{role}", recorded_at=f"2026-01-0{i + 1}", official_score=s, countable_score=s)
        for (a, told), role in zip(scores.items(), ("baseline", "treatment"), strict=True)
        for i, s in enumerate(told)
    ]
    old = decide(frame(*runs), LOOPX)
    assert row(old, "decision", "official_score_delta") == ("paired_treatment_improved", 1.0)


def test_w03_equal_means_are_equal_to_the_last_bit(ours: Ledger) -> None:
    ours.add([record(s, hour=i, case_id="c") for i, s in enumerate((0.1, 0.2, 0.3))])
    ours.add([record(s, hour=i, arm_id="skills") for i, s in enumerate((0.3, 0.2, 0.1))])
    assert ours.decisions.collect()["official_score_delta"].to_list() == [0.0]


def test_w04_the_best_of_n_is_named_and_stands_beside_n(ours: Ledger) -> None:
    ours.add([record(s, hour=i) for i, s in enumerate((0.0, 1.0, 0.0, 0.0))])
    told = {e: ours.estimate(e) for e in ("best_of_n", "mean_of_case_means", "latest")}
    assert {e: row(f, "estimator", "value", "max_runs_per_case") for e, f in told.items()} == {
        "best_of_n": ("best_of_n", 1.0, 4),
        "mean_of_case_means": ("mean_of_case_means", 0.25, 4),
        "latest": ("latest", 0.0, 4),
    }


def test_w05_times_with_other_offsets_are_ordered_as_times(ours: Ledger) -> None:
    later, earlier = "2026-01-01T23:00:00-05:00", "2026-01-02T01:00:00+00:00"  # as texts, the other way round
    ours.add([record(0.0, ended_at=later), record(1.0, ended_at=earlier)])
    assert ours.estimate("latest")["value"].to_list() == [0.0]
    assert ours.runs.collect()["run_at"].max() == datetime(2026, 1, 2, 4, tzinfo=UTC)


def test_w05_adding_an_old_run_again_does_not_flip_a_decision(ours: Ledger, theirs: Ledger) -> None:
    old, new = record(0.0, hour=1, job_name="j1", arm_id=None), record(1.0, hour=2, job_name="j2", arm_id=None)
    seen = {}
    for led, arm in ((ours, "plain"), (theirs, "x_baseline")):
        for day, one_record in enumerate((old, new), 1):
            led.add(one_record, arm=arm, recorded_at=datetime(2026, 2, day, tzinfo=UTC))
        before = decisions(led)
        led.add(old, arm=arm, recorded_at=datetime(2026, 3, 1, tzinfo=UTC))
        seen[led.profile] = (before, decisions(led))
    passed, failed = "baseline_passed_not_current_treatment_priority", "baseline_failed_treatment_candidate"
    assert seen == {"default": ([passed], [passed]), "loopx": ([passed], [failed])}


@pytest.mark.parametrize(
    ("pack", "decision"), [(DEFAULT, "single_arm_recorded"), (LOOPX, "paired_baseline_solved_treatment_preserved")]
)
def test_w06_an_arm_with_two_words_in_its_name_is_not_paired_with_itself(pack: Any, decision: str) -> None:
    runs = entries([record(1.0, arm_id=None)], pack, arm="treatment-baseline-safe", recorded_at=START)
    assert decide(runs, pack)["decision"].to_list() == [decision]


def test_w06_two_treatments_are_not_mixed_but_named(ours: Ledger) -> None:
    scores = {"plain": 0.5, "skills": 1.0, "other-treatment": 0.0}
    ours.add([record(s, arm_id=a) for a, s in scores.items()])
    assert decisions(ours) == ["paired_arms_ambiguous"]
    told = {arm: ours.decide("plain", arm)["decision"].to_list() for arm in ("skills", "other-treatment")}
    assert told == {"skills": ["paired_treatment_improved"], "other-treatment": ["paired_treatment_regressed"]}
    assert ours.decide("skills", "plain")["decision"].to_list() == ["paired_treatment_regressed"]
    with pytest.raises(UsageError, match="expected two arms"):
        ours.decide("plain", "plain")


def test_w07_a_percentage_passes_by_the_threshold_of_its_benchmark(tmp_path: Path, theirs: Ledger) -> None:
    (tmp_path / "own.toml").write_text("[benchmarks]\npercent = { min = 0, max = 100, threshold = 90 }\n")
    ledger = Ledger(tmp_path / "percent", create=True, rules=tmp_path / "own.toml")
    bare = {"score_min": None, "score_max": None}
    given = [record(s, benchmark_id="percent@2", case_id=str(s), **bare) for s in (85, 95)]
    for led in (ledger, theirs):
        led.add(given)
    found = ledger.runs.sort("filed_case").collect()
    assert found.select("passed", "score_norm").rows() == [(False, 0.85), (True, 0.95)]
    assert theirs.runs.collect()["official_passed"].to_list() == [True, True]
    assert ledger.estimate("latest").select("value", "scale").row(0) == (pytest.approx(0.9), "0..1")


def test_w07_a_score_without_a_scale_gets_no_verdict_and_is_averaged_with_no_other(ours: Ledger) -> None:
    bare = {"score_min": None, "score_max": None}
    ours.add([record(0.5, case_id="x"), record(85, case_id="y", **bare)])
    run = ours.runs.filter(pl.col("filed_case") == "y").collect()
    assert row(run, "passed", "score_norm") == (None, None)
    assert "scale_unknown" in run["issues"][0]
    assert row(ours.estimate("latest"), "value", "value_missing_as_zero", "scale") == (None, None, "mixed")
    old = entries([record(0.5, case_id="x"), record(85, case_id="y")], LOOPX)
    assert estimate(old, "latest")["value"].to_list() == [42.75]


def test_w07_scales_that_differ_are_brought_to_one_before_they_are_compared(ours: Ledger) -> None:
    ours.add([record(0.9), record(85, score_max=100, arm_id="skills")])
    assert ours.decisions.collect()["official_score_delta"].to_list() == [pytest.approx(-0.05)]
    odd = {"score_min": None, "score_max": None}
    ours.add([record(0.9, case_id="d"), record(85, arm_id="skills", case_id="d", **odd)])
    assert decisions(ours) == ["paired_treatment_regressed", "paired_result_needs_score_review"]


def test_w07_an_attempt_without_a_scale_is_neither_passed_nor_failed(ours: Ledger) -> None:
    scales = {"score_min": None, "score_max": None, "score_norm": None, "passed": None}
    ours.add(pl.concat([one(score=s, task_id=f"b/{s}", trial=None, **scales) for s in (0.6, 2.2)]))
    found = ours.runs.sort("filed_case").collect()
    assert found.select("passed", "failure_class", "infra").rows() == [(None, "none", False)] * 2


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_w07_nan_is_refused(ours: Ledger, number: float) -> None:
    told = ours.add([record(1.0), record(number, case_id="d")])
    assert told.counts == {"inserted": 1, "refused": 1}
    assert told.refused.select("record", "name", "field").row(0) == (1, "d", "official_score")
    old = entries([record(number)], LOOPX)
    assert row(old, "failure_class", "official_score_countable") == ("none", True)


def test_w08_every_run_is_in_a_denominator_and_every_policy_is_told(ours: Ledger) -> None:
    def infra(case: str, **more: Any) -> dict[str, Any]:
        labels = ["environment_setup_failed_before_worker"]
        return record(None, case_id=case, failure_attribution_labels=labels, **more)

    crashed = record(
        None, case_id="y", hour=1, failure_class="agent_exception_before_solution_completion", status="completed"
    )
    ours.add([record(1.0, case_id="x"), infra("x", hour=1), record(0.5, case_id="y"), crashed, infra("z")])
    told = ours.estimate("mean_of_case_means")
    assert row(told, "runs", "runs_scored", "runs_infra", "runs_unscored") == (5, 2, 2, 1)
    assert row(told, "cases", "cases_scored") == (3, 2)
    assert row(told, "value") == (0.75,)  # excluded: the mean of 1 and 0.5
    assert row(told, "value_missing_as_zero", "lower_bound") == (0.25, 0.25)  # counted as fail: of 0.5, 0.25 and 0
    assert row(told, "upper_bound") == (pytest.approx((1 + 0.75 + 1) / 3),)
    assert row(ours.estimate("latest"), "value", "lower_bound", "upper_bound") == (0.75, 0.0, 1.0)
    assert row(ours.estimate("best_of_n"), "value", "lower_bound", "upper_bound") == (0.75, 0.5, 1.0)


def test_w08_bounds_need_a_scale(ours: Ledger) -> None:
    odd = {"score_min": None, "score_max": None}
    ours.add([record(3.0, **odd), record(None, case_id="d", **odd)])
    assert row(ours.estimate("latest"), "value", "lower_bound", "upper_bound", "scale") == (3.0, None, None, "raw")


def test_w09_a_missing_score_is_missing_and_no_infrastructure_by_default() -> None:
    given = [
        record(None, case_id="plain", score_failure_attribution=None),
        record(None, case_id="setup", score_failure_attribution=None, first_blocker="infrastructure_failure"),
    ]
    found = {p.profile: aggregate(entries(given, p), p, "b@1").cases["bucket"].to_list() for p in (DEFAULT, LOOPX)}
    assert found == {"default": ["missing", "setup_runner_infra"], "loopx": ["setup_runner_infra"] * 2}


def test_w10_keys_are_never_cut(ours: Ledger, theirs: Ledger) -> None:
    names = ["x" * 137 + end for end in ("first", "second")]
    for led in (ours, theirs):
        led.add([record(0.0, case_id=n, benchmark_id=n, run_group_id=n) for n in names], arm="a" * 300)
    found = ours.runs.sort("filed_case").collect()
    assert found.select("filed_case", "filed_benchmark", "run_group_id").rows() == [(n, n, n) for n in names]
    assert found["arm_id"].str.len_chars().to_list() == [300, 300]
    assert [led.cases.collect().height for led in (ours, theirs)] == [2, 1]


def test_w11_a_run_is_the_same_after_it_was_stored() -> None:
    given = record(
        0.0,
        score_failure_attribution="skillsbench_codex_acp_x",
        round_reward_trace={"success_observed": False, "best_round_passed": True},
        runner_prerequisites={"codex_acp_runtime_launch_preflight": True},
    )
    made = entries([given], DEFAULT, recorded_at=START)
    assert_frame_equal(recompute(made, DEFAULT), made)
    old = entries([given], LOOPX, recorded_at=START)
    assert row(reload(old, LOOPX), "repair_class") != row(old, "repair_class")


def test_w12_a_record_that_was_added_under_another_arm_or_number_is_no_drift(ours: Ledger, theirs: Ledger) -> None:
    given = record(1, arm_id=None)
    for led in (ours, theirs):
        led.add(record(1.0, arm_id=None), arm="plain", group="night")
    missing = {
        led.profile: drift(led.runs.collect(), history_runs([given], led.pack), led.pack)["missing_ledger_run_count"]
        for led in (ours, theirs)
    }
    assert missing == {"default": 0, "loopx": 1}
    for other in (record(0, arm_id=None), record(1, arm_id=None, hour=1), record(1, arm_id=None, case_id="d")):
        assert drift(ours.runs.collect(), history_runs([other], DEFAULT), DEFAULT)["drift_detected"] is True


# Durability and concurrency


def test_w13_what_a_dead_writer_left_blocks_no_one(ours: Ledger) -> None:
    ours.add(many(3))
    where = Path(ours.path)
    for name in (f"{where}.lock", where / "ledger.lock", where / "_delta_log" / "_commit_1.json.tmp"):
        Path(name).write_text("999999999")  # no such process
    (where / "part-dead.zstd.parquet").write_bytes(b"PAR1")
    assert Ledger(where).add(many(5)).counts == {"identical": 3, "inserted": 2, "refused": 0}


def test_w14_a_writer_that_dies_before_its_commit_leaves_the_state_before(
    ours: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Killed(BaseException):
        pass

    def die(*_: object) -> None:
        raise Killed

    ours.add(many(3))
    before, report = ours.runs.collect(), markdown(ours.runs.collect(), ours.pack)
    monkeypatch.setattr(DeltaFolder, "_committed", die)
    with pytest.raises(Killed):
        ours.add(many(5))
    monkeypatch.undo()
    seen = Ledger(ours.path)
    assert (seen.version, seen.runs.collect().equals(before)) == (1, True)
    assert markdown(seen.runs.collect(), seen.pack) == report  # derived at each reading, so never of another state
    assert seen.add(many(5)).count("inserted") == 2


def test_w15_an_add_writes_its_own_runs_and_touches_no_others(ours: Ledger) -> None:
    ours.add(many(3000, cases=50))
    where = Path(ours.path)
    before = tree(where)
    ours.add(many(1, seed=1))
    after = tree(where)
    assert {n: after[n] for n in before} == before
    new = sorted(set(after) - set(before))
    assert (len(new), {Path(n).suffix for n in new}) == (2, {".json", ".parquet"})
    part = next(n for n in new if n.endswith(".parquet"))
    assert pl.read_parquet(where / part).height == 1


def test_w17_a_path_that_is_not_there_is_an_error(ours: Ledger, tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="typo holds no table"):
        Ledger(tmp_path / "typo")
    with pytest.raises(SourceError, match=r"typo.json does not exist"):
        ours.add(tmp_path / "typo.json")
    with pytest.raises(SourceError, match="typo holds no table"):
        ours.merge(Ledger(tmp_path / "typo"))
    assert not (tmp_path / "typo").exists()


# Modelling and code


def test_w18_what_an_attempt_cost_and_ran_with_is_in_columns(ours: Ledger) -> None:
    facts = {
        "cost_usd": 0.25, "input_tokens": 10, "output_tokens": 3, "duration_s": 1.5, "seed": 7, "agent": "worker", "agent_version": "2",
        "model": "m", "commit": "abc", "dataset_hash": "sha256:00", "attempt": 2,
    }  # fmt: skip
    ours.add(record(1.0, **facts))
    assert ours.runs.select(*facts).collect().row(0) == tuple(facts.values())


def test_w18_what_a_column_does_not_take_is_reported_not_dropped(ours: Ledger, theirs: Ledger) -> None:
    odd = record(1.0, cost_usd="free", seed="seven", input_tokens=-1, duration_s=True)
    for led in (ours, theirs):
        led.add(odd)
    told = {"cost_usd_refused", "seed_refused", "input_tokens_refused", "duration_s_refused"}
    assert told <= set(ours.runs.collect()["issues"][0])
    assert theirs.runs.collect()["issues"].to_list() == [None]


@pytest.mark.parametrize("field", ["benchmark_id", "case_id"])
def test_w18_a_record_whose_place_cannot_be_read_is_refused(ours: Ledger, field: str) -> None:
    told = ours.add([record(1.0, **{field: ["x"]}), record(1.0, job_name="k")])
    assert told.counts == {"inserted": 1, "refused": 1}
    assert told.refused.select("record", "field").row(0) == (0, field)


def test_w19_no_vendor_stands_in_for_what_a_record_does_not_say() -> None:
    given = record(None, benchmark_id=None, case_id=None, job_name=None, failure_attribution_labels=[
        "codex_model_access_unsupported_for_account"
    ])  # fmt: skip
    ours, theirs = (entries([given], p) for p in (DEFAULT, LOOPX))
    assert row(ours, "benchmark_id", "case_id", "repair_profile") == ("unknown-benchmark", "unknown-case", None)
    assert {"benchmark_unknown", "case_unknown", "class_unknown"} <= set(
        entries([{**given, "score_failure_attribution": "codex_x"}], DEFAULT)["issues"][0]
    )
    assert "gpt-5.5" in theirs["repair_profile"][0]


@pytest.mark.parametrize("name", ["runner_up_solution_bug", "docker_compose_syntax_task"])
def test_w20_a_class_nobody_declared_is_reported_not_guessed(name: str) -> None:
    given = record(0.0, score_failure_attribution=name)
    ours, theirs = (entries([given], p) for p in (DEFAULT, LOOPX))
    assert row(ours, "failure_class", "failure_scope", "infra") == (name, "attribution_required", False)
    assert "class_unknown" in ours["issues"][0]
    assert row(theirs, "failure_scope") == ("runner_or_setup",)
    unscored = entries([record(None, score_failure_attribution=name)], DEFAULT)
    assert aggregate(unscored, DEFAULT, "b@1").cases["bucket"].to_list() == ["missing"]
    assert aggregate(entries([record(None, score_failure_attribution=name)], LOOPX), LOOPX, "b@1").cases[
        "bucket"
    ].to_list() == ["setup_runner_infra"]


@pytest.mark.parametrize(("pack", "bars"), [(DEFAULT, 10), (LOOPX, 13)])
def test_w22_a_bar_in_a_name_breaks_no_row(pack: Any, bars: int) -> None:
    report = markdown(frame(entry("r", case_id="a|b|c\nd|e")), pack)
    line = next(x for x in report.split("## Runs")[1].splitlines() if "a" in x and "`b`" in x)
    assert len(line.replace("\\|", "").split("|")) - 1 == bars


def test_w22_the_kind_of_attempt_is_told() -> None:
    runs = [frame(entry("r", official_score_attempt_countable=True, solver_attempt_countable=True))]
    cells = [markdown(r, DEFAULT).splitlines()[-1].split(" | ")[3] for r in runs]
    assert cells == ["`official_score_attempt`"]


def test_w23_drift_and_regressions_are_values_a_gate_can_go_by(ours: Ledger) -> None:
    ours.add([record(1.0), record(0.0, arm_id="skills")])
    regressed = ours.decisions.filter(pl.col("decision") == "paired_treatment_regressed").collect()
    assert regressed.select("filed_case", "official_score_delta").rows() == [("c", -1.0)]
    report = drift(ours.runs.collect(), history_runs([record(1.0, case_id="lost")], DEFAULT), DEFAULT)
    assert (report["drift_detected"], report["missing_ledger_run_count"]) == (True, 1)


def test_w24_keys_have_128_bits_for_the_place_and_128_for_the_content(ours: Ledger, theirs: Ledger) -> None:
    for led in (ours, theirs):
        led.add([record(0.0), record(1.0, case_id="d")])
    assert ours.runs.collect()["run_key"].str.contains(r"^[0-9a-f]{32}\.[0-9a-f]{32}$").all()
    assert theirs.runs.collect()["run_key"].str.contains(r"^[0-9a-f]{12}$").all()


def test_w25_an_archive_is_undone(ours: Ledger) -> None:
    ours.add([record(0.0), record(1.0, case_id="d")])
    before, which = ours.runs.collect(), Filter("b@1", cases=("c",))
    ours.archive(which, reason="broken verifier")
    assert decisions(ours)[0] == "archived_only"
    assert ours.unarchive(which)["archive_reason"].to_list() == ["broken verifier"]
    assert ours.runs.sort("run_key").collect().equals(before.sort("run_key"))
    assert ours.history.collect()["action"].to_list()[:2] == ["unarchive", "archive"]


@pytest.mark.parametrize(("pack", "kept"), [(DEFAULT, 1), (LOOPX, 2)])
def test_w25_kept_are_runs_that_the_filter_meant(pack: Any, kept: int) -> None:
    runs = frame(
        entry("r1", run_group_id="old-keep"), entry("r2", run_group_id="old"), entry("r3", run_group_id="new-keep")
    )
    which = Filter("b", groups=("old",), keep=("keep",))
    _, report = archive(runs, which, pack, reason="why", at=START.isoformat())
    assert (report["newly_archived_run_count"], report["kept_run_count"]) == (1, kept)


def test_w25_what_another_ledger_archived_hides_no_run_that_is_active_here(ours: Ledger, tmp_path: Path) -> None:
    other = Ledger(tmp_path / "other", create=True)
    other.add([record(0.0, hour=1), record(1.0, hour=5, case_id="d", attempt=1), record(0.5, case_id="only-there")])
    other.archive(Filter("b@1", everything=True), reason="theirs")
    ours.add([record(0.0, hour=1), record(0.0, hour=2, case_id="d", attempt=1)])
    assert ours.merge(other).counts == {"identical": 1, "updated": 1, "inserted": 1, "refused": 0}
    found = ours.runs.select("filed_case", "official_score", "archive_state").sort("filed_case").collect()
    assert found.rows() == [("c", 0.0, None), ("d", 1.0, None), ("only-there", 0.5, "archived")]


def test_w26_a_partial_score_has_a_class() -> None:
    bare = record(0.5, score_failure_attribution=None)
    ours, theirs = (entries([bare], p) for p in (DEFAULT, LOOPX))
    assert row(ours, "failure_class", "failure_scope") == ("partial_solution", "case_or_solution")
    assert row(theirs, "failure_class", "failure_scope") == ("none", "case_or_solution")
    why = record(0.5, failure_attribution_labels=["agent_timeout_before_solution_completion"])
    found = [entries([why], p)["failure_class"].item() for p in (DEFAULT, LOOPX)]
    assert found == ["agent_timeout_before_solution_completion", "none"]
