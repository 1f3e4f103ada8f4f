"""Ship, hold, need more work: from trials and from a sealed experiment, with every reason, the same each time."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import UNSET
from msgspec.structs import replace

from expcomp.errors import ConfigError, UsageError
from expcomp.ledger.archive import Filter
from expcomp.ledger.store import Ledger
from expcomp.training.cost_frames import read_costs
from expcomp.training.costs import CostLedger
from expcomp.training.deciding import Decided, decide, decide_experiment, decision_of, verify_decision
from expcomp.training.decisions import Accounting, Interval
from expcomp.training.documents import TamperedError, document_bytes, seal
from expcomp.training.experiments import EvaluationPolicy
from expcomp.training.guard import Exposure
from expcomp.training.lineage import check_exposure
from expcomp.training.looked_for import with_measured
from expcomp.training.policy import DEFAULT_POLICY, read_policy
from expcomp.training.run_receipts import receipts_frame
from tests.ledger.attempts import many
from tests.training.made import profile, sha
from tests.training.measured import CANDIDATE, all_receipts, experiment, receipt, trials

FAST: EvaluationPolicy = replace(DEFAULT_POLICY, resamples=200)
HELD = pl.DataFrame({"benchmark": "garden", "task": [f"t{n:02}" for n in range(24)]})
CLEAR = check_exposure(CANDIDATE, HELD)
SEEN = check_exposure(CANDIDATE, HELD.vstack(pl.DataFrame({"benchmark": ["bench"], "task": ["one"]})))


def decided(frame: pl.DataFrame, policy: EvaluationPolicy = FAST, exposure: Exposure = CLEAR, **more: Any) -> Decided:
    return decide(frame, "plain", "tuned", exposure=exposure, policy=policy, **({"preparation_usd": 0.5} | more))


@pytest.mark.parametrize(
    ("lift", "outcome", "reasons"),
    [
        (0.2, "ship", ()),
        (0.0, "need_more_work", ("lower_bound_not_above_minimum_lift",)),
        (-0.2, "hold", ("lower_bound_not_above_minimum_lift",)),
    ],
)
def test_the_lower_bound_decides(lift: float, outcome: str, reasons: tuple[str, ...]) -> None:
    found = decided(trials(lift))
    assert (found.outcome, found.reasons) == (outcome, reasons)
    d, c = found.decision, found.comparison
    assert (d.low, d.high, d.point) == (c.score.interval.low, c.score.interval.high, c.score.difference)
    assert (d.comparison_digest, d.exposure_digest, d.policy_digest) == (c.digest, CLEAR.report.digest, c.policy_digest)
    assert (c.n_tasks, c.n_samples, c.complete) == (24, 48, True)


CASES: dict[str, tuple[Any, dict[str, Any], tuple[str, ...]]] = {
    "a run is missing": (lambda f: f.slice(1), {}, ("coverage_incomplete",)),
    "a run failed": (
        lambda f: f.with_columns(score=pl.when(pl.int_range(pl.len()) > 0).then("score")),
        {},
        ("coverage_incomplete",),
    ),
    "held-out tasks were seen": (lambda f: f, {"exposure": SEEN}, ("held_out_exposure",)),
    "few tasks": (lambda f: f.head(20), {}, ("too_few_units",)),
    "few runs": (lambda f: f, {"policy": replace(FAST, minimum_runs=49)}, ("too_few_units",)),
    "no width": (
        lambda f: f.with_columns(score=pl.when(pl.col("arm") == "tuned").then(0.5).otherwise(0.25)),
        {},
        ("degenerate_interval",),
    ),
    "a higher lift": (
        lambda f: f,
        {"policy": replace(FAST, minimum_lift=0.3)},
        ("lower_bound_not_above_minimum_lift",),
    ),
    "dearer": (
        lambda f: f.with_columns(cost_usd=pl.when(pl.col("arm") == "tuned").then(0.002).otherwise(0.001)),
        {"policy": replace(FAST, objectives={"cost_usd": 0.5})},
        ("guard_regression",),
    ),
    "a dimension fell": (
        lambda f: f.with_columns(style=pl.when(pl.col("arm") == "tuned").then(0.2).otherwise(0.5)),
        {"policy": replace(FAST, critical_dimensions=("style",), regression_tolerance=0.1)},
        ("guard_regression",),
    ),
    "a guard has no figures": (
        lambda f: f,
        {"policy": replace(FAST, objectives={"duration_s": 0.5})},
        ("coverage_incomplete",),
    ),
    "a guard has no figure of some runs": (
        lambda f: f.with_columns(style=pl.when((pl.col("arm") == "plain") | (pl.col("attempt") == 0)).then("score")),
        {"policy": replace(FAST, critical_dimensions=("style",))},
        ("coverage_incomplete",),
    ),
    "a dimension is no number": (
        lambda f: f.with_columns(style=pl.when(pl.col("arm") == "plain").then("score").otherwise(float("nan"))),
        {"policy": replace(FAST, critical_dimensions=("style",))},
        ("coverage_incomplete",),
    ),
    "tokens of some runs are not known": (
        lambda f: f.with_columns(input_tokens=5, output_tokens=pl.when(pl.col("attempt") == 0).then(5)),
        {"policy": replace(FAST, objectives={"tokens": 0.5})},
        ("coverage_incomplete",),
    ),
    "nobody knows what making it cost": (lambda f: f, {"preparation_usd": None}, ("cost_accounting_incomplete",)),
    "a run of unknown cost": (
        lambda f: f.with_columns(cost_usd=pl.when(pl.int_range(pl.len()) > 0).then("cost_usd")),
        {},
        ("cost_accounting_incomplete",),
    ),
    "above the budget": (lambda f: f, {"policy": replace(FAST, budget_nanos=1)}, ("cost_ceiling_exceeded",)),
    "several": (
        lambda f: f.slice(1).head(20),
        {"exposure": SEEN, "preparation_usd": None},
        ("coverage_incomplete", "held_out_exposure", "too_few_units", "cost_accounting_incomplete"),
    ),
}


@pytest.mark.parametrize(("edit", "more", "reasons"), CASES.values(), ids=CASES.keys())
def test_every_reason_is_told_in_order(edit: Any, more: dict[str, Any], reasons: tuple[str, ...]) -> None:
    found = decided(edit(trials(0.2)), **more)
    assert found.reasons == reasons
    curable = {"too_few_units", "degenerate_interval", "mcnemar_veto"}
    expected = "hold" if set(reasons) - curable - {"lower_bound_not_above_minimum_lift"} else found.outcome
    assert found.outcome == expected != "ship"


def test_single_verdicts_are_decided_by_tango_and_may_be_vetoed() -> None:
    frame = trials(0.0, tasks=24, repetitions=1).drop("score")
    better = pl.col("task").is_in([f"t{n:02}" for n in range(5)])
    frame = frame.with_columns(passed=pl.when(pl.col("arm") == "tuned").then(better).otherwise(pl.lit(value=False)))
    found = decided(frame)
    assert found.comparison.score.interval.method == "tango"
    assert (found.comparison.score.name, found.comparison.score.p_value) == ("passed", pytest.approx(0.03125))
    assert found.outcome == "ship"
    strict = decided(frame, replace(FAST, confidence=0.97))
    assert "mcnemar_veto" in strict.reasons


def test_whole_clusters_are_the_unit() -> None:
    frame = trials(0.2).with_columns(repository=pl.col("task").str.slice(1).cast(pl.Int64) // 2)
    found = decided(frame, replace(FAST, cluster="repository"))
    assert (found.comparison.unit, found.comparison.n_units, found.comparison.n_tasks) == ("cluster", 12, 24)
    assert found.reasons == ("too_few_units",)


def test_arms_that_are_one_role() -> None:
    frame = trials(0.2).with_columns(role=pl.when(pl.col("arm") == "plain").then(pl.lit("baseline")))
    other = frame.filter(arm="plain").with_columns(arm=pl.lit("plainer"))
    found = decide(pl.concat([frame, other]), "baseline", "tuned", exposure=CLEAR, policy=FAST, preparation_usd=0.0)
    assert found.comparison.repetitions == 4
    assert found.reasons == ("coverage_incomplete",)  # the candidate ran half as often


@settings(max_examples=8, deadline=None)
@given(st.randoms(use_true_random=False))
def test_the_order_of_the_runs_changes_nothing(random: Any) -> None:
    frame = trials(0.2, tasks=6)
    order = list(range(frame.height))
    random.shuffle(order)
    one, two = decided(frame), decided(frame[order])
    assert document_bytes(one.decision) == document_bytes(two.decision)
    assert document_bytes(one.comparison) == document_bytes(two.comparison)


def test_a_decision_is_made_again_from_its_documents() -> None:
    found = decided(trials(0.2))
    parts = (found.comparison, found.policy, found.exposure)
    verify_decision(found.decision, *parts)
    assert decision_of(*parts) == found.decision
    worse = seal(replace(found.comparison, failed_runs=1))
    forged = seal(replace(found.decision, comparison_digest=worse.digest))
    with pytest.raises(TamperedError, match=r"outcome|reasons"):
        verify_decision(forged, worse, *parts[1:])
    with pytest.raises(TamperedError, match="comparison_other_policy"):
        decision_of(found.comparison, replace(found.policy, minimum_lift=0.1), found.exposure)
    with pytest.raises(TamperedError, match="digest_mismatch"):
        decision_of(replace(found.comparison, missing_runs=1), *parts[1:])


def test_a_ledger_of_all_calls_speaks_for_the_costs(tmp_path: Any) -> None:
    with CostLedger(tmp_path / "c", ceiling_nanos=1_000) as ledger:
        for call, phase, cost in (("train", "preparation", 300), ("run", "measurement", 200)):
            ledger.admit(call, channel="agent", model="m", phase=phase, maximum_nanos=400)
            ledger.settle(call, cost_nanos=cost)
        ledger.admit("lost", channel="judge", model="m", maximum_nanos=500)
    sheet = read_costs(tmp_path / "c")
    found = decided(trials(0.2).drop("cost_usd"), costs=sheet, preparation_usd=None)
    a = found.comparison.accounting
    assert (a.preparation_nanos, a.measurement_nanos, a.known_nanos, a.unknown_calls) == (300, 200, 500, 1)
    assert (a.unknown_maximum_nanos, a.ceiling_nanos, found.outcome) == (500, 1_000, "ship")  # exactly the ceiling
    tight = decided(trials(0.2), replace(FAST, budget_nanos=999), costs=sheet)
    assert tight.reasons == ("cost_ceiling_exceeded",)


@pytest.mark.parametrize("ceiling", [3, 7, 10, 29, 10**9 + 1])
def test_a_ceiling_in_whole_billionths_is_not_missed_by_rounding(ceiling: int) -> None:
    found = decided(trials(0.2)).comparison
    account = Accounting(
        preparation_nanos=0, measurement_nanos=ceiling - 2, known_nanos=ceiling - 2, unknown_calls=1, unknown_maximum_nanos=2,
        ceiling_nanos=ceiling,
    )  # fmt: skip
    met = seal(replace(found, accounting=account))
    assert decision_of(met, FAST, CLEAR.report).outcome == "ship"
    over = seal(replace(found, accounting=replace(account, unknown_maximum_nanos=3)))
    assert decision_of(over, FAST, CLEAR.report).reasons == ("cost_ceiling_exceeded",)


def test_a_bound_that_is_not_finite_ships_nothing() -> None:
    found = decided(trials(0.2)).comparison
    none = Interval(low=None, high=None, confidence=0.95, method="none")
    open_ended = seal(replace(found, score=replace(found.score, interval=none)))
    assert decision_of(open_ended, FAST, CLEAR.report).reasons == ("degenerate_interval",)


def test_nothing_that_both_arms_did() -> None:
    frame = trials(0.2).filter((pl.col("arm") == "plain") == (pl.col("task") == "t00"))
    with pytest.raises(UsageError, match="no task has a result of both"):
        decided(frame)


E, B = experiment(tasks=20, repetitions=1)
RECEIPTS = all_receipts(E, B)


def sealed(receipts: Any, **more: Any) -> Decided:
    return decide_experiment(E, B, receipts_frame(receipts), exposure=CLEAR, **({"preparation_usd": 0.0} | more))


def test_a_sealed_experiment_ships() -> None:
    found = sealed(RECEIPTS)
    assert (found.outcome, found.findings is not None and found.findings.height) == ("ship", 0)
    assert found.decision.experiment_digest == found.comparison.experiment_digest == E.digest
    assert [d.name for d in found.comparison.dimensions] == ["style"]
    assert document_bytes(sealed(RECEIPTS[::-1]).decision) == document_bytes(found.decision)


@pytest.mark.parametrize(
    ("edit", "runs"),
    [
        (lambda r: r[1:], (0, 1)),
        (lambda r: [seal(replace(r[0], failure="timeout", grading=None)), *r[1:]], (1, 0)),
        (lambda r: [*r, receipt(E, B, "candidate", 0, 0, 1.0, execution_id="again", billing=("again",))], (0, 0)),
        (lambda r: [seal(replace(r[0], cell=seal(replace(r[0].cell, state_digest=sha("x"))))), *r[1:]], (0, 1)),
    ],
    ids=["missing", "failed", "twice", "foreign"],
)
def test_receipts_that_are_not_in_order_hold(edit: Any, runs: tuple[int, int]) -> None:
    found = sealed(edit(list(RECEIPTS)))
    assert found.reasons[0] == "coverage_incomplete"
    assert found.outcome == "hold"
    assert (found.comparison.failed_runs, found.comparison.missing_runs) == runs
    assert found.findings is not None
    assert found.findings.height


def test_a_second_run_of_a_cell_does_not_count() -> None:
    again = receipt(E, B, "candidate", 0, 0, 1.0, execution_id="zz", billing=("zz",))
    assert sealed([*RECEIPTS, again]).comparison.score == sealed(RECEIPTS).comparison.score


def test_receipts_of_one_arm() -> None:
    with pytest.raises(UsageError, match="needs both arms"):
        sealed([r for r in RECEIPTS if r.cell.arm == "baseline"])


def test_a_policy_of_a_file(tmp_path: Any) -> None:
    path = tmp_path / "policy.toml"
    path.write_text(
        'minimum_lift = 0.02\nmin_units = 30\nbudget_usd = 12.5\ncritical_dimensions = ["style"]\n[objectives]\ncost_usd = 0.1\n'
    )
    expected = replace(
        DEFAULT_POLICY,
        minimum_lift=0.02,
        min_units=30,
        budget_nanos=12_500_000_000,
        critical_dimensions=("style",),
        objectives={"cost_usd": 0.1},
    )
    assert read_policy(path) == expected
    for text, named in (
        ("minimum_lfit = 1", "minimum_lfit"),
        ("confidence = 2.0", "confidence"),
        ("budget_usd = 'x'", "budget_usd"),
        ("objectives = {style = 0.1}", "objectives"),
        ("x =", "TOML"),
    ):
        path.write_text(text)
        with pytest.raises(ConfigError, match=named):
            read_policy(path)


def test_the_guard_is_asked_about_what_there_is(tmp_path: Any) -> None:
    assert SEEN.report.errors == 1
    (receipt_,) = (CANDIDATE.training.receipt,)  # type: ignore[union-attr]
    named = pl.DataFrame({"benchmark": ["bench"], "task": ["one"]})
    path = tmp_path / "profile.json"
    path.write_bytes(document_bytes(CANDIDATE))
    for trained in (CANDIDATE, path, str(path), receipt_):
        assert check_exposure(trained, named).report.errors == 1
    assert check_exposure(profile(), named).report.receipts == 0
    with pytest.raises(UsageError, match="near"):
        check_exposure(receipt_, named, level="near")
    assert SEEN.report.verdict == "refused"


def test_a_ledger_that_is_silent_about_the_training_is_not_complete(tmp_path: Any) -> None:
    with CostLedger(tmp_path / "c") as ledger:
        ledger.admit("run", channel="agent", model="m")
        ledger.settle("run", cost_nanos=200)
    sheet = read_costs(tmp_path / "c")
    given: dict[str, Any] = {"costs": sheet, "preparation_usd": None}
    assert decided(trials(0.2), **given).reasons == ("cost_accounting_incomplete",)
    assert decided(trials(0.2), **given | {"preparation_usd": 1.0}).outcome == "ship"
    nobody = check_exposure(profile(), HELD)
    assert decided(trials(0.2), exposure=nobody, **given).outcome == "ship"


def test_a_guard_that_was_asked_about_other_tasks_decides_nothing() -> None:
    frame, others = trials(0.2), HELD.with_columns(task=pl.concat_str(pl.lit("x"), "task"))
    with pytest.raises(UsageError, match="not asked about 24 of them, as t00"):
        decided(frame, exposure=check_exposure(CANDIDATE, others))
    with pytest.raises(UsageError, match="not asked about 1 of them, as t00"):
        decided(frame, exposure=check_exposure(CANDIDATE, pl.concat([HELD.slice(1), others])))
    few = check_exposure(CANDIDATE, HELD.slice(1))
    for exposure in (few, few.report):
        with pytest.raises(UsageError, match="asked about 23 tasks, and the runs are of 24 tasks"):
            decided(frame, exposure=exposure)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="asked about 1 task, and the runs are of 20"):
        decide_experiment(E, B, receipts_frame(RECEIPTS), exposure=check_exposure(CANDIDATE, HELD.head(1)))
    # A benchmark goes by several names, and a set of texts by none.
    for held in (HELD.with_columns(benchmark=pl.lit("garden@1.0")), HELD.select(prompt="task")):
        assert decided(frame, exposure=check_exposure(CANDIDATE, held)).outcome == "ship"


def test_to_name_a_held_out_set_takes_nothing_away() -> None:
    measured = pl.DataFrame({"benchmark": ["bench", "garden"], "task": ["one", "t01"]})
    part = pl.DataFrame({"benchmark": "garden", "task": ["t01"], "prompt": ["Water the beds."]})
    found = with_measured(part, measured)
    assert found.select("task", "prompt").rows() == [("t01", "Water the beds."), ("one", None)]
    assert check_exposure(CANDIDATE, found).report.errors == 1
    assert with_measured(measured, measured).height == 2
    assert with_measured(part.select("prompt"), measured).height == 3
    known = measured.with_columns(content_digest=pl.lit(sha("one")))
    assert with_measured(pl.DataFrame({"task": ["another name"], "content_digest": [sha("one")]}), known).height == 1
    with pytest.raises(UsageError, match="holds none of the 2 tasks that the runs are of, as one"):
        with_measured(part.with_columns(task=pl.lit("t99")), measured)


def test_what_was_put_into_the_archive_leaves_a_trace(tmp_path: Any) -> None:
    ledger = Ledger(tmp_path / "l", create=True, roles={"control": "baseline", "new": "treatment"})
    ledger.add(many(40))
    held = pl.DataFrame({"task": [f"case-{n}" for n in range(10)]})

    def measured(of: Any, *arms: str) -> tuple[Any, Any, int]:
        told = decide(of, *arms, exposure=check_exposure(CANDIDATE, held), policy=FAST).comparison
        return told.archived_runs, told.archived_tasks, told.n_tasks

    for arms in (("control", "new"), ("baseline", "treatment")):
        assert measured(ledger, *arms) == (UNSET, UNSET, 10)
    ledger.archive(Filter(benchmark="bench", cases=("case-3",)), reason="a bad case")
    ledger.archive(Filter(benchmark="bench", cases=("case-4",), arms=("new",)), reason="a bad night")
    for arms in (("control", "new"), ("baseline", "treatment")):
        assert measured(ledger, *arms) == (6, 1, 9)
    assert measured(ledger.runs, "control", "new") == (6, 1, 9)
