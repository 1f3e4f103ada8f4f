"""Trials by task and arm, and both arms of a comparison side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from expcomp.comparing.policies import SIDES, Policy, fill
from expcomp.errors import UsageError
from expcomp.stats.inputs import ROUNDING
from expcomp.tables.stats import CHANGE, COMPARISON_UNITS, LEFT_OUT, OUTCOME

if TYPE_CHECKING:
    from collections.abc import Sequence

METRICS = ("auto", "score", "passed")
TASK = ("benchmark", "task")
_CELL = ("trials", "infra", "missing", "n", "total", "mean", "var", "two_valued", "cluster", "metric", "scaled")


def valued(trials: pl.DataFrame, by: Sequence[str], metric: str) -> pl.DataFrame:
    """Trials with `metric`, `value` (null where nothing counts) and `scaled` (0 is the lowest value, 1 the highest).

    `auto` takes verdicts where every trial that counts has one and no score lies between 0 and 1, else scores.

    Raises:
        UsageError: An unknown metric, or scores of known and of unknown scale together.
    """
    if metric not in METRICS:
        msg = f"metric is {metric!r}; expected one of {', '.join(METRICS)}"
        raise UsageError(msg)
    counts = ~pl.col("infra") & (pl.col("score").is_not_null() | pl.col("passed").is_not_null())
    whole = pl.col("passed").is_not_null() & pl.col("score").is_in([0.0, 1.0]).fill_null(value=True)
    verdicts = (whole | ~counts).all() & counts.any()
    chosen = {"auto": verdicts.over(by) if by else verdicts, "score": pl.lit(value=False), "passed": pl.lit(value=True)}
    found = trials.with_columns(_verdict=chosen[metric]).with_columns(
        metric=pl.when("_verdict").then(pl.lit("passed")).otherwise(pl.lit("score")),
        value=pl.when(~pl.col("infra")).then(
            pl.when("_verdict").then(pl.col("passed").cast(pl.Float64)).otherwise("score")
        ),
        scaled=pl.when("_verdict").then(pl.lit(value=True)).otherwise("scale_known"),
    )
    scored = found.filter(pl.col("value").is_not_null())
    mixed = scored.group_by(by or pl.lit(0), maintain_order=True).agg(
        both=pl.col("scaled").n_unique() > 1, raw=(~pl.col("scaled")).sum(), n=pl.len()
    )
    bad = mixed.filter("both")
    if bad.height:
        raw, n = bad.select("raw", "n").row(0)
        msg = (
            f"{raw} of {n} scores have no known scale, the others are on 0 to 1; "
            "give score_scale=(low, high), or compare verdicts with metric='passed'"
        )
        raise UsageError(msg)
    return found.drop("_verdict")


def by_task(by: Sequence[str]) -> list[str]:
    """Columns that tell the tasks of all groups apart."""
    return list(dict.fromkeys((*by, *TASK)))


def cells(trials: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
    """One row a task and arm of each group: how many trials, how many of them lost, mean and variance of the others."""
    lost = pl.col("value").is_null() & ~pl.col("infra")
    return (
        trials.group_by([*by_task(by), "arm"], maintain_order=True)
        .agg(
            trials=pl.len().cast(pl.Int64),
            infra=pl.col("infra").sum().cast(pl.Int64),
            missing=lost.sum().cast(pl.Int64),
            n=pl.col("value").count().cast(pl.Int64),
            total=pl.col("value").sum(),
            var=pl.col("value").var(),
            two_valued=pl.col("value").is_in([0.0, 1.0]).fill_null(value=True).all(),
            cluster=pl.col("cluster").drop_nulls().first(),
            metric=pl.col("metric").first(),
            scaled=pl.col("scaled").fill_null(value=True).all(),
        )
        .with_columns(mean=pl.when(pl.col("n") > 0).then(pl.col("total") / pl.col("n")))
    )


def sides(
    found: pl.DataFrame, by: Sequence[str], baseline: str, treatments: Sequence[str], about: Sequence[str] = _CELL
) -> pl.DataFrame:
    """Cells of the baseline beside those of each treatment, by `treatment`, group and task; what one arm has not is null."""
    key = ["treatment", *by_task(by)]
    names = pl.DataFrame({"treatment": list(treatments)}, schema={"treatment": pl.String})
    left = names.join(found.filter(pl.col("arm") == baseline), how="cross", maintain_order="left_right")
    right = found.filter(pl.col("arm").is_in(list(treatments))).with_columns(treatment="arm")
    return (
        left.select(*key, *(pl.col(c).alias(f"baseline_{c}") for c in about))
        .join(
            right.select(*key, *(pl.col(c).alias(f"treatment_{c}") for c in about)),
            on=key,
            how="full",
            coalesce=True,
            nulls_equal=True,
            maintain_order="left_right",
        )
        .sort(key)
    )


def compared(found: pl.DataFrame, by: Sequence[str], baseline: str, treatments: Sequence[str]) -> pl.DataFrame:
    """`sides` of cells, with what holds for a comparison as a whole: `metric`, `scaled`, `two_valued`."""
    both = sides(found, by, baseline, treatments)
    told = both.with_columns(
        cluster=pl.coalesce("baseline_cluster", "treatment_cluster"),
        metric=pl.coalesce("baseline_metric", "treatment_metric"),
        scaled=pl.all_horizontal(pl.col("baseline_scaled", "treatment_scaled").fill_null(value=True)),
        two_valued=pl.all_horizontal(pl.col("baseline_two_valued", "treatment_two_valued").fill_null(value=True)),
    )
    return told.with_columns(pl.col("scaled", "two_valued").all().over("treatment", *by))


def under(paired: pl.DataFrame, policy: Policy) -> pl.DataFrame:
    """Sides under a policy, with `difference`, and `single`: pass or fail of one trial each."""
    filled = paired.with_columns(**fill("baseline", policy), **fill("treatment", policy))
    lone = [
        (pl.col(f"{s}_n") == 1) | (pl.col(f"{s}_trials").is_null() & pl.col(f"{s}_mean").is_not_null()) for s in SIDES
    ]
    means = pl.col("treatment_mean"), pl.col("baseline_mean")
    apart = means[0] - means[1]
    # 0.1 + 0.2 and 0.3 are one mean.
    same = apart.abs() <= ROUNDING * pl.max_horizontal(means[0].abs(), means[1].abs())
    return filled.with_columns(
        difference=pl.when(same).then(0.0).otherwise(apart), single=pl.col("two_valued") & lone[0] & lone[1]
    )


def table(filled: pl.DataFrame, more: Sequence[str] = ()) -> pl.DataFrame:
    """The table `comparison_units` of sides under a policy."""
    passes = {s: (pl.col(f"{s}_mean") * pl.col(f"{s}_n")).round() for s in SIDES}
    counts = {f"{s}_{c}": pl.col(f"{s}_{c}").fill_null(0) for s in SIDES for c in ("trials", "infra", "missing", "n")}
    outcome = {
        f"{s}_outcome": pl.when(pl.col("two_valued") & (counts[f"{s}_n"] > 0)).then(
            pl.when(pl.col(f"{s}_mean") == 1)
            .then(pl.lit("pass"))
            .when(pl.col(f"{s}_mean") == 0)
            .then(pl.lit("fail"))
            .when(pl.col(f"{s}_mean").is_not_null())
            .then(pl.lit("mixed"))
            .cast(OUTCOME)
        )
        for s in SIDES
    }
    flips = {
        f"{s}_flip_rate": pl.when(pl.col("two_valued") & (pl.col(f"{s}_n") > 1)).then(
            2 * passes[s] * (pl.col(f"{s}_n") - passes[s]) / (pl.col(f"{s}_n") * (pl.col(f"{s}_n") - 1))
        )
        for s in SIDES
    }
    base, treat = pl.col("baseline_mean"), pl.col("treatment_mean")
    sign = pl.col("difference").sign()
    why = (
        pl.when(base.is_null() & pl.col("baseline_trials").is_null())
        .then(pl.lit("no_baseline_trial"))
        .when(treat.is_null() & pl.col("treatment_trials").is_null())
        .then(pl.lit("no_treatment_trial"))
        .when(base.is_null())
        .then(pl.lit("no_usable_baseline_trial"))
        .when(treat.is_null())
        .then(pl.lit("no_usable_treatment_trial"))
    )
    found = filled.with_columns(
        **outcome,
        **flips,
        change=pl.when(sign > 0).then(pl.lit("better")).when(sign < 0).then(pl.lit("worse"))
        .when(sign == 0).then(pl.lit("same")).cast(CHANGE),
        gain_rate=pl.when("two_valued").then(treat * (1 - base)),
        loss_rate=pl.when("two_valued").then(base * (1 - treat)),
        used=pl.col("difference").is_not_null(),
        left_out=why.cast(LEFT_OUT),
    )  # fmt: skip
    return found.with_columns(**counts).select(*COMPARISON_UNITS.columns, *more)
