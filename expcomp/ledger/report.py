"""The report of a ledger of our own profile as Markdown: scores with their denominators, decisions, backlog, what was reported."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from expcomp.io.counts import Count
from expcomp.io.text_tables import markdown_table
from expcomp.ledger.backlog import backlog_of
from expcomp.ledger.cases import active, terminal
from expcomp.ledger.decide import decide
from expcomp.ledger.estimates import ESTIMATORS, estimate
from expcomp.ledger.markdown import markdown
from expcomp.ledger.select import Where, select

if TYPE_CHECKING:
    from collections.abc import Mapping

    from expcomp.ledger.pack import Pack
    from expcomp.ledger.store import Ledger

_BY = ("filed_benchmark", "arm_id")
_ARM = {"filed_benchmark": "Benchmark", "arm_id": "Arm"}
_SCORES = {
    **_ARM,
    "role": "Role",
    "scale": "Scale",
    "mean_of_case_means": "Mean of case means",
    "latest": "Latest",
    "best_of_n": "Best of n",
    "max_runs_per_case": "n",
    "missing_as_zero": "Missing as 0",
    "lower_bound": "At worst",
    "upper_bound": "At best",
}
_COUNTS = {
    **_ARM,
    "cases": "Cases",
    "cases_scored": "Cases scored",
    "runs": "Runs",
    "runs_scored": "Runs scored",
    "runs_passed": "Runs passed",
    "runs_infra": "Not the agent's failure",
    "runs_unscored": "No score else",
    "cost_usd": "USD",
    "runs_cost": "Runs with cost",
}
_DECISIONS = {
    "filed_benchmark": "Benchmark",
    "filed_case": "Case",
    "decision": "Decision",
    "official_score_delta": "Difference",
    "active_run_count": "Runs",
    "next_action": "Next",
}
_BACKLOG = {
    "repair_priority": "Priority",
    "filed_benchmark": "Benchmark",
    "repair_class": "Repair",
    "runs": "Runs",
    "cases_blocked": "Cases blocked",
    "pairs_unlocked": "Pairs unlocked",
    "comparisons_unlocked": "Comparisons unlocked",
    "blocked_cases": "Blocked cases",
    "next_action": "Next",
}
_NOTES = {
    "scores": (
        "Only scores that count. *Mean of case means*: the mean over cases of the mean of a case. *Latest*: of the last run of each "
        "case. *Best of n*: of the best run of each case, which grows with n. *Missing as 0*, *at worst*, *at best*: the mean of case "
        "means with each run without a score as 0, as the lowest and as the highest of the scale."
    ),
    "decisions": "What the last baseline and the last treatment of a case show, or what comes before. No test of significance.",
    "backlog": (
        "A repair blocks a case where an arm has no score that counts. Unlocked: what would be possible if every arm it blocks were scored."
    ),
}


def score_table(runs: pl.DataFrame) -> pl.DataFrame:
    """The scores by benchmark and arm under each estimator, with their denominators.

    Returns:
        One row a benchmark and arm: `role` (null when its runs have several), one column an estimator, `missing_as_zero`,
        `lower_bound` and `upper_bound` of the mean of case means, `cost_usd` (the sum, null when no run says) and `runs_cost`;
        `runs_passed` and `runs_infra` are null when no run says. The other columns are those of `estimate`. Counted are ended runs
        that are not archived.
    """
    found = {name: estimate(runs, name, by=_BY) for name in ESTIMATORS}
    named = [f["value"].alias(name) for name, f in found.items()]
    facts = (
        runs.filter(active(), terminal())
        .group_by(_BY, maintain_order=True)
        .agg(
            _one(pl.col("role")).alias("role"),
            pl.when(pl.col("passed").count() > 0).then(pl.col("passed").sum()).cast(pl.Int64).alias("runs_passed"),
            pl.when(pl.col("cost_usd").count() > 0).then(pl.col("cost_usd").sum()).alias("cost_usd"),
            pl.col("cost_usd").count().cast(pl.Int64).alias("runs_cost"),
        )
    )
    joined = found["mean_of_case_means"].with_columns(named)
    joined = joined.join(facts, on=_BY, how="left", nulls_equal=True, maintain_order="left")
    return joined.select(
        *_BY, "role", "scale", *ESTIMATORS, pl.col("value_missing_as_zero").alias("missing_as_zero"), "lower_bound", "upper_bound",
        "max_runs_per_case", "cases", "cases_scored", "runs", "runs_scored", "runs_passed", "runs_infra", "runs_unscored", "cost_usd",
        "runs_cost",
    )  # fmt: skip


def _one(column: pl.Expr) -> pl.Expr:
    """The value of a group when all its rows have the same."""
    return pl.when((column.n_unique() == 1) & (column.null_count() == 0)).then(column.first())


def report(ledger: Ledger, where: Where | None = None, *, limit: int = 200) -> str:
    """A ledger as Markdown: in the ancestor's layout under a compatible profile, else in ours.

    Args:
        ledger: The ledger, or one of its versions.
        where: Which runs; all by default.
        limit: Cases that are listed; how many more there are is said.
    """
    runs = ledger.collect(select(ledger.runs, where or Where()))
    pack = ledger.pack
    if pack.settings.get("compatible"):
        return markdown(runs, pack, updated_at=ledger.head.get("updated_at"))
    return _own(runs, pack, ledger.version, limit)


def _own(runs: pl.DataFrame, pack: Pack, version: int, limit: int) -> str:
    live = runs.filter(active())
    found = decide(runs, pack)
    shown = found.filter(pl.col("active_run_count") > 0)
    facts = {
        "version": version,
        "profile": pack.profile,
        "benchmarks": live["filed_benchmark"].n_unique(),
        "cases": shown.height,
        "runs": live.height,
        "archived runs": runs.height - live.height,
    }
    scores = score_table(runs)
    parts = ["# Benchmark runs", "\n".join(f"- {name}: {value}" for name, value in facts.items())]
    parts += _section("Scores", scores, _SCORES, note="scores")
    parts += _section("Denominators", scores, _COUNTS)
    summary = shown.group_by("filed_benchmark", "decision", maintain_order=True).agg(cases=pl.len())
    titles = {"filed_benchmark": "Benchmark", "decision": "Decision", "cases": "Cases"}
    parts += _section(
        "Decisions", summary.sort("filed_benchmark", "cases", "decision", descending=[False, True, False]), titles,
        note="decisions",
    )  # fmt: skip
    parts += _section("Cases", shown.head(limit), _DECISIONS)
    if shown.height > limit:
        parts.append(f"{Count(shown.height - limit):more case is|more cases are} not listed.")
    parts += _section("Backlog", backlog_of(runs.lazy(), pack), _BACKLOG, note="backlog")
    parts += _section(
        "Archived", _archived(runs), {"filed_benchmark": "Benchmark", "archive_reason": "Why", "n": "Runs"}
    )
    parts += _section("Reported", _issues(live), {"filed_benchmark": "Benchmark", "issues": "What", "n": "Runs"})
    return "\n\n".join(parts) + "\n"


def _archived(runs: pl.DataFrame) -> pl.DataFrame:
    gone = runs.filter(~active())
    return _tally(gone, "archive_reason")


def _issues(live: pl.DataFrame) -> pl.DataFrame:
    """What was refused or guessed in runs, and how often."""
    return _tally(live.select("filed_benchmark", "issues").explode("issues").drop_nulls(), "issues")


def _tally(runs: pl.DataFrame, column: str) -> pl.DataFrame:
    keys = ["filed_benchmark", column]
    return runs.group_by(keys, maintain_order=True).agg(n=pl.len()).sort(keys, nulls_last=True)


def _section(heading: str, frame: pl.DataFrame, titles: Mapping[str, str], *, note: str | None = None) -> list[str]:
    """Heading, note and table; nothing for an empty frame."""
    if not frame.height:
        return []
    rounded = frame.select(list(titles)).with_columns(pl.selectors.float().round(4))
    told = [_NOTES[note]] if note else []
    return [f"## {heading}", *told, markdown_table(rounded, titles).rstrip("\n")]
