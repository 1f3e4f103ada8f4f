"""What only a verifier may see, taken out of what judges said of an attempt: such a criterion is named by its id and no other way."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

if TYPE_CHECKING:
    from collections.abc import Sequence

MASK = "<private:criterion>"
"""Stands where a text spoke of a private criterion."""


def private_items(items: pl.DataFrame) -> pl.DataFrame:
    """The rubric items that only a verifier may see."""
    return items.filter(pl.col("verifier_only").fill_null(value=False))


def phrases_of(private: pl.DataFrame) -> pl.DataFrame:
    """(package_id, phrases): names and descriptions of private criteria, the longest first, also as JSON writes them.

    One word alone betrays nothing: a text may hold it for reasons of its own.
    """
    named = ("criterion_name", "criterion_description")
    said = pl.concat([private.select("package_id", "rubric_item_id", phrase=c) for c in named])
    said = said.with_columns(pl.col("phrase").str.strip_chars()).filter(
        pl.col("phrase").str.contains(r"\w\s+\w") & (pl.col("phrase") != pl.col("rubric_item_id"))
    )
    escaped = pl.struct(t="phrase").struct.json_encode().str.slice(6).str.head(-2)
    every = (
        pl.concat([said, said.with_columns(phrase=escaped)]).select("package_id", "phrase").unique(maintain_order=True)
    )
    longest = every.sort("package_id", pl.col("phrase").str.len_chars(), "phrase", descending=[False, True, False])
    return longest.group_by("package_id", maintain_order=True).agg(phrases=pl.col("phrase"))


def masked(frame: pl.DataFrame, columns: Sequence[str], phrases: pl.DataFrame) -> pl.DataFrame:
    """A frame in whose columns of text, or of lists of texts, no phrase of the row's package stands; rows flagged as private stay."""
    columns = [name for name in columns if name in frame.columns]
    if phrases.is_empty() or frame.is_empty() or not columns:
        return frame
    # Phrases of all packages are looked for at once; few rows hold any.
    every = phrases["phrases"].explode().unique(maintain_order=True).to_list()
    hit = pl.any_horizontal(_holds(name, frame.schema[name], every) for name in columns)
    if "verifier_only" in frame.columns:
        hit = hit & ~pl.col("verifier_only").fill_null(value=False)
    rows = frame.with_row_index("row").filter(hit.fill_null(value=False)).select("row", "package_id", *columns)
    rows = rows.join(phrases, on="package_id", how="inner", maintain_order="left") if rows.height else rows
    if rows.is_empty():
        return frame
    told = pl.concat(
        part.select("row", *(_without(name, frame.schema[name], part["phrases"][0].to_list()) for name in columns))
        for part in rows.partition_by("package_id", maintain_order=True)
    )
    joined = frame.with_row_index("row").join(told, on="row", how="left", maintain_order="left", suffix="_told")
    return joined.with_columns(pl.coalesce(f"{name}_told", name).alias(name) for name in columns).select(frame.columns)


# Phrases are a Python list: Polars 2.1 takes a series of as many for one pattern a row.
def _holds(name: str, dtype: pl.DataType, phrases: list[str]) -> pl.Expr:
    if isinstance(dtype, pl.List):
        return pl.col(name).list.eval(pl.element().str.contains_any(phrases)).list.any()
    return pl.col(name).str.contains_any(phrases)


def _without(name: str, dtype: pl.DataType, phrases: list[str]) -> pl.Expr:
    if isinstance(dtype, pl.List):
        return pl.col(name).list.eval(_clean(pl.element(), phrases))
    return _clean(pl.col(name), phrases).alias(name)


def _clean(text: pl.Expr, phrases: list[str]) -> pl.Expr:
    clean = text.str.replace_many(phrases, [MASK], leftmost=True)
    # A phrase may begin or end inside of an escape: what was JSON stays JSON.
    is_json = text.str.contains(r"^[\[{]") & text.str.json_path_match("$").is_not_null()
    broken = is_json & clean.str.json_path_match("$").is_null()
    return pl.when(broken.fill_null(value=False)).then(pl.lit(f'"{MASK}"')).otherwise(clean)


def by_id(criteria: pl.DataFrame, private: pl.DataFrame) -> pl.DataFrame:
    """Failed criteria in which a private one stands by its id, whatever the grader called it.

    Args:
        criteria: `attempt_id`, `package_id` and `failed_criteria`.
        private: `private_items`.
    """
    names = private.filter(pl.col("criterion_name").is_not_null()).select(
        "package_id", "rubric_item_id", failed_criteria="criterion_name"
    )
    names = names.unique(["package_id", "failed_criteria"], keep="first", maintain_order=True)
    rows = criteria.with_row_index("row")
    told = (
        rows.filter(pl.col("failed_criteria").list.len() > 0)
        .explode("failed_criteria", empty_as_null=False)
        .join(names, on=["package_id", "failed_criteria"], how="left", maintain_order="left")
        .group_by("row", maintain_order=True)
        .agg(told=pl.coalesce("rubric_item_id", "failed_criteria"))
    )
    joined = rows.join(told, on="row", how="left", maintain_order="left")
    return joined.with_columns(failed_criteria=pl.coalesce("told", "failed_criteria")).drop("row", "told")
