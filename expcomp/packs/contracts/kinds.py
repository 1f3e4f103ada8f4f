"""Kinds of values and the types a contract may ask for: one table that inference and verification share.

Every value of a file has exactly one kind. A type is a set of kinds, so each check of values is one question: which kinds occur that
the contract does not accept?
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

if TYPE_CHECKING:
    from collections.abc import Mapping

EMPTY = ("null", "empty_text", "empty_array", "empty_object")
"""Kinds that a field which must not be empty may not hold. An empty cell of a CSV or sheet is `null`."""

KINDS = (
    "absent",
    *EMPTY,
    "boolean",
    "integer",
    "integral",  # written as a decimal number, without a fraction
    "number",
    "not_finite",
    "text_date",
    "text_datetime",
    "date",
    "datetime",
    "time",
    "duration",
    "text",
    "array",
    "object",
    "binary",
    "other",
)
KIND = pl.Enum(KINDS)
LEVEL = pl.Enum(["value", "item", "section"])

FACTS = pl.Schema(
    {
        "field": pl.String(),
        "position": pl.Int32(),
        "level": LEVEL,
        "kind": KIND,
        "count": pl.Int64(),
        "row": pl.Int64(),
        "item": pl.Int64(),
    }
)
"""Facts of a file: how many values of a field are of a kind, and where the first is (`row` and `item` are 0-based)."""


@dataclass(frozen=True, slots=True)
class Type:
    """A type: the kinds it is inferred from, and the wider set that is accepted for it."""

    infers: tuple[str, ...]
    accepts: tuple[str, ...]
    aliases: tuple[str, ...] = ()


NUMERIC = ("integer", "integral", "number")
_STRING = ("text", "empty_text", "text_date", "text_datetime")

TYPES: Mapping[str, Type] = {
    "boolean": Type(("boolean",), ("boolean",), ("bool",)),
    "integer": Type(("integer",), ("integer", "integral"), ("int",)),
    "number": Type(NUMERIC, NUMERIC, ("numeric", "float", "double", "decimal")),
    "date": Type(("date", "text_date"), ("date", "text_date")),
    "datetime": Type(("datetime", "text_datetime"), ("datetime", "text_datetime"), ("timestamp",)),
    "time": Type(("time",), ("time",)),
    "duration": Type(("duration",), ("duration",)),
    "array": Type(("array", "empty_array"), ("array", "empty_array"), ("list",)),
    "object": Type(("object", "empty_object"), ("object", "empty_object"), ("dict", "map", "struct")),
    "binary": Type(("binary",), ("binary",), ("bytes",)),
    "string": Type(_STRING, _STRING, ("str", "text")),
}
"""In the order they are inferred: the first that holds all kinds seen counts."""

CELLS = tuple(k for k in KINDS if k not in ("absent", *EMPTY))
"""What the type `string` takes where every value is text: any cell that is not empty."""

WORDS: Mapping[str, str] = {word: name for name, t in TYPES.items() for word in (name, *t.aliases)}
"""Every spelling of a type, and its name."""

_INTEGER = r"^[+-]?[0-9]+$"
_NUMBER = r"^[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?$"
_NOT_FINITE = r"(?i)^[+-]?(?:nan|inf|infinity)$"
_DATE = r"^[0-9]{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12][0-9]|3[01])$"
_DATETIME = (
    r"^[0-9]{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12][0-9]|3[01])[T ][0-2][0-9]:[0-5][0-9]"
    r"(?::[0-6][0-9](?:\.[0-9]+)?)?(?:Z|[+-][0-2][0-9]:?[0-5][0-9])?$"
)


def kind_of_cell(column: str | pl.Expr) -> pl.Expr:
    """Kind of a cell of a CSV or a sheet, where everything is text; space around a value does not count."""
    text = (pl.col(column) if isinstance(column, str) else column).str.strip_chars()
    number = text.cast(pl.Float64, strict=False)
    return (
        pl.when(text.is_null() | (text == ""))
        .then(_lit("null"))
        .when(text.str.contains(_INTEGER))
        .then(_lit("integer"))
        .when(text.str.contains(_NUMBER))
        .then(_kind_of_number(number))
        .when(text.str.contains(_NOT_FINITE))
        .then(_lit("not_finite"))
        .when(text.str.contains(r"(?i)^(?:true|false)$"))
        .then(_lit("boolean"))
        .otherwise(kind_of_text(text))
    )


def kind_of_text(text: pl.Expr) -> pl.Expr:
    """Kind of a text that is known to be one: empty, an ISO 8601 date or time stamp, or any other."""
    return (
        pl.when(text == "")
        .then(_lit("empty_text"))
        .when(text.str.contains(_DATE))
        .then(_lit("text_date"))
        .when(text.str.contains(_DATETIME))
        .then(_lit("text_datetime"))
        .otherwise(_lit("text"))
    )


def kind_of_typed(name: str | pl.Expr, dtype: pl.DataType) -> pl.Expr:
    """Kind of a value of a typed column."""
    column = pl.col(name) if isinstance(name, str) else name
    return pl.when(column.is_null()).then(_lit("null")).otherwise(_kind_by_dtype(column, dtype))


def _kind_by_dtype(column: pl.Expr, dtype: pl.DataType) -> pl.Expr:
    if dtype.is_integer():
        return _lit("integer")
    if dtype.is_numeric():
        return _kind_of_number(column.cast(pl.Float64, strict=False))
    if isinstance(dtype, pl.String | pl.Categorical | pl.Enum):
        return kind_of_text(column.cast(pl.String))
    if isinstance(dtype, pl.List):
        return pl.when(column.list.len() == 0).then(_lit("empty_array")).otherwise(_lit("array"))
    return next((_lit(kind) for cls, kind in _BY_DTYPE if isinstance(dtype, cls)), _lit("other"))


_BY_DTYPE: tuple[tuple[type[pl.DataType], str], ...] = (
    (pl.Boolean, "boolean"),
    (pl.Date, "date"),
    (pl.Datetime, "datetime"),
    (pl.Time, "time"),
    (pl.Duration, "duration"),
    (pl.Binary, "binary"),
    (pl.Array, "array"),
    (pl.Struct, "object"),
)


def _kind_of_number(number: pl.Expr) -> pl.Expr:
    return (
        pl.when(number.is_finite().not_())
        .then(_lit("not_finite"))
        .when(number == number.floor())
        .then(_lit("integral"))
        .otherwise(_lit("number"))
    )


def _lit(kind: str) -> pl.Expr:
    return pl.lit(kind, dtype=KIND)
