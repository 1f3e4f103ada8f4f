"""Values of a state against the declared types of their paths."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from expcomp.environments import paths
from expcomp.environments.paths import MISSING
from expcomp.environments.values import TYPES, dump

Typed = tuple[tuple[str, ...], str]
"""A declared path, in which `*` is any one segment, and its type."""


def mistyped(declared: Sequence[Typed], state: Any, touched: Sequence[tuple[str, ...]]) -> list[str]:
    """Values that are not of their declared type, at, above or below some paths; the rest of the state is not looked at."""
    near = {
        _narrowed(segments, path): kind
        for path in touched
        for segments, kind in declared
        if paths.meets(segments, path)
    }
    return [message for segments, kind in near.items() for message in _wrong(state, segments, kind)]


def _narrowed(declared: tuple[str, ...], touched: tuple[str, ...]) -> tuple[str, ...]:
    """A declared path with the segments of a changed one in place of its `*`."""
    return tuple(t if d == "*" else d for d, t in zip(declared, touched, strict=False)) + declared[len(touched) :]


def _wrong(state: Any, segments: tuple[str, ...], kind: str) -> list[str]:
    values = _matching(state, segments)
    return [f"{p} is {dump(v)[:80]}, expected {kind}" for p, v in values if not TYPES[kind](v)]


def _matching(state: Any, segments: tuple[str, ...], at: tuple[str, ...] = ()) -> list[tuple[str, Any]]:
    """Values at a declared path, in which `*` is every key."""
    cut = segments.index("*") if "*" in segments else len(segments)
    value = paths.get(state, segments[:cut])
    here = (*at, *segments[:cut])
    if value is MISSING:
        return []
    if cut == len(segments):
        return [(paths.join(here), value)]
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    rest = segments[cut + 1 :]
    return [found for k, v in items for found in _matching(v, rest, (*here, paths.Key(k)))]
