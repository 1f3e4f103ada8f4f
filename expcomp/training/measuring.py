"""A measured comparison from runs: recomputed from the trials, so that every figure in it can be made again."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
from msgspec import UNSET

from expcomp.comparing.cells import TASK, sides
from expcomp.comparing.compare import compare
from expcomp.comparing.comparison import Comparison
from expcomp.comparing.estimates import How, estimates
from expcomp.comparing.guards import GUARDS
from expcomp.comparing.prepare import prepared
from expcomp.comparing.trials import put_away
from expcomp.errors import UsageError
from expcomp.io.canon import digest_bytes
from expcomp.io.canonical_rows import json_text
from expcomp.io.wording import worded
from expcomp.training.cost_frames import CostSheet, cost_summary
from expcomp.training.cost_records import NANOS, nanos
from expcomp.training.decisions import Accounting, Interval, Measure, MeasuredComparison
from expcomp.training.documents import document_digest, seal
from expcomp.training.experiments import EvaluationPolicy

_EVIDENCE = (
    "benchmark", "task", "arm", "attempt", "run_id", "source_id", "score", "scale_known", "passed", "infra", "cost_usd",
    "input_tokens", "output_tokens", "cluster",
)  # fmt: skip


def measure(
    what: Any,
    baseline: str,
    candidate: str,
    policy: EvaluationPolicy,
    *,
    costs: CostSheet | None = None,
    preparation_usd: float | None = None,
    trained: bool = False,
    designed: pl.DataFrame | None = None,
    experiment_digest: str | None = None,
    score_scale: tuple[float, float] | None = None,
) -> MeasuredComparison:
    """What the candidate did against the baseline, under a policy.

    Args:
        what: Runs: anything `compare` takes; critical dimensions of the policy are columns of it.
        baseline: Arm, or role.
        candidate: Arm, or role.
        policy: How it is measured.
        costs: Ledger of all calls. Without one the costs are those of the runs, and of `preparation_usd`.
        preparation_usd: What making the candidate cost, where no ledger says so; None: nobody knows.
        trained: Whether somebody trained the candidate: then a ledger without a call of the preparation is not complete.
        designed: Runs that were asked for: benchmark, task, arm (baseline, candidate), runs. Without it each arm was to run every task
            that either has, as often as the most often run one.
        experiment_digest: Of a sealed experiment.
        score_scale: Low and high end of scores whose scale is not known.

    Raises:
        UsageError: An unknown arm or column, or no task that both arms have a result for.
        TableError: A frame of the caller does not hold to the table of trials.
    """
    cluster = None if policy.cluster is UNSET else policy.cluster
    columns = policy.critical_dimensions
    given = prepared(
        what, [baseline, candidate], metric=policy.metric, cluster=cluster, columns=columns, score_scale=score_scale
    )
    trials = given.trials.with_columns(
        arm=pl.when(pl.col("arm") == baseline).then(pl.lit("baseline")).otherwise(pl.lit("candidate")), role=None
    )
    found = compare(
        # Arms that are one role may number their attempts alike.
        trials.with_columns(pl.col("cluster").cast(pl.String), attempt=None),
        "baseline",
        "candidate",
        cluster=None if cluster is None else "cluster",
        metric=policy.metric,
        confidence=policy.confidence,
        resamples=policy.resamples,
        seed=policy.seed,
        min_units=policy.min_units,
        guards={str(name): tolerance for name, tolerance in policy.objectives.items()},
    )
    if not found.n_units:
        raise UsageError(f"no task has a result of both {baseline} and {candidate}; nothing was measured")
    repetitions, coverage = _coverage(trials, designed)
    archived = [n or UNSET for n in put_away(what, [baseline, candidate])]
    objectives, dimensions = _objectives(found, policy), _dimensions(trials, policy)
    guarded = {name: GUARDS[name] for name in policy.objectives} | {n: _finite(n) for n in policy.critical_dimensions}
    whole = trials.select(e.is_not_null().all().alias(name) for name, e in guarded.items())
    made: MeasuredComparison = seal(
        MeasuredComparison(
            experiment_digest=UNSET if experiment_digest is None else experiment_digest,
            policy_digest=document_digest(policy),
            # Times differ from run to run; they are evidence only where they are judged.
            evidence_digest=evidence_digest(
                trials, (*columns, *(n for n in ("duration_s",) if n in policy.objectives))
            ),
            unit="task" if cluster is None else "cluster",
            n_tasks=coverage["tasks"],
            repetitions=repetitions,
            n_units=found.n_units if found.n_clusters is None else found.n_clusters,
            n_samples=coverage["tasks"] * repetitions,
            failed_runs=coverage["failed"],
            missing_runs=coverage["missing"],
            surplus_runs=coverage["surplus"],
            archived_runs=archived[0],
            archived_tasks=archived[1],
            score=_score(found, policy),
            objectives=objectives,
            dimensions=dimensions,
            # A guard with holes guards nothing: the runs without a figure may be those that got worse.
            unmeasured=tuple(
                sorted(
                    set(guarded)
                    - {m.name for m in (*objectives, *dimensions) if m.n_units == found.n_units and whole[m.name].all()}
                )
            ),
            accounting=_accounting(trials, policy, costs, preparation_usd, trained=trained),
        )
    )
    return made


def evidence_digest(trials: pl.DataFrame, more: tuple[str, ...] = ()) -> str:
    """Digest of trials, whatever their order: SHA-256 over their sorted lines, joined by newlines.

    A line is a JSON list of the columns; a float stands as the 64-bit integer that has its bits, so that no way to write it matters.
    """
    told = trials.select(*_EVIDENCE, *more)
    told = told.with_columns(_bits(told[c]) for c, t in told.schema.items() if t.is_float())
    values = [
        (json_text(pl.col(c)) if t == pl.String else pl.col(c).cast(pl.String)).fill_null("null")
        for c, t in told.schema.items()
    ]
    lines = told.select(worded("[{}]", pl.concat_str(values, separator=","))).to_series().sort()
    return digest_bytes((lines.str.join("\n").item() or "").encode())


def _bits(values: pl.Series) -> pl.Series:
    # The two zeros are one number.
    made = pl.Series(values.name, (values.fill_null(0.0).cast(pl.Float64).to_numpy() + 0.0).view(np.int64))
    return made.set(values.is_null(), None)


def _coverage(trials: pl.DataFrame, designed: pl.DataFrame | None) -> tuple[int, dict[str, int]]:
    """Repetitions, and tasks, failed, missing and surplus runs against what was asked for."""
    there = trials.group_by([*TASK, "arm"], maintain_order=True).agg(
        there=pl.len().cast(pl.Int64), failed=pl.col("value").is_null().sum().cast(pl.Int64)
    )
    if designed is None:
        arms = pl.DataFrame({"arm": ["baseline", "candidate"]})
        most = there.select(pl.col("there").max().fill_null(0)).item()
        designed = trials.select(TASK).unique(maintain_order=True).join(arms, how="cross", maintain_order="left_right")
        designed = designed.with_columns(runs=pl.lit(int(most), pl.Int64))
    told = designed.join(
        there, on=[*TASK, "arm"], how="full", coalesce=True, nulls_equal=True, maintain_order="left_right"
    ).with_columns(pl.col("runs", "there", "failed").fill_null(0))
    short = pl.col("runs") - pl.col("there")
    sums = told.select(
        tasks=pl.struct(TASK).filter(pl.col("runs") > 0).n_unique(),
        missing=short.clip(lower_bound=0).sum(),
        surplus=(-short).clip(lower_bound=0).sum(),
        failed=pl.col("failed").sum(),
        runs=pl.col("runs").max(),
    ).row(0, named=True)
    return int(sums.pop("runs")), sums


def _interval(low: float | None, high: float | None, method: str | None, policy: EvaluationPolicy) -> Interval:
    return Interval(
        low=low,
        high=high,
        confidence=policy.confidence,
        method=method or "none",
        resamples=UNSET if method in (None, "tango") else policy.resamples,
    )


def _score(found: Comparison, policy: EvaluationPolicy) -> Measure:
    assert found.baseline_mean is not None
    assert found.treatment_mean is not None
    return Measure(
        name=found.metric,
        baseline_mean=found.baseline_mean,
        candidate_mean=found.treatment_mean,
        difference=found.treatment_mean - found.baseline_mean,
        interval=_interval(found.low, found.high, found.method, policy),
        n_units=found.n_units if found.n_clusters is None else found.n_clusters,
        p_value=UNSET if found.p_value is None else found.p_value,
    )


def _objectives(found: Comparison, policy: EvaluationPolicy) -> tuple[Measure, ...]:
    """Cost, tokens and time; their tolerance in their own unit."""
    method = "CR1 t, cluster BCa" if found.n_clusters is not None else "min(t, BCa)"
    columns = found.guards.filter(pl.col("n_units") > 0).to_dict(as_series=False)
    made = []
    for at, name in enumerate(columns["guard"]):
        base, new = columns["baseline_mean"][at], columns["treatment_mean"][at]
        made.append(
            Measure(
                name=name,
                baseline_mean=base,
                candidate_mean=new,
                difference=new - base,
                interval=_interval(columns["low"][at], columns["high"][at], method, policy),
                n_units=columns["n_units"][at],
                tolerance=columns["tolerance"][at] * base,
                better="less",
            )
        )
    return tuple(made)


def _finite(name: str) -> pl.Expr:
    """A dimension of a run; null where it is no number."""
    value = pl.col(name).cast(pl.Float64)
    return pl.when(value.is_finite()).then(value)


def _dimensions(trials: pl.DataFrame, policy: EvaluationPolicy) -> tuple[Measure, ...]:
    clustered = policy.cluster is not UNSET
    how = How(policy.confidence, policy.resamples, policy.seed, clustered)
    made = []
    for name in policy.critical_dimensions:
        value = _finite(name)
        means = (
            trials.group_by([*TASK, "arm"], maintain_order=True)
            .agg(mean=value.mean(), cluster=pl.col("cluster").drop_nulls().first())
            .drop_nulls("mean")
        )
        both = sides(means, (), "baseline", ["candidate"], about=("mean", "cluster"))
        units = both.select(
            dimension=pl.lit(name),
            difference=pl.col("treatment_mean") - pl.col("baseline_mean"),
            single=pl.lit(value=False),
            baseline_mean="baseline_mean",
            treatment_mean="treatment_mean",
            cluster=pl.coalesce("baseline_cluster", "treatment_cluster"),
        ).drop_nulls("difference")
        if not units.height:
            continue
        told = estimates(units, ["dimension"], how).row(0, named=True)
        made.append(
            Measure(
                name=name,
                baseline_mean=told["baseline_mean"],
                candidate_mean=told["treatment_mean"],
                difference=told["treatment_mean"] - told["baseline_mean"],
                interval=_interval(told["low"], told["high"], told["method"], policy),
                n_units=told["n_units"],
                tolerance=policy.regression_tolerance,
            )
        )
    return tuple(made)


def _accounting(
    trials: pl.DataFrame,
    policy: EvaluationPolicy,
    costs: CostSheet | None,
    preparation_usd: float | None,
    *,
    trained: bool,
) -> Accounting:
    """Costs of a ledger, or of the runs where there is none: a run without a cost is a call of unknown cost."""
    ceilings = [] if policy.budget_nanos is UNSET else [policy.budget_nanos]
    before = 0 if preparation_usd is None else nanos(preparation_usd)
    most: int | None
    if costs is None:
        paid = trials.select((pl.col("cost_usd") * NANOS).round().cast(pl.Int64)).to_series()
        measured, unknown, most = int(paid.sum()), paid.null_count(), None
        silent = preparation_usd is None
    else:
        ceilings += [] if costs.ceiling_nanos is None else [costs.ceiling_nanos]
        by_phase = cost_summary(costs.calls, ["phase"])
        spent = dict(zip(by_phase["phase"], by_phase["known_nanos"], strict=True))
        before += int(spent.get("preparation", 0))
        measured = int(spent.get("measurement", 0))
        whole = cost_summary(costs.calls)
        unknown, most = int(whole["unknown_calls"][0]), whole["unknown_maximum_nanos"][0]
        silent = trained and preparation_usd is None and "preparation" not in spent
    if silent:  # somebody made the candidate, and nobody says what for
        unknown, most = unknown + 1, None
    return Accounting(
        preparation_nanos=before,
        measurement_nanos=measured,
        known_nanos=before + measured,
        unknown_calls=unknown,
        unknown_maximum_nanos=most if unknown else 0,
        ceiling_nanos=min(ceilings) if ceilings else UNSET,
    )
