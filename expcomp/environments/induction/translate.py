"""Terms and conditions in the rule language. What the language cannot say raises Inexpressible, with the reason."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from expcomp.environments.flatten import load
from expcomp.environments.induction.compose import Appended, Cases, Object, Single, Slot, Text
from expcomp.environments.induction.terms import Call, Const, Copy, Linear, Predicate, Term

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Inexpressible", "condition", "expression", "reference"]

MAX_LENGTH = 4_000
_IDENTIFIER = re.compile(r"[A-Za-z_]\w*")
_FUNCTIONS: Mapping[str, str] = {
    "arithmetic": "arithmetic({0})", "length": "len({0})", "count": "len({0})", "entries": "len({0})",
    "keys": "sorted(keys({0}))", "upper": "upper({0})", "lower": "lower({0})", "title": "title({0})", "strip": "strip({0})",
    "slug": 'lower(replace({0}, " ", "-"))', "upper_slug": 'upper(replace({0}, " ", "-"))', "prefix": "prefix({0})",
    "sorted": "sorted({0})", "reversed": "reversed({0})", "sum": "sum({0})", "mean": "sum({0}) / len({0})",
    "min": "min({0})", "max": "max({0})", "number": "number({0})", "text": "text({0})", "single": "[{0}]",
    "absolute": "abs({0})", "not": "not {0}", "comma": 'join(", ", {0})', "append": "{0} + [{1}]", "extend": "{0} + {1}",
    "without_key": "without({0}, text({1}))", "path": '{0} + "/" + {1}', "ratio": "{0} / {1}", "merged": "merge({0}, {1})",
    "member": "{1} in {0}", "words": 'len(split({0}, " "))',
}  # fmt: skip
"""Library function to its text in the language."""
_NUMERIC = {"below": "lt", "most": "lte", "over": "gt", "least": "gte", "equal": "eq", "unequal": "ne"}


class Inexpressible(ValueError):  # noqa: N818 - a finding, not a fault
    """The rule language has no words for it."""


def reference(name: str) -> str:
    """An operand in the rule language."""
    for function in ("len", "sum"):
        if name.startswith(f"{function}("):
            inner = name[len(function) + 1 : -1]
            base, _, field = inner.partition("[].") if function == "sum" else (inner, "", "")
            return f"sum({reference(base)}[].{field})" if function == "sum" else f"len({reference(inner)})"
    if name.startswith(("mapped.", "peer[", "item.")) or "[item]" in name:
        raise Inexpressible("elements of an array that are joined one by one")
    if "@" in name:
        raise Inexpressible("a place that a path text names")
    if "[]" in name or ".*[" in name:
        raise Inexpressible("an element that is found by a value")
    for view in ("seen", "kb"):
        if name.startswith(f"{view}["):
            end = _closing(name, len(view))
            via = name[len(view) + 1 : end]
            return f"world.{_word(via.rsplit('.', 1)[-1])}[{reference(via)}]{_steps(name[end + 1 :])}"
    root, _, rest = name.partition(".")
    if root == "arg":
        return f"arg.{_word(rest.split('.')[0].split('[')[0])}{_steps(rest[len(re.split(r'[.[]', rest)[0]) :])}"
    if name == "state":
        return "world"
    if root in ("state", "last"):
        return f"world{_steps('.' + rest)}"
    raise Inexpressible(f"operand {name}")


def _closing(text: str, at: int) -> int:
    depth = 0
    for i in range(at, len(text)):
        depth += (text[i] == "[") - (text[i] == "]")
        if depth == 0:
            return i
    raise Inexpressible(f"operand {text}")


def _word(text: str) -> str:
    if not _IDENTIFIER.fullmatch(text):
        raise Inexpressible(f"the name {text!r}")
    return text


def _steps(rest: str) -> str:
    out = ""
    while rest:
        if rest[0] == "[":
            end = _closing(rest, 0)
            inner = rest[1:end]
            out += f"[{inner if inner.isdigit() else reference(inner)}]"
            rest = rest[end + 1 :]
            continue
        found = re.match(r"\.([^.\[\]]+)", rest)
        if found is None:
            raise Inexpressible(f"the path {rest!r}")
        step = found.group(1)
        out += f".{step}" if _IDENTIFIER.fullmatch(step) else f"[{json.dumps(step)}]"
        rest = rest[found.end() :]
    return out


def expression(term: Term) -> str:
    """A term in the rule language."""
    text = _term(term)
    if len(text) > MAX_LENGTH:
        raise Inexpressible(f"more than {MAX_LENGTH} characters")
    return text


def _term(term: Term) -> str:
    match term:
        case Const(value=value):
            return value
        case Copy(name=name):
            return reference(name)
        case Linear():
            return _linear(term)
        case Call(function=function, names=names):
            if function.startswith("negated_copies."):
                base = reference(names[0])
                return f"({base} + negated({base}, {json.dumps(function.partition('.')[2])}))"
            if function not in _FUNCTIONS:
                raise Inexpressible(f"the function {function}")
            return "(" + _FUNCTIONS[function].format(*map(reference, names)) + ")"
        case Slot():
            return slot(term)
        case Text(parts=parts):
            words = [
                json.dumps(load(f'"{p}"')) if isinstance(p, str) else f"text({_term(p)})" for p in parts if p != ""
            ]
            return "(" + " + ".join(words) + ")"
        case Object(items=items):
            return "{" + ", ".join(f"{k}: {_term(t)}" for k, t in items) + "}"
        case Single(key=key, value=value):
            return "{" + f"text({_term(key)}): {_term(value)}" + "}"
        case Appended(name=name, item=item):
            return f"({reference(name)} + [{_term(item)}])"
        case Cases(cases=cases):
            return _cases(cases)
    raise Inexpressible(type(term).__name__)


def slot(term: Slot) -> str:
    """A value inside a text."""
    inner = _term(term.term)
    if term.style == "plain":
        return inner
    if term.style == "float":
        return f"float({inner})"
    raise Inexpressible("numbers with a fixed count of decimals")


def _linear(term: Linear) -> str:
    text = ""
    for factor, names in term.parts:
        product = " * ".join(map(reference, names))
        scaled = product if abs(factor) == 1 else f"{product} * {_number(abs(factor))}"
        text += (" - " if factor < 0 else " + ") + scaled if text else ("-" if factor < 0 else "") + scaled
    if term.constant:
        text += f" {'-' if term.constant < 0 else '+'} {_number(abs(term.constant))}"
    return f"({text})" if term.digits is None else f"round({text}, {term.digits})"


def _number(value: float) -> str:
    return str(int(value)) if value.is_integer() else repr(value)


def _cases(cases: tuple[tuple[Predicate, Term, int, int], ...]) -> str:
    predicate, term, *_ = cases[0]
    here = _term(term)
    if len(cases) == 1:
        return here if predicate.kind == "always" else f"({here} if {test(predicate)} else null)"
    rest = _cases(cases[1:])
    if predicate.kind == "always":
        return f"default({here}, {rest})"
    return f"({here} if {test(predicate)} else {rest})"


def test(predicate: Predicate) -> str:
    """A condition as one expression that is always true or false."""
    left, op, right = condition(predicate)
    symbol = {"eq": "==", "ne": "!=", "lt": "<", "lte": "<=", "gt": ">", "gte": ">=", "contains": "in"}[op]
    both = f"{right} in {left}" if op == "contains" else f"{left} {symbol} {right}"
    return f"default({both}, false)"


def condition(predicate: Predicate) -> tuple[str, str, str]:
    """Left side, operator and right side of a condition, as expressions; `always` is `true eq true`."""
    left = predicate.left
    match predicate.kind:
        case "always":
            return "true", "eq", "true"
        case "present" | "absent" if isinstance(left, str) and (
            found := re.fullmatch(r"(state\..*)\[\]\[(.*)\]", left)
        ):
            inside = f"default({reference(found.group(2))} in {reference(found.group(1))}, false)"
            return inside, "eq", "true" if predicate.kind == "present" else "false"
        case "present" | "absent":
            return f"has({_side(left)})", "eq", "true" if predicate.kind == "present" else "false"
        case "is" | "differs":
            return _side(left), "eq" if predicate.kind == "is" else "ne", str(predicate.right)
        case "same":
            return _side(left), "eq", _side(predicate.right)
        case "other":
            return f"default({_side(left)} == {_side(predicate.right)}, false)", "eq", "false"
    return _side(left), _NUMERIC[predicate.kind], _side(predicate.right)


def _side(side: Any) -> str:
    if isinstance(side, Linear):
        return _linear(side)
    return reference(side) if isinstance(side, str) else _number(float(side))
