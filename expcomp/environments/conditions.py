"""Conditions of rules and invariants: true, false, or undecidable where a state is not wholly known."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from expcomp.environments.expressions import expression
from expcomp.environments.operators import comparable, contains
from expcomp.environments.paths import MISSING
from expcomp.environments.scope import LanguageError, Scope, Unresolved
from expcomp.environments.templates import state_path
from expcomp.environments.values import equal, strict_json

Known = Callable[[str], bool]
"""Whether a state path that is not there is known to be absent."""


def _ordered(test: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    return lambda a, b: comparable(a, b) and test(a, b)


def _contains(whole: Any, part: Any) -> bool:
    try:
        return contains(whole, part)
    except Unresolved:
        return False


OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "eq": equal,
    "ne": lambda a, b: not equal(a, b),
    "gt": _ordered(lambda a, b: a > b),
    "gte": _ordered(lambda a, b: a >= b),
    "lt": _ordered(lambda a, b: a < b),
    "lte": _ordered(lambda a, b: a <= b),
    "contains": _contains,
    "in": lambda a, b: _contains(b, a),
}
PRESENCE = {"exists": True, "not_exists": False}


@dataclass(frozen=True, slots=True)
class Operand:
    """One side of a condition, and what it reads."""

    value: Callable[[Scope], Any]
    arguments: frozenset[str] = frozenset()
    state: frozenset[tuple[str, ...]] = frozenset()


@dataclass(frozen=True, slots=True)
class Condition:
    """One compiled condition."""

    left: Operand
    op: str
    right: Operand | None

    def holds(self, s: Scope, known: Known | None = None) -> bool | None:
        """Whether it holds; None when it reads a path that is neither there nor known to be absent."""
        s.missed.clear()
        left = _try(self.left, s)
        if self.op in PRESENCE:
            result = (left is not MISSING) is PRESENCE[self.op]
        else:
            right = MISSING if self.right is None else _try(self.right, s)
            result = left is not MISSING and right is not MISSING and OPERATORS[self.op](left, right)
        if known is not None and not all(map(known, s.missed)):
            return None
        return result


def _try(operand: Operand, s: Scope) -> Any:
    try:
        return operand.value(s)
    except Unresolved:
        return MISSING


def operand(kind: str, text: str) -> Operand:
    """Compile one side of a condition.

    Raises:
        LanguageError: The text is no path, name, literal or expression.
    """
    if kind == "path":
        path = state_path(text)
        return Operand(path.read, path.arguments, path.state | {path.fixed})
    if kind == "action_arg":
        made = expression(f"action.arguments[{json.dumps(text, ensure_ascii=False)}]")
        return Operand(made.value, frozenset([text]))
    if kind == "literal":
        try:
            value = strict_json(text)
        except ValueError as error:
            msg = f"{text!r} is no JSON literal ({error})"
            raise LanguageError(msg) from None
        return Operand(lambda _: value)
    made = expression(text)
    return Operand(made.value, made.arguments, made.state)


def all_hold(group: Sequence[Condition], s: Scope, known: Known | None = None) -> bool | None:
    """AND: False when one is false, else None when one is undecidable."""
    unsure = False
    for condition in group:
        result = condition.holds(s, known)
        if result is False:
            return False
        unsure |= result is None
    return None if unsure else True


def any_group(groups: Sequence[Sequence[Condition]], s: Scope, known: Known | None = None) -> bool | None:
    """OR over groups: True when one holds, else None when one is undecidable; without groups it holds."""
    if not groups:
        return True
    results = [all_hold(g, s, known) for g in groups]
    return True if True in results else None if None in results else False
