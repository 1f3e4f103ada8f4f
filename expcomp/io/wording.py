"""Sentences with values in them, as expressions."""

from __future__ import annotations

import polars as pl


def worded(template: str, *values: pl.Expr | str) -> pl.Expr:
    """The text with each `{}` replaced by a column or expression, null where one is null; `pl.format` without its fault.

    `pl.format` of Polars 2.1 panics over frames of which a part is empty, as they come from a filter over joined frames.
    """
    texts = template.split("{}")
    if len(texts) != len(values) + 1:
        msg = f"{len(texts) - 1} places for {len(values)} values in {template!r}"
        raise ValueError(msg)
    parts = [pl.lit(texts[0])]
    for value, after in zip(values, texts[1:], strict=True):
        parts += [pl.col(value) if isinstance(value, str) else value, pl.lit(after)]
    return pl.concat_str(parts)
