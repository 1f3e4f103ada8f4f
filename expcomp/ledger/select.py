"""Which runs of a ledger a question is about."""

from __future__ import annotations

import functools
import operator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from expcomp.errors import UsageError
from expcomp.ledger.cases import active

if TYPE_CHECKING:
    from collections.abc import Mapping

_SHOWN = 8


@dataclass(frozen=True, slots=True)
class Where:
    """Runs of a ledger: kinds must all hold, of the values inside a kind one.

    Attributes:
        benchmarks: Benchmarks the ledger files the runs under.
        cases: Cases.
        arms: Arms.
        groups: Parts of the run group.
        statuses: How the run ended: its `status`.
        scores: What became of its score: its `score_status`.
        scopes: Whose failure it is: its `failure_scope`.
        infra: Only failures that are not the agent's, or only runs without such a failure.
        archived: Only archived runs, or only active ones.
    """

    benchmarks: tuple[str, ...] = ()
    cases: tuple[str, ...] = ()
    arms: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    statuses: tuple[str, ...] = ()
    scores: tuple[str, ...] = ()
    scopes: tuple[str, ...] = ()
    infra: bool | None = None
    archived: bool | None = None

    @property
    def exact(self) -> Mapping[str, tuple[str, ...]]:
        """Values by column, of the kinds that are matched whole."""
        named = {
            "filed_benchmark": self.benchmarks,
            "filed_case": self.cases,
            "arm_id": self.arms,
            "status": self.statuses,
            "score_status": self.scores,
            "failure_scope": self.scopes,
        }
        return {column: values for column, values in named.items() if values}

    def tests(self) -> list[pl.Expr]:
        """What a run must hold to, each true or false."""
        out = [pl.col(c).is_in(v) for c, v in self.exact.items()]
        if self.groups:
            parts = [pl.col("run_group_id").str.contains(g, literal=True) for g in self.groups]
            out.append(functools.reduce(operator.or_, parts))
        if self.infra is not None:
            out.append(pl.col("infra") == self.infra)
        if self.archived is not None:
            out.append(~active() if self.archived else active())
        return [e.fill_null(value=False) for e in out]


def select(runs: pl.LazyFrame, where: Where) -> pl.LazyFrame:
    """Runs that hold to all of `where`.

    Raises:
        UsageError: A benchmark, case or arm no run has, or a part no run group has: most likely a misspelling.
    """
    _known(runs, where)
    tests = where.tests()
    return runs.filter(tests) if tests else runs


def _known(runs: pl.LazyFrame, where: Where) -> None:
    looked = {c: v for c, v in where.exact.items() if c in ("filed_benchmark", "filed_case", "arm_id")}
    if where.groups:
        looked["run_group_id"] = where.groups
    for column, values in looked.items():
        held = runs.select(pl.col(column).drop_nulls().unique().sort()).collect().to_series()
        for value in values:
            whole = column != "run_group_id"
            found = (held == value).any() if whole else held.str.contains(value, literal=True).any()
            if not found:
                known = ", ".join(held.head(_SHOWN).to_list()) + (", ..." if held.len() > _SHOWN else "")
                name = _NAMES[column]
                raise UsageError(f"no run of the ledger has {name} {value!r}; there are {known or 'none at all'}")


_NAMES = {"filed_benchmark": "benchmark", "filed_case": "case", "arm_id": "arm", "run_group_id": "a group with"}
