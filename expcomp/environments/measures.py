"""Metrics of held-out turns, of all and by action, with intervals that take families as clusters.

Means (exactness, leaves, outcome, coverage, state, what is knowable, the two floors): Student's t on CR1, widened by the BCa bootstrap
of whole families (`stats.batch.clustered_means`); where all turns are alike, Wilson's interval of as many trials as families.
Balanced accuracy, Matthews correlation and calibration error are no means of turns: percentile bootstrap of whole families
(`stats.additive`). All are 95 %.

    balanced    mean of the recalls of failure and success; null unless both occur
    MCC         (TP TN - FP FN) / sqrt((TP+FP)(TP+FN)(TN+FP)(TN+FN)) (Matthews 1975); null where a margin is 0
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from expcomp.environments.induction.evaluate import summary
from expcomp.environments.induction.status import wilson_low
from expcomp.environments.records import lines
from expcomp.errors import StatsError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from expcomp.stats.inputs import Floats

__all__ = ["METRICS", "bootstrapped", "by_route", "metrics", "with_majority"]

RESAMPLES = 2_000
BINS = 10
METRICS = (
    "n", "exact", "text_exact", "leaf", "coverage", "selective_exact", "coverage_99", "outcome", "outcome_majority",
    "outcome_balanced", "outcome_mcc", "state", "ece", "knowable", "modal_exact", "memory_exact",
)  # fmt: skip
"""Names of a record of metrics, in order."""

_ANSWERED = pl.col("answered")
_MEANS: Mapping[str, tuple[str, pl.Expr | None]] = {
    "exact": ("exact", None),
    "leaf": ("leaf", None),
    "outcome": ("outcome_ok", None),
    "state": ("state_ok", None),
    "knowable": ("knowable", None),
    "coverage": ("answered", None),
    "selective_exact": ("exact", _ANSWERED),
    "modal_exact": ("modal_exact", None),
    "memory_exact": ("memory_exact", None),
}
"""Metric to the column whose mean it is, and the rows that count; unknown values do not."""


def with_majority(steps: pl.DataFrame, trained: pl.DataFrame) -> pl.DataFrame:
    """`majority_ok`: the outcome is the one that most trained calls of the action had; success where there was none."""
    mostly = trained.group_by("action_type", maintain_order=True).agg(mostly=pl.col("failed").mean() > 0.5)
    return steps.join(mostly, on="action_type", how="left", maintain_order="left").with_columns(
        majority_ok=pl.col("failed") == pl.col("mostly").fill_null(value=False)
    )


def metrics(steps: pl.DataFrame, by: str | None = None) -> list[dict[str, Any]]:
    """Metrics of all steps, or one record a value of a column, in its order: `action_type`, METRICS and `intervals`."""
    key = by or "action_type"
    frame = steps if by else steps.with_columns(action_type=pl.lit("all"))
    more = frame.group_by(key, maintain_order=True).agg(
        coverage=_ANSWERED.mean(),
        selective_exact=pl.col("exact").filter(_ANSWERED).mean(),
        outcome_majority=pl.col("majority_ok").mean(),
        **{n: pl.col(n).mean() for n in ("knowable", "modal_exact", "memory_exact")},
        **_cells(),
    )
    found = summary(frame, [key]).join(more, on=key, how="left", maintain_order="left").sort(key)
    mcc = _mcc(found.select(_CELLS).to_numpy())
    found = found.with_columns(outcome_mcc=pl.Series(mcc, dtype=pl.Float64))
    spans = _intervals(frame, key)
    return [
        {**dict(zip(("action_type", *METRICS), map(_known, row), strict=True)), "intervals": spans[row[0]]}
        for row in lines(found, key, *METRICS)
    ]


def _known(value: Any) -> Any:
    return None if isinstance(value, float) and math.isnan(value) else value


def by_route(steps: pl.DataFrame) -> pl.DataFrame:
    """`route`, `found`: answered turns and their exactness."""
    return (
        steps.filter(_ANSWERED)
        .group_by("route", maintain_order=True)
        .agg(answered=pl.len(), exact=pl.col("exact").mean())
        .sort("route")
        .select("route", found=pl.struct("answered", "exact"))
    )


def _intervals(steps: pl.DataFrame, key: str) -> dict[str, dict[str, Any]]:
    """Intervals of the means by value of a column and metric: `{"low", "high"}`, or `{"reason"}` why there is none."""
    names: list[tuple[str, str]] = []
    values: list[pl.Series] = []
    groups: list[pl.Series] = []
    found: dict[str, dict[str, Any]] = {}
    for (value,), part in steps.partition_by(key, as_dict=True, maintain_order=True).items():
        found[str(value)] = {}
        for name, (column, only) in _MEANS.items():
            told = (part if only is None else part.filter(only)).drop_nulls(column)
            if told.is_empty():
                found[str(value)][name] = {"reason": "nothing was answered" if only is not None else "not recorded"}
                continue
            names.append((str(value), name))
            values.append(told[column].cast(pl.Float64))
            groups.append(told["group"])
    from expcomp.stats.batch import clustered_means

    limits = clustered_means(values, groups, resamples=RESAMPLES, scale=1.0)
    families = [g.n_unique() for g in groups]
    means = lines(limits, "mean", "low", "high", "reason")
    for (value, name), n, limit in zip(names, families, means, strict=True):
        found[value][name] = _limit(limit, n)
    return found


def _limit(found: Sequence[Any], families: int) -> dict[str, Any]:
    mean, low, high, reason = found
    if reason == "zero_width" and mean in (0.0, 1.0):
        # Turns of a family may depend on each other in any way; families are what was drawn.
        hits = round(mean) * families
        return {"low": wilson_low(hits, families), "high": 1.0 - wilson_low(families - hits, families)}
    # A share lies between 0 and 1; the t interval does not know.
    return {"reason": str(reason)} if reason is not None else {"low": max(0.0, low), "high": min(1.0, high)}


_CELLS = ("_00", "_01", "_10", "_11")


def _cells() -> dict[str, pl.Expr]:
    """Turns by recorded (first digit) and predicted failure."""
    bad, said = pl.col("failed"), pl.col("failed_predicted")
    return {f"_{a}{b}": ((bad == bool(a)) & (said == bool(b))).sum().cast(pl.Float64) for a in (0, 1) for b in (0, 1)}


def _mcc(cells: Floats) -> Floats:
    tn, fp, fn, tp = np.moveaxis(cells, -1, 0)
    root = np.sqrt((tp + fn) * (tp + fp) * (tn + fp) * (tn + fn))
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(root > 0, (tp * tn - fp * fn) / root, np.nan)


def _balanced(cells: Floats) -> Floats:
    # The last two are the turns that failed and that did not; one whose outcome nobody predicted is wrong.
    tn, _, _, tp, bad, good = np.moveaxis(cells, -1, 0)
    with np.errstate(invalid="ignore", divide="ignore"):
        both: Floats = (tp / bad + tn / good) / 2
    return both


def _ece(cells: Floats) -> Floats:
    n, right, said = (cells[..., i * BINS : (i + 1) * BINS] for i in range(3))
    gaps: Floats = np.abs(right - said).sum(axis=-1) / n.sum(axis=-1)
    return gaps


def bootstrapped(steps: pl.DataFrame) -> dict[str, Any]:
    """Intervals of `outcome_balanced`, `outcome_mcc` and `ece`, as of `metrics`."""
    place = (pl.col("confidence") * BINS).floor().clip(0, BINS - 1)
    parts = {"n": pl.col("confidence").is_not_null(), "right": pl.col("exact"), "said": pl.col("confidence")}
    bins = {f"_{k}{i}": v.filter(place == i).cast(pl.Float64).sum() for k, v in parts.items() for i in range(BINS)}
    outcomes = {"_bad": pl.col("failed").sum().cast(pl.Float64), "_good": (~pl.col("failed")).sum().cast(pl.Float64)}
    per = steps.group_by("group", maintain_order=True).agg(**_cells(), **outcomes, **bins).sort("group")
    told: tuple[tuple[str, Sequence[str], Callable[[Floats], Floats]], ...] = (
        ("outcome_balanced", (*_CELLS, *outcomes), _balanced),
        ("outcome_mcc", _CELLS, _mcc),
        ("ece", tuple(bins), _ece),
    )
    return {name: _bootstrap(per.select(columns).to_numpy(), statistic) for name, columns, statistic in told}


def _bootstrap(sums: Floats, statistic: Callable[[Floats], Floats]) -> dict[str, Any]:
    from expcomp.stats.additive import additive_bootstrap

    try:
        low, high = additive_bootstrap(sums, statistic, resamples=RESAMPLES)
    except StatsError as error:
        return {"reason": str(error.reason)}
    return {"low": low, "high": high}
