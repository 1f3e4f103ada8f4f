"""Wire frame to JSON lines: absent keys of messages are left out, JSON texts are spliced in as what they hold."""

from __future__ import annotations

from itertools import groupby

import polars as pl

from expcomp.datasets.wire import json_text
from expcomp.tables.targets import AXOLOTL_CHAT, SWIFT_CHAT, Target

__all__ = ["json_lines"]

_Member = tuple[str, pl.DataType, pl.Expr]

# Fields whose JSON text stands in the line as an object, by profile; elsewhere it stays a string.
_SPLICED: dict[str, frozenset[str]] = {
    "typed": frozenset({"arguments"}),
    "native": frozenset({"arguments", "tools"}),
}
_FIELDS = {f.name for chat in (AXOLOTL_CHAT, SWIFT_CHAT) for f in chat.inner.fields}  # type: ignore[union-attr]
_OPTIONAL = frozenset(_FIELDS - {"role", "content"})


def json_lines(target: Target, wire: pl.DataFrame) -> pl.Series:
    """One JSON object a row, without line ends: keys in the order of the columns, nulls of top-level columns written."""
    spliced = _SPLICED.get(target.profile, frozenset())
    columns = [(n, t, pl.col(n)) for n, t in wire.schema.items()]
    return wire.select(_object(columns, spliced, frozenset()).alias("line")).to_series()


def _object(members: list[_Member], spliced: frozenset[str], optional: frozenset[str]) -> pl.Expr:
    """An object with these members; optional ones are left out when null.

    Neighbours of which nothing is left out are encoded together: a pass over the text less for each.
    """
    parts: list[pl.Expr] = []
    for closed, run in groupby(members, lambda m: not (m[0] in spliced | optional or _is_open(m[1], spliced))):
        if closed:
            parts.append(_encoded(*(value.alias(name) for name, _, value in run)))
        else:
            parts += [_member(m, spliced, null=m[0] not in optional) for m in run]
    return pl.concat_str(pl.lit("{"), pl.concat_str(parts, separator=",", ignore_nulls=True), pl.lit("}"))


def _member(member: _Member, spliced: frozenset[str], *, null: bool) -> pl.Expr:
    """A key with its value; where the value is null, the key with null or nothing."""
    name, dtype, value = member
    key = pl.lit(f'"{name}":')
    if name in spliced:
        written = _one_line(value)
    elif _is_open(dtype, spliced):
        written = _value(value, dtype, spliced)
    else:
        return pl.when(value.is_not_null()).then(_encoded(value.alias(name)))
    return pl.concat_str(key, written.fill_null("null") if null else written)


def _value(value: pl.Expr, dtype: pl.DataType, spliced: frozenset[str]) -> pl.Expr:
    """JSON of a value, null where it is null."""
    if isinstance(dtype, pl.List):
        inner: pl.DataType = dtype.inner  # type: ignore[assignment]
        items = value.list.eval(
            _value(pl.element(), inner, spliced) if _is_open(inner, spliced) else json_text(pl.element())
        )
        return pl.concat_str(pl.lit("["), items.list.join(","), pl.lit("]"))
    assert isinstance(dtype, pl.Struct)
    members: list[_Member] = [(f.name, f.dtype, value.struct.field(f.name)) for f in dtype.fields]  # type: ignore[misc]
    return pl.when(value.is_not_null()).then(_object(members, spliced, _OPTIONAL))


def _encoded(*members: pl.Expr) -> pl.Expr:
    """Named values as members of an object, without its braces."""
    return pl.struct(*members).struct.json_encode().str.strip_prefix("{").str.strip_suffix("}")


def _is_open(dtype: pl.DataType, spliced: frozenset[str]) -> bool:
    """Whether something below is left out when null, or spliced."""
    if isinstance(dtype, pl.List):
        return _is_open(dtype.inner, spliced)  # type: ignore[arg-type]
    if isinstance(dtype, pl.Struct):
        return any(
            f.name in _OPTIONAL or f.name in spliced or _is_open(f.dtype, spliced)  # type: ignore[arg-type]
            for f in dtype.fields
        )
    return False


def _one_line(text: pl.Expr) -> pl.Expr:
    """JSON text without line ends, which can only stand between its tokens."""
    return text.str.replace_many(["\n", "\r"], [" ", " "])
