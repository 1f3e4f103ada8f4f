"""Fields of stored runs: the same tables of fields that read records, over the columns of the table of runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson
import polars as pl

from expcomp.tables.ledger import DOCUMENT

if TYPE_CHECKING:
    from expcomp.ledger.fields import Fields

_FITS = {
    "text": {"text", "lower", "string"},
    "bool": {"bool", "true"},
    "int": {"int", "floored", "number", "numeric", "plain"},
    "number": {"number", "numeric", "plain"},
    "list": {"texts", "items"},
}


def facts(runs: pl.DataFrame, fields: Fields) -> pl.DataFrame:
    """The columns of a table of fields for stored runs, row by row in the order of the runs.

    Columns and JSON columns are read as expressions. Rows with an `extra`, which may hold any key, are read as documents, and so are
    those of whose JSON columns an exact text is asked: an expression cannot tell 5 from "5".
    """
    quick = runs.select(_expr(fields, name).cast(dtype).alias(name) for name, dtype in fields.schema.items())
    exact = {
        p.partition(".")[0] for kind, paths in fields.written.values() for p in paths if kind == "string" and "." in p
    }
    whole = [pl.col(c).is_not_null() for c in ("extra", *(h for h in exact if DOCUMENT.get(h) == "json"))]
    odd = runs.select(pl.any_horizontal(whole).arg_true()).to_series()
    if odd.is_empty():
        return quick
    rows = runs[odd]
    heads = {p.partition(".")[0].partition("[")[0] for _, paths in fields.written.values() for p in paths}
    slow = fields.frame(partial_documents(rows, [h for h in DOCUMENT if h in heads]))
    at = pl.int_range(pl.len(), dtype=pl.UInt32).alias("_at")
    plain = quick.with_columns(at).filter(~pl.col("_at").is_in(odd.cast(pl.UInt32).implode()))
    both = pl.concat([plain, slow.with_columns(odd.cast(pl.UInt32).alias("_at"))], how="vertical")
    return both.sort("_at").drop("_at")


def partial_documents(rows: pl.DataFrame, keys: list[str]) -> list[dict[str, Any]]:
    """Documents of rows, cut to some keys of the table and all of `extra`."""
    documents: list[dict[str, Any]] = [{} for _ in range(rows.height)]
    for key in keys:
        nested = DOCUMENT[key] == "json"
        for document, value in zip(documents, rows[key].to_list(), strict=True):
            if value is not None:
                document[key] = orjson.loads(value) if nested else value
    for document, extra in zip(documents, rows["extra"].to_list(), strict=True):
        if extra is not None:
            document.update(orjson.loads(extra))
    return documents


def _expr(fields: Fields, name: str) -> pl.Expr:
    kind, paths = fields.written[name]
    found = [e for p in paths if (e := _path(kind, p)) is not None]
    return pl.coalesce(found) if found else pl.lit(None)


def _path(kind: str, path: str) -> pl.Expr | None:
    head, _, rest = path.partition(".")
    have = DOCUMENT.get(head)
    if have is None:
        return None
    column = pl.col(head)
    if rest:
        return _nested(kind, column, rest) if have == "json" else None
    if have == "json":
        return column if kind in ("json", "object") else None
    if kind not in _FITS[have]:
        return None
    if have == "text":
        full = pl.when(column.str.strip_chars() != "").then(column)
        return full.str.to_lowercase() if kind == "lower" else full
    if have == "list":
        return column.list.eval(pl.element().filter(pl.element() != "")).list.head(16)
    return pl.when(column).then(True) if kind == "true" else column


def _nested(kind: str, column: pl.Expr, rest: str) -> pl.Expr | None:
    found = column.str.json_path_match(f"$.{rest}")
    if kind in ("bool", "true"):
        return pl.when(found == "true").then(True).when((found == "false") & (kind == "bool")).then(False)
    if kind in _FITS["text"]:
        return found.str.to_lowercase() if kind == "lower" else found
    return found.cast(pl.Float64, strict=False) if kind in _FITS["int"] else None
