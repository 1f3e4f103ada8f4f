"""The comparison of one treatment, from what was computed for all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import polars as pl

from expcomp.comparing.cells import table, under
from expcomp.comparing.comparison import Comparison
from expcomp.comparing.decide import POWER, decided
from expcomp.comparing.notes import notes_of
from expcomp.comparing.policies import SIDES, Policy
from expcomp.errors import StatsError
from expcomp.tables.stats import LEFT_OUT, OUTCOME

if TYPE_CHECKING:
    from expcomp.comparing.compare import Settings
    from expcomp.comparing.prepare import Prepared

TASK_KEY = "task_key"


class Parts(NamedTuple):
    """What was computed for all treatments at once, each frame with `treatment`."""

    given: Prepared
    paired: pl.DataFrame
    policies: pl.DataFrame
    simultaneous: pl.DataFrame
    slices: pl.DataFrame
    guards: pl.DataFrame
    costs: pl.DataFrame


def comparison(parts: Parts, baseline: str, treatment: str, settings: Settings) -> Comparison:
    """The comparison of one treatment."""
    own = {
        name: getattr(parts, name).filter(pl.col("treatment") == treatment).drop("treatment")
        for name in ("slices", "guards", "simultaneous")
    }
    paired = parts.paired.filter(pl.col("treatment") == treatment)
    policies = parts.policies.filter(pl.col("treatment") == treatment).drop("treatment")
    main = _main(policies, settings)
    asked = settings.policies
    units = table(under(paired, asked[0] if len(asked) == 1 else Policy("exclude", "exclude")), _more(settings))
    sensitivity = _sensitivity(policies)
    bounds = [_estimate(policies, side) for side in ("worst", "best")]
    wide = own["simultaneous"]
    limits = (wide["low"][0], wide["high"][0]) if wide.height and wide["low"][0] is not None else None
    low = main["low"]
    margin = settings.margin
    metric, scaled = paired["metric"][0] if paired.height else "score", bool(paired["scaled"].all())
    facts = {
        **main,
        "scaled": scaled,
        "sign_p": 1.0 if main["sign_p"] is None else main["sign_p"],
        **_counts(paired, units),
        "min_units": settings.rule.min_units,
        "robust": sensitivity["decision"].drop_nulls().n_unique() <= 1,
        "ties": main["n_units"] - main["better"] - main["worse"],
        "exceeded": ", ".join(own["guards"].filter(pl.col("status") == "exceeded")["guard"]),
        "attempts_left_out": int(parts.given.left_out["attempts"].sum()),
        "repeated_clusters": 0 if settings.how.clustered else _repeated(units),
    }
    return Comparison(
        baseline=baseline,
        treatment=treatment,
        metric=metric,
        scaled=scaled,
        sign_p=main["sign_p"],
        policy={"missing": settings.missing, "infra": settings.infra or settings.missing},
        table=units,
        estimate=main["estimate"],
        bounds=(bounds[0], bounds[1]) if bounds[0] is not None and bounds[1] is not None else None,
        low=low,
        high=main["high"],
        confidence=settings.how.confidence,
        simultaneous=_interval(limits),
        method=main["method"],
        se=main["se"],
        se_unpaired=main["se_unpaired"],
        p_value=main["p_value"],
        p_adjusted=main["p_adjusted"],
        n_units=main["n_units"],
        n_clusters=main["n_clusters"],
        n_trials=(main["baseline_trials"], main["treatment_trials"]),
        baseline_mean=main["baseline_mean"],
        treatment_mean=main["treatment_mean"],
        better=main["better"],
        worse=main["worse"],
        tie_share=main["tie_share"],
        flips=_flips(units),
        decision=main["decision"],
        reason=main["reason"],
        mde=main["mde"],
        needed=_needed(main, parts.given, baseline, treatment, settings),
        delta=settings.rule.delta,
        margin=margin,
        non_inferior=None if margin is None or low is None else bool(low > -margin),
        sensitivity=sensitivity,
        guards=own["guards"],
        slices=own["slices"],
        cost_per_success=parts.costs.filter(pl.col("arm").is_in([baseline, treatment])),
        left_out=parts.given.left_out,
        notes=(*parts.given.notes, *notes_of(facts)),
    )


def _more(settings: Settings) -> list[str]:
    return [c for c in settings.slices if c not in ("benchmark", "task", "cluster")]


def _main(policies: pl.DataFrame, settings: Settings) -> dict[str, Any]:
    """The row of the policy of the call, with `sign_p`; of bounds the outer limits, and of the rest what holds in both cases.

    The p-values of bounds are the larger ones, and 1 where the cases point in different directions: in between there is no difference.
    What one of the cases has not is null.
    """
    found = [
        policies.filter((pl.col("missing") == p.missing) & (pl.col("infra") == p.infra)) for p in settings.policies
    ]
    rows = [r.with_columns(sign_p=pl.lit(_sign_p(r["better"][0], r["worse"][0]), pl.Float64)) for r in found]
    if len(rows) == 1:
        return rows[0].row(0, named=True)
    both = pl.concat(rows)
    across = ((both["estimate"].min() or 0.0) < 0) and ((both["estimate"].max() or 0.0) > 0)  # type: ignore[operator]
    agreed = ("estimate", "baseline_mean", "treatment_mean", "tie_share")
    told = {
        "low": pl.col("low").min(),
        "high": pl.col("high").max(),
        "better": pl.col("better").min(),
        "worse": pl.col("worse").min(),
        **{n: pl.col(n).max() for n in ("se", "se_unpaired")},
        **{n: pl.lit(1.0) if across else pl.col(n).max() for n in ("p_value", "p_adjusted", "sign_p")},
        **{n: pl.when(pl.col(n).n_unique() == 1).then(pl.col(n).first()) for n in agreed},
    }
    open_ends = (
        {"low", "high"} if both.select(pl.col("low", "high").is_null().any()).row(0) != (False, False) else set()
    )
    lost = open_ends | {n for n in told if both[n].null_count()}
    outer = both.select(
        pl.exclude(*told, "decision", "reason", "mde", "needed_units").first(),
        **{n: pl.lit(None, both.schema[n]) if n in lost else e for n, e in told.items()},
    )
    return decided(outer, settings.rule).row(0, named=True)


def _sensitivity(policies: pl.DataFrame) -> pl.DataFrame:
    return policies.select(
        "missing", "infra", "n_units", "baseline_trials", "treatment_trials", "baseline_mean", "treatment_mean", "estimate", "low",
        "high", "method", "p_value", "p_adjusted", "decision", "reason",
    )  # fmt: skip


def _estimate(policies: pl.DataFrame, side: str) -> float | None:
    found = policies.filter((pl.col("missing") == side) & (pl.col("infra") == side))["estimate"]
    return found[0] if found.len() else None


def _interval(limits: tuple[float, float] | None) -> Any:
    from expcomp.stats.interval import Interval

    return None if limits is None else Interval(*limits)


def _sign_p(better: int, worse: int) -> float | None:
    """Exact two-sided sign test; ties say nothing."""
    from scipy.stats import binomtest

    return float(binomtest(better, better + worse).pvalue) if better + worse else None


def _counts(paired: pl.DataFrame, units: pl.DataFrame) -> dict[str, int]:
    lost = [f"{s}_{c}" for s in SIDES for c in ("trials", "infra", "missing")]
    told = paired.select(pl.col(lost).fill_null(0).sum()).row(0, named=True)
    reasons = dict.fromkeys(LEFT_OUT.categories.to_list(), 0)
    for reason in reasons:
        reasons[reason] = int((units["left_out"] == reason).sum())
    return told | reasons | {"benchmarks": units["benchmark"].n_unique()}


def _repeated(units: pl.DataFrame) -> int:
    clusters = units.filter("used")["cluster"].drop_nulls()
    return clusters.filter(clusters.is_duplicated()).n_unique()


def _flips(units: pl.DataFrame) -> pl.DataFrame:
    """Tasks by outcome of both arms, also the pairs of outcomes no task has."""
    names = ["baseline_outcome", "treatment_outcome"]
    counted = (
        units.filter("used").drop_nulls(names).group_by(names, maintain_order=True).agg(tasks=pl.len().cast(pl.Int64))
    )
    if not counted.height:
        return counted
    words = OUTCOME.categories.to_list()
    every = pl.DataFrame({names[0]: words}, schema={names[0]: OUTCOME}).join(
        pl.DataFrame({names[1]: words}, schema={names[1]: OUTCOME}), how="cross", maintain_order="left_right"
    )
    return every.join(counted, on=names, how="left", maintain_order="left").with_columns(pl.col("tasks").fill_null(0))


def _needed(
    main: dict[str, Any], given: Prepared, baseline: str, treatment: str, settings: Settings
) -> dict[str, int | None]:
    """Further tasks, or trials a task, where more data are needed."""
    if main["decision"] != "need_more_data":
        return {}
    unit = "clusters" if settings.how.clustered else "tasks"
    return {unit: main["needed_units"], "trials": _trials_needed(main, given, baseline, treatment, settings)}


def _trials_needed(
    main: dict[str, Any], given: Prepared, baseline: str, treatment: str, settings: Settings
) -> int | None:
    """Least trials a task at which the present tasks show `delta` with power 0.8; None where no number does, or nothing tells."""
    from expcomp.stats.planning import TRIALS, mde_table, pilot

    delta, rule = settings.rule.delta, settings.rule
    if delta is None or main["n_units"] < max(2, rule.min_units) or settings.how.clustered:
        return None
    trials = given.trials.with_columns(pl.struct("benchmark", "task").alias(TASK_KEY))
    try:
        known = pilot(trials, baseline=baseline, candidate=treatment, task=TASK_KEY, arm="arm", score="value")
        designs = mde_table(known, tasks=[main["n_units"]], trials=TRIALS, alpha=rule.alpha, power=POWER)
    except StatsError:
        return None
    # One verdict a task is judged by Tango, repeated trials by t.
    single = (pl.col("trials") == 1) & pl.lit(main["method"] == "tango")
    enough = designs.filter(pl.when(single).then("mde").otherwise("mde_t") <= delta)["trials"]
    return int(enough[0]) if enough.len() else None
