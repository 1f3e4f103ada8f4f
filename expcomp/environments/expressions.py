"""Compiled expressions of the rule language; see `expcomp.environments.language`."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from expcomp.environments import paths
from expcomp.environments.functions import FUNCTIONS
from expcomp.environments.operators import OPERATORS, key_text, numeric, segment, truth
from expcomp.environments.paths import COUNTERS, MISSING, NAMESPACES, Key
from expcomp.environments.scope import Inner, LanguageError, Scope, Unresolved, carried, inside
from expcomp.environments.values import finite, is_number

Value = Callable[[Scope], Any]
_EACH = re.compile(r"""("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')|(?<=[\w\])])\[\s*\]""")
"""A text, which is kept, or brackets without a key."""
_BEFORE, _AFTER = ("before", "state_before"), ("after", "state_after")
_NAMES = {"true": True, "false": False, "null": None, "True": True, "False": False, "None": None}


@dataclass(frozen=True, slots=True)
class Expression:
    """A compiled expression.

    Attributes:
        text: As written.
        value: Its value in a scope; raises Unresolved.
        arguments: Arguments it reads.
        state: Static beginnings of the state paths it reads.
        after: It reads the state after effects.
    """

    text: str
    value: Value
    arguments: frozenset[str]
    state: frozenset[tuple[str, ...]]
    after: bool


@lru_cache(maxsize=65_536)
def expression(text: str) -> Expression:
    """Compile an expression.

    Raises:
        LanguageError: It is none; the message names the place.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # an odd escape in a text is the text's own affair
            tree = ast.parse(_EACH.sub(lambda m: m.group(1) or "[...]", text.strip()), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        msg = f"{text!r} is no expression ({getattr(error, 'msg', error)})"
        raise LanguageError(msg) from None
    compiler = _Compiler(text)
    value = compiler.value(tree)
    return Expression(text, value, frozenset(compiler.arguments), frozenset(compiler.state), compiler.after)


class _Compiler:
    def __init__(self, text: str) -> None:
        self.text = text
        self.arguments: set[str] = set()
        self.state: set[tuple[str, ...]] = set()
        self.after = False
        self.names: list[str] = []

    def fail(self, node: ast.AST, why: str) -> LanguageError:
        return LanguageError(f"{self.text!r}: {why} at character {getattr(node, 'col_offset', 0)}")

    def value(self, node: ast.expr) -> Value:
        match node:
            case ast.Constant(value=v) if v is None or isinstance(v, bool | int | float | str):
                if isinstance(v, int | float) and not finite(v):
                    raise self.fail(node, "a number past the range of a float")
                return lambda _: v
            case ast.Name(id=name) if name in _NAMES:
                constant = _NAMES[name]
                return lambda _: constant
            case ast.Name() | ast.Attribute() | ast.Subscript():
                return self.reference(node)
            case ast.UnaryOp(op=ast.USub(), operand=inner):
                one = self.value(inner)
                return lambda s: -numeric(one(s))
            case ast.UnaryOp(op=ast.Not(), operand=inner):
                one = self.value(inner)
                return lambda s: not truth(one(s))
            case ast.BinOp(left=left, op=op, right=right) | ast.Compare(left=left, ops=[op], comparators=[right]):
                return self.binary(node, op, self.value(left), self.value(right))
            case ast.BoolOp(op=op, values=values):
                parts = [self.value(v) for v in values]
                both = isinstance(op, ast.And)
                return lambda s: all(truth(p(s)) for p in parts) if both else any(truth(p(s)) for p in parts)
            case ast.IfExp(test=test, body=body, orelse=other):
                a, b, c = self.value(test), self.value(body), self.value(other)
                return lambda s: b(s) if truth(a(s)) else c(s)
            case ast.List(elts=elements):
                items = [self.value(e) for e in elements]
                return lambda s: [i(s) for i in items]
            case ast.ListComp(
                elt=element, generators=[ast.comprehension(target=ast.Name(id=name), iter=items, ifs=tests)]
            ):
                singles = self.each(name, items, tests, element)
                return lambda s: [e for (e,) in singles(s)]
            case ast.DictComp(
                key=key, value=value, generators=[ast.comprehension(target=ast.Name(id=name), iter=items, ifs=tests)]
            ):
                entries = self.each(name, items, tests, key, value)
                return lambda s: {key_text(k): v for k, v in entries(s)}
            case ast.Dict(keys=keys, values=values) if all(k is not None for k in keys):
                pairs = [(self.value(k), self.value(v)) for k, v in zip(keys, values, strict=True) if k is not None]
                return lambda s: {key_text(k(s)): v(s) for k, v in pairs}
            case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]):
                return self.call(node, name, [self.value(a) for a in arguments])
        raise self.fail(node, f"{type(node).__name__} is no part of the language")

    def binary(self, node: ast.AST, op: ast.operator | ast.cmpop, left: Value, right: Value) -> Value:
        if type(op) not in OPERATORS:
            raise self.fail(node, f"operator {type(op).__name__} is no part of the language")
        apply = OPERATORS[type(op)]
        return lambda s: apply(left(s), right(s))

    def each(
        self, name: str, items: ast.expr, tests: list[ast.expr], *made: ast.expr
    ) -> Callable[[Scope], list[tuple[Any, ...]]]:
        """What is made of each element of an array for which the tests hold: `for name in items if test`."""
        over = self.value(items)
        self.names.append(name)
        holds, parts = [self.value(t) for t in tests], [self.value(m) for m in made]
        self.names.pop()

        def taken(s: Scope) -> list[tuple[Any, ...]]:
            found = over(s)
            if not isinstance(found, list):
                raise Unresolved
            s.look(len(found))
            scopes = [inside(s, name=name, item=item) for item in found]
            return [tuple(p(i) for p in parts) for i in scopes if all(truth(h(i)) for h in holds)]

        return taken

    def call(self, node: ast.AST, name: str, arguments: list[Value]) -> Value:
        if name == "has" and len(arguments) == 1:
            return lambda s: _try(arguments[0], s) is not MISSING
        if name == "default" and len(arguments) == 2:
            return lambda s: arguments[1](s) if (v := _try(arguments[0], s)) is MISSING else v
        if name not in FUNCTIONS:
            raise self.fail(node, f"there is no function {name}; known are default, has, {', '.join(FUNCTIONS)}")
        function = FUNCTIONS[name]

        def called(s: Scope) -> Any:
            values = [a(s) for a in arguments]
            try:
                made = function(*values)
            except (ValueError, TypeError, LookupError, ArithmeticError, SyntaxError) as error:
                raise Unresolved from error
            if is_number(made) and not finite(made):
                raise Unresolved
            return made

        return called

    def reference(self, node: ast.expr) -> Value:
        """A chain of names and brackets: a root, then steps that are fixed, computed, or over every element."""
        steps: list[str | Value | None] = []
        while not isinstance(node, ast.Name):
            if isinstance(node, ast.Attribute):
                steps.append(node.attr)
                node = node.value
            elif isinstance(node, ast.Subscript):
                inner = node.slice
                if isinstance(inner, ast.Constant) and inner.value is ...:
                    steps.append(None)
                elif isinstance(inner, ast.Constant) and isinstance(inner.value, str | int):
                    steps.append(Key(inner.value))
                else:
                    steps.append(self.value(inner))
                node = node.value
            else:
                return self.walk(self.value(node), steps[::-1])
        return self.rooted(node, steps[::-1])

    def rooted(self, node: ast.Name, steps: list[str | Value | None]) -> Value:
        root = node.id
        if root in self.names:
            return self.walk(lambda s: s.names[root] if isinstance(s, Inner) else MISSING, steps)
        if root in ("arg", "action"):
            return self.argument(node, root, steps)
        if root == "outcome" and not steps:
            return lambda s: s.outcome
        after = root in _AFTER
        if root in (*NAMESPACES, *COUNTERS):
            steps = [root, *steps]
        elif root not in (*_BEFORE, *_AFTER):
            raise self.fail(
                node, f"{root} is no root; known are arg, action, before, after, step, {', '.join(NAMESPACES)}"
            )
        self.after |= after
        if not steps or steps[0] not in (*NAMESPACES, *COUNTERS):
            raise self.fail(node, f"a state path starts with one of {', '.join(NAMESPACES)}")
        fixed = tuple(s for s in _leading(steps))
        self.state.add(fixed)
        return self.state_value(steps, after=after)

    def argument(self, node: ast.AST, root: str, steps: list[str | Value | None]) -> Value:
        if root == "action":
            if steps == ["type"]:
                return lambda s: s.action
            if not steps or steps[0] != "arguments":
                raise self.fail(node, "of the action there are action.type and action.arguments")
            steps = steps[1:]
        if not steps:
            return lambda s: dict(s.arguments)
        name = steps[0]
        if not isinstance(name, str):
            raise self.fail(node, "the name of an argument cannot be computed")
        self.arguments.add(str(name))

        def first(s: Scope) -> Any:
            if name not in s.arguments:
                raise Unresolved
            return s.arguments[name]

        return self.walk(first, steps[1:])

    def state_value(self, steps: list[str | Value | None], *, after: bool) -> Value:
        """Read through fixed and computed keys at once, so that a miss is remembered with its whole path."""
        cut = steps.index(None) if None in steps else len(steps)
        keys = steps[:cut]

        def whole(s: Scope) -> Any:
            segments = tuple(k if isinstance(k, str) else segment(k(s)) for k in keys if k is not None)
            value = s.read(segments, after=after)
            if value is MISSING:
                raise Unresolved
            return value

        return self.walk(whole, steps[cut:])

    def walk(self, start: Value, steps: list[str | Value | None]) -> Value:
        if not steps:
            return start
        if None in steps:
            cut = steps.index(None)
            items, rest = self.walk(start, steps[:cut]), self.walk(carried, steps[cut + 1 :])

            def each(s: Scope) -> Any:
                found = items(s)
                if not isinstance(found, list | dict):
                    raise Unresolved
                s.look(len(found))
                return [rest(inside(s, item=i)) for i in (found if isinstance(found, list) else found.values())]

            return each

        def below(s: Scope) -> Any:
            value = paths.get(
                start(s), tuple(k if isinstance(k, str) else segment(k(s)) for k in steps if k is not None)
            )
            if value is MISSING:
                raise Unresolved
            return value

        return below


def _leading(steps: list[str | Value | None]) -> list[str]:
    found: list[str] = []
    for step in steps:
        if not isinstance(step, str):
            break
        found.append(str(step))
    return found


def _try(value: Value, s: Scope) -> Any:
    try:
        return value(s)
    except Unresolved:
        return MISSING
