"""Pandera models (polars backend), one for each public table, built from the declarations.

`model("steps")` is a `pandera.polars.DataFrameModel`: dtypes, nullability and descriptions as declared, strict, no coercion,
and the declared rules mounted as checks through one adapter. Frames are checked in full; a LazyFrame only by schema, and the
function for that is called so.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import polars as pl

from expcomp.errors import TableError
from expcomp.io.nearest import nearest
from expcomp.tables.catalogue import TABLES

if TYPE_CHECKING:
    from collections.abc import Callable

    from expcomp.tables._spec import Table

FAILURES = 20
"""Failing rows shown for each rule; an unlimited list costs seconds and hundreds of megabytes."""


def table(name: str) -> Table:
    """The declaration of a public table or row family."""
    if name in TABLES:
        return TABLES[name]
    msg = f"there is no table '{name}'; known are {', '.join(TABLES)}{nearest(name, TABLES)}"
    raise TableError(msg)


def _mounted(expr: pl.Expr) -> Callable[[type, Any], pl.LazyFrame]:
    def check(cls: type, data: Any) -> pl.LazyFrame:
        del cls
        frame: pl.LazyFrame = data.lazyframe
        return frame.select(expr)

    return check


@cache
def model(name: str) -> type[Any]:
    """The pandera model of a table."""
    import pandera.polars as pa

    t = table(name)
    body: dict[str, Any] = {"__doc__": t.description, "__module__": __name__, "__annotations__": {}}
    for column, spec in t.columns.items():
        body["__annotations__"][column] = spec.dtype
        body[column] = pa.Field(nullable=spec.nullable, description=spec.description)
    for rule, expr in t.frame_rules().items():
        check = pa.dataframe_check(_mounted(expr), name=rule, n_failure_cases=FAILURES)
        body["rule_" + "".join(ch if ch.isalnum() else "_" for ch in rule)] = check
    body["Config"] = type("Config", (), {"strict": True, "ordered": True, "coerce": False, "name": t.name})
    return type(_class_name(name), (pa.DataFrameModel,), body)


def _class_name(name: str) -> str:
    return "".join(part.capitalize() for part in name.split("_"))


def validate(name: str, frame: pl.DataFrame) -> None:
    """Check a frame in full.

    Raises:
        TableError: With the failing rules, their counts and the first failing rows.
    """
    import pandera.errors

    try:
        model(name).validate(frame, lazy=True)
    except pandera.errors.SchemaErrors as error:
        raise TableError(_message(name, error)) from None


def _message(name: str, error: Any) -> str:
    cases = error.failure_cases
    lines = [f"table {name} does not hold to its contract:"]
    seen = cases.group_by("column", "check", maintain_order=True).agg(
        n=pl.len(), rows=pl.col("index").head(3), found=pl.col("failure_case").head(1)
    )
    for column, check, _, rows, found in zip(
        *(seen[c].to_list() for c in ("column", "check", "n", "rows", "found")), strict=True
    ):
        lines.append(f"- {column}: {check}; rows {rows}, found {str(found[0] if found else None)[:120]}")
    return "\n".join(lines)


def check_schema(name: str, frame: pl.LazyFrame | pl.DataFrame) -> None:
    """Check names, order and dtypes only; of a LazyFrame no data is looked at.

    Raises:
        TableError: Naming the columns that are missing, unexpected or of another dtype.
    """
    want, got = table(name).schema, frame.collect_schema()
    wrong = [f"'{n}' is {got[n]}, expected {want[n]}" for n in want if n in got and got[n] != want[n]]
    wrong += [f"'{n}' is missing" for n in want if n not in got] + [
        f"'{n}' is not expected" for n in got if n not in want
    ]
    if not wrong and list(got) != list(want):
        first, found = next((w, g) for w, g in zip(want, got, strict=True) if w != g)
        wrong = [f"columns are in another order: '{found}' stands where '{first}' is expected"]
    if wrong:
        msg = f"table {name}: {'; '.join(wrong)}"
        raise TableError(msg)


def failures(name: str, frame: pl.DataFrame) -> dict[str, int]:
    """Failing rows by rule, in one pass over the frame; the bulk path's twin of `validate`."""
    rules = table(name).all_rules()
    counts = frame.select((~expr).sum().alias(rule) for rule, expr in rules.items()).row(0, named=True)
    return {rule: n for rule, n in counts.items() if n}
