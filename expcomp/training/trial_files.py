"""Trials of a candidate: from two files, and held to the model that its training made."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from expcomp.comparing.given import ALIASES
from expcomp.errors import UsageError
from expcomp.io.frame_files import columns_of, read_frame
from expcomp.training.documents import TamperedError
from expcomp.training.profile import Profile

_OF_ARTIFACT = r"/([0-9a-f]{64})$"


def holds_trials(path: Path) -> bool:
    """Whether a file has the columns of trials: a name of the task, and `score` or `passed`."""
    names = columns_of(path)
    return any(n in names for n in ("task", *ALIASES["task"])) and any(n in names for n in ("score", "passed"))


def both_arms(baseline: Path, candidate: Path) -> pl.DataFrame:
    """Trials of two files (Parquet, CSV or JSON lines; `task` and `score` or `passed`), by the arms `baseline` and `candidate`.

    Raises:
        UsageError: A file holds several arms.
        SourceError: It cannot be read.
    """
    return pl.concat([_one(baseline, "baseline"), _one(candidate, "candidate")], how="diagonal_relaxed")


def check_models(trials: pl.DataFrame, candidate: str, profile: Profile) -> None:
    """Hold the trials of a candidate to the checkpoint that its receipt names, where their model ids name an artifact at all.

    Args:
        trials: `TRIALS`.
        candidate: Arm or role.
        profile: Of the candidate.

    Raises:
        TamperedError: Another model was measured than was trained.
    """
    training = profile.training
    if training is None:
        return
    made = training.receipt.checkpoint.router_model_id.rpartition("/")[2]
    ours = trials.filter((pl.col("arm") == candidate) | (pl.col("role") == candidate))
    other = ours.filter(pl.col("model").str.extract(_OF_ARTIFACT) != made)
    if other.height:
        raise TamperedError("trials", "trials_of_other_model", "model", str(other["model"][0]), f"the model {made}")


def _one(path: Path, arm: str) -> pl.DataFrame:
    frame = read_frame(path)
    if "arm" in frame.columns and frame["arm"].n_unique() > 1:
        raise UsageError(
            f"{path} holds {frame['arm'].n_unique()} arms; give it alone, with --baseline and --candidate, or one file an arm"
        )
    return frame.with_columns(arm=pl.lit(arm))
