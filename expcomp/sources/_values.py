"""Small readings that several formats share: numbers, times, secrets, scores."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

_SECRET = re.compile(r"(api[_-]?key|(^|[_-])key$|token$|secret|passw|authorization|credential|cookie)", re.IGNORECASE)
_INT64 = 2**63
_TOLERANCE = 1e-6
UNIT = (0.0, 1.0)


def obj(value: Any) -> dict[str, Any]:
    """The value if it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def items(value: Any) -> list[Any]:
    """The value if it is an array, else an empty one."""
    return value if isinstance(value, list) else []


def text(value: Any) -> str | None:
    """The value if it is a text, else null."""
    return value if isinstance(value, str) else None


def writable(value: str) -> str:
    """The text with what UTF-8 cannot hold spelled out: names of files may be any bytes."""
    return value.encode("utf-8", "backslashreplace").decode()


def finite(value: Any) -> float | None:
    """The value if it is a number that a column can hold, else null; JSON has whole numbers beyond all floats."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value) if math.isfinite(value) else None
    except OverflowError:
        return None


def whole(value: Any) -> int | None:
    """The value if it is a whole number that a column can hold, else null."""
    if finite(value) is None:
        return None
    number = int(value)
    return number if number == value and -_INT64 <= number < _INT64 else None


def count(value: Any) -> int | None:
    """A whole number that is not negative, else null."""
    number = whole(value)
    return number if number is not None and number >= 0 else None


def small(value: Any) -> int | None:
    """A whole number that fits in 32 bits, else null."""
    number = whole(value)
    return number if number is not None and -(2**31) <= number < 2**31 else None


def amount(value: Any) -> float | None:
    """A finite number that is not negative, else null."""
    number = finite(value)
    return number if number is not None and number >= 0 else None


def moment(value: Any) -> tuple[datetime | None, bool]:
    """A time in UTC and whether its zone had to be assumed (UTC) because the source gave none."""
    if not isinstance(value, str):
        return None, False
    try:
        stamp = datetime.fromisoformat(value.strip())
        naive = stamp.tzinfo is None
        return (stamp.replace(tzinfo=UTC) if naive else stamp.astimezone(UTC)), naive
    except (ValueError, OverflowError):
        return None, False


def epoch(value: Any) -> datetime | None:
    """A time from seconds since 1970; 0 is no time."""
    seconds = amount(value)
    if not seconds:
        return None
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (OverflowError, OSError, ValueError):
        return None


@lru_cache(maxsize=4096)
def _is_secret(key: str) -> bool:
    return _SECRET.search(key) is not None


def redact(value: Any) -> Any:
    """The value without the keys that look like secrets, at any depth."""
    if isinstance(value, dict):
        return {k: redact(v) if isinstance(v, dict | list) else v for k, v in value.items() if not _is_secret(str(k))}
    if isinstance(value, list):
        return [redact(v) for v in value]
    return value


@dataclass(frozen=True, slots=True)
class Score:
    """A reward as it goes into `attempts` and `grades`."""

    value: float | None
    scale: tuple[float, float] | None
    norm: float | None
    passed: bool | None
    valid: bool
    issue: str | None
    label: str | None = None


def score_of(raw: Any, scale: tuple[float, float] | None, *, verdict: bool) -> Score:
    """Read a reward.

    `passed` is set only on the scale 0..1 of a harness whose own rule is "1 passes" (`verdict`), and only at its ends:
    a fraction is a score without a verdict.
    """
    if raw is None:
        return Score(None, scale, None, None, valid=False, issue="score_missing")
    if not isinstance(raw, int | float):
        return Score(None, scale, None, None, valid=False, issue="score_not_a_number", label=str(raw)[:200])
    try:
        value = float(raw)
    except OverflowError:
        value = math.inf
    if not math.isfinite(value):
        return Score(None, scale, None, None, valid=False, issue="score_not_finite", label=str(value))
    if scale is None or scale[1] <= scale[0]:
        return Score(value, None, None, None, valid=True, issue=None)
    low, high = scale
    if not low - _TOLERANCE <= value <= high + _TOLERANCE:
        return Score(value, scale, None, None, valid=False, issue="score_out_of_scale")
    passed = None
    if verdict and scale == UNIT:
        passed = True if value >= 1 - _TOLERANCE else False if value <= _TOLERANCE else None
    norm = min(1.0, max(0.0, (value - low) / (high - low)))
    return Score(value, scale, norm, passed, valid=True, issue=None)
