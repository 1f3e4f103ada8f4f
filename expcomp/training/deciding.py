"""Ship, hold, or need more work: pure in the comparison, the policy and the report of the held-out guard."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import polars as pl
from msgspec import UNSET

from expcomp.errors import UsageError
from expcomp.stats.ship import Evidence, Guard, ShipPolicy, ship_decision
from expcomp.training.cost_frames import CostSheet
from expcomp.training.cost_records import NANOS
from expcomp.training.coverage import receipt_trials, verify_receipts
from expcomp.training.decisions import Accounting, ImprovementDecision, Measure, MeasuredComparison
from expcomp.training.documents import TamperedError, document_digest, seal, verify_seal
from expcomp.training.experiments import BenchmarkSeal, EvaluationPolicy, ExperimentDocument
from expcomp.training.guard import Exposure, ExposureReport
from expcomp.training.looked_for import check_asked, measured_tasks
from expcomp.training.measuring import measure
from expcomp.training.policy import DEFAULT_POLICY
from expcomp.training.sealing import cells, heldout_frame, task_benchmarks


@dataclass(frozen=True)
class Decided:
    """A decision with what it rests on.

    Attributes:
        comparison: What was measured.
        exposure: What the held-out guard found.
        policy: What was asked.
        findings: Of a sealed experiment: what is wrong with its receipts (`coverage.FINDINGS`); else None.
        decision: The outcome, every reason in order.
    """

    comparison: MeasuredComparison
    exposure: ExposureReport
    policy: EvaluationPolicy
    findings: pl.DataFrame | None
    decision: ImprovementDecision

    @property
    def outcome(self) -> str:
        """`ship`, `hold` or `need_more_work`."""
        return self.decision.outcome

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why not to ship, in the order of `stats.ship.REASONS`."""
        return self.decision.reasons

    def __repr__(self) -> str:
        why = f" ({', '.join(self.reasons)})" if self.reasons else ""
        return f"Decided({self.outcome}{why})"


def decide(
    what: Any,
    baseline: str,
    candidate: str,
    *,
    exposure: Exposure | ExposureReport,
    policy: EvaluationPolicy | None = None,
    costs: CostSheet | None = None,
    preparation_usd: float | None = None,
    score_scale: tuple[float, float] | None = None,
) -> Decided:
    """Decide about a candidate from runs of both arms.

    Args:
        what: Ledger, TraceSet, Compilation, or frame of trials; see `compare`.
        baseline: Arm or role that is in use.
        candidate: Arm or role that may replace it.
        exposure: What the held-out guard found about the training of the candidate (`check_exposure`); nobody decides without.
        policy: What is asked; see `DEFAULT_POLICY`.
        costs: Ledger of all calls (`read_costs`). Without one a run without a cost is a call of unknown cost.
        preparation_usd: What making the candidate cost, where no ledger says so; None: nobody knows, and nothing ships.
        score_scale: Low and high end of scores whose scale is not known.

    Raises:
        UsageError: An unknown arm or column, no task that both arms have a result for, or a guard that was asked about other tasks.
        TableError: A frame of the caller does not hold to the table of trials.
    """
    policy = policy or DEFAULT_POLICY
    check_asked(exposure, measured_tasks(what, baseline, candidate))
    comparison = measure(
        what,
        baseline,
        candidate,
        policy,
        costs=costs,
        preparation_usd=preparation_usd,
        trained=_trained(exposure),
        score_scale=score_scale,
    )
    return _decided(comparison, policy, exposure, None)


def decide_experiment(
    experiment: ExperimentDocument,
    benchmark: BenchmarkSeal,
    receipts: pl.DataFrame,
    *,
    exposure: Exposure | ExposureReport,
    costs: CostSheet | None = None,
    preparation_usd: float | None = None,
) -> Decided:
    """Decide about the candidate of a sealed experiment, from the receipts of its runs.

    Args:
        experiment: Sealed; its policy is the one that counts.
        benchmark: The one it names.
        receipts: `RUN_RECEIPTS`, as `read_receipts` gives them.
        exposure, costs, preparation_usd: As for `decide`.

    Raises:
        TamperedError: Experiment and benchmark do not hold together, or are not what was sealed.
        UsageError: No task has a result of both arms, or the guard was asked about other tasks.
    """
    check_asked(exposure, heldout_frame(benchmark))
    findings = verify_receipts(experiment, benchmark, receipts)
    designed = cells(experiment, benchmark)
    wanted = (
        designed.join(task_benchmarks(benchmark), on="task_index", how="left", maintain_order="left")
        .group_by("benchmark", "task", pl.col("arm").cast(pl.String), maintain_order=True)
        .agg(runs=pl.len().cast(pl.Int64))
    )
    trials = receipt_trials(experiment, benchmark, receipts)
    _both(trials)
    comparison = measure(
        # What one cell holds twice is no second repetition.
        trials.unique(["benchmark", "task", "arm", "attempt"], keep="first", maintain_order=True),
        "baseline",
        "candidate",
        experiment.policy,
        costs=costs,
        preparation_usd=preparation_usd,
        trained=_trained(exposure),
        designed=wanted,
        experiment_digest=str(experiment.digest),
    )
    return _decided(comparison, experiment.policy, exposure, findings)


def decision_of(
    comparison: MeasuredComparison, policy: EvaluationPolicy, exposure: ExposureReport, *, sound: bool = True
) -> ImprovementDecision:
    """The decision that a comparison, a policy and a report give; equal documents give an equal one.

    Args:
        comparison: Sealed.
        policy: The one it was measured under.
        exposure: Sealed.
        sound: Whether the receipts of a sealed experiment are all in order.

    Raises:
        TamperedError: A document is not what was sealed, or the comparison was made under another policy.
    """
    verify_seal(comparison, "comparison")
    verify_seal(exposure, "exposure report")
    if comparison.policy_digest != document_digest(policy):
        raise TamperedError(
            "comparison", "comparison_other_policy", "policyDigest", comparison.policy_digest, document_digest(policy)
        )
    score, interval = comparison.score, comparison.score.interval
    account = comparison.accounting
    bound = _upper_bound(account)
    told = ship_decision(
        Evidence(
            n_units=comparison.n_units,
            low_t=interval.low,
            high_t=interval.high,
            mcnemar_mid_p=score.p_value if interval.method == "tango" and score.p_value is not UNSET else None,
            guards=[_guard(m) for m in (*comparison.objectives, *comparison.dimensions) if m.tolerance is not UNSET],
            coverage_complete=comparison.complete and not comparison.unmeasured and sound,
            exposure_hits=exposure.errors,
            # Sums are taken in whole billionths, so that a ceiling that is met exactly is not exceeded by rounding.
            known_cost_usd=(account.known_nanos if bound is None else bound) / NANOS,
            unknown_cost_calls=account.unknown_calls if bound is None else 0,
        ),
        ShipPolicy(
            minimum_lift=policy.minimum_lift,
            # As many units as make the runs of an arm that the policy wants at least.
            min_units=max(policy.min_units, -(-policy.minimum_runs // comparison.repetitions)),
            alpha=1 - policy.confidence,
            cost_ceiling_usd=None if account.ceiling_nanos is UNSET else account.ceiling_nanos / NANOS,
        ),
    )
    made: ImprovementDecision = seal(
        ImprovementDecision(
            experiment_digest=comparison.experiment_digest,
            comparison_digest=str(comparison.digest),
            exposure_digest=str(exposure.digest),
            policy_digest=comparison.policy_digest,
            outcome=told.label,
            reasons=told.reasons,
            low=told.lower_bound,
            point=score.difference,
            high=interval.high,
            method=interval.method,
            n_units=comparison.n_units,
        )
    )
    return made


def verify_decision(
    decision: ImprovementDecision,
    comparison: MeasuredComparison,
    policy: EvaluationPolicy,
    exposure: ExposureReport,
    *,
    sound: bool = True,
) -> None:
    """Make a decision again from what it rests on.

    Raises:
        TamperedError: It is another one; the message names the field.
    """
    verify_seal(decision, "decision")
    again = decision_of(comparison, policy, exposure, sound=sound)
    for field in decision.__struct_fields__:
        found, expected = getattr(decision, field), getattr(again, field)
        if found != expected and field != "digest":
            raise TamperedError("decision", "decision_not_of_evidence", field, repr(found), repr(expected))


def _decided(
    comparison: MeasuredComparison,
    policy: EvaluationPolicy,
    exposure: Exposure | ExposureReport,
    findings: pl.DataFrame | None,
) -> Decided:
    report = _report(exposure)
    sound = findings is None or not findings.height
    decision = decision_of(comparison, policy, report, sound=sound)
    return Decided(comparison, report, policy, findings, decision)


def _report(exposure: Exposure | ExposureReport) -> ExposureReport:
    return exposure.report if isinstance(exposure, Exposure) else exposure


def _trained(exposure: Exposure | ExposureReport) -> bool:
    return _report(exposure).receipts > 0


def _both(trials: pl.DataFrame) -> None:
    there = trials.drop_nulls("score")["arm"].unique(maintain_order=True).to_list()
    if {"baseline", "candidate"} - set(there):
        found = ", ".join(there) or "no run"
        msg = f"the receipts hold results of {found}; a decision needs both arms"
        raise UsageError(msg)


def _guard(measured: Measure) -> Guard:
    """A bound where more is better; where all units agree there is no interval, and the difference itself is the bound."""
    low, high = measured.interval.low, measured.interval.high
    bound = low if measured.better == "more" else None if high is None else -high
    if bound is None:
        bound = measured.difference if measured.better == "more" else -measured.difference
    assert measured.tolerance is not UNSET
    return Guard(measured.name, bound, measured.tolerance)


def _upper_bound(account: Accounting) -> int | None:
    if account.unknown_calls and account.unknown_maximum_nanos is None:
        return None
    return account.known_nanos + (account.unknown_maximum_nanos or 0)
