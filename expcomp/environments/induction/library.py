"""Pure functions that answers are tried against. One is adopted only if it reproduces every training answer."""

from __future__ import annotations

import math
import operator
import re
import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import polars as pl

from expcomp.environments.flatten import dump, load
from expcomp.environments.functions import arithmetic, negated, prefix

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

__all__ = ["FUNCTIONS", "PAIRS", "SINGLES", "Function", "apply", "function_of", "letter", "run", "with_field"]


def _without(items: Any, item: Any) -> Any:
    place = items.index(item)
    return items[:place] + items[place + 1 :]


def _dropped(items: Any, key: str) -> Any:
    return {k: v for k, v in items.items() if k != key} if key in items else None


def _negated(items: Any) -> Any:
    (field,) = {k for i in items for k, v in i.items() if letter(v) == "n"}
    return [*items, *negated(items, field)]


@dataclass(frozen=True, slots=True)
class Function:
    """A pure function: what it takes and gives, one letter a value: s text, n number, l array, o object, b boolean, * any."""

    takes: str
    gives: str
    run: Callable[..., Any]


SINGLES: Mapping[str, Function] = {
    "arithmetic": Function("s", "n", arithmetic),
    "length": Function("s", "n", len),
    "count": Function("l", "n", len),
    "entries": Function("o", "n", len),
    "keys": Function("o", "l", sorted),
    "upper": Function("s", "s", str.upper),
    "lower": Function("s", "s", str.lower),
    "title": Function("s", "s", str.title),
    "strip": Function("s", "s", str.strip),
    "slug": Function("s", "s", lambda x: re.sub(r"\s+", "-", x).lower()),
    "upper_slug": Function("s", "s", lambda x: re.sub(r"\s+", "-", x).upper()),
    "words": Function("s", "n", lambda x: len(x.split())),
    "lines": Function("s", "n", lambda x: len(x.splitlines())),
    "prefix": Function("s", "s", prefix),
    "last_part": Function("s", "s", lambda x: x.rstrip("/").rsplit("/", 1)[-1]),
    "parent": Function("s", "s", lambda x: x.rstrip("/").rsplit("/", 1)[0] or "/"),
    "parent_part": Function("s", "s", lambda x: x.rstrip("/").rsplit("/", 2)[-2]),
    "sorted": Function("l", "l", sorted),
    "sorted_lines": Function("s", "s", lambda x: "\n".join(sorted(x.splitlines()))),
    "reversed": Function("l", "l", lambda x: x[::-1]),
    "sum": Function("l", "n", math.fsum),
    "mean": Function("l", "n", lambda x: sum(x) / len(x)),
    "deviation": Function("l", "n", lambda x: math.sqrt(statistics.pvariance(x))),
    "min": Function("l", "n", min),
    "max": Function("l", "n", max),
    "negated_copies": Function("l", "l", _negated),
    "number": Function("s", "n", float),
    "text": Function("n", "s", str),
    "single": Function("*", "l", lambda x: [x]),
    "absolute": Function("n", "n", abs),
    "not": Function("b", "b", operator.not_),
    "comma": Function("l", "s", lambda x: ", ".join(map(str, x))),
}
"""Functions of one operand."""

PAIRS: Mapping[str, Function] = {
    "append": Function("l*", "l", lambda x, y: [*x, y]),
    "extend": Function("ll", "l", operator.add),
    "without": Function("l*", "l", _without),
    "without_key": Function("o*", "o", lambda x, y: _dropped(x, str(y))),
    "path": Function("ss", "s", lambda x, y: f"{x.rstrip('/')}/{y}"),
    "matching": Function("ss", "l", lambda x, y: [line for line in x.splitlines() if y in line]),
    "last_lines": Function("sn", "s", lambda x, y: "\n".join(x.splitlines()[-y:])),
    "containing": Function("ls", "l", lambda x, y: [v for v in x if y in v]),
    "ratio": Function("nn", "n", operator.truediv),
    "merged": Function("oo", "o", operator.or_),
    "member": Function("l*", "b", lambda x, y: y in x),
}
"""Functions of two operands."""

FUNCTIONS: Mapping[str, Function] = {**SINGLES, **PAIRS}

NEGATED = "negated_copies"


def function_of(name: str) -> Function:
    """A function by name; `negated_copies.amount` adds copies of the objects of an array with that number turned round."""
    if name.startswith(f"{NEGATED}."):
        field = name[len(NEGATED) + 1 :]
        return Function("l", "l", lambda items: [*items, *negated(items, field)])
    return FUNCTIONS[name]


def with_field(name: str, values: Sequence[Any]) -> str:
    """The name of a function that depends on the one number of the objects it was tried on."""
    if name != NEGATED:
        return name
    fields = (k for items in values for i in items or () for k, v in i.items() if letter(v) == "n")
    return f"{NEGATED}.{next(fields)}"


_LETTERS = {str: "s", int: "n", float: "n", list: "l", dict: "o", bool: "b"}


def letter(value: Any) -> str:
    """Type letter of a parsed value; a space for null."""
    return _LETTERS.get(type(value), " ")


def run(function: Function, values: Sequence[Any]) -> Any:
    """Value of a function of parsed values; None where it has none or the types do not fit."""
    if any(t not in ("*", letter(v)) for t, v in zip(function.takes, values, strict=True)):
        return None
    try:
        return function.run(*values)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, SyntaxError, RecursionError):
        return None


def apply(function: Function, names: Sequence[str]) -> pl.Expr:
    """The function over columns of canonical JSON, called once for each distinct combination of values."""

    def over(columns: Sequence[pl.Series]) -> pl.Series:
        frame = pl.DataFrame([c.alias(str(i)) for i, c in enumerate(columns)])
        distinct = frame.drop_nulls().unique(maintain_order=True)
        values = [run(function, [load(v) for v in row]) for row in zip(*distinct, strict=True)]
        texts = [None if v is None else dump(v) for v in values]
        done = distinct.with_columns(out=pl.Series(texts, dtype=pl.String))
        return frame.join(done, on=frame.columns, how="left", maintain_order="left")["out"]

    return pl.map_batches([pl.col(n) for n in names], over, return_dtype=pl.String)
