"""Frames as Markdown and CSV text that is safe to open: cells are escaped, formulas are neutralised."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

if TYPE_CHECKING:
    from collections.abc import Mapping

_MARKDOWN = (("\\", "\\\\"), ("|", "\\|"), ("`", "\\`"), ("*", "\\*"), ("[", "\\["), ("&", "&amp;"), ("<", "&lt;"))
_FORMULA = r"^[=+\-@\t\r\n＝＋－＠]"


def cells(frame: pl.DataFrame, *, lists: str = ", ") -> pl.DataFrame:
    """Every value as text on one line: times in ISO 8601, lists joined, control characters as `�`; null stays null."""
    return frame.select(
        _text(pl.col(n), t, lists).str.replace_all(r"\s+", " ").str.replace_all(r"\p{C}", "�").alias(n)
        for n, t in frame.schema.items()
    )


def markdown_table(frame: pl.DataFrame, titles: Mapping[str, str] | None = None) -> str:
    """A Markdown table of a frame; `titles` name its columns, null is a dash, numbers stand to the right.

    What Markdown or HTML would take for markup is escaped, so that no value breaks its row.
    """
    titles = titles or {}
    heads = pl.DataFrame({"head": [titles.get(c, c) for c in frame.columns]}).select(_escaped(pl.col("head")))
    rules = ["---:" if t.is_numeric() else "---" for t in frame.dtypes]
    lines = [heads["head"].to_list(), rules]
    text = cells(frame).select(_escaped(pl.all()).fill_null("-"))
    line = pl.concat_str([pl.lit("| "), pl.concat_str(pl.all(), separator=" | "), pl.lit(" |")]).alias("line")
    body = text.select(line)["line"].to_list() if frame.width else []
    return "\n".join([*(f"| {' | '.join(words)} |" for words in lines), *body]) + "\n"


def csv_table(frame: pl.DataFrame) -> str:
    """CSV of a frame, with a header: times in ISO 8601, lists as JSON, null empty.

    A text that a spreadsheet would run (it begins with `=`, `+`, `-`, `@`, a tab or a line break) gets a `'` before it.
    """
    flat = frame.select(_flat(pl.col(n), t).alias(n) for n, t in frame.schema.items())
    names = flat.select(_tamed(pl.lit(pl.Series(flat.columns, dtype=pl.String)))).to_series().to_list()
    return flat.rename(dict(zip(flat.columns, names, strict=True))).write_csv()


def _text(column: pl.Expr, dtype: pl.DataType, lists: str) -> pl.Expr:
    if isinstance(dtype, pl.List):
        return column.cast(pl.List(pl.String)).list.join(lists)
    if isinstance(dtype, pl.Datetime):
        return column.dt.to_string("iso:strict")
    return column.cast(pl.String)


def _flat(column: pl.Expr, dtype: pl.DataType) -> pl.Expr:
    if isinstance(dtype, pl.List | pl.Struct):
        document = pl.struct(column.alias("v")).struct.json_encode()
        return pl.when(column.is_not_null()).then(document.str.strip_prefix('{"v":').str.slice(0, _inner(document)))
    if isinstance(dtype, pl.Datetime):
        return column.dt.to_string("iso:strict")
    return _tamed(column.cast(pl.String)) if dtype in (pl.String, pl.Enum, pl.Categorical) else column


def _inner(document: pl.Expr) -> pl.Expr:
    return document.str.len_chars() - len('{"v":}')


def _tamed(column: pl.Expr) -> pl.Expr:
    return pl.when(column.str.contains(_FORMULA)).then(pl.concat_str(pl.lit("'"), column)).otherwise(column)


def _escaped(column: pl.Expr) -> pl.Expr:
    for raw, safe in _MARKDOWN:
        column = column.str.replace_all(raw, safe, literal=True)
    return column
