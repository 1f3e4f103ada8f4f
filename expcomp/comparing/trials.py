"""Trials of whatever holds runs: ledgers, trace sets, compilations and frames, as one table."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple

import polars as pl

from expcomp.comparing.given import from_user
from expcomp.compiler.compilation import Compilation
from expcomp.errors import UsageError
from expcomp.ledger.cases import CASE, active, terminal
from expcomp.ledger.inputs import PROFILE, from_attempts
from expcomp.ledger.store import Ledger
from expcomp.ledger.views import roled
from expcomp.sources.traceset import TraceSet
from expcomp.tables.stats import TRIALS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_UNNAMED = "unknown_arm"
_NONE = "none"
_SAME = ("role", "cost_usd", "input_tokens", "output_tokens", "duration_s", "agent", "model")


class Trials(NamedTuple):
    """Trials, how many attempts are none, by reason, and how to collect: a ledger names the part that is damaged."""

    frame: pl.LazyFrame
    left_out: pl.DataFrame
    collect: Callable[[pl.LazyFrame], pl.DataFrame] = pl.LazyFrame.collect


def trials_of(
    what: Any, *, columns: Sequence[str] = (), score_scale: tuple[float, float] | None = None
) -> pl.LazyFrame:
    """The table `trials`: one row a trial.

    Archived and running runs are no trials, nor are sub-agents and sessions without a task. Of a run whose score does not count
    the score is null. What is lost to infrastructure stays, with `infra` true.

    Args:
        what: Ledger, TraceSet, Compilation, or a frame: of runs, of attempts, or with `task`, `arm` and `score` or `passed`.
        columns: Further columns to keep, of the source: to slice or to cluster by.
        score_scale: Low and high end of scores whose scale is not known.

    Raises:
        UsageError: It is none of these, or has no such column.
        TableError: A frame of the caller does not hold to the table.
    """
    return read_trials(what, columns=columns, score_scale=score_scale).frame


def read_trials(what: Any, *, columns: Sequence[str] = (), score_scale: tuple[float, float] | None = None) -> Trials:
    """`trials_of`, with what was left out: columns `reason` and `attempts`."""
    more = tuple(c for c in dict.fromkeys(columns) if c not in TRIALS.columns)
    found = _read(what, more)
    return found if score_scale is None else found._replace(frame=_scaled(found.frame, score_scale))


def _read(what: Any, more: Sequence[str]) -> Trials:
    if isinstance(what, Ledger):
        return _of_ledger(what, more)
    if isinstance(what, TraceSet):
        return _of_attempts(what["attempts"].lazy().collect(), what["tasks"].lazy().collect(), more)
    if isinstance(what, Compilation):
        return _of_attempts(what.tables["attempts"], what.tables["tasks"], more)
    if isinstance(what, pl.DataFrame | pl.LazyFrame):
        return _of_frame(what, more)
    msg = f"{type(what).__name__} has no trials; expected a Ledger, a TraceSet, a Compilation or a Polars frame"
    raise UsageError(msg)


def put_away(what: Any, names: Sequence[str]) -> tuple[int, int]:
    """Runs of arms or roles that lie in the archive of a ledger, and tasks of which these arms have no other run.

    Args:
        what: As for `trials_of`; what is no ledger and no frame of its runs has no archive.
        names: Arms or roles.
    """
    if isinstance(what, Ledger):
        runs, collect = _runs_of(what)
    elif isinstance(what, pl.DataFrame | pl.LazyFrame) and "filed_case" in what.collect_schema():
        runs, collect = what.lazy(), pl.LazyFrame.collect
    else:
        return 0, 0
    own = [
        (pl.col("arm_id") == n) | ((pl.col("role") == n) & ~((pl.col("arm_id") == n) & active()).any()) for n in names
    ]
    of_arms = runs.select(*CASE, "arm_id", "role", "archive_state").filter(
        pl.any_horizontal(own).fill_null(value=False)
    )
    by_task = of_arms.group_by(CASE, maintain_order=True).agg(runs=(~active()).sum(), gone=(~active()).all())
    counts = by_task.select(pl.col("runs").sum(), pl.col("gone").sum())
    runs_away, tasks_away = collect(counts.cast(pl.Int64)).row(0)
    return int(runs_away), int(tasks_away)


def _of_frame(frame: pl.DataFrame | pl.LazyFrame, more: Sequence[str]) -> Trials:
    names = frame.collect_schema()
    if "filed_case" in names:
        _known(more, names)
        return _of_runs(frame.lazy(), more)
    if {"attempt_id", "task_id", "status"} <= set(names):
        return _of_attempts(frame.lazy().collect(), None, more)
    return Trials(from_user(frame.lazy().collect(), more).lazy(), _reasons())


def _of_ledger(ledger: Ledger, more: Sequence[str]) -> Trials:
    runs, collect = _runs_of(ledger)
    _known(more, runs.collect_schema())
    return _of_runs(runs, more, collect)


def _runs_of(ledger: Ledger) -> tuple[pl.LazyFrame, Callable[[pl.LazyFrame], pl.DataFrame]]:
    """The runs by the rules of the default profile: those of the ancestor say neither scale nor infrastructure."""
    from expcomp.ledger.pack import read_pack
    from expcomp.ledger.recompute import recompute

    runs = ledger.runs
    if ledger.profile == PROFILE:
        return runs, ledger.collect
    return roled(recompute(ledger.collect(runs), read_pack(PROFILE)).lazy(), ledger.roles), pl.LazyFrame.collect


def _of_runs(
    runs: pl.LazyFrame, more: Sequence[str], collect: Callable[[pl.LazyFrame], pl.DataFrame] = pl.LazyFrame.collect
) -> Trials:
    told = runs.filter(active(), terminal()).select(*_from_runs(), *more)
    return Trials(told, _not_live(runs, collect), collect)


def _not_live(
    runs: pl.LazyFrame, collect: Callable[[pl.LazyFrame], pl.DataFrame] = pl.LazyFrame.collect
) -> pl.DataFrame:
    gone = runs.select(archived=(~active()).sum(), running=(active() & ~terminal()).sum())
    counts = gone.unpivot(variable_name="reason", value_name="attempts").filter(pl.col("attempts") > 0)
    return collect(counts.cast({"attempts": pl.Int64}))


def _from_runs() -> list[pl.Expr]:
    counts = pl.col("official_score_countable").fill_null(value=False)
    known = pl.col("score_norm").is_not_null()
    score = pl.when(counts).then(pl.coalesce("score_norm", "countable_score"))
    infra = pl.col("infra").fill_null(value=False)
    named: dict[str, pl.Expr] = {
        "benchmark": pl.col("filed_benchmark"),
        "task": pl.col("filed_case"),
        "arm": pl.when(pl.col("arm_id") != _UNNAMED).then("arm_id"),
        "source_id": pl.coalesce("attempt_id", "run_key"),
        "run_id": pl.col("run_group_id"),
        "score": score,
        "scale_known": pl.when(score.is_not_null()).then(known),
        "passed": pl.when(counts).then("passed"),
        "infra": infra,
        "failure_class": pl.when(pl.col("failure_class") != _NONE).then("failure_class"),
        "cluster": pl.lit(None, pl.String),
        "domain": pl.lit(None, pl.String),
    }
    return [named[n].alias(n) if n in named else pl.col(n).cast(t) for n, t in TRIALS.schema.items()]


def _of_attempts(attempts: pl.DataFrame, tasks: pl.DataFrame | None, more: Sequence[str]) -> Trials:
    given = from_attempts(attempts, tasks)
    left_out = (
        given.refused.group_by("reason", maintain_order=True).agg(attempts=pl.len().cast(pl.Int64)).sort("reason")
    )
    runs = given.runs.with_columns(pl.lit(None, pl.String).alias("archive_state"))
    left_out = pl.concat([left_out, _not_live(runs.lazy())])
    frame = runs.lazy().filter(terminal()).select(_from_runs())
    about = ("cluster", "domain")
    facts = attempts.select("attempt_id", "task_id", *(c for c in more if c in attempts.columns))
    if tasks is not None:
        extra = [c for c in (*about, *more) if c in tasks.columns and c not in facts.columns]
        own = tasks.select("task_id", *extra).unique("task_id", keep="first", maintain_order=True)
        facts = facts.join(own, on="task_id", how="left", maintain_order="left")
    _known(more, [*facts.columns, *(tasks.columns if tasks is not None else ()), *attempts.columns])
    facts = facts.unique("attempt_id", keep="first", maintain_order=True)
    have = [c for c in about if c in facts.columns]
    joined = frame.drop(have).join(
        facts.lazy().select("attempt_id", *have, *more),
        left_on="source_id",
        right_on="attempt_id",
        how="left",
        maintain_order="left",
    )
    return Trials(joined.select(*TRIALS.columns, *more), left_out)


def _reasons() -> pl.DataFrame:
    return pl.DataFrame(schema={"reason": pl.String, "attempts": pl.Int64})


def _known(more: Sequence[str], names: Any) -> None:
    unknown = [c for c in more if c not in names]
    if unknown:
        have = ", ".join(sorted(set(names) | set(TRIALS.columns)))
        msg = f"there is no column {', '.join(unknown)} to slice or cluster by; there are {have}"
        raise UsageError(msg)


def _scaled(frame: pl.LazyFrame, scale: tuple[float, float]) -> pl.LazyFrame:
    """Scores of unknown scale put on 0 to 1."""
    low, high = scale
    if not -inf < low < high < inf:
        msg = f"score_scale is {scale}; expected (low, high), finite, with low below high"
        raise UsageError(msg)
    raw = ~pl.col("scale_known").fill_null(value=True)
    outside = (
        frame.filter(raw & ~pl.col("score").is_between(low, high)).select("task", "arm", "score").head(1).collect()
    )
    if outside.height:
        task, arm, score = outside.row(0)
        msg = f"score_scale is {low:g} to {high:g}, but task {task} has {score:g} by arm {arm}"
        raise UsageError(msg)
    return frame.with_columns(
        score=pl.when(raw).then((pl.col("score") - low) / (high - low)).otherwise("score"),
        scale_known=pl.when(pl.col("score").is_not_null()).then(pl.lit(value=True)),
    )
