"""Many comparisons at once: one for each group of a frame, one row each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from expcomp.comparing.adjusting import adjusted
from expcomp.comparing.cells import cells, compared, under
from expcomp.comparing.decide import decided, rule_of
from expcomp.comparing.estimates import COLUMNS, UNIT, How, estimates
from expcomp.comparing.policies import policies
from expcomp.comparing.prepare import check_unit, prepared
from expcomp.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence


def compare_many(
    what: Any,
    baseline: str,
    treatment: str | Sequence[str],
    *,
    by: str | Sequence[str],
    unit: str = "task",
    cluster: str | None = None,
    metric: str = "auto",
    missing: str = "exclude",
    infra: str | None = None,
    confidence: float = 0.95,
    delta: float | None = None,
    min_units: int = 20,
    resamples: int = 10_000,
    seed: int = 0,
    score_scale: tuple[float, float] | None = None,
) -> pl.DataFrame:
    """Compare within each group: one row a group and treatment, the figures those `compare` gives for its trials alone.

    Args:
        what: As in `compare`.
        baseline: Arm or role.
        treatment: Arm or role, or several.
        by: Columns whose values make the groups: benchmark, checkpoint, harness, seed of a simulation.
        unit: `task`.
        cluster: As in `compare`; so are the other arguments. `bounds` is no policy here: it makes two comparisons of one.

    Returns:
        `by`, `treatment`, `metric`, `n_units`, `n_clusters`, `method`, means, `estimate`, `se`, `low`, `high`, `p_value`,
        `p_adjusted` (Holm over all rows: what a claim about any of them needs), `decision` (at the level of one comparison), `reason`,
        `mde`, `needed_units`; sorted by group. Groups where an arm has no trial are there, with `n_units` 0.

    Raises:
        UsageError: As `compare`, or `missing` is `bounds`.
    """
    check_unit(unit)
    groups = [by] if isinstance(by, str) else list(by)
    treatments = [treatment] if isinstance(treatment, str) else list(treatment)
    if {"arm", "role", "task"} & set(groups):
        msg = f"by is {', '.join(groups)}; expected columns that hold trials of both arms and several tasks, as benchmark or domain"
        raise UsageError(msg)
    asked = policies(missing, infra)
    if len(asked) > 1:
        msg = "missing='bounds' makes two comparisons of one; call compare_many with 'exclude' and with 'fail', or compare"
        raise UsageError(msg)
    rule = rule_of(confidence, min_units, delta)
    how = How(confidence, resamples, seed, cluster is not None)
    trials = prepared(
        what, [baseline, *treatments], metric=metric, cluster=cluster, by=groups, score_scale=score_scale
    ).trials
    paired = compared(cells(trials, groups), groups, baseline, treatments)
    if asked[0].fills and not paired["scaled"].all():
        msg = "some scores have no known scale to fill in from; give score_scale=(low, high), or use missing='exclude'"
        raise UsageError(msg)
    keys = [*groups, "treatment"]
    units = under(paired, asked[0]).sort(keys, maintain_order=True)
    metrics = units.group_by(keys, maintain_order=True).agg(pl.col("metric").drop_nulls().first())
    found = estimates(units.select(*keys, *UNIT), keys, how)
    found = found.join(metrics, on=keys, how="left", nulls_equal=True, maintain_order="left")
    judged = decided(found.with_columns(p_adjusted=pl.lit(None, pl.Float64)), rule)
    return adjusted(judged.drop("p_adjusted"), "holm").select(
        *keys, "metric", *COLUMNS, "p_adjusted", "decision", "reason", "mde", "needed_units"
    )
