"""From what a caller hands in to the trials of the arms that are compared, with their metric and cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import polars as pl

from expcomp.comparing.arms import named
from expcomp.comparing.cells import TASK, valued
from expcomp.comparing.trials import read_trials
from expcomp.errors import UsageError
from expcomp.io.counts import Count

if TYPE_CHECKING:
    from collections.abc import Sequence

UNITS = ("task",)


class Prepared(NamedTuple):
    """Trials of the arms of a call, what was left out before, and notes on the way there."""

    trials: pl.DataFrame
    left_out: pl.DataFrame
    notes: tuple[str, ...]


def check_unit(unit: str) -> None:
    """Refuse units that make repeated trials look like independent tasks.

    Raises:
        UsageError: The unit is not `task`.
    """
    if unit in UNITS:
        return
    why = (
        ": trials of one task are not independent (10 trials a task taken as pairs show an effect that is not there in 11.5 % of "
        "comparisons, not 2.5 %)"
        if unit == "trial"
        else ""
    )
    msg = f"unit is {unit!r}; expected 'task', or a coarser unit with cluster={why}"
    raise UsageError(msg)


def prepared(
    what: Any,
    names: Sequence[str],
    *,
    metric: str = "auto",
    cluster: str | None = None,
    columns: Sequence[str] = (),
    by: Sequence[str] = (),
    score_scale: tuple[float, float] | None = None,
) -> Prepared:
    """Trials of arms, with `metric`, `value` and `scaled` (see `cells.valued`) and the cluster to use.

    Raises:
        UsageError: An unknown arm, metric or column.
        TableError: A frame of the caller does not hold to the table of trials.
    """
    wanted = [*columns, *by, *([cluster] if cluster is not None else [])]
    given = read_trials(what, columns=wanted, score_scale=score_scale)
    trials, notes = named(given.collect(given.frame), names)
    if cluster is not None:
        trials, alone = _clustered(trials, cluster)
        if alone:
            notes.append(f"{Count(alone):task has|tasks have} no {cluster}; each is a cluster of its own")
    return Prepared(valued(trials, list(by), metric), given.left_out, tuple(notes))


def _clustered(trials: pl.DataFrame, cluster: str) -> tuple[pl.DataFrame, int]:
    label = pl.col(cluster).cast(pl.String)
    one_of_a_task(trials, cluster)
    alone = trials.filter(pl.col(cluster).is_null()).select(TASK).n_unique()
    own = pl.concat_str(pl.lit("task:"), pl.col("benchmark").fill_null(""), pl.lit("/"), pl.col("task"))
    return trials.with_columns(cluster=pl.coalesce(label, own)), alone


def one_of_a_task(trials: pl.DataFrame, column: str) -> None:
    """Refuse a column that is no property of the task.

    Raises:
        UsageError: A task has two values of it.
    """
    told = (
        trials.drop_nulls(column)
        .group_by(TASK, maintain_order=True)
        .agg(n=pl.col(column).n_unique(), some=pl.col(column).cast(pl.String).unique(maintain_order=True).head(2))
    )
    bad = told.filter(pl.col("n") > 1)
    if bad.height:
        task, some = bad["task"][0], bad["some"][0].to_list()
        msg = f"{column} is no property of the task: {task} has {' and '.join(map(repr, some))}; use a column that all its trials share"
        raise UsageError(msg)
