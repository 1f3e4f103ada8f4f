"""What the join of trajectories and reports says in the load report."""

from __future__ import annotations

import polars as pl

from expcomp.io.wording import worded
from expcomp.tables import vocab as v
from expcomp.tables.core import DIAGNOSTICS

_WITHOUT_TRAJECTORY = (
    "{} judged or predicted instances of run {} have no trajectory in this load ({}); they stay, without transcript"
)
_WITHOUT_REPORT = (
    "{} trajectories of run {} have no verdict in this load ({}); reports are found by the name of the run in their file name, or by the "
    "patch: load the predictions or the logs of the evaluation too"
)
_DISAGREES = "a further evaluation of the same patch ({}) comes to another verdict on {}; the first one counts"


def line(rows: pl.DataFrame, code: str, detail: pl.Expr, *, severity: str = "warning", of: str = "") -> pl.DataFrame:
    """A line of the load report for each row; `of` is the suffix of the columns that say where."""

    def held(name: str) -> pl.Expr:
        there = f"{name}{of}" in rows.columns
        return (pl.col(f"{name}{of}") if there else pl.lit(None, dtype=pl.String)).alias(name)

    return rows.select(
        held("package_id"),
        held("source_uri"),
        pl.lit(None, dtype=pl.Int64).alias("source_pos"),
        pl.lit(None, dtype=pl.Int64).alias("byte_offset"),
        held("attempt_id"),
        pl.lit(None, dtype=pl.String).alias("field"),
        pl.lit(code).alias("code"),
        pl.lit(severity, dtype=v.SEVERITY).alias("severity"),
        detail.alias("detail"),
    ).select(list(DIAGNOSTICS.columns))


def tell(
    kept: pl.DataFrame, trajectories: pl.DataFrame, ungraded: pl.DataFrame, pairs: pl.DataFrame, folded: pl.DataFrame
) -> list[pl.DataFrame]:
    """What was joined, by run what has no partner, and where evaluations disagree.

    Args:
        kept: Reports that stand for themselves.
        trajectories: All trajectories.
        ungraded: Those without a verdict of their own.
        pairs: Report, trajectory and how they were found.
        folded: Reports that became part of another report.
    """
    judged = kept.filter(pl.col("score_valid").is_not_null())["attempt_id"].implode()
    graded = pairs.filter(pl.col("report").is_in(judged))["onto"].implode()
    bare = ungraded.filter(~pl.col("attempt_id").is_in(graded))
    alone = kept.filter(~pl.col("attempt_id").is_in(pairs["report"].implode()))
    told = [
        _by_run(alone, "report_without_trajectory", _WITHOUT_TRAJECTORY),
        _by_run(bare, "trajectory_without_report", _WITHOUT_REPORT),
        _disagree(kept, trajectories, pairs),
    ]
    if pairs.height or folded.height:
        run, patch, again = (int((pairs["how"] == how).sum()) for how in ("run", "patch", "again"))
        joined = (
            f"{run} attempts of reports and predictions joined with trajectories by run and instance, {patch} by instance and patch, "
            f"{again} as further evaluations of the same patches, {folded.height} with each other by run and instance; they are absorbed"
        )
        told.append(line(pl.DataFrame({"n": [1]}), "reports_joined", pl.lit(joined), severity="info"))
    return told


def _by_run(rows: pl.DataFrame, code: str, words: str) -> pl.DataFrame:
    runs = rows.group_by("run_id", maintain_order=True).agg(
        pl.col("package_id", "source_uri").first(),
        pl.len().alias("n"),
        pl.col("instance").head(3).str.join(", ").alias("shown"),
    )
    detail = worded(words, "n", pl.col("run_id").fill_null("(unnamed)"), "shown")
    return line(runs, code, detail, severity="info")


def _disagree(kept: pl.DataFrame, trajectories: pl.DataFrame, pairs: pl.DataFrame) -> pl.DataFrame:
    """Further evaluations whose verdict is not that of the first."""
    said = pairs.join(
        kept.select(report="attempt_id", passed="passed", source_uri="source_uri"),
        on="report",
        how="left",
        maintain_order="left",
    )
    judged = pl.col("passed").is_not_null()
    first = said.filter(judged & (pl.col("how") != "again")).select("onto", _first="passed")
    own = trajectories.select("package_id", "instance", onto="attempt_id", _own="passed")
    rows = (
        said.filter(pl.col("how") == "again")
        .join(own, on="onto", how="left", maintain_order="left")
        .join(first.unique("onto", keep="first", maintain_order=True), on="onto", how="left", maintain_order="left")
        .filter(pl.col("passed") != pl.coalesce("_own", "_first"))
    )
    shown = rows.select("package_id", "source_uri", "instance", attempt_id="onto")
    return line(shown, "verdict_conflict", worded(_DISAGREES, "source_uri", "instance"))
