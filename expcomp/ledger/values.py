"""One JSON value to one typed value: the only place where records are looked at one by one. A value of the wrong type is nothing."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

import orjson
import polars as pl

from expcomp.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Convert = Callable[[Any], Any]

_KIND = re.compile(r"([a-z_0-9]+)(?:\((\d+)?(?:,(\d+))?\))?")
_WIDE = 2**63
ROUND = pl.Struct(
    {
        "agent_round": pl.Int64(),
        "reward": pl.Float64(),
        "passed": pl.Boolean(),
        "reward_present": pl.Boolean(),
        "tool_calls": pl.Int64(),
    }
)


def text(value: Any, limit: int | None = None) -> str | None:
    """The string form on one line, cut to the limit with three dots; null when nothing is left."""
    if value is None:
        return None
    words = " ".join((value if type(value) is str else str(value)).split())
    if not words.isascii():
        words = _encodable(words)
    if limit is not None and len(words) > limit:
        return words[: limit - 3] + "..."
    return words or None


def _encodable(words: str) -> str:
    """The text with half surrogates, which UTF-8 cannot hold, as question marks."""
    return words.encode("utf-8", "replace").decode()


def lower(value: Any, limit: int | None = None) -> str | None:
    """`text` in lower case."""
    found = text(value, limit)
    return found if found is None else found.lower()


def texts(value: Any, limit: int | None = None, most: int | None = None, *, unique: bool = True) -> list[str] | None:
    """Items of a list as texts, empty and (unless told otherwise) repeated ones left out, up to `most`."""
    if not isinstance(value, list):
        return None
    found: list[str] = []
    for item in value:
        word = text(item, limit)
        if word is None or (unique and word in found):
            continue
        if most is not None and len(found) >= most:
            break
        found.append(word)
    return found or None


def boolean(value: Any) -> bool | None:
    """A literal true or false."""
    return value if type(value) is bool else None


def literal_true(value: Any) -> bool | None:
    """Only a literal true."""
    return True if value is True else None


def integer(value: Any, least: int | None = None) -> int | None:
    """An integer that 64 bits hold, not below `least`."""
    if type(value) is not int or not -_WIDE <= value < _WIDE:
        return None
    return value if least is None or value >= least else None


def floored(value: Any) -> int | None:
    """An integer, negative ones as 0."""
    found = integer(value)
    return found if found is None else max(found, 0)


def number(value: Any) -> float | None:
    """A number as float; a flag is none."""
    if type(value) is float:
        return value
    return _float(value) if type(value) is int else None


def numeric(value: Any) -> float | None:
    """A number, or a text that is one."""
    return _float(value) if type(value) is str else number(value)


def _float(value: Any) -> float | None:
    try:
        return float(value)
    except (ValueError, OverflowError):
        return None


def plain_number(value: Any) -> float | int | None:
    """A number as it is."""
    return value if type(value) in (int, float) else None


def key(value: Any) -> str | None:
    """The string form of a text or number as it is, but for blanks around it: nothing that tells two keys apart goes."""
    if type(value) not in (str, int, float):
        return None
    return _encodable(str(value).strip()) or None


def finite(value: Any, least: float | None = None) -> float | None:
    """A finite number, not below `least`."""
    found = number(value)
    if found is None or not math.isfinite(found):
        return None
    return found if least is None or found >= least else None


def odd(value: Any) -> bool | None:
    """True for a number that is none: NaN or infinite, as a number or as a text."""
    found = numeric(value)
    return True if found is not None and not math.isfinite(found) else None


def time(value: Any) -> datetime | None:
    """A UTC time of an ISO text, without zone as UTC, or of seconds since 1970."""
    try:
        if type(value) is str:
            found = datetime.fromisoformat(value.strip())
            return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
        seconds = finite(value)
        return None if seconds is None else datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError):
        return None


def rounds(value: Any, most: int = 32) -> list[dict[str, Any]] | None:
    """Records of rounds, cleaned, one for each round, in order."""
    if not isinstance(value, list):
        return None
    found: dict[int, dict[str, Any]] = {}
    for item in value:
        at = integer(item.get("agent_round"), 1) if isinstance(item, dict) else None
        if at is None or at in found:
            continue
        kept = {
            "reward": number(item.get("reward")),
            "passed": boolean(item.get("passed")),
            "reward_present": boolean(item.get("reward_present")),
            "tool_calls": integer(item.get("tool_calls"), 0),
        }
        found[at] = {"agent_round": at} | {k: v for k, v in kept.items() if v is not None}
        if len(found) >= most:
            break
    return [found[at] for at in sorted(found)] or None


def json_text(value: Any) -> str | None:
    """JSON text of an object or list that is not empty; nothing for one that has no JSON text."""
    try:
        return dump(value) if isinstance(value, (dict, list)) and value else None
    except TypeError:
        return None


def dump(value: Any) -> str:
    """JSON text, keys as they are."""
    return orjson.dumps(value).decode()


def _rounds_json(value: Any, most: int = 32) -> str | None:
    found = rounds(value, most)
    return found if found is None else dump(found)


def _chosen(value: Any, kind: Any) -> Any:
    if type(value) is not kind:
        return None
    return _encodable(value) if kind is str else value


# name -> (dtype, conversion, names of the arguments in brackets)
KINDS: Mapping[str, tuple[Any, Convert, tuple[str, ...]]] = {
    "text": (pl.String(), text, ("limit",)),
    "lower": (pl.String(), lower, ("limit",)),
    "texts": (pl.List(pl.String()), texts, ("limit", "most")),
    "items": (pl.List(pl.String()), partial(texts, unique=False), ("limit", "most")),
    "bool": (pl.Boolean(), boolean, ()),
    "true": (pl.Boolean(), literal_true, ()),
    "int": (pl.Int64(), integer, ("least",)),
    "floored": (pl.Int64(), floored, ()),
    "number": (pl.Float64(), number, ()),
    "numeric": (pl.Float64(), numeric, ()),
    "plain": (pl.Float64(), plain_number, ()),
    "rounds": (pl.List(ROUND), rounds, ("most",)),
    "rounds_json": (pl.String(), _rounds_json, ("most",)),
    "json": (pl.String(), json_text, ()),
    "key": (pl.String(), key, ()),
    "finite": (pl.Float64(), finite, ("least",)),
    "odd": (pl.Boolean(), odd, ()),
    "time": (pl.Datetime("us", "UTC"), time, ()),
    "string": (pl.String(), partial(_chosen, kind=str), ()),
}


def converter(kind: str, where: str) -> tuple[Any, Convert]:
    """(dtype, conversion) of a kind such as `text(120)` or `texts(120,8)`.

    Raises:
        ConfigError: An unknown kind or too many arguments.
    """
    match = _KIND.fullmatch(kind)
    if match is None or match[1] not in KINDS:
        raise ConfigError(f"{where}: unknown kind {kind!r}; known are {', '.join(KINDS)}")
    dtype, convert, names = KINDS[match[1]]
    given = [int(g) if g else None for g in match.groups()[1:]]
    if any(g is not None for g in given[len(names) :]):
        raise ConfigError(f"{where}: {match[1]!r} takes {len(names)} numbers, {kind!r} has more")
    arguments = {n: g for n, g in zip(names, given, strict=False) if g is not None}
    return dtype, partial(convert, **arguments) if arguments else convert
