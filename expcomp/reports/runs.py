"""Sections on runs: what was read, outcomes and resources by benchmark and arm, failure classes."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import polars as pl

from expcomp.figures.cost import cost_success
from expcomp.figures.forest import forest
from expcomp.io.counts import Count, percent
from expcomp.reports.measures import METHODS, TASK, over_tasks
from expcomp.reports.model import Col, Figure, Section, Table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from expcomp.reports.given import Given

BY = ("benchmark", "arm")
_KINDS = {
    "ledger": "a ledger of benchmark runs",
    "compile": "the output of a compile",
    "traces": "traces",
    "frame": "a frame of trials",
}
_MOST = 40
_WHERE = (Col("benchmark", "benchmark"), Col("arm", "arm"))
_MEASURES: tuple[tuple[str, pl.Expr], ...] = (
    ("cost, USD", pl.col("cost_usd")),
    ("input tokens", pl.col("input_tokens")),
    ("output tokens", pl.col("output_tokens")),
    ("duration, s", pl.col("duration_s")),
)


def read_section(given: Given) -> Section:
    """What was read, and what of it is no trial."""
    text = [
        f"Read: {_KINDS[given.kind]}. {Count(given.trials.height):trial|trials} of {Count(_tasks(given.trials)):task|tasks}."
    ]
    if not given.trials.height:
        text.append("There is no trial, so nothing can be said of scores, arms or costs.")
    tables = []
    if given.counts.height:
        tables.append(
            Table("read_counts", "What was read", given.counts, (Col("what", "what"), Col("n", "n", "count")))
        )
    if given.left_out.height:
        columns = (Col("reason", "reason"), Col("attempts", "attempts", "count"))
        tables.append(Table("read_left_out", "Attempts that are no trials", given.left_out, columns))
    return Section("read", "What was read", tuple(text), tuple(tables))


def runs_section(given: Given, confidence: float) -> Section | None:
    """Outcomes and resources by benchmark and arm."""
    if not given.trials.height:
        return None
    told, spent = outcomes(given.trials, confidence), resources(given.trials, confidence)
    text = (
        f"Scores and pass rates are means over tasks of the task's mean, with {percent(confidence)} intervals whose unit is the task: "
        f"{'; '.join(METHODS.values())}. Infrastructure failures and attempts without a verdict count in neither."
    )
    tables = [
        Table(
            "runs_outcomes",
            "Outcomes by benchmark and arm",
            told,
            (
                *_WHERE,
                Col("tasks", "tasks", "count"),
                Col("attempted", "attempted", "count"),
                Col("scored", "scored", "count"),
                Col("infra", "infrastructure", "count"),
                Col("missing", "no score", "count"),
                Col("pass_estimate", "pass rate", "share", "pass_low", "pass_high"),
                Col("pass_tasks", "n tasks", "count"),
                Col("pass_method", "interval"),
                Col("score_estimate", "score", "number", "score_low", "score_high"),
                Col("score_tasks", "n tasks", "count"),
                Col("scale", "scale"),
            ),
        )
    ]
    if spent.height:
        columns = (
            *_WHERE,
            Col("measure", "measure"),
            Col("n", "n attempts", "count"),
            Col("unknown", "unknown", "count"),
            Col("n_tasks", "n tasks", "count"),
            Col("estimate", "mean of tasks", "number", "low", "high"),
            Col("median", "median attempt", "number"),
            Col("total", "total known", "number"),
        )
        note = "All attempts that tell, also failed ones: they were paid for. Unknown is not 0; totals are of what is known."
        tables.append(Table("runs_resources", "Cost, tokens and time", spent, columns, note))
    return Section("runs", "Runs by benchmark and arm", (text,), tuple(tables), tuple(_figures(told, spent)))


def outcomes(trials: pl.DataFrame, confidence: float) -> pl.DataFrame:
    """One row a benchmark and arm: denominators, pass rate and score with their intervals."""
    usable = ~pl.col("infra") & (pl.col("score").is_not_null() | pl.col("passed").is_not_null())
    known = pl.col("scale_known").filter(~pl.col("infra") & pl.col("score").is_not_null())
    counts = trials.group_by(BY, maintain_order=True).agg(
        tasks=pl.struct(TASK).n_unique().cast(pl.Int64),
        attempted=pl.len().cast(pl.Int64),
        scored=usable.sum().cast(pl.Int64),
        infra=pl.col("infra").sum().cast(pl.Int64),
        missing=(~usable & ~pl.col("infra")).sum().cast(pl.Int64),
        scale=pl.when(known.len() == 0)
        .then(None)
        .when(known.all())
        .then(pl.lit("0 to 1"))
        .when(known.any())
        .then(pl.lit("mixed"))
        .otherwise(pl.lit("as recorded")),
    )
    clean = trials.filter(~pl.col("infra"))
    passed = over_tasks(clean, BY, pl.col("passed"), confidence=confidence, rate=True)
    scores = over_tasks(clean, BY, pl.col("score"), confidence=confidence)
    joined = counts
    for prefix, part in (("pass", passed), ("score", scores)):
        named = part.rename({c: f"{prefix}_{c.removeprefix('n_')}" for c in part.columns if c not in BY})
        joined = joined.join(named, on=BY, how="left", nulls_equal=True, maintain_order="left")
    # A mean over two scales is no number of anything.
    mixed = pl.col("scale") == "mixed"
    blank = [
        pl.when(~mixed.fill_null(value=False)).then(c).alias(c) for c in ("score_estimate", "score_low", "score_high")
    ]
    scaled = pl.col("scale") == "0 to 1"
    cut = [pl.when(scaled).then(pl.col(c).clip(0, 1)).otherwise(c).alias(c) for c in ("score_low", "score_high")]
    return joined.with_columns(blank).with_columns(cut).sort(BY, nulls_last=True, maintain_order=True)


def resources(trials: pl.DataFrame, confidence: float) -> pl.DataFrame:
    """One row a benchmark, arm and measure that some attempt tells."""
    parts = []
    for position, (name, value) in enumerate(_MEASURES):
        means = over_tasks(trials, BY, value, confidence=confidence, low=0)
        facts = trials.group_by(BY, maintain_order=True).agg(
            unknown=value.is_null().sum().cast(pl.Int64),
            median=value.median().cast(pl.Float64),
            total=value.cast(pl.Float64).sum(),
        )
        row = means.join(facts, on=BY, how="left", nulls_equal=True, maintain_order="left")
        parts.append(row.with_columns(measure=pl.lit(name), _position=pl.lit(position)))
    return pl.concat(parts).sort([*BY, "_position"], nulls_last=True, maintain_order=True).drop("_position")


def failures_section(given: Given, confidence: float) -> Section | None:
    """How often each class of failure ends an attempt, by arm."""
    seen = given.trials.filter(pl.col("failure_class").is_not_null())
    if not seen.height:
        return None
    names = seen["failure_class"].unique().sort().to_list()
    parts = [
        over_tasks(
            given.trials, BY, pl.col("failure_class").eq_missing(pl.lit(name)), confidence=confidence, rate=True
        ).with_columns(failure_class=pl.lit(name))
        for name in names
    ]
    counts = seen.group_by([*BY, "failure_class"], maintain_order=True).agg(
        attempts=pl.len().cast(pl.Int64), tasks=pl.struct(TASK).n_unique().cast(pl.Int64), infra=pl.col("infra").all()
    )
    keys = [*BY, "failure_class"]
    frame = counts.join(pl.concat(parts), on=keys, how="left", nulls_equal=True, maintain_order="left").sort(
        [*BY, "attempts", "failure_class"], descending=[False, False, True, False], nulls_last=True
    )
    columns = (
        *_WHERE,
        Col("failure_class", "failure class"),
        Col("infra", "infrastructure"),
        Col("attempts", "attempts", "count"),
        Col("n", "of", "count"),
        Col("tasks", "tasks", "count"),
        Col("n_tasks", "of", "count"),
        Col("estimate", "share of attempts, mean of tasks", "share", "low", "high"),
    )
    table = Table("failure_classes", "Failure classes by benchmark and arm", frame, columns)
    return Section("failures", "Failure classes", (), (table,))


def _tasks(trials: pl.DataFrame) -> int:
    return trials.select(TASK).unique(maintain_order=True).height


def _figures(told: pl.DataFrame, spent: pl.DataFrame) -> Iterator[Figure]:
    several = told["benchmark"].n_unique() > 1
    label = pl.col("arm").fill_null("arm unknown")
    label = pl.concat_str(pl.col("benchmark").fill_null("?"), label, separator=" · ") if several else label
    # Where every arm has a pass rate the score says the same again, or is on a scale of its own.
    names = (("pass", "pass rate"), ("score", "mean score"))
    for prefix, words in names[: 2 if told["pass_estimate"].null_count() else 1]:
        known = told.filter(pl.col(f"{prefix}_estimate").is_not_null())
        if not known.height or (prefix == "score" and (known["scale"] != "0 to 1").any()):
            continue
        columns = {"n": f"{prefix}_tasks", **{c: f"{prefix}_{c}" for c in ("estimate", "low", "high")}}
        rows = known.select(name=label, **columns).head(_MOST)
        more = f", the first {_MOST} of {known.height:,}" if known.height > _MOST else ""
        heading = f"{words.capitalize()} by arm"
        draw = partial(forest, rows, zero=None, signed=False, xlabel=f"{words}, mean over tasks", heading=heading)
        alt = f"{heading} with its interval{more}; the numbers stand in the table of outcomes."
        yield Figure(f"runs_{prefix}", f"{heading}{more}; n is tasks.", alt, draw)
    cost = spent.filter(pl.col("measure") == "cost, USD").select(*BY, cost="estimate", cost_low="low", cost_high="high")
    both = told.join(cost, on=BY, how="left", nulls_equal=True, maintain_order="left")
    both = both.filter(pl.col("cost").is_not_null() & pl.col("pass_estimate").is_not_null())
    if 1 < both.height <= _MOST:
        costs = ("cost", "cost_low", "cost_high")
        rows = both.select(*costs, arm=label, n="pass_tasks", success="pass_estimate", low="pass_low", high="pass_high")
        draw = partial(cost_success, rows, ylabel="pass rate", xlabel="cost of an attempt, USD, mean over tasks")
        alt = "Pass rate against mean cost of an attempt, one mark for each arm, with both intervals."
        yield Figure("runs_cost", "Cost against success; n is tasks.", alt, draw)
