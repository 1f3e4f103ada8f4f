"""Canonical JSON (RFC 8785) and digests of documents."""

from __future__ import annotations

import hashlib
from typing import Any

import orjson
import rfc8785

from expcomp.errors import ExpcompError

__all__ = ["CanonError", "digest", "digest_bytes", "dumps"]

_SAFE = 2**53 - 1
_DEPTH = 250  # orjson refuses deeper values


class CanonError(ExpcompError):
    """A value that has no canonical JSON form."""


def dumps(value: Any) -> bytes:
    """Canonical JSON bytes of maps, lists, strings, numbers, booleans and None.

    Raises:
        CanonError: NaN, infinity, an integer beyond 2^53-1, a lone surrogate, a key that is no string, a cycle, or any
            other type; nothing is coerced.
    """
    if _check(value, set(), 0):
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    try:
        data: bytes = rfc8785.dumps(value)
    except rfc8785.CanonicalizationError as error:
        raise CanonError(f"no canonical JSON form: {error}") from error
    return data


def digest(value: Any) -> str:
    """`sha256:` and the hex SHA-256 of the canonical form."""
    return digest_bytes(dumps(value))


def digest_bytes(data: bytes) -> str:
    """`sha256:` and the hex SHA-256 of bytes."""
    return "sha256:" + hashlib.sha256(data).hexdigest()


def _check(value: Any, above: set[int], depth: int) -> bool:
    """Refuse what has no canonical form; True when orjson writes the same bytes as RFC 8785.

    orjson differs on floats, and it sorts keys by UTF-8 bytes, which differs from UTF-16 order only beyond the basic
    plane.
    """
    kind = type(value)
    if kind is str:
        _text(value)
        return True
    if value is None or kind is bool:
        return True
    if kind is int:
        if not -_SAFE <= value <= _SAFE:
            raise CanonError(f"integer {value} is beyond 2^53-1 and would lose digits")
        return True
    if kind is float:
        if value != value or value in {float("inf"), float("-inf")}:  # noqa: PLR0124  NaN
            raise CanonError(f"{value} is no JSON number")
        return False
    if kind not in {dict, list, tuple}:
        raise CanonError(f"{kind.__name__} is no JSON type; expected dict, list, str, int, float, bool or None")
    if id(value) in above:
        raise CanonError("the value contains itself")
    if depth > _DEPTH:
        raise CanonError(f"nested deeper than {_DEPTH} levels")
    above.add(id(value))
    fast = True
    if kind is dict:
        for key in value:
            if type(key) is not str:
                raise CanonError(f"key {key!r} is no string")
            _text(key)
            fast = fast and (key.isascii() or max(key) < "\U00010000")
        values = value.values()
    else:
        values = value
    for item in values:
        fast = _check(item, above, depth + 1) and fast
    above.remove(id(value))
    return fast


def _text(text: str) -> None:
    if not text.isascii():
        try:
            text.encode("utf-8")
        except UnicodeEncodeError as error:
            raise CanonError(f"lone surrogate at character {error.start} of a string") from error
