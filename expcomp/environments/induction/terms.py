"""Terms: how a value is computed from operands. Each compiles to one Polars expression over columns of canonical JSON text.

A term is null where an operand is missing; null is never a guess.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import polars as pl

from expcomp.environments.induction.library import apply, function_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["Call", "Const", "Copy", "Linear", "Predicate", "Term", "number_text", "numeric"]


class Term:
    """One way to compute a value."""

    def inner(self) -> tuple[Term, ...]:
        """Terms inside this one."""
        return ()

    def expr(self) -> pl.Expr:
        """Canonical JSON text."""
        raise NotImplementedError

    def reads(self) -> tuple[str, ...]:
        """Operands the term reads."""
        return ()


def numeric(name: str) -> pl.Expr:
    """An operand as a number; null where it is none."""
    return pl.col(name).cast(pl.Float64, strict=False)


def number_text(value: pl.Expr) -> pl.Expr:
    """Canonical JSON of numbers."""
    whole = (value == value.floor()) & (value.abs() < 2**53)
    return pl.when(whole).then(value.cast(pl.Int64, strict=False).cast(pl.String)).otherwise(value.cast(pl.String))


@dataclass(frozen=True, slots=True)
class Const(Term):
    """The same value always."""

    value: str

    def expr(self) -> pl.Expr:
        """Canonical JSON text."""
        return pl.lit(self.value)


@dataclass(frozen=True, slots=True)
class Copy(Term):
    """The value of an operand."""

    name: str

    def expr(self) -> pl.Expr:
        """Canonical JSON text."""
        return pl.col(self.name)

    def reads(self) -> tuple[str, ...]:
        """Operands it reads."""
        return (self.name,)


@dataclass(frozen=True, slots=True)
class Linear(Term):
    """`sum(c_i * product(operands_i)) + constant`, rounded to `digits` if given."""

    parts: tuple[tuple[float, tuple[str, ...]], ...]
    constant: float = 0.0
    digits: int | None = None

    def number(self) -> pl.Expr:
        """The value as a number."""
        total: pl.Expr | None = None
        for factor, names in self.parts:
            product = numeric(names[0])
            for name in names[1:]:
                product = product * numeric(name)
            # Computed as it is written: a factor of one or minus one is no multiplication, so that decimals stay exact.
            if total is None:
                total = product if factor == 1 else -product if factor == -1 else product * factor
            elif factor in (1, -1):
                total = total + product if factor == 1 else total - product
            else:
                total = total + product * factor
        assert total is not None
        if self.constant:
            total = total + self.constant
        return total if self.digits is None else total.round(self.digits)

    def expr(self) -> pl.Expr:
        """Canonical JSON text."""
        return number_text(self.number())

    def reads(self) -> tuple[str, ...]:
        """Operands it reads."""
        return tuple(n for _, names in self.parts for n in names)


@dataclass(frozen=True, slots=True)
class Call(Term):
    """A function of the library over operands."""

    function: str
    names: tuple[str, ...]

    def expr(self) -> pl.Expr:
        """Canonical JSON text."""
        return apply(function_of(self.function), self.names)

    def reads(self) -> tuple[str, ...]:
        """Operands it reads."""
        return self.names


@dataclass(frozen=True, slots=True)
class Predicate:
    """A condition over operands.

    `kind`: always, present, absent, is (operand equals a value), differs, same (two operands), other, below (left < right),
    most (left <= right), over (left > right), least (left >= right), equal, unequal; the last six compare numbers.
    """

    kind: str
    left: str | Linear = ""
    right: str | float | Linear | None = None

    def expr(self) -> pl.Expr:
        """True where it holds; never null."""
        if self.kind == "always":
            return pl.lit(value=True)
        if self.kind in _NUMBERS:
            found = _NUMBERS[self.kind](_number(self.left), _number(self.right))
        else:
            assert isinstance(self.left, str)
            found = _VALUES[self.kind](pl.col(self.left), self.right)
        return found.fill_null(value=False)

    def gap(self) -> pl.Expr | None:
        """Distance of the two sides of a comparison of order; None for other conditions."""
        if self.kind not in _ORDERED:
            return None
        return (_number(self.left) - _number(self.right)).abs()

    def reads(self) -> tuple[str, ...]:
        """Operands the condition reads."""
        named = () if self.kind == "always" else (self.left,) if isinstance(self.left, str) else self.left.reads()
        if isinstance(self.right, Linear):
            return (*named, *self.right.reads())
        named_right = self.kind not in ("is", "differs") and isinstance(self.right, str)
        return (*named, str(self.right)) if named_right else named


def _number(side: str | float | Linear | None) -> pl.Expr:
    if isinstance(side, Linear):
        return side.number()
    return numeric(side) if isinstance(side, str) else pl.lit(side)


_ORDERED = ("below", "most", "over", "least")
_VALUES: Mapping[str, Callable[[pl.Expr, Any], pl.Expr]] = {
    "present": lambda c, _: c.is_not_null(),
    "absent": lambda c, _: c.is_null(),
    "is": lambda c, v: c == pl.lit(v),
    "differs": lambda c, v: c.is_not_null() & (c != pl.lit(v)),
    "same": lambda c, o: c == pl.col(o),
    "other": lambda c, o: c.is_null() | pl.col(o).is_null() | (c != pl.col(o)),
}
_NUMBERS: Mapping[str, Callable[[pl.Expr, pl.Expr], pl.Expr]] = {
    "below": lambda a, b: a < b,
    "most": lambda a, b: a <= b,
    "over": lambda a, b: a > b,
    "least": lambda a, b: a >= b,
    "equal": lambda a, b: (a - b).abs() <= 1e-9 * b.abs().clip(lower_bound=1.0),
    "unequal": lambda a, b: (a - b).abs() > 1e-9 * b.abs().clip(lower_bound=1.0),
}
