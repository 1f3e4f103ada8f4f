"""Small expressions that several steps share."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import polars as pl

from expcomp.ledger.engine import compile_rules

if TYPE_CHECKING:
    from collections.abc import Mapping

    from expcomp.ledger.pack import Pack


def apply(frame: pl.DataFrame, pack: Pack, rules: str, value: str, rule: str | None = None) -> pl.DataFrame:
    """The frame with the value of a rule set, and the id of the rule that gave it."""
    given, fired = compile_rules(pack.rules[rules], frame.schema)
    return frame.with_columns(given.alias(value), *([] if rule is None else [fired.alias(rule)]))


def json_object(parts: Mapping[str, pl.Expr]) -> pl.Expr:
    """JSON text of an object of the parts that are not null; null when none is."""
    pieces = [
        pl.when(e.is_not_null()).then(pl.struct(e.alias(k)).struct.json_encode().str.slice(1).str.head(-1))
        for k, e in parts.items()
    ]
    joined = pl.concat_str(pieces, separator=",", ignore_nulls=True)
    return pl.when(joined != "").then(pl.concat_str(pl.lit("{"), joined, pl.lit("}")))


def constant(value: Any) -> pl.Expr:
    """A literal, lists and tables included."""
    if isinstance(value, dict):
        return pl.struct([constant(v).alias(k) for k, v in value.items()])
    if isinstance(value, list):
        return pl.lit(value, dtype=pl.List(pl.String()))
    return pl.lit(value)


def all_labels(*columns: str, schema: Mapping[str, Any]) -> pl.Expr:
    """One list of the texts and items of columns, in lower case, nulls left out."""
    parts = [pl.col(c).fill_null([]) if isinstance(schema[c], pl.List) else pl.concat_list(pl.col(c)) for c in columns]
    return pl.concat_list(*parts).list.drop_nulls().list.eval(pl.element().str.to_lowercase())


def short_digests(texts: pl.Series, digits: int) -> pl.Series:
    """First hex digits of the SHA-1 of each text: the identity of the ancestor."""
    found = [hashlib.sha1(t.encode(), usedforsecurity=False).hexdigest()[:digits] for t in texts.to_list()]
    return pl.Series(texts.name, found, dtype=pl.String())
