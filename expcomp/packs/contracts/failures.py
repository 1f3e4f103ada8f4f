"""Failures of the files and fields of a contract, from their expectations and measured facts, by expressions only."""

from __future__ import annotations

import polars as pl

from expcomp.io.wording import worded
from expcomp.packs.contracts.checks import FIELD_CHECKS, FILE_CHECKS, LISTING_FAMILY, field_code, field_text
from expcomp.packs.contracts.words import OUTPUTS_NAME

COLUMNS = ("item", "rank", "path", "kind", "code", "field", "expectation", "found", "count", "row", "repair_hint")
_ITEM_KEYS = ("item", "level", "field")


def file_failures(files: pl.DataFrame) -> pl.DataFrame:
    """Failures of whole files, the first of each group for each item; `group` and `COLUMNS`."""
    parts = [
        files.filter(c.bad.fill_null(value=False)).select(
            "item",
            "path",
            "kind",
            group=pl.lit(c.group),
            rank=pl.lit(rank, dtype=pl.Int32),
            code=c.code,
            field=c.field,
            expectation=c.expectation,
            found=c.found,
            count=c.count,
            row=pl.lit(None, dtype=pl.Int64),
            repair_hint=c.hint,
        )
        for rank, c in enumerate(FILE_CHECKS)
    ]
    return (
        pl.concat(parts)
        .sort("item", "rank", maintain_order=True)
        .unique(["item", "group"], keep="first", maintain_order=True)
    )


def field_failures(files: pl.DataFrame, expectations: pl.DataFrame, facts: pl.DataFrame) -> pl.DataFrame:
    """Failures of fields, in `COLUMNS`.

    Args:
        files: Items that were measured without a problem: `item`, `path`, `kind`, `family`, `shape`, `rows`.
        expectations: `document.EXPECTATION`.
        facts: `item` and `kinds.FACTS`.
    """
    ranks = {check: rank for rank, check in enumerate(FIELD_CHECKS)}
    asked = expectations.join(files, on="item", how="inner", maintain_order="left").with_columns(
        rank=pl.col("check").replace_strict(ranks, return_dtype=pl.Int32)
    )
    seen = facts.filter(pl.col("count") > 0)
    wrong = (
        asked.join(seen, on=_ITEM_KEYS, how="inner", maintain_order="left")
        .filter(~pl.col("accepts").list.contains(pl.col("kind_right")))
        # A wrong kind of value is put down to the first check that refuses it.
        .sort("rank", maintain_order=True)
        .unique([*_ITEM_KEYS, "kind_right"], keep="first", maintain_order=True)
        .sort("item", "rank", "position", "row", nulls_last=True, maintain_order=True)
    )
    found = worded("{} {}", "count", pl.col("kind_right").cast(pl.String).str.replace_all("_", " "))
    grouped = wrong.group_by("item", "check", "level", "field", maintain_order=True).agg(
        *(pl.col(c).first() for c in ("rank", "path", "kind", "family", "type", "rows", "row")),
        at=pl.col("item_right").sort_by("row", maintain_order=True).first(),
        found=found.str.join(", "),
        count=pl.col("count").sum(),
    )
    gone = _gone(asked, facts)
    both = pl.concat([grouped, gone], how="diagonal_relaxed")
    return _worded(_without_heirs(both))


def _gone(asked: pl.DataFrame, facts: pl.DataFrame) -> pl.DataFrame:
    """Required fields and headings of which the file says nothing at all; of no records nothing is required."""
    vacuous = pl.col("shape").is_in(["array", "lines"]) & (pl.col("rows") == 0)
    return (
        asked.filter(pl.col("check").is_in(["present", "section"]) & ~vacuous)
        .join(facts, on=_ITEM_KEYS, how="anti", maintain_order="left")
        .select(
            *("item", "check", "level", "field", "rank", "path", "kind", "family", "type", "rows"),
            found=pl.lit("nothing"),
            count=pl.when(pl.col("shape").is_in(["array", "lines"])).then("rows"),
        )
    )


def _without_heirs(failed: pl.DataFrame) -> pl.DataFrame:
    """Without the paths of a document that are gone only because a path above them is wrong."""
    parts = pl.col("field").str.split(".")
    above = (
        failed.filter((pl.col("family") == "json") & (pl.col("check") == "present"))
        .select("item", "field", depth=pl.int_ranges(1, parts.list.len()), parts=parts)
        .explode("depth", empty_as_null=False)
        .select("item", "field", parent=pl.col("parts").list.head("depth").list.join("."))
    )
    parents = failed.select("item", parent="field").unique(maintain_order=True)
    heirs = above.join(parents, on=["item", "parent"], how="semi", maintain_order="left").with_columns(
        check=pl.lit("present")
    )
    return failed.join(heirs, on=["item", "field", "check"], how="anti", maintain_order="left")


def _worded(failed: pl.DataFrame) -> pl.DataFrame:
    """Codes and texts."""
    is_item = pl.col("check") == "list_item"
    listing = is_item & pl.col("path").str.ends_with(OUTPUTS_NAME)
    family = pl.when(listing).then(pl.lit(LISTING_FAMILY)).otherwise("family")
    first = pl.when(is_item).then(pl.concat_str("field", pl.lit("."), "at").str.strip_prefix(".")).otherwise("field")
    where = pl.when(pl.col("rows").is_not_null() & pl.col("row").is_not_null()).then(
        worded("; the first in row {}", pl.col("row") + 1)
    )
    return failed.with_columns(family=family).select(
        "item",
        rank=pl.col("rank") + len(FILE_CHECKS),
        path="path",
        kind="kind",
        code=field_code(),
        field=first,
        expectation=field_text("expectation"),
        found=pl.concat_str("found", where.fill_null("")),
        count="count",
        row=pl.when(pl.col("rows").is_not_null()).then("row"),
        repair_hint=field_text("hint"),
    )
