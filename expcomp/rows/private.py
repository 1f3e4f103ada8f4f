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
    rows = frame.select("package_id", *columns, **_flag(frame)).join(
        phrases, on="package_id", how="left", maintain_order="left"
    )
    rows = rows.with_columns(phrases=pl.when(~pl.col("flagged")).then("phrases")).with_row_index("row")
    rows = rows.filter(pl.col("phrases").is_not_null())
    if rows.is_empty():
        return frame
    most = int(rows["phrases"].list.len().max() or 0)  # type: ignore[arg-type]
    found = rows.select("row")
    for name in columns:
        column = rows.select("row", "phrases", name)
        if isinstance(frame.schema[name], pl.List):
            column = column.filter(pl.col(name).list.len() > 0).explode(name)
            told = column.select("row", _without(name, most)).group_by("row", maintain_order=True).agg(name)
        else:
            told = column.select("row", _without(name, most))
        found = found.join(told, on="row", how="left", maintain_order="left")
    told = found.rename({name: f"{name}_told" for name in columns})
    joined = frame.with_row_index("row").join(told, on="row", how="left", maintain_order="left")
    return joined.with_columns(pl.coalesce(f"{name}_told", name).alias(name) for name in columns).select(frame.columns)


def _flag(frame: pl.DataFrame) -> dict[str, pl.Expr]:
    flagged = pl.col("verifier_only") if "verifier_only" in frame.columns else pl.lit(value=False)
    return {"flagged": flagged.fill_null(value=False)}


def _without(name: str, most: int) -> pl.Expr:
    text = pl.col(name)
    for i in range(most):
        phrase = pl.col("phrases").list.get(i, null_on_oob=True)
        text = pl.when(phrase.is_not_null()).then(text.str.split(phrase).list.join(MASK)).otherwise(text)
    # A phrase may begin or end inside of an escape: what was JSON stays JSON.
    is_json = pl.col(name).str.contains(r"^[\[{]") & pl.col(name).str.json_path_match("$").is_not_null()
    broken = is_json & text.str.json_path_match("$").is_null()
    return pl.when(broken.fill_null(value=False)).then(pl.lit(f'"{MASK}"')).otherwise(text).alias(name)


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
