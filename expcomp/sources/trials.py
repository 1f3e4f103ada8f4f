"""Which trial at its task an attempt is (R11, R12)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from expcomp.io.digest import xxh3_expr
from expcomp.io.wording import worded
from expcomp.sources._told import CHAT_SETS, lines
from expcomp.tables import vocab as v

if TYPE_CHECKING:
    from collections.abc import Sequence

    from expcomp.sources._contract import ReadOptions

RUN_IS_TRIAL = frozenset({"swe_agent", "mini_swe_agent", "swe_bench_report"})
"""Formats that hold one attempt at a task a run: their trials are counted over the runs of an arm."""

OWN_TRIALS = frozenset({"packages", "tau_bench"})
"""Formats whose readers number trials, and report doubles, themselves."""


def trial_keys(attempts: pl.DataFrame, options: ReadOptions) -> pl.DataFrame:
    """(source_uri, key, task, trial): where a chat set says which trial at a task an attempt is, by columns that were guessed."""
    guessed = pl.col("source_format").is_in(CHAT_SETS) & (pl.col("trial_source") == "native")
    if options.trial is not None:
        guessed = pl.lit(value=False)
    names = [pl.col(n).cast(pl.String).fill_null("") for n in ("run_id", "arm", "task_id", "trial")]
    return attempts.filter(guessed & pl.col("trial").is_not_null() & pl.col("task_id").is_not_null()).select(
        "source_uri", "trial", key=xxh3_expr(pl.concat_str(names, separator="\x1f")), task=xxh3_expr("task_id")
    )


def doubtful_trials(keys: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """(source_uri, why): files whose numbers are none of trials (R12).

    Numbers of trials are unique at a task, begin at the first, and come again from task to task; those that count tasks do not.
    """
    told, file = pl.concat(keys), "source_uri"
    twice = told.group_by(file, "key", maintain_order=True).len().filter(pl.col("len") > 1)
    again = twice.group_by(file, maintain_order=True).agg(twice=pl.len())
    shared = (
        told.unique([file, "trial", "task"], maintain_order=True).group_by(file, "trial", maintain_order=True).len()
    )
    most = shared.group_by(file, maintain_order=True).agg(most=pl.col("len").max())
    reasons = (
        (pl.col("twice").is_not_null(), worded("gives {} tasks a number twice", "twice")),
        (pl.col("first") > 0, pl.lit("does not begin at 0 or 1")),
        ((pl.col("tasks") > 1) & (pl.col("most") == 1), pl.lit("gives no two tasks the same number")),
    )
    return (
        told.group_by(file, maintain_order=True)
        .agg(first=pl.col("trial").min(), tasks=pl.col("task").n_unique())
        .join(again, on=file, how="left", maintain_order="left")
        .join(most, on=file, how="left", maintain_order="left")
        .select(file, why=pl.coalesce(pl.when(holds).then(text) for holds, text in reasons))
        .drop_nulls("why")
    )


def trusted(attempts: pl.DataFrame, doubtful: pl.DataFrame, told: list[pl.DataFrame]) -> pl.DataFrame:
    """Attempts without the trial numbers of files that do not number trials."""
    if doubtful.is_empty():
        return attempts
    files = doubtful.filter("tell").with_columns(
        package_id="source_uri",
        source_pos=pl.lit(None, dtype=pl.Int64),
        attempt_id=pl.lit(None, dtype=pl.String),
    )
    detail = worded("the column taken for the trial {}; not used as trial number", pl.col("why"))
    told.append(lines(files, "trial_not_unique", detail, field="trial"))
    of_file = pl.col("source_uri").is_in(doubtful["source_uri"].implode()) & pl.col("source_format").is_in(CHAT_SETS)
    off = of_file & (pl.col("trial_source") == "native")
    return attempts.with_columns(
        trial=pl.when(~off).then("trial"),
        trial_source=pl.when(off).then(pl.lit("unknown", dtype=v.TRIAL_SOURCE)).otherwise("trial_source"),
    )


def numbered(attempts: pl.DataFrame, told: list[pl.DataFrame]) -> pl.DataFrame:
    """Trials of the attempts at a task: the source's number where it is one, else the order of start, else of position (R11, R12)."""
    per_run = ~pl.col("source_format").is_in(RUN_IS_TRIAL)
    ours = ~pl.col("source_format").is_in(OWN_TRIALS) & pl.col("task_id").is_not_null() & (pl.col("relation") == "root")
    # Trajectories and bare verdicts of one arm are attempts at the same tasks, whatever files they come from.
    kin = pl.when(per_run).then(pl.col("source_format").cast(pl.String)).otherwise(pl.lit("swe"))
    rows = attempts.with_row_index("_row").with_columns(
        pl.when(per_run).then("run_id").alias("_run"), _kin=kin, _ours=ours
    )
    group = ["_kin", "_run", "arm", "task_id"]
    native = pl.col("_ours") & (pl.col("trial_source") == "native") & pl.col("trial").is_not_null()
    rows = rows.with_columns(_twice=native & (pl.len().over([*group, "trial"]) > 1))
    doubles = rows.filter("_twice")
    if doubles.height:
        detail = worded(
            "task {} has trial {} more than once in run {}; its attempts are numbered by order",
            pl.col("task_id"),
            pl.col("trial"),
            pl.col("run_id").fill_null("(unnamed)"),
        )
        told.append(lines(doubles, "duplicate_trial", detail, field="trial"))
    open_ = pl.col("_ours") & (pl.col("trial").is_null() | pl.col("_twice").any().over(group))
    todo = rows.filter(open_)
    if todo.is_empty():
        return attempts
    timed = pl.col("started_at").is_not_null().all().over(group)
    order = todo.with_columns(_timed=timed).sort(
        [*group, pl.when("_timed").then("started_at"), "run_id", "source_uri", "source_pos", "_row"], nulls_last=True
    )
    numbers = order.select(
        "_row",
        _trial=pl.int_range(pl.len(), dtype=pl.Int32).over(group),
        _source=pl.when("_timed").then(pl.lit("ordered")).otherwise(pl.lit("unknown")).cast(v.TRIAL_SOURCE),
    )
    return (
        rows.join(numbers, on="_row", how="left", maintain_order="left")
        .with_columns(trial=pl.coalesce("_trial", "trial"), trial_source=pl.coalesce("_source", "trial_source"))
        .drop("_row", "_run", "_kin", "_ours", "_twice", "_trial", "_source")
    )
