"""Texts with tokens: state paths of conditions and effects, and templates of observations."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from expcomp.environments import paths
from expcomp.environments.expressions import Expression, expression
from expcomp.environments.operators import segment
from expcomp.environments.paths import NAMESPACES, Key
from expcomp.environments.scope import LanguageError, Scope, Unresolved
from expcomp.environments.values import as_text, dump

JSON_TYPE = "application/json"
_START = re.compile(r"\{(?:=|action\.(?:type|arguments\.)|outcome\}|state_before\.|state_after\.)")
_ARGUMENT = re.compile(r"\{action\.arguments\.([^{}]+)\}")


@dataclass(frozen=True, slots=True)
class Token:
    """One token: what it says, and what it reads."""

    text: str
    value: Callable[[Scope], Any]
    arguments: frozenset[str]
    state: frozenset[tuple[str, ...]]
    after: bool
    plain: bool


def _pieces(text: str) -> Iterator[str | Token]:
    """Literal stretches and tokens, in order."""
    at = 0
    while found := _START.search(text, at):
        end = _closing(text, found.start())
        if found.start() > at:
            yield text[at : found.start()]
        yield token(text[found.start() + 1 : end])
        at = end + 1
    if at < len(text):
        yield text[at:]


def _closing(text: str, start: int) -> int:
    depth = 0
    for i in range(start, len(text)):
        depth += (text[i] == "{") - (text[i] == "}")
        if depth == 0:
            return i
    msg = f"{text!r}: the token at character {start} is not closed"
    raise LanguageError(msg)


@lru_cache(maxsize=65_536)
def token(inner: str) -> Token:
    """Compile what stands between the braces.

    Raises:
        LanguageError: It is no reference and no expression.
    """
    if inner.startswith("="):
        made: Expression = expression(inner[1:])
        return Token(inner, made.value, made.arguments, made.state, made.after, plain=False)
    if inner.startswith("action.arguments."):
        name = inner.removeprefix("action.arguments.")
        return Token(inner, lambda s: _argument(s, name), frozenset([name]), frozenset(), after=False, plain=True)
    if inner == "action.type":
        return Token(inner, lambda s: s.action, frozenset(), frozenset(), after=False, plain=True)
    if inner == "outcome":
        return Token(inner, lambda s: s.outcome, frozenset(), frozenset(), after=True, plain=True)
    root, _, rest = inner.partition(".")
    path = state_path(rest)
    after = root == "state_after"
    return Token(
        inner, lambda s: path.read(s, after=after), path.arguments, path.state | {path.fixed}, after=after, plain=True
    )


def _argument(s: Scope, name: str) -> Any:
    if name in s.arguments:
        return s.arguments[name]
    # A dotted name reaches into an argument.
    head, dot, rest = name.partition(".")
    if dot and head in s.arguments:
        value = paths.get(s.arguments[head], paths.split(rest))
        if value is not paths.MISSING:
            return value
    raise Unresolved


@dataclass(frozen=True, slots=True)
class StatePath:
    """A state path whose segments may be computed.

    Attributes:
        text: As written.
        segments: Fixed ones as text, computed ones as functions of a scope.
        fixed: The leading fixed segments.
        arguments: Arguments its tokens read.
        state: State paths its tokens read.
    """

    text: str
    segments: tuple[str | Callable[[Scope], Key], ...]
    fixed: tuple[str, ...]
    arguments: frozenset[str]
    state: frozenset[tuple[str, ...]]

    def at(self, s: Scope) -> tuple[str, ...]:
        """The path in a scope; raises Unresolved when a token has no value."""
        return tuple(part if isinstance(part, str) else part(s) for part in self.segments)

    def read(self, s: Scope, *, after: bool = False) -> Any:
        """The value there; raises Unresolved when there is none."""
        value = s.read(self.at(s), after=after)
        if value is paths.MISSING:
            raise Unresolved
        return value


@lru_cache(maxsize=65_536)
def state_path(text: str) -> StatePath:
    """Compile a state path, with or without tokens.

    Raises:
        LanguageError: It is none, or starts with no namespace.
    """
    pieces = list(_pieces(text))
    if any("\ue000" in p for p in pieces if isinstance(p, str)):
        msg = f"{text!r} holds the private character U+E000; write it as a computed key"
        raise LanguageError(msg)
    tokens: list[Token] = [p for p in pieces if isinstance(p, Token)]
    # A private character stands for a token while the path is split: no dot or bracket of the token is one of the path.
    marked = "".join(p if isinstance(p, str) else "\ue000" for p in pieces)
    try:
        raw = paths.split(marked)
    except paths.PathError as error:
        raise LanguageError(str(error)) from None
    if raw[0] not in (*NAMESPACES, *paths.COUNTERS):
        msg = f"{text!r} starts with {raw[0]!r}, expected one of {', '.join(NAMESPACES)}"
        raise LanguageError(msg)
    left = iter(tokens)
    segments = tuple(_segment(part, left) for part in raw)
    fixed = tuple(part for part, _ in zip(raw, range(_first_computed(segments)), strict=False))
    return StatePath(
        text,
        segments,
        fixed,
        frozenset(n for t in tokens for n in t.arguments),
        frozenset(p for t in tokens for p in t.state),
    )


def _first_computed(segments: tuple[Any, ...]) -> int:
    return next((i for i, part in enumerate(segments) if not isinstance(part, str)), len(segments))


def _segment(part: str, left: Iterator[Token]) -> str | Callable[[Scope], Key]:
    n = part.count("\ue000")
    if not n:
        return part
    mine = [next(left) for _ in range(n)]
    if part == "\ue000":
        return lambda s: segment(mine[0].value(s))
    stretches = part.split("\ue000")
    return lambda s: Key(
        stretches[0] + "".join(as_text(t.value(s)) + after for t, after in zip(mine, stretches[1:], strict=True))
    )


@dataclass(frozen=True, slots=True)
class Template:
    """A compiled template: stretches of text, and tokens with the place they stand in."""

    text: str
    pieces: tuple[str | Token, ...]
    quoted: tuple[bool, ...]
    is_json: bool

    @property
    def tokens(self) -> tuple[Token, ...]:
        """Its tokens, in order."""
        return tuple(p for p in self.pieces if isinstance(p, Token))

    def render(self, s: Scope, *, as_host: bool = False) -> str:
        """Fill it in; `as_host` writes values as Python does.

        Raises:
            Unresolved: A token has no value.
        """
        return "".join(
            p if isinstance(p, str) else self._written(p.value(s), quoted, as_host=as_host)
            for p, quoted in zip(self.pieces, self.quoted, strict=True)
        )

    def _written(self, value: Any, quoted: bool, *, as_host: bool) -> str:  # noqa: FBT001
        if as_host:
            return str(value)
        if not self.is_json:
            return as_text(value)
        return json.dumps(as_text(value), ensure_ascii=False)[1:-1] if quoted else dump(value)


@lru_cache(maxsize=16_384)
def template(text: str, content_type: str = "text/plain") -> Template:
    """Compile a template.

    Raises:
        LanguageError: A token is none.
    """
    pieces = tuple(_pieces(text))
    is_json = content_type.partition(";")[0].strip() == JSON_TYPE
    inside, quoted = False, []
    for piece in pieces:
        quoted.append(inside)
        if is_json and isinstance(piece, str):
            inside ^= len(re.findall(r'(?<!\\)(?:\\\\)*"', piece)) % 2 == 1
    return Template(text, pieces, tuple(quoted), is_json)


def fill(value: Any, s: Scope) -> Any:
    """A literal with `{"$action_arg": name}` and argument tokens filled in; a text that is one token keeps the type.

    Raises:
        Unresolved: The action lacks an argument.
    """
    if isinstance(value, dict):
        if value.keys() == {"$action_arg"}:
            return _argument(s, str(value["$action_arg"]))
        return {k: fill(v, s) for k, v in value.items()}
    if isinstance(value, list):
        return [fill(v, s) for v in value]
    if isinstance(value, str) and "{action.arguments." in value:
        whole = _ARGUMENT.fullmatch(value)
        if whole:
            return _argument(s, whole.group(1))
        return _ARGUMENT.sub(lambda m: as_text(_argument(s, m.group(1))), value)
    return value


def filled_arguments(value: Any) -> frozenset[str]:
    """Arguments that `fill` reads."""
    if isinstance(value, dict):
        if value.keys() == {"$action_arg"}:
            return frozenset([str(value["$action_arg"])])
        return frozenset(a for v in value.values() for a in filled_arguments(v))
    if isinstance(value, list):
        return frozenset(a for v in value for a in filled_arguments(v))
    return frozenset(_ARGUMENT.findall(value)) if isinstance(value, str) else frozenset()
