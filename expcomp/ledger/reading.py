"""What a ledger says: its runs of one version, and the frames that rules make of them."""

from __future__ import annotations

from functools import cached_property
from html import escape
from typing import TYPE_CHECKING, Any, Self

import polars as pl

from expcomp.errors import SourceError
from expcomp.io.delta_snapshot import first_line
from expcomp.ledger.about import head_of
from expcomp.ledger.cases import CASE
from expcomp.ledger.document import ledger_document, reload
from expcomp.ledger.history import history_frame
from expcomp.ledger.pack import Pack, read_pack
from expcomp.ledger.views import between, cases_of, roled
from expcomp.tables.ledger import RUNS

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from expcomp.io.delta import DeltaFolder
    from expcomp.io.delta_snapshot import Snapshot


class Reading:
    """The reading half of a `Ledger`. Frames are lazy: a part that is damaged inside shows when they are collected."""

    path: str | Path
    profile: str
    roles: dict[str, str]
    _rules: Path | str | None
    _version: int | None
    _table: DeltaFolder

    @cached_property
    def pack(self) -> Pack:
        """The rules of the profile."""
        return read_pack(self.profile, self._rules)

    @property
    def version(self) -> int:
        """The version that is read: the newest, or the one it was opened at."""
        return self._snapshot().version

    @property
    def runs(self) -> pl.LazyFrame:
        """All runs, archived ones too, of one version: what is committed later is not in it; `collect` names a damaged file."""
        found = self._read(self._snapshot())
        if self.pack.settings.get("compatible"):
            return reload(self.collect(found), self.pack).lazy()
        return roled(found, self.roles)

    @property
    def stored(self) -> pl.LazyFrame:
        """All runs as they were written, nothing derived again."""
        return self._read(self._snapshot())

    @property
    def cases(self) -> pl.LazyFrame:
        """One row a case: runs, and of those that are active how many are scored, passed, infrastructure, and by how many arms."""
        return cases_of(self.runs)

    @property
    def decisions(self) -> pl.LazyFrame:
        """One row a case with its decision, by the rules of the profile."""
        from expcomp.ledger.decide import decide

        return decide(self.collect(self.runs), self.pack).lazy()

    def decide(self, baseline: str, treatment: str) -> pl.DataFrame:
        """One row a case with its decision between two named arms, whatever roles arms have; other arms are left out."""
        from expcomp.ledger.decide import decide

        return decide(self.collect(between(self.runs, baseline, treatment)), self.pack)

    @property
    def backlog(self) -> pl.LazyFrame:
        """One row a benchmark and repair class, the most urgent first: what it blocks, what it would unlock."""
        from expcomp.ledger.backlog import backlog_of

        return backlog_of(self.runs, self.pack).lazy()

    @property
    def history(self) -> pl.LazyFrame:
        """One row a commit, newest first: version, time, action and counts."""
        return history_frame(self._table.history()).lazy()

    @property
    def head(self) -> dict[str, Any]:
        """What the last document that was added said of itself: `updated_at`, `benchmarks`, `header`; empty without one."""
        return head_of(self._table.history(), self.version)

    def document(self, *, derived: bool = True) -> dict[str, Any]:
        """The ledger as the ancestor's document, with the head of the last document that was added.

        Args:
            derived: What rules derive is derived again; else the runs are told as they were written.
        """
        about = self.head
        given = {k: about[k] for k in ("updated_at", "benchmarks", "header") if about.get(k) is not None}
        runs = self.runs if derived else self.stored
        return ledger_document(self.collect(runs), self.pack, **given)

    def estimate(self, estimator: str, *, by: Sequence[str] = ("filed_benchmark", "arm_id")) -> pl.DataFrame:
        """The score by group under a named estimator, with its denominators; see `expcomp.ledger.estimates`."""
        from expcomp.ledger.estimates import estimate

        read = (
            *by,
            *CASE,
            "countable_score",
            "score_norm",
            "infra",
            "archive_state",
            "status",
            "run_at",
            "recorded_at",
            "run_id",
        )
        return estimate(self.collect(self.runs.select(list(dict.fromkeys(read)))), estimator, by=by)

    def at(self, version: int) -> Self:
        """The ledger as it was at a version, to read.

        Raises:
            SourceError: That version is gone, or never was.
        """
        self._table.snapshot(version)
        view = object.__new__(type(self))
        view.__dict__.update({k: v for k, v in self.__dict__.items() if k != "pack"})
        view._version = version
        return view

    def collect(self, runs: pl.LazyFrame) -> pl.DataFrame:
        """Collect a frame made of `runs`.

        Raises:
            SourceError: A part of the table is damaged; the message names it.
        """
        try:
            return runs.collect()
        except (pl.exceptions.ComputeError, OSError) as error:
            seen = self._snapshot()
            part = next((p for p in seen.files["path"] if not seen.readable(p)), None)
            if part is None:
                raise
            msg = (
                f"{self.path}: the part {part} cannot be read: {first_line(error)}; restore it, or read another version"
            )
            raise SourceError(msg) from error

    def _repr_html_(self) -> str:
        return f"<p>{escape(repr(self))}</p>{self.collect(self.cases)._repr_html_()}"

    def _read(self, seen: Snapshot) -> pl.LazyFrame:
        frame = seen.scan()
        lacks = [pl.lit(None, t).alias(n) for n, t in RUNS.schema.items() if n not in seen.schema]
        return frame.with_columns(lacks).select(list(RUNS.columns))

    def _snapshot(self) -> Snapshot:
        return self._table.snapshot(self._version)
