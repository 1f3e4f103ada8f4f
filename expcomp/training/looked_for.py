"""Whether the held-out guard was asked about the tasks that a decision is measured on: about others it says nothing."""

from __future__ import annotations

from typing import Any

import polars as pl

from expcomp.comparing.arms import named
from expcomp.comparing.cells import TASK
from expcomp.comparing.trials import read_trials
from expcomp.datasets.decontaminate.heldout import Source, held_out
from expcomp.errors import UsageError
from expcomp.io.counts import Count
from expcomp.training.guard import Exposure, ExposureReport


def measured_tasks(what: Any, baseline: str, candidate: str) -> pl.DataFrame:
    """benchmark, task: those that either arm has run.

    Raises:
        UsageError: An unknown arm.
    """
    given = read_trials(what)
    return named(given.collect(given.frame), [baseline, candidate])[0].select(TASK).unique(maintain_order=True)


def with_measured(heldout: Source, measured: pl.DataFrame) -> pl.DataFrame:
    """A held-out set, and of the tasks that were measured those that it does not hold: to name a set takes nothing away.

    Args:
        heldout: See `held_out`.
        measured: benchmark, task, and content_digest where it is known.

    Raises:
        UsageError: The set names tasks, and none of these.
        SourceError: It cannot be read.
    """
    held, ours = held_out(heldout), held_out(measured)
    if held["task"].null_count() < held.height and not _held(ours, held).any():
        msg = (
            f"the held-out set holds none of the {Count(ours.height):task|tasks} that the runs are of, as {ours['task'][0]}; "
            "give the set that they come from, or none: then they are looked for themselves"
        )
        raise UsageError(msg)
    known = ours["content_digest"].is_not_null() & ours["content_digest"].is_in(held["content_digest"].implode())
    apart = ours.filter(~known).join(held, on=TASK, how="anti", nulls_equal=True, maintain_order="left")
    return pl.concat([held, apart])


def check_asked(exposure: Exposure | ExposureReport, measured: pl.DataFrame) -> None:
    """Refuse what the guard found when it was not asked about all tasks that were measured, as far as it can be told.

    A report only counts its tasks. Tasks that go by another name in the held-out set are not recognised.

    Raises:
        UsageError: It was not.
    """
    report = exposure.report if isinstance(exposure, Exposure) else exposure
    ours = held_out(measured)
    there = f"the runs are of {Count(ours.height):task|tasks}"
    way = "ask it about all of them"
    if report.heldout_tasks < ours.height:
        raise UsageError(
            f"the held-out guard was asked about {Count(report.heldout_tasks):task|tasks}, and {there}; {way}"
        )
    if not isinstance(exposure, Exposure) or exposure.heldout["task"].null_count() == exposure.heldout.height:
        return
    lacks = ours.filter(~_held(ours, exposure.heldout))
    if lacks.height:
        raise UsageError(
            f"{there}, and the held-out guard was not asked about {lacks.height:,} of them, as {lacks['task'][0]}; {way}"
        )


def _held(ours: pl.DataFrame, held: pl.DataFrame) -> pl.Series:
    """Which tasks a set holds, by content or by name; not by benchmark, which goes by several names (`desk`, `desk@1.0`)."""
    same = [ours[c].is_not_null() & ours[c].is_in(held[c].drop_nulls().implode()) for c in ("content_digest", "task")]
    return same[0].fill_null(value=False) | same[1].fill_null(value=False)
