"""Changes between two states, as operations on containers: put, drop, append, remove, replace."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from expcomp.environments.flatten import SEPARATOR, dump, load

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["OPS", "changed", "deltas"]

OPS = ("put", "drop", "append", "remove", "replace")
_SCHEMA = {
    "before": pl.String,
    "after": pl.String,
    "where": pl.String,
    "op": pl.String,
    "key": pl.String,
    "value": pl.String,
}


def deltas(pairs: pl.DataFrame) -> pl.DataFrame:
    """Operations that turn `before` into `after`, for the distinct pairs that differ.

    Returns:
        `before`, `after`, `where` (place of the container), `op`, `key` (put and drop: the member), `value`.
    """
    distinct = pairs.filter(pl.col("before") != pl.col("after")).unique(["before", "after"], maintain_order=True)
    out: list[tuple[Any, ...]] = []
    for before, after in zip(distinct["before"], distinct["after"], strict=True):
        out += [(before, after, *op) for op in _diff(load(before), load(after), ())]
    return pl.DataFrame(out, schema=_SCHEMA, orient="row")


def _diff(before: Any, after: Any, place: tuple[str, ...]) -> Iterator[tuple[str, str, str | None, str | None]]:
    where = SEPARATOR.join(place)
    if type(before) is dict:
        for key in sorted({*before, *after}):
            if key not in before:
                yield where, "put", key, dump(after[key])
            elif key not in after:
                yield where, "drop", key, None
            elif not _same(before[key], after[key]):
                if type(before[key]) is type(after[key]) and type(after[key]) in (dict, list):
                    yield from _diff(before[key], after[key], (*place, key))
                else:
                    yield where, "put", key, dump(after[key])
    elif _same(after[: len(before)], before):
        for item in after[len(before) :]:
            yield where, "append", None, dump(item)
    elif len(after) == len(before) - 1 and (gone := _gone(before, after)) is not None:
        yield where, "remove", None, dump(before[gone])
    elif len(after) == len(before):
        for i, (old, new) in enumerate(zip(before, after, strict=True)):
            if _same(old, new):
                continue
            if type(old) is type(new) and type(new) in (dict, list):
                yield from _diff(old, new, (*place, f"[{i}]"))
            else:
                yield where, "put", f"[{i}]", dump(new)
    else:
        yield where, "replace", None, dump(after)


def _same(a: Any, b: Any) -> bool:
    """Equal as JSON: a boolean is no number."""
    return bool(a == b) and dump(a) == dump(b)


def _gone(before: list[Any], after: list[Any]) -> int | None:
    return next((i for i in range(len(before)) if _same(before[:i] + before[i + 1 :], after)), None)


def changed(before: str, ops: list[tuple[str, str, str | None, str | None]]) -> str | None:
    """A state with operations (`where`, `op`, `key`, `value`) applied in order; None when one finds no place."""
    root = load(before)
    try:
        for where, op, key, value in ops:
            _apply(root, where.split(SEPARATOR) if where else [], op, key, value)
    except (LookupError, TypeError, ValueError, AttributeError, StopIteration):
        return None
    return dump(root)


def _apply(root: Any, place: list[str], op: str, key: str | None, value: str | None) -> None:
    parent, last, node = None, None, root
    for segment in place:
        parent, last = node, int(segment[1:-1]) if type(node) is list else segment
        node = node[last]
    new = load(value) if value is not None else None
    if op == "put":
        assert key is not None
        node[int(key[1:-1]) if type(node) is list else key] = new
    elif op == "drop":
        del node[key]
    elif op == "append":
        node.append(new)
    elif op == "remove":
        del node[next(i for i, item in enumerate(node) if _same(item, new))]
    else:
        parent[last] = new  # type: ignore[index]
