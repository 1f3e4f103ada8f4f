"""Frames of a package from records: every table with its exact schema, absent ones empty."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from expcomp.errors import PackageSchemaError
from expcomp.tables.environment import PACKAGE, REPLAY

TABLES = {**PACKAGE, **REPLAY}

ASSUMED: dict[tuple[str, str], Any] = {
    ("rules", "status"): "supported",
    ("rules", "origin"): "authored",
    ("rules", "priority"): 0,
    ("rules", "scope_json"): "{}",
    ("conditions", "group"): 0,
    ("mutations", "value_ref"): "literal",
    ("action_schema", "declared"): True,
    ("action_args", "required"): True,
    ("state_schema", "mutable"): True,
    ("renderers", "content_type"): "text/plain",
    ("renderers", "instructions"): "",
    ("notes", "status"): "tentative",
    ("invariants", "severity"): "error",
    ("replay_cases", "initial_state_complete"): False,
    ("replay_steps", "match"): "exact",
    ("replay_steps", "expected_state_json"): "{}",
    ("refs", "role"): "support",
    ("events", "batch_size"): 1,
}
"""What a record that leaves a field out means; lists are empty, other nullable fields unknown."""


def frame(table: str, records: Sequence[Mapping[str, Any]]) -> pl.DataFrame:
    """One table from records; fields may be left out as `ASSUMED` says.

    Raises:
        PackageSchemaError: An unknown field, a missing one, or a value that the column may not hold.
    """
    spec = TABLES[table]
    for i, record in enumerate(records):
        if unknown := sorted(set(record) - set(spec.columns)):
            raise PackageSchemaError(
                f"{table}, record {i}: unknown field {', '.join(unknown)}; known are {', '.join(spec.columns)}"
            )
    columns = {}
    for name, column in spec.columns.items():
        absent = ASSUMED.get((table, name), [] if isinstance(column.dtype, pl.List) else None)
        values = [absent if r.get(name) is None else r[name] for r in records]
        if not column.nullable and None in values:
            raise PackageSchemaError(f"{table}, record {values.index(None)}: field {name} is missing")
        try:
            columns[name] = pl.Series(name, values, dtype=column.dtype, strict=True)
        except (TypeError, ValueError, OverflowError, pl.exceptions.PolarsError) as error:
            told = str(error).partition("\n")[0][:200]
            raise PackageSchemaError(f"{table}, field {name}: {told}; expected {column.dtype}") from None
    return pl.DataFrame(columns)


def frames(records: Mapping[str, Sequence[Mapping[str, Any]]]) -> dict[str, pl.DataFrame]:
    """All tables of a package from records by table.

    Raises:
        PackageSchemaError: As `frame`, or there is no table of a name.
    """
    if unknown := sorted(set(records) - set(PACKAGE)):
        raise PackageSchemaError(f"there is no table {', '.join(unknown)}; known are {', '.join(PACKAGE)}")
    return {name: frame(name, records.get(name, ())) for name in PACKAGE}


def complete(given: Mapping[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
    """All tables of a package, absent ones empty.

    Raises:
        PackageSchemaError: There is no table of a name.
    """
    if unknown := sorted(set(given) - set(PACKAGE)):
        raise PackageSchemaError(f"there is no table {', '.join(unknown)}; known are {', '.join(PACKAGE)}")
    return {name: given.get(name, table.empty()) for name, table in PACKAGE.items()}
