"""The operators of a rule: each a total boolean expression over one column, null read as nothing."""

from __future__ import annotations

import functools
import operator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import polars as pl

if TYPE_CHECKING:
    from collections.abc import Callable

TEXT = pl.String
LIST = pl.List


@dataclass(frozen=True, slots=True)
class Operator:
    """One operator.

    Attributes:
        on: Kinds of column it works on: `text`, `list`, `number`, `bool`.
        build: Column and argument to a boolean expression without nulls.
        holds: The same for one value known in advance; None when it cannot be told.
    """

    on: frozenset[str]
    build: Callable[[pl.Expr, Any], pl.Expr]
    holds: Callable[[Any, Any], bool] | None = None


def kind_of(dtype: pl.DataType | type[pl.DataType]) -> str:
    """Kind of a column: what operators it takes."""
    if dtype == pl.Boolean:
        return "bool"
    if dtype.is_numeric():
        return "number"
    return "list" if isinstance(dtype, pl.List) else "text"


def some(value: Any) -> list[Any]:
    """An argument that may be one value or several, as several."""
    return list(value) if isinstance(value, list) else [value]


def _any(parts: list[pl.Expr]) -> pl.Expr:
    return functools.reduce(operator.or_, parts, pl.lit(value=False)) if len(parts) != 1 else parts[0]


def _all(parts: list[pl.Expr]) -> pl.Expr:
    return functools.reduce(operator.and_, parts, pl.lit(value=True)) if len(parts) != 1 else parts[0]


def _false(e: pl.Expr) -> pl.Expr:
    return e.fill_null(value=False)


def _number(c: pl.Expr) -> pl.Expr:
    # To Polars NaN is above every number; here it is beside them.
    return ~_false(c.is_nan())


def _null(c: pl.Expr, v: Any) -> pl.Expr:
    return c.is_null() if v else c.is_not_null()


def _contains(c: pl.Expr, v: Any) -> pl.Expr:
    return _false(_any([c.str.contains(x, literal=True) for x in some(v)]))


def _has(c: pl.Expr, v: Any) -> pl.Expr:
    return _false(_any([c.list.contains(x) for x in some(v)]))


def _joined(c: pl.Expr) -> pl.Expr:
    # Items are single lines: what is found in the joined text is found within one item.
    return c.list.join("\n", ignore_nulls=True)


def _item_contains_all(c: pl.Expr, v: Any) -> pl.Expr:
    return _false(c.list.eval(_all([pl.element().str.contains(x, literal=True) for x in some(v)])).list.any())


def _nonempty(c: pl.Expr, v: Any) -> pl.Expr:
    full = _false(c.list.len() > 0)
    return full if v else ~full


_T, _L, _N, _B = (frozenset({k}) for k in ("text", "list", "number", "bool"))
OPERATORS: dict[str, Operator] = {
    "eq": Operator(_T | _N | _B, lambda c, v: c.eq_missing(pl.lit(v)), lambda x, v: bool(x == v)),
    "ne": Operator(_T | _N | _B, lambda c, v: c.ne_missing(pl.lit(v)), lambda x, v: bool(x != v)),
    "in": Operator(_T | _N, lambda c, v: _false(c.is_in(some(v))), lambda x, v: x in some(v)),
    "not_in": Operator(_T | _N, lambda c, v: ~_false(c.is_in(some(v))), lambda x, v: x not in some(v)),
    "null": Operator(_T | _N | _B | _L, _null, lambda _x, v: not v),
    "nonzero": Operator(_N, lambda c, v: _false(c != 0) if v else ~_false(c != 0), lambda x, v: (x != 0) == v),
    "lt": Operator(_N, lambda c, v: _number(c) & _false(c < v), lambda x, v: bool(x < v)),
    "le": Operator(_N, lambda c, v: _number(c) & _false(c <= v), lambda x, v: bool(x <= v)),
    "gt": Operator(_N, lambda c, v: _number(c) & _false(c > v), lambda x, v: bool(x > v)),
    "ge": Operator(_N, lambda c, v: _number(c) & _false(c >= v), lambda x, v: bool(x >= v)),
    "prefix": Operator(
        _T,
        lambda c, v: _false(_any([c.str.starts_with(x) for x in some(v)])),
        lambda x, v: x.startswith(tuple(some(v))),
    ),
    "ends": Operator(
        _T,
        lambda c, v: _false(_any([c.str.ends_with(x) for x in some(v)])),
        lambda x, v: x.endswith(tuple(some(v))),
    ),
    "contains": Operator(_T, _contains, lambda x, v: any(s in x for s in some(v))),
    "contains_all": Operator(
        _T,
        lambda c, v: _false(_all([c.str.contains(x, literal=True) for x in some(v)])),
        lambda x, v: all(s in x for s in some(v)),
    ),
    "has": Operator(_L, _has),
    "has_all": Operator(_L, lambda c, v: _false(_all([c.list.contains(x) for x in some(v)]))),
    "item_contains": Operator(_L, lambda c, v: _contains(_joined(c), v)),
    "item_contains_all": Operator(_L, _item_contains_all),
    "nonempty": Operator(_L, _nonempty),
}
GROUPS = ("all", "any", "not")
