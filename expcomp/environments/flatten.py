"""JSON documents as columns: canonical text, the members of one level, all nodes.

Every function works on the distinct documents of a column, so equal documents are parsed once. A value is always carried
as canonical JSON text: keys sorted, no spaces, a number without a needless `.0`; equal texts are equal values.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson
import polars as pl

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["SEPARATOR", "as_document", "canonical", "dump", "elements", "load", "members", "nodes", "objects", "opened"]

SEPARATOR = "\x1f"
"""Between the keys of a place in a document; no JSON key of a sane world holds it."""
_EXACT = 2**53
_OPTIONS = orjson.OPT_SORT_KEYS


def load(text: str) -> Any:
    """Parsed JSON.

    Raises:
        ValueError: The text is no JSON.
    """
    return orjson.loads(text)


def is_json(text: str) -> bool:
    """Whether a text is one JSON document."""
    try:
        load(text)
    except ValueError:
        return False
    return True


def _again(value: Any) -> str:
    """Canonical text of a part of a document that was canonical."""
    return orjson.dumps(value, option=_OPTIONS).decode()


def dump(value: Any) -> str:
    """Canonical text of a parsed value: sorted keys, integral floats written as integers."""
    return orjson.dumps(_plain(value), option=_OPTIONS).decode()


def _plain(value: Any) -> Any:
    kind = type(value)
    if kind is float:
        return int(value) if value.is_integer() and abs(value) < _EXACT else value
    if kind is dict:
        return {k: _plain(v) for k, v in value.items()}
    if kind is list:
        return [_plain(v) for v in value]
    return value


def _canonical(text: str | None) -> str | None:
    if text is None:
        return None
    try:
        return dump(orjson.loads(text))
    except ValueError:
        return None


def _document(text: str | None) -> str | None:
    if text is None:
        return None
    try:
        return dump(orjson.loads(text))
    except ValueError:
        return orjson.dumps(text).decode()


def canonical(column: pl.Series) -> pl.DataFrame:
    """Distinct texts of a column as `text`, `value`: canonical JSON, null where the text is no JSON."""
    texts = column.drop_nulls().unique(maintain_order=True)
    return pl.DataFrame(
        {"text": texts, "value": [_canonical(t) for t in texts]}, schema={"text": pl.String, "value": pl.String}
    )


def as_document(column: pl.Series) -> pl.DataFrame:
    """Distinct texts of a column as `text`, `value`, `is_json`; a text that is no JSON becomes a JSON string."""
    found = canonical(column)
    loose = [None if v is not None else _document(t) for t, v in zip(found["text"], found["value"], strict=True)]
    return found.with_columns(is_json=pl.col("value").is_not_null()).with_columns(
        value=pl.col("value").fill_null(pl.Series(loose, dtype=pl.String))
    )


def members(column: pl.Series) -> pl.DataFrame:
    """Members of the distinct objects of a column of canonical texts: `doc` (canonical text), `key`, `value`; other values give no row."""
    return _table(column, _members, {"key": pl.String, "value": pl.String})


def elements(column: pl.Series) -> pl.DataFrame:
    """Elements of the distinct arrays of a column of canonical texts: `doc`, `index`, `value`; other values give no row."""
    return _table(column, _elements, {"index": pl.Int32, "value": pl.String})


def objects(column: pl.Series, *, depth: int) -> pl.DataFrame:
    """Members of every object inside the distinct documents of a column: `doc`, `level`, `object` (canonical text), `key`, `value`.

    Of arrays below a level the objects are taken, not the arrays inside them.

    Args:
        column: Canonical texts.
        depth: Levels that are opened.
    """
    schema = {"level": pl.Int32, "object": pl.String, "key": pl.String, "value": pl.String}
    return _table(column, lambda v: _inner(v, depth), schema)


def _inner(value: Any, depth: int) -> Iterator[tuple[Any, ...]]:
    level = [value]
    for nth in range(depth):
        below: list[Any] = []
        for item in level:
            if type(item) is dict:
                text = _again(item)
                for key, inner in item.items():
                    yield nth, text, key, _again(inner)
                below += item.values()
        for item in level:
            if type(item) is list:
                below += item
        level = [v for v in below if type(v) is dict or type(v) is list]


def nodes(column: pl.Series, *, depth: int, width: int) -> pl.DataFrame:
    """Nodes below the distinct objects of a column, inner ones included: `doc`, `path`, `where`, `kind`, `value`.

    `path` is dotted, `where` is the same with SEPARATOR between the keys.

    Args:
        column: Canonical texts.
        depth: Levels that are opened.
        width: Members above which an object is a map of entries, which is not opened.
    """
    return _table(
        column,
        lambda v: _nodes(v, (), depth, width),
        {"path": pl.String, "where": pl.String, "kind": pl.String, "value": pl.String},
    )


def opened(texts: Iterable[str | None]) -> dict[str, dict[str, str]]:
    """Members of the objects among canonical texts that have any, as canonical texts."""
    found = {t: dict(_members(orjson.loads(t))) for t in dict.fromkeys(texts) if t is not None and t[0] == "{"}
    return {t: d for t, d in found.items() if d}


def _members(value: Any) -> Iterator[tuple[Any, ...]]:
    if type(value) is dict:
        for key, item in value.items():
            yield key, _again(item)


def _elements(value: Any) -> Iterator[tuple[Any, ...]]:
    if type(value) is list:
        for index, item in enumerate(value):
            yield index, _again(item)


def _nodes(value: Any, above: tuple[str, ...], depth: int, width: int) -> Iterator[tuple[Any, ...]]:
    if type(value) is not dict or depth == 0 or len(value) > width:
        return
    for key, item in value.items():
        here = (*above, key)
        yield ".".join(here), SEPARATOR.join(here), type(item).__name__, _again(item)
        if type(item) is dict:
            yield from _nodes(item, here, depth - 1, width)


def _table(column: pl.Series, opened: Any, schema: dict[str, Any]) -> pl.DataFrame:
    docs: list[str] = []
    rows: list[tuple[Any, ...]] = []
    for text in column.unique(maintain_order=True).to_list() if len(column) else ():
        if text is not None:
            found = list(opened(orjson.loads(text)))
            rows.extend(found)
            docs.extend([text] * len(found))
    columns: list[Any] = list(zip(*rows, strict=True)) if rows else [[] for _ in schema]
    made = zip(schema.items(), columns, strict=True)
    return pl.DataFrame([pl.Series("doc", docs, pl.String), *(pl.Series(n, c, d) for (n, d), c in made)])
