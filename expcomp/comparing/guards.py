"""Guards: what a treatment may not make worse while it makes the score better."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import polars as pl

from expcomp.comparing.cells import TASK, sides
from expcomp.comparing.estimates import How, estimates
from expcomp.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

GUARDS: Mapping[str, pl.Expr] = {
    "cost_usd": pl.col("cost_usd"),
    "tokens": (pl.col("input_tokens") + pl.col("output_tokens")).cast(pl.Float64),
    "duration_s": pl.col("duration_s"),
}
"""Guard -> its value in one trial; lower is better. Trials that were lost count too: they were paid for."""
STATUS = pl.Enum(["ok", "worse", "exceeded", "not_shown", "no_data"])


def tolerances(guards: Mapping[str, float | None] | Sequence[str]) -> dict[str, float | None]:
    """Guards with the relative increase each tolerates; None: only looked at.

    Raises:
        UsageError: An unknown guard, or a tolerance below 0.
    """
    guards = [guards] if isinstance(guards, str) else guards
    found: dict[str, float | None] = dict(guards) if isinstance(guards, Mapping) else dict.fromkeys(guards)
    for name, tolerance in found.items():
        if name not in GUARDS:
            msg = f"unknown guard {name!r}; known are {', '.join(GUARDS)}"
            raise UsageError(msg)
        if tolerance is not None and not tolerance >= 0:
            msg = f"guard {name} tolerates {tolerance}; expected a relative increase of 0 or more, as 0.1 for 10 %"
            raise UsageError(msg)
    return found


def guard_units(trials: pl.DataFrame, names: Sequence[str], baseline: str, treatments: Sequence[str]) -> pl.DataFrame:
    """Units of each guard: task means of both arms over the trials that tell, and their difference."""
    parts = [_units(trials, name, baseline, treatments) for name in names]
    return pl.concat(parts) if parts else pl.DataFrame()


def _units(trials: pl.DataFrame, name: str, baseline: str, treatments: Sequence[str]) -> pl.DataFrame:
    value = GUARDS[name]
    found = (
        trials.group_by([*TASK, "arm"], maintain_order=True)
        .agg(mean=value.mean(), n=value.count().cast(pl.Int64), cluster=pl.col("cluster").drop_nulls().first())
        .filter(pl.col("n") > 0)
    )
    both = sides(found, (), baseline, treatments, about=("mean", "n", "cluster"))
    return both.select(
        pl.lit(name).alias("guard"),
        "treatment",
        *TASK,
        difference=pl.col("treatment_mean") - pl.col("baseline_mean"),
        single=pl.lit(value=False),
        baseline_mean=pl.col("baseline_mean"),
        treatment_mean=pl.col("treatment_mean"),
        cluster=pl.coalesce("baseline_cluster", "treatment_cluster"),
    )


def judged(
    units: pl.DataFrame, limits: Mapping[str, float | None], treatments: Sequence[str], how: How
) -> pl.DataFrame:
    """One row a treatment and guard, with what its tolerance says.

    `status`: `exceeded` where the upper limit of the increase is above `tolerance * baseline_mean`, `ok` where it is not; without a
    tolerance `worse` where an increase is shown (lower limit above 0, and Benjamini-Hochberg at the same level), `not_shown` where
    none is. `no_data` where fewer than two tasks tell, or they do not differ in their difference.
    """
    from expcomp.comparing.adjusting import adjusted

    keys = pl.DataFrame(
        {"guard": list(limits), "tolerance": list(limits.values())},
        schema={"guard": pl.String, "tolerance": pl.Float64},
    )
    keys = pl.DataFrame({"treatment": list(treatments)}, schema={"treatment": pl.String}).join(
        keys, how="cross", maintain_order="left_right"
    )
    if not units.height:
        units = pl.DataFrame(schema={"guard": pl.String, "treatment": pl.String, "difference": pl.Float64, "single": pl.Boolean,
            "baseline_mean": pl.Float64, "treatment_mean": pl.Float64, "cluster": pl.String})  # fmt: skip
    found = keys.join(
        estimates(units, ("treatment", "guard"), how), on=["treatment", "guard"], how="left", maintain_order="left"
    )
    found = adjusted(found.with_columns(pl.col("n_units").fill_null(0)), "fdr_bh", over="treatment")
    limit = pl.col("tolerance") * pl.col("baseline_mean")
    status = (
        pl.when(pl.col("high").is_null())
        .then(pl.lit("no_data"))
        .when(pl.col("tolerance").is_not_null() & (pl.col("high") > limit))
        .then(pl.lit("exceeded"))
        .when(pl.col("tolerance").is_not_null())
        .then(pl.lit("ok"))
        .when((pl.col("low") > 0) & (pl.col("p_adjusted") <= 1 - how.confidence))
        .then(pl.lit("worse"))
        .otherwise(pl.lit("not_shown"))
    )
    return found.select(
        "treatment", "guard", "n_units", "baseline_mean", "treatment_mean",
        pl.col("estimate").alias("difference"), "low", "high",
        change=pl.when(pl.col("baseline_mean") != 0).then(pl.col("estimate") / pl.col("baseline_mean")),
        tolerance="tolerance", p_value="p_value", p_adjusted="p_adjusted", status=status.cast(STATUS),
    )  # fmt: skip
