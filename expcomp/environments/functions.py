"""Functions of the rule language, by name. Each raises ValueError or TypeError where it has no value."""

from __future__ import annotations

import ast
import operator
import re
from typing import TYPE_CHECKING, Any

from expcomp.environments.operators import LARGEST
from expcomp.environments.values import as_text, is_number

if TYPE_CHECKING:
    from collections.abc import Callable

_DIGIT = re.compile(r"\d")
LONGEST = 1_000
_SUM = re.compile(rf"[\d\s.+\-*/()]{{1,{LONGEST}}}")
_ARITHMETIC: dict[type[ast.AST], Callable[..., Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
}


def number(value: Any) -> Any:
    """The value, which must be a JSON number."""
    if not is_number(value):
        msg = f"{value!r} is no number"
        raise TypeError(msg)
    return value


def _numbers(values: Any) -> list[Any]:
    return [number(v) for v in values]


def prefix(value: Any) -> str:
    """Text before the first digit, without the separator: `gift_card_12` is `gift_card`; all of it when there is no digit."""
    text = _text(value)
    found = _DIGIT.search(text)
    if found is None:
        return text
    end = found.start()
    while end and (text[end - 1] in "_-#:" or text[end - 1].isspace()):
        end -= 1
    return text[:end]


def _text(value: Any) -> str:
    if not isinstance(value, str):
        msg = f"{value!r} is no text"
        raise TypeError(msg)
    return value


def _length(value: Any) -> int:
    if not isinstance(value, str | list | dict):
        msg = f"{value!r} has no length"
        raise TypeError(msg)
    return len(value)


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        msg = f"{value!r} is no array"
        raise TypeError(msg)
    return value


def _object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        msg = f"{value!r} is no object"
        raise TypeError(msg)
    return value


def _round(value: Any, digits: Any = 0) -> Any:
    if abs(number(digits)) > LONGEST:  # Python would count the power of ten out
        msg = f"{digits} digits"
        raise ValueError(msg)
    return round(number(value), digits) if digits else round(number(value))


def _replace(text: Any, old: Any, new: Any) -> str:
    where, gone, put = _text(text), _text(old), _text(new)
    _fits(len(where) + where.count(gone) * len(put))
    return where.replace(gone, put)


def _join(separator: Any, items: Any) -> str:
    texts = [as_text(i) for i in _list(items)]
    _fits(sum(map(len, texts)) + len(texts) * len(_text(separator)))
    return str(separator).join(texts)


def _fits(length: int) -> None:
    if length > LARGEST:
        msg = f"a text of {length:,} characters"
        raise ValueError(msg)


def negated(items: Any, field: str) -> list[Any]:
    """The objects of an array with one number turned round."""
    return [{**_object(i), field: -number(i[field])} for i in _list(items)]


def arithmetic(text: Any) -> Any:
    """Value of `+ - * /`, brackets and numbers written as text."""
    written = _text(text).strip()
    if not _SUM.fullmatch(written):
        msg = f"{written[:40]!r} is no arithmetic of at most {LONGEST} characters"
        raise ValueError(msg)
    return _arith(ast.parse(written, mode="eval").body)


def _arith(node: ast.AST) -> Any:
    if isinstance(node, ast.Constant):
        return number(node.value)
    if isinstance(node, ast.BinOp) and type(node.op) in _ARITHMETIC:
        return _ARITHMETIC[type(node.op)](_arith(node.left), _arith(node.right))
    if isinstance(node, ast.UnaryOp) and type(node.op) in _ARITHMETIC:
        return _ARITHMETIC[type(node.op)](_arith(node.operand))
    msg = "no arithmetic"
    raise ValueError(msg)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "len": _length,
    "sum": lambda xs: sum(_numbers(_list(xs))),
    "min": lambda *xs: min(_numbers(xs if len(xs) > 1 else _list(xs[0]))),
    "max": lambda *xs: max(_numbers(xs if len(xs) > 1 else _list(xs[0]))),
    "round": _round,
    "abs": lambda x: abs(number(x)),
    "prefix": prefix,
    "text": as_text,
    "float": lambda x: float(number(x)),
    "int": lambda x: int(number(x)),
    "number": lambda x: float(_text(x)) if re.search(r"[.eE]", _text(x)) else int(_text(x)),
    "lower": lambda x: _text(x).lower(),
    "upper": lambda x: _text(x).upper(),
    "title": lambda x: _text(x).title(),
    "strip": lambda x: _text(x).strip(),
    "replace": _replace,
    "join": _join,
    "split": lambda x, sep: _text(x).split(_text(sep)),
    "sorted": lambda xs: sorted(_list(xs)),
    "reversed": lambda xs: xs[::-1] if isinstance(xs, str) else list(reversed(_list(xs))),
    "keys": lambda x: list(_object(x)),
    "values": lambda x: list(_object(x).values()),
    "merge": lambda *xs: {k: v for x in xs for k, v in _object(x).items()},
    "without": lambda x, *names: {k: v for k, v in _object(x).items() if k not in names},
    "negated": negated,
    "arithmetic": arithmetic,
}
"""A name that is not here is no function; add one with a test."""
