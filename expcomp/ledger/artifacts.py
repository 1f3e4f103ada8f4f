"""References to files of a run: relative to the working folder, and only those a pack calls public."""

from __future__ import annotations

import functools
import operator
from typing import TYPE_CHECKING, Any

import polars as pl

from expcomp.ledger.build import json_object

if TYPE_CHECKING:
    from collections.abc import Mapping


def references(refs: pl.DataFrame, cwd: pl.Series | None, lists: Mapping[str, Any]) -> tuple[pl.Series, pl.Series]:
    """(JSON text of the public references, the reference that tells runs apart) of each row.

    Args:
        refs: One column for each key the pack names: paths as given.
        cwd: Working folder of each row; without one an absolute path is nothing.
        lists: Section `artifacts` of a pack.
    """
    keys: list[str] = lists["keys"]
    folder = pl.Series([None], dtype=pl.String()).new_from_index(0, refs.height) if cwd is None else cwd
    made = refs.select(relative(refs[k], folder).alias(k) for k in keys)
    shown = pl.DataFrame({k: public(made[k], lists) for k in keys}).select(json_object({k: pl.col(k) for k in keys}))
    return shown.to_series(), made.select(pl.coalesce(*keys, pl.lit(""))).to_series()


def relative(ref: pl.Series, cwd: pl.Series) -> pl.Series:
    """Paths relative to the working folder; null for one outside of it, or in somebody's home."""
    if ref.null_count() == len(ref):
        return ref.cast(pl.String())
    path = ref.str.replace_all("/+", "/").str.replace_all(r"/(?:\./)+", "/").str.replace(r"^(?:\./)+", "")
    path = path.str.replace(r"/\.$", "")
    base = cwd.fill_null("").str.strip_suffix("/")
    frame = pl.DataFrame({"path": path, "cwd": cwd.fill_null(""), "base": base})
    frame = frame.with_columns(
        path=pl.when(pl.col("path").str.len_chars() > 1).then(pl.col("path").str.strip_suffix("/")).otherwise("path")
    )
    inside = pl.col("path").str.starts_with(pl.concat_str("base", pl.lit("/"))) & (pl.col("cwd") != "")
    upward = pl.col("path").str.contains(r"(?:^|/)\.\.(?:/|$)")
    under = pl.when(inside & ~upward).then(pl.col("path").str.slice(pl.col("base").str.len_chars() + 1))
    found = (
        pl.when(pl.col("path").str.starts_with("/"))
        .then(under)
        .when(~pl.col("path").str.starts_with("~") & (pl.col("path") != ""))
        .then("path")
    )
    return frame.select(found.alias(ref.name)).to_series()


def public(path: pl.Series, lists: Mapping[str, Any]) -> pl.Series:
    """What may be recorded of relative paths: the path, its name, or nothing."""
    if path.null_count() == len(path):
        return path
    frame = pl.DataFrame({"path": path.str.replace_all("\\", "/", literal=True)})
    frame = frame.with_columns(
        low=pl.concat_str(pl.lit("/"), pl.col("path").str.to_lowercase().str.strip_chars_start("/")),
        parts=pl.col("path").str.split("/"),
    )
    frame = frame.with_columns(name=pl.col("parts").list.last())
    low_name = pl.col("name").str.to_lowercase()
    frame = frame.with_columns(
        raw=_some(pl.col("low"), lists["raw_markers"]) | _ends(low_name, lists["private_endings"]),
        shown=_ends(low_name, lists["public_endings"]) | low_name.is_in(lists["public_names"]),
        bad_part=pl.col("parts")
        .list.eval(
            pl.element().str.starts_with(".")
            | (pl.element() == "")
            | pl.element().str.to_lowercase().is_in(lists["refused_parts"])
        )
        .list.any(),
    )
    whole = pl.col("path")
    shown = pl.col("shown") & ~pl.col("raw")
    refused = whole.str.contains(r"^[/~]") | whole.str.contains(":", literal=True) | pl.col("bad_part") | pl.col("raw")
    kept = pl.col("name").is_in(lists["result_names"]) | ~pl.col("name").str.contains(".", literal=True)
    found = (
        pl.when(shown & _some(whole, lists["name_only_markers"]))
        .then("name")
        .when(shown | (~refused & kept))
        .then("path")
    )
    return frame.select(found.alias(path.name)).to_series()


def _some(text: pl.Expr, needles: list[str]) -> pl.Expr:
    return functools.reduce(operator.or_, [text.str.contains(n, literal=True) for n in needles])


def _ends(text: pl.Expr, endings: list[str]) -> pl.Expr:
    return functools.reduce(operator.or_, [text.str.ends_with(e) for e in endings])
