"""Equality of answers: generated values by shape, shares of equal leaves."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import polars as pl

from expcomp.environments.flatten import load

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["leaf_shares", "same_shape"]

GENERATED: Mapping[str, re.Pattern[str]] = {
    "uuid": re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"),
    "time stamp": re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:?\d\d)?"),
    "date": re.compile(r"\d{4}-\d\d-\d\d"),
}
"""Shapes of values that a world makes up. Epoch seconds are numbers between these bounds."""
EPOCH = (1_000_000_000, 4_000_000_000)
_ANY = re.compile(r"\d{4}-\d\d-\d\d|[0-9a-fA-F]{8}-|\b[1-3]\d{9}\b")


def same_shape(pairs: pl.DataFrame, shown: pl.DataFrame) -> pl.DataFrame:
    """Whether two answers are equal but for generated values: `t`, `shape`.

    A generated value of the recorded answer that nothing shown so far holds matches any value of its shape; the pairing is one to
    one within the answer. Shown are the arguments, the given state, and the earlier answers of the episode.

    Args:
        pairs: `t`, `episode_id`, `turn`, `answer`, `truth`, `args`, `before`: canonical JSON.
        shown: `episode_id`, `turn`, `answer` of all real calls.
    """
    episodes = {
        str(e): list(zip(part["turn"], part["answer"], strict=True))
        for (e,), part in shown.drop_nulls("answer")
        .partition_by("episode_id", as_dict=True, maintain_order=True)
        .items()
    }
    names = ("episode_id", "turn", "answer", "truth", "args", "before")
    found = []
    for episode, turn, a, b, args, before in zip(*(pairs[n] for n in names), strict=True):
        if a is None or b is None or not _ANY.search(b):
            found.append(False)
            continue
        earlier = [text for at, text in episodes.get(episode, ()) if at < turn]
        found.append(_same(load(a), load(b), "\n".join([args, before or "", *earlier])))
    return pairs.select("t").with_columns(shape=pl.Series(found, dtype=pl.Boolean))


def _same(a: Any, b: Any, shown: str) -> bool:
    bound: dict[Any, Any] = {}
    return _matches(a, b, shown, bound) and len(set(bound.values())) == len(bound)


def _matches(a: Any, b: Any, shown: str, bound: dict[Any, Any]) -> bool:
    if type(a) is dict and type(b) is dict:
        return a.keys() == b.keys() and all(_matches(a[k], b[k], shown, bound) for k in a)
    if type(a) is list and type(b) is list:
        return len(a) == len(b) and all(_matches(x, y, shown, bound) for x, y in zip(a, b, strict=True))
    kind = _kind(b)
    if kind is not None and kind == _kind(a) and str(b) not in shown:
        return bool(bound.setdefault(b, a) == a)
    return type(a) is type(b) and bool(a == b)


def _kind(value: Any) -> str | None:
    if type(value) is int and EPOCH[0] <= value <= EPOCH[1]:
        return "epoch"
    if type(value) is not str:
        return None
    return next((name for name, pattern in GENERATED.items() if pattern.fullmatch(value)), None)


def leaf_shares(pairs: pl.DataFrame) -> pl.DataFrame:
    """Share of the leaf paths of both answers with equal value: `answer`, `truth`, `leaf`, for the distinct pairs."""
    distinct = pairs.select("answer", "truth").unique(maintain_order=True)
    found = [_share(a, b) for a, b in zip(distinct["answer"], distinct["truth"], strict=True)]
    return distinct.with_columns(leaf=pl.Series(found, dtype=pl.Float64))


def _share(a: str | None, b: str | None) -> float | None:
    if a is None or b is None:
        return None
    if a == b:
        return 1.0
    mine, theirs = dict(_leaves(load(a), "")), dict(_leaves(load(b), ""))
    paths = mine.keys() | theirs.keys()
    missing = object()
    return sum(_equal(mine.get(p, missing), theirs.get(p, missing)) for p in paths) / len(paths)


def _equal(a: Any, b: Any) -> bool:
    return (type(a) is bool) == (type(b) is bool) and bool(a == b)


def _leaves(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    if type(value) is dict and value:
        for key, item in value.items():
            yield from _leaves(item, f"{path}.{key}")
    elif type(value) is list and value:
        for place, item in enumerate(value):
            yield from _leaves(item, f"{path}[{place}]")
    else:
        yield path, str(value) if type(value) in (dict, list) else value
