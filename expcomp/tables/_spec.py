"""How a table is declared: columns with dtype, nullability and meaning, and named rules.

The declaration is data. `expcomp.tables.models` builds the pandera model of a table from it, `expcomp.tables.export` its JSON
Schema, Arrow schema and dictionary, and the bulk path evaluates the rules as plain expressions.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import polars as pl

if TYPE_CHECKING:
    from collections.abc import Mapping

SCHEMA_VERSION = "1"
UTC = pl.Datetime("us", "UTC")


@dataclass(frozen=True, slots=True)
class Column:
    """One column: its Polars dtype, what it holds, and whether null (unknown) is allowed."""

    dtype: pl.DataType
    description: str
    nullable: bool = True


@dataclass(frozen=True, slots=True)
class Table:
    """One public table.

    Attributes:
        name: File stem and registry key.
        description: What one row stands for.
        columns: In order; the order is part of the contract.
        rules: Total boolean expressions, named `column|rule` (or bare for rules over the frame), true where a row holds.
        keys: Columns whose combination is unique, empty when there is none.
    """

    name: str
    description: str
    columns: Mapping[str, Column]
    rules: Mapping[str, pl.Expr] = field(default_factory=dict)
    keys: tuple[str, ...] = ()

    @property
    def schema(self) -> pl.Schema:
        """Polars schema, in column order."""
        return pl.Schema({name: c.dtype for name, c in self.columns.items()})

    def empty(self) -> pl.DataFrame:
        """A frame of zero rows with the exact schema."""
        return pl.DataFrame(schema=self.schema)

    def all_rules(self) -> dict[str, pl.Expr]:
        """The rules, with one `column|not_null` for each column that may not be null."""
        required = {f"{n}|not_null": pl.col(n).is_not_null() for n, c in self.columns.items() if not c.nullable}
        return required | self.frame_rules()

    def frame_rules(self) -> dict[str, pl.Expr]:
        """The declared rules, with the uniqueness of the key: what goes beyond dtypes and nulls."""
        if not self.keys:
            return dict(self.rules)
        unique = pl.struct(*self.keys).is_duplicated().not_()
        return dict(self.rules) | {f"{'+'.join(self.keys)}|unique": unique}


def text(description: str, *, nullable: bool = True) -> Column:
    """A String column."""
    return Column(pl.String(), description, nullable)


def integer(description: str, *, nullable: bool = True) -> Column:
    """A 64-bit integer column."""
    return Column(pl.Int64(), description, nullable)


def small(description: str, *, nullable: bool = True) -> Column:
    """A 32-bit integer column: positions and counts."""
    return Column(pl.Int32(), description, nullable)


def real(description: str, *, nullable: bool = True) -> Column:
    """A Float64 column; NaN and infinity are never stored."""
    return Column(pl.Float64(), description, nullable)


def flag(description: str, *, nullable: bool = True) -> Column:
    """A Boolean column; null is unknown."""
    return Column(pl.Boolean(), description, nullable)


def time(description: str) -> Column:
    """A UTC microsecond time stamp."""
    return Column(UTC, description)


def texts(description: str, *, nullable: bool = True) -> Column:
    """A list of strings."""
    return Column(pl.List(pl.String()), description, nullable)


def json(description: str) -> Column:
    """A JSON document as text, so that frames of different formats concatenate."""
    return Column(pl.String(), f"{description} (JSON text)")


def one_of(dtype: pl.Enum, description: str, *, nullable: bool = True) -> Column:
    """A closed vocabulary."""
    return Column(dtype, description, nullable)


def finite(column: str) -> pl.Expr:
    """True where a float column is null or finite."""
    return pl.col(column).is_finite().fill_null(value=True)


def not_negative(column: str) -> pl.Expr:
    """True where a number is null, zero or more."""
    return (pl.col(column) >= 0).fill_null(value=True)


def unit_interval(column: str) -> pl.Expr:
    """True where a number is null or within 0..1."""
    return pl.col(column).is_between(0, 1).fill_null(value=True)
