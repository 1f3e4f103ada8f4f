"""Archive: hide runs without deleting them, with a reason; and bring them back."""

from __future__ import annotations

import functools
import hashlib
import operator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from expcomp.errors import UsageError
from expcomp.ledger.cases import ARCHIVE_COLUMNS, ARCHIVED, CASE, RUN, active, in_order
from expcomp.ledger.values import text

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

    from expcomp.ledger.pack import Pack


@dataclass(frozen=True, slots=True)
class Filter:
    """Runs of one benchmark: kinds must all hold, of the values inside a kind one.

    Attributes:
        benchmark: Benchmark the ledger files the runs under.
        groups: Parts of the run group.
        cases: Cases.
        arms: Arms.
        everything: All runs of the benchmark, when nothing else is said.
        keep: Parts of the run group that are left alone, whatever else holds.
    """

    benchmark: str
    groups: tuple[str, ...] = ()
    cases: tuple[str, ...] = ()
    arms: tuple[str, ...] = ()
    everything: bool = False
    keep: tuple[str, ...] = ()

    def kept(self) -> pl.Expr:
        """True for a run of the benchmark that a keep pattern names."""
        return self._of_benchmark() & _part_of("run_group_id", self.keep)

    def matched(self) -> pl.Expr:
        """True for a run of the benchmark that the filter means."""
        return self.meant() & ~_part_of("run_group_id", self.keep)

    def meant(self) -> pl.Expr:
        """The same before the keep patterns are looked at."""
        out = self._of_benchmark()
        if self.groups:
            out &= _part_of("run_group_id", self.groups)
        for column, values in (("filed_case", self.cases), ("arm_id", self.arms)):
            if values:
                out &= pl.col(column).is_in(values).fill_null(value=False)
        return out

    def _of_benchmark(self) -> pl.Expr:
        return pl.col("filed_benchmark") == self.benchmark


def _part_of(column: str, parts: Iterable[str]) -> pl.Expr:
    tests = [pl.col(column).str.contains(p, literal=True).fill_null(value=False) for p in parts]
    return functools.reduce(operator.or_, tests, pl.lit(value=False))


def words(values: Sequence[str] | None) -> tuple[str, ...]:
    """Texts on one line each, empty ones left out."""
    return tuple(w for v in values or () if (w := text(v)))


def archive(
    runs: pl.DataFrame, which: Filter, pack: Pack, *, reason: str, at: str, batch_id: str | None = None
) -> tuple[pl.DataFrame, dict[str, Any]]:
    """Runs with those of the filter archived, and the report.

    Args:
        runs: Runs of a ledger.
        which: What to archive.
        pack: Limits and the words of the report.
        reason: Why.
        at: When, as text.
        batch_id: Id of the batch; by default a digest of benchmark, reason and time.

    Raises:
        UsageError: No benchmark, no reason, or a filter that says nothing.
    """
    spec = pack.data("operations")["archive"]
    limits = spec["limits"]
    why = text(reason, limits["archive_reason"])
    if not which.benchmark.strip() or why is None:
        raise UsageError("archiving needs a benchmark and a reason")
    if not (which.groups or which.cases or which.arms or which.everything):
        raise UsageError("archiving needs a group, a case or an arm; or say that all runs of the benchmark are meant")
    digest = hashlib.sha1(f"{which.benchmark}|{why}|{at}".encode(), usedforsecurity=False).hexdigest()
    batch = text(batch_id, limits["archive_batch_id"]) or digest[: spec["batch_digits"]]
    fresh = which.matched() & active()
    values = (ARCHIVED, why, batch, text(at, limits["archived_at"]))
    kept_runs = which.kept() & which.meant() if spec.get("kept_within_filter") else which.kept()
    counts = runs.select(
        kept=kept_runs.sum(),
        matched=which.matched().sum(),
        already=(which.matched() & ~active()).sum(),
        newly=fresh.sum(),
    )
    kept, matched, already, newly = (counts.get_column(c).item() for c in counts.columns)
    samples = in_order(
        runs.filter(fresh).select(list(dict.fromkeys((*CASE, "recorded_at", "run_id", *spec["sample"])))),
        ("recorded_at", "run_id"),
    )
    shown = samples.select(spec["sample"]).head(spec["sample_limit"])
    report = {
        "schema_version": spec["schema_version"],
        "benchmark_id": which.benchmark,
        "reason": why,
        "archive_batch_id": batch,
        "matched_run_count": matched,
        "newly_archived_run_count": newly,
        "already_archived_run_count": already,
        "kept_run_count": kept,
        "archived_samples": records(shown),
        "truncated": newly > spec["sample_limit"],
    }
    done = runs.with_columns(
        pl.when(fresh).then(pl.lit(v)).otherwise(pl.col(c)).alias(c)
        for c, v in zip(ARCHIVE_COLUMNS, values, strict=True)
    )
    return done, report


def restore(runs: pl.DataFrame, which: Filter) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Runs with those of the filter active again, and the keys of the runs this changed, with their old reason."""
    back = which.matched() & ~active()
    done = runs.with_columns(
        pl.when(back).then(pl.lit(None, dtype=pl.String)).otherwise(pl.col(c)).alias(c) for c in ARCHIVE_COLUMNS
    )
    return done, runs.filter(back).select(*RUN, "archive_reason", "archive_batch_id")


def records(frame: pl.DataFrame) -> list[dict[str, Any]]:
    """A small frame as the objects of a report."""
    columns = [frame.get_column(c).to_list() for c in frame.columns]
    return [dict(zip(frame.columns, row, strict=True)) for row in zip(*columns, strict=True)]
