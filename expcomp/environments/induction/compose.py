"""Terms made of terms: texts with slots, objects, arrays with one element more, cases."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from expcomp.environments.induction.terms import Term

if TYPE_CHECKING:
    from expcomp.environments.induction.terms import Predicate

__all__ = ["Appended", "Cases", "Object", "Single", "Slot", "Text"]


@dataclass(frozen=True, slots=True)
class Text(Term):
    """A text with slots: constants and terms in turn. `json` false: the text itself, not a JSON string."""

    parts: tuple[str | Term, ...]

    def expr(self) -> pl.Expr:
        """Canonical JSON text."""
        inner = [pl.lit(p) if isinstance(p, str) else p.expr() for p in self.parts]
        return pl.concat_str([pl.lit('"'), *inner, pl.lit('"')])

    def inner(self) -> tuple[Term, ...]:
        """Terms inside this one."""
        return tuple(p for p in self.parts if isinstance(p, Term))

    def reads(self) -> tuple[str, ...]:
        """Operands it reads."""
        return tuple(n for p in self.parts if isinstance(p, Term) for n in p.reads())


@dataclass(frozen=True, slots=True)
class Object(Term):
    """A JSON object with fixed keys, which are sorted."""

    items: tuple[tuple[str, Term], ...]

    def expr(self) -> pl.Expr:
        """Canonical JSON text."""
        if not self.items:
            return pl.lit("{}")
        pieces: list[pl.Expr] = []
        for place, (key, term) in enumerate(self.items):
            pieces += [pl.lit(("{" if place == 0 else ",") + f"{key}:"), term.expr()]
        return pl.concat_str([*pieces, pl.lit("}")])

    def inner(self) -> tuple[Term, ...]:
        """Terms inside this one."""
        return tuple(t for _, t in self.items)

    def reads(self) -> tuple[str, ...]:
        """Operands it reads."""
        return tuple(n for _, term in self.items for n in term.reads())


@dataclass(frozen=True, slots=True)
class Single(Term):
    """A JSON object with one member whose key is computed."""

    key: Term
    value: Term

    def expr(self) -> pl.Expr:
        """Canonical JSON text."""
        return pl.concat_str([pl.lit("{"), self.key.expr(), pl.lit(":"), self.value.expr(), pl.lit("}")])

    def inner(self) -> tuple[Term, ...]:
        """Terms inside this one."""
        return (self.key, self.value)

    def reads(self) -> tuple[str, ...]:
        """Operands it reads."""
        return (*self.key.reads(), *self.value.reads())


@dataclass(frozen=True, slots=True)
class Appended(Term):
    """An array operand with one element more."""

    name: str
    item: Term

    def expr(self) -> pl.Expr:
        """Canonical JSON text."""
        base = pl.col(self.name)
        stem = (
            pl.when(base == "[]").then(pl.lit("[")).otherwise(pl.concat_str([base.str.strip_suffix("]"), pl.lit(",")]))
        )
        return pl.when(base.str.starts_with("[")).then(pl.concat_str([stem, self.item.expr(), pl.lit("]")]))

    def inner(self) -> tuple[Term, ...]:
        """Terms inside this one."""
        return (self.item,)

    def reads(self) -> tuple[str, ...]:
        """Operands it reads."""
        return (self.name, *self.item.reads())


@dataclass(frozen=True, slots=True)
class Slot(Term):
    """A value as it is written inside a text: `plain`, `float` (always with a point), `fixed` (two decimals), `thousands`."""

    term: Term
    style: str = "plain"

    def expr(self) -> pl.Expr:
        """Canonical JSON text."""
        value = self.term.expr()
        if self.style == "plain":
            return value.str.strip_prefix('"').str.strip_suffix('"')
        number = value.cast(pl.Float64, strict=False)
        if self.style == "float":
            return number.cast(pl.String)
        cents = (number * 100).round().cast(pl.Int64, strict=False)
        sign = pl.when(cents < 0).then(pl.lit("-")).otherwise(pl.lit(""))
        whole, rest = cents.abs() // 100, (cents.abs() % 100).cast(pl.String).str.zfill(2)
        return pl.concat_str([sign, whole.cast(pl.String), pl.lit("."), rest])

    def inner(self) -> tuple[Term, ...]:
        """Terms inside this one."""
        return (self.term,)

    def reads(self) -> tuple[str, ...]:
        """Operands it reads."""
        return self.term.reads()


@dataclass(frozen=True, slots=True)
class Cases(Term):
    """The first case whose condition holds and whose term has a value."""

    cases: tuple[tuple[Predicate, Term, int, int], ...]
    """Predicate, term, training rows decided, of them right."""

    def expr(self) -> pl.Expr:
        """Canonical JSON text."""
        return pl.coalesce([pl.when(p.expr()).then(t.expr()) for p, t, *_ in self.cases])

    def inner(self) -> tuple[Term, ...]:
        """Terms inside this one."""
        return tuple(t for _, t, *_ in self.cases)

    def reads(self) -> tuple[str, ...]:
        """Operands it reads."""
        return tuple(n for p, t, *_ in self.cases for n in (*p.reads(), *t.reads()))
