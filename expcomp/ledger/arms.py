"""Arm and roles of a run, and the case its job name holds."""

from __future__ import annotations

import functools
import operator
import re
from typing import TYPE_CHECKING, Any

import polars as pl

from expcomp.ledger.build import apply

if TYPE_CHECKING:
    from collections.abc import Mapping

    from expcomp.ledger.pack import Pack


def with_arm(frame: pl.DataFrame, pack: Pack) -> pl.DataFrame:
    """The frame with `arm_id` and `arm_rule`: an explicit arm, unless a rule says that it cannot be told from the record."""
    frame = apply(frame, pack, "arm_inferred", "inferred_arm", "inferred_rule")
    frame = apply(frame, pack, "arm", "arm_id", "_arm_rule")
    inferred = pl.col("_arm_rule") == "given"
    return frame.with_columns(arm_rule=pl.when(~inferred).then("inferred_rule").otherwise("_arm_rule"))


def roles_by_name(roles: Mapping[str, Mapping[str, Any]], contract: tuple[str, ...] = ()) -> dict[str, pl.Expr]:
    """`is_<role>` by what names contain: a word in the arm, or a token in the arm, the mode, the route or the contract."""
    return {
        f"is_{role}": _contains("arm_id", [spec["arm"]], lower=False)
        | functools.reduce(
            operator.or_, [_contains(c, spec["tokens"], lower=True) for c in ("arm_id", "mode", "route", *contract)]
        )
        for role, spec in roles.items()
    }


def _contains(column: str, words: list[str], *, lower: bool) -> pl.Expr:
    text = pl.col(column).str.to_lowercase() if lower else pl.col(column)
    return functools.reduce(operator.or_, [text.str.contains(w, literal=True) for w in words]).fill_null(value=False)


def case_from_job(benchmark: pl.Expr, job: pl.Expr, spec: Mapping[str, Any]) -> pl.Expr:
    """The case a job name holds, null when it holds none.

    Args:
        benchmark: Benchmark of the run.
        job: Name of the job.
        spec: Setting `case_from_job`: for which benchmarks or prefix, what separates the parts, and which markers end the case.
    """
    between = re.escape(spec["separator"])
    rest = job.str.strip_prefix(spec["prefix"])
    rest = rest.str.replace(rf"^(?:\d+{between})+", "").str.replace(r"^\d+$", "")
    found = [
        pl.when(~rest.str.starts_with(m)).then(rest.str.extract(rf"(?s)^(.+?){re.escape(m)}", 1))
        for m in spec["markers"]
    ]
    case = pl.coalesce(*found).str.replace_all(spec["separator"], spec["joined_by"], literal=True)
    known = benchmark.is_in(spec["benchmarks"]).fill_null(value=False) | job.str.starts_with(spec["prefix"])
    return pl.when(known & (case != "")).then(case)
