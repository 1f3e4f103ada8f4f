"""Makes two attempts one: rows of the absorbed attempt go to the other."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from expcomp.tables.core import ATTEMPTS

if TYPE_CHECKING:
    from expcomp.sources._contract import Frames

_SCORE = ("score", "score_min", "score_max", "score_norm", "passed", "score_valid", "score_issue")
_WHERE = ("grade_kind", "grade_ref")


def absorb(frames: Frames, pairs: pl.DataFrame) -> Frames:
    """Move grades, artifacts, evidence and diagnostics from `report` to `onto`, set the verdict, and drop the attempt and its bare task.

    The first verdict (`how` is run or patch) becomes the primary grade of an attempt that has none; others are further grades.
    An attempt whose score is void already stays so, and what is said of it is void (R1).
    """
    if pairs.is_empty():
        return frames
    attempts = frames["attempts"]
    onto = attempts.select(
        onto="attempt_id",
        _package="package_id",
        _void=~pl.col("score_valid").fill_null(value=True),
        _issue="score_issue",
    )
    moves = (
        attempts.join(pairs, left_on="attempt_id", right_on="report", how="inner", maintain_order="left")
        .join(onto, on="onto", how="left", maintain_order="left")
        .with_columns(_first=pl.col("how").is_in(["run", "patch"]))
    )
    gone = moves["attempt_id"].implode()
    left = _judged(attempts, moves).filter(~pl.col("attempt_id").is_in(gone))
    unused = pl.col("task_id").is_in(moves["task_id"].drop_nulls().implode()) & ~pl.col("task_id").is_in(
        left["task_id"].drop_nulls().implode()
    )
    return frames | {
        "attempts": left,
        "tasks": frames["tasks"].filter(~unused),
        "grades": _grades(frames["grades"], moves),
        "artifacts": _artifacts(frames["artifacts"], moves),
        "evidence": _evidence(frames["evidence"], moves),
        "diagnostics": _renamed(frames["diagnostics"], moves),
    }


def same_arm(frames: Frames, kept: pl.DataFrame, trajectories: pl.DataFrame, pairs: pl.DataFrame) -> Frames:
    """Reports without trajectory of a run that has some are of the arm of that run: one run is one set-up."""
    alone = kept.filter(~pl.col("attempt_id").is_in(pairs["report"].implode()))
    fits = pl.col("model").is_null() | pl.col("model_t").is_null()
    arms = (
        alone.join(trajectories, on="key", how="inner", suffix="_t", maintain_order="left_right")
        .filter(fits | (pl.col("model") == pl.col("model_t")) | (pl.col("model") == pl.col("asked_t")))
        .group_by("attempt_id", maintain_order=True)
        .agg(pl.col("arm_t").unique(maintain_order=True), pl.col("run_id_t").first())
        .filter(pl.col("arm_t").list.len() == 1)
        .select("attempt_id", _arm=pl.col("arm_t").list.first(), _run="run_id_t")
    )
    attempts = frames["attempts"].join(arms, on="attempt_id", how="left", maintain_order="left")
    return frames | {
        "attempts": attempts.with_columns(arm=pl.coalesce("_arm", "arm"), run_id=pl.coalesce("_run", "run_id")).drop(
            "_arm", "_run"
        )
    }


def _judged(attempts: pl.DataFrame, moves: pl.DataFrame) -> pl.DataFrame:
    """Attempts with the verdicts they are given."""
    first = moves.filter("_first" if moves.height else pl.lit(value=True)).filter(pl.col("score_valid").is_not_null())
    given = first.select(attempt_id="onto", **{f"_{name}": pl.col(name) for name in (*_SCORE, *_WHERE)})
    given = given.unique("attempt_id", keep="first", maintain_order=True).with_columns(_given=pl.lit(value=True))
    rows = attempts.join(given, on="attempt_id", how="left", maintain_order="left")
    void = ~pl.col("score_valid").fill_null(value=True)
    taken = pl.col("_given").fill_null(value=False)
    return rows.with_columns(
        *(pl.when(taken & ~void).then(f"_{name}").otherwise(name).alias(name) for name in _SCORE),
        *(pl.when(taken).then(f"_{name}").otherwise(name).alias(name) for name in _WHERE),
    ).select(list(ATTEMPTS.columns))


def _keys(moves: pl.DataFrame) -> pl.DataFrame:
    return moves.select("attempt_id", "onto", "_void", "_issue", "_first")


def _renamed(frame: pl.DataFrame, moves: pl.DataFrame) -> pl.DataFrame:
    keys = moves.select("attempt_id", "onto")
    rows = frame.join(keys, on="attempt_id", how="left", maintain_order="left")
    return rows.with_columns(attempt_id=pl.coalesce("onto", "attempt_id")).select(frame.columns)


def _grades(grades: pl.DataFrame, moves: pl.DataFrame) -> pl.DataFrame:
    rows = grades.join(_keys(moves), on="attempt_id", how="left", maintain_order="left")
    void = pl.col("_void").fill_null(value=False)
    return rows.with_columns(
        attempt_id=pl.coalesce("onto", "attempt_id"),
        is_primary=pl.col("is_primary") & pl.col("_first").fill_null(value=True),
        passed=pl.when(~void).then("passed"),
        valid=pl.col("valid") & ~void,
        invalid_reason=pl.when(void & pl.col("valid")).then("_issue").otherwise("invalid_reason"),
    ).select(grades.columns)


def _artifacts(artifacts: pl.DataFrame, moves: pl.DataFrame) -> pl.DataFrame:
    """Artifacts under their new attempt; the patch of a submission is one, however many files repeat it."""
    rows = artifacts.join(moves.select("attempt_id", "onto"), on="attempt_id", how="left", maintain_order="left")
    rows = rows.with_columns(attempt_id=pl.coalesce("onto", "attempt_id"), _moved=pl.col("onto").is_not_null())
    same = ["attempt_id", "kind", "digest"]
    repeats = (pl.col("kind") == "patch") & pl.col("digest").is_not_null() & pl.col("_moved")
    first_moved = pl.int_range(pl.len()).over([*same, "_moved"]) == 0
    own = (~pl.col("_moved")).any().over(same)
    return rows.filter(~(repeats & (own | ~first_moved))).select(artifacts.columns)


def _evidence(evidence: pl.DataFrame, moves: pl.DataFrame) -> pl.DataFrame:
    """Evidence that the moved rows cite, under the package of their new attempt too."""
    packages = moves.select("package_id", "_package").unique(maintain_order=True)
    copies = evidence.join(packages, on="package_id", how="inner", maintain_order="left")
    copies = copies.with_columns(package_id="_package").select(evidence.columns)
    return pl.concat([evidence, copies]).unique(["package_id", "evidence_id"], keep="first", maintain_order=True)
