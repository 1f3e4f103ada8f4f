"""Operators of the rule language on values; each raises Unresolved where it has no value."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from typing import Any

from expcomp.environments.paths import Key
from expcomp.environments.scope import Unresolved
from expcomp.environments.values import equal, finite, is_number

Binary = Callable[[Any, Any], Any]
LARGEST = 1 << 24
"""Characters of a text, or elements of an array, that an expression may make."""


def segment(value: Any) -> Key:
    """A value as a computed key."""
    if isinstance(value, str) or (isinstance(value, int) and not isinstance(value, bool)):
        return Key(value)
    raise Unresolved


def key_text(value: Any) -> str:
    """A value as the key of an object."""
    if isinstance(value, str):
        return value
    raise Unresolved


def numeric(value: Any) -> Any:
    """A value that must be a number."""
    if is_number(value):
        return value
    raise Unresolved


def truth(value: Any) -> bool:
    """A value that must be a boolean."""
    if isinstance(value, bool):
        return value
    raise Unresolved


def add(a: Any, b: Any) -> Any:
    """Two numbers added, two texts or arrays put together."""
    if is_number(a) and is_number(b):
        return _sum(a, b)
    two = (isinstance(a, str) and isinstance(b, str)) or (isinstance(a, list) and isinstance(b, list))
    if two and len(a) + len(b) <= LARGEST:
        return a + b
    raise Unresolved


def comparable(a: Any, b: Any) -> bool:
    """Whether two values have an order: two numbers or two texts."""
    return (is_number(a) and is_number(b)) or (isinstance(a, str) and isinstance(b, str))


def contains(whole: Any, part: Any) -> bool:
    """Whether an array holds an equal element, an object a key, a text a text.

    Raises:
        Unresolved: The types clash.
    """
    if isinstance(whole, list):
        return any(equal(part, item) for item in whole)
    if isinstance(whole, dict | str) and isinstance(part, str):
        return part in whole
    raise Unresolved


def _arithmetic(apply: Binary) -> Binary:
    def calculated(a: Any, b: Any) -> Any:
        try:
            made = apply(numeric(a), numeric(b))
        except (ArithmeticError, ValueError) as error:
            raise Unresolved from error
        if not finite(made):
            raise Unresolved
        return made

    return calculated


_sum = _arithmetic(operator.add)


def _ordered(apply: Binary) -> Binary:
    def ordered(a: Any, b: Any) -> Any:
        if not comparable(a, b):
            raise Unresolved
        return apply(a, b)

    return ordered


OPERATORS: dict[type[ast.AST], Binary] = {
    ast.Add: add,
    ast.Sub: _arithmetic(operator.sub),
    ast.Mult: _arithmetic(operator.mul),
    ast.Div: _arithmetic(operator.truediv),
    ast.FloorDiv: _arithmetic(operator.floordiv),
    ast.Mod: _arithmetic(operator.mod),
    ast.Eq: equal,
    ast.NotEq: lambda a, b: not equal(a, b),
    ast.Lt: _ordered(operator.lt),
    ast.LtE: _ordered(operator.le),
    ast.Gt: _ordered(operator.gt),
    ast.GtE: _ordered(operator.ge),
    ast.In: lambda a, b: contains(b, a),
    ast.NotIn: lambda a, b: not contains(b, a),
}
"""Function of two values by operator; one that is not here is no part of the language."""
