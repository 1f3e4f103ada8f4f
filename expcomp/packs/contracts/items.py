"""Items of contracts: what the passing attempts that handed over a file share, as keys that the verifier reads.

All items of all contracts are worked out at once, by columns; only their documents are put together one by one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import polars as pl

from expcomp.evidence.redact import redact
from expcomp.io.wording import worded
from expcomp.packs.contracts.formats import FORMATS
from expcomp.packs.contracts.kinds import CELLS, EMPTY, NUMERIC, TYPES

if TYPE_CHECKING:
    from collections.abc import Iterator

PRIVATE = "what looks like a secret or a private path"
_ITEM = ("group", "path", "sheet")


class Item(NamedTuple):
    """One item: its contract, whether all passing attempts handed it over, the document, and what it does not cover."""

    group: str
    required: bool
    document: dict[str, Any]
    notes: tuple[str, ...]


def items_of(files: pl.DataFrame, facts: pl.DataFrame, rows: str) -> Iterator[Item]:
    """Items in the order of group, path and sheet.

    Args:
        files: `infer.FILES`, with `attempts`: how many passing attempts the group has.
        facts: `kinds.FACTS` with `file`.
        rows: One of `infer.ROWS`.
    """
    placed = files.sort(*_ITEM, "file", nulls_last=False, maintain_order=True).with_columns(
        pl.struct(_ITEM).rle_id().alias("number")
    )
    said = _readable(placed)
    known = facts.join(placed.select("file", "number"), on="file", how="inner", maintain_order="left").join(
        said.filter("readable").select("number", "format", "n_files"), on="number", how="inner", maintain_order="left"
    )
    names = known.select(pl.col("field").unique(maintain_order=True))
    known = known.join(names.with_columns(private(names, "field")), on="field", how="left", maintain_order="left")
    said = said.join(_lists(known), on="number", how="left", maintain_order="left")
    evidence = _evidence(placed)
    for line, cited in zip(said.select(pl.struct(pl.all()).alias("line"))["line"].to_list(), evidence, strict=True):
        document, notes = _document(line, rows)
        yield Item(line["group"], line["required"], document | {"evidence": cited}, notes)


def private(frame: pl.DataFrame, column: str) -> pl.Series:
    """Whether a redaction would change a text, named `private`: then it is not published. Null counts as clean."""
    redacted, _ = redact(frame.select(column), [column])
    return (redacted[column] != frame[column]).fill_null(value=False).alias("private")


def _readable(placed: pl.DataFrame) -> pl.DataFrame:
    """One line an item: what its files share, and why its content is not covered."""
    bad = pl.col("problem").is_not_null()
    first_bad = worded("content not covered: {} in {}: {}", "problem", "ref", "detail").filter(bad).first()
    first_empty = worded("content not covered: {} is empty", "ref").filter(pl.col("bytes") == 0).first()
    apart = pl.col("delimiter").n_unique() > 1
    why = pl.coalesce(
        first_bad,
        first_empty,
        pl.when(apart).then(pl.lit("content not covered: attempts use different separators")),
    )
    said = (
        placed.group_by("number", maintain_order=True)
        .agg(
            *(pl.col(c).first() for c in (*_ITEM, "format", "delimiter")),
            n_files=pl.len(),
            required=pl.col("attempt_id").n_unique() == pl.col("attempts").first(),
            why=why,
            is_empty=(pl.col("bytes") == 0).any(),
            shape=pl.when(pl.col("shape").n_unique() == 1).then(pl.col("shape").first()),
            least=pl.when(pl.col("rows").is_not_null().all()).then(pl.col("rows").min()),
            most=pl.col("rows").max(),
        )
        .with_columns(readable=pl.col("why").is_null())
    )
    unsaid = pl.lit(f"content not covered: the reason holds {PRIVATE}")
    return said.with_columns(why=pl.when(private(said, "why")).then(unsaid).otherwise("why"))


def _lists(known: pl.DataFrame) -> pl.DataFrame:
    """By item: names of fields by what all files share of them, and how many names were left out as private."""
    families = {name: f.family for name, f in FORMATS.items()}
    family = known.with_columns(family=pl.col("format").replace_strict(families, return_dtype=pl.String))
    fields = _summary(family.filter(~pl.col("private"))).with_columns(
        top=(pl.col("family") != "json") | ~pl.col("field").str.contains(".", literal=True),
        whole=pl.col("everywhere") & (pl.col("nulls") == 0),
        typed=pl.col("type").is_not_null(),
    )
    value, item, section = (pl.col("level") == level for level in ("value", "item", "section"))
    named = {
        "fields": value & pl.col("everywhere") & pl.col("top"),
        "non_empty_fields": value & pl.col("everywhere") & pl.col("full"),
        "numeric_fields": value & pl.col("whole") & pl.col("numeric"),
        "sections": section & pl.col("everywhere"),
    }
    typed = {
        "expected_types": value & pl.col("whole") & pl.col("typed"),
        "optional_types": value & ~pl.col("whole") & pl.col("typed"),
        "list_item_types": item & (pl.col("nulls") == 0) & pl.col("typed"),
    }
    lists = fields.group_by("number", maintain_order=True).agg(
        **{n: pl.col("field").filter(where) for n, where in named.items()},
        **{n: pl.struct("field", "type").filter(where) for n, where in typed.items()},
    )
    hidden = family.filter("private").group_by("number", maintain_order=True).agg(hidden=pl.col("field").n_unique())
    return lists.join(hidden, on="number", how="full", coalesce=True, maintain_order="left_right")


def _summary(facts: pl.DataFrame) -> pl.DataFrame:
    """By field: is it in every record of every file, how many nulls, is nothing empty, is all of it numbers, of which type."""
    seen = pl.col("kind").filter(pl.col("count") > 0)
    said = seen.filter(~seen.is_in(["absent", "null"]))
    cells = pl.col("family").first().is_in(["csv", "xlsx"])
    fits = [
        *((name, said.is_in(list(t.infers)).all()) for name, t in TYPES.items()),
        ("string", cells & said.is_in(list(CELLS)).all()),
    ]
    return (
        facts.group_by("number", "level", "field", maintain_order=True)
        .agg(
            pl.col("family").first(),
            pl.col("position").min(),
            everywhere=(pl.col("file").n_unique() == pl.col("n_files").first()) & (seen != "absent").all(),
            nulls=pl.col("count").filter(pl.col("kind") == "null").sum(),
            full=(said.len() > 0) & (~seen.is_in([*EMPTY, "absent"])).all(),
            numeric=(said.len() > 0) & said.is_in(list(NUMERIC)).all(),
            type=pl.when(said.len() > 0).then(pl.coalesce(*(pl.when(fit).then(pl.lit(name)) for name, fit in fits))),
        )
        .sort("number", "position", maintain_order=True)
    )


def _evidence(placed: pl.DataFrame) -> list[list[dict[str, Any]]]:
    """The files each item rests on."""
    names = ("evidence_id", "attempt_id", "ref", "sha256", "bytes", "rows")
    cited = placed.group_by("number", maintain_order=True).agg(pl.struct(names).alias("cited"))["cited"].to_list()
    return [[{k: v for k, v in entry.items() if v is not None} for entry in entries] for entries in cited]


def _document(line: dict[str, Any], rows: str) -> tuple[dict[str, Any], tuple[str, ...]]:
    item: dict[str, Any] = {"path": line["path"], "format": line["format"]}
    if line["sheet"] is not None:
        item["sheet"] = line["sheet"]
    if line["is_empty"]:
        item["min_bytes"] = 0
    if not line["readable"]:
        return item | {"format": "binary", "encoding": "unknown"}, (line["why"],)
    if line["delimiter"] is not None:
        item["delimiter"] = line["delimiter"]
    if line["format"] == "json" and line["shape"] is not None:
        item["root_type"] = line["shape"]
    item |= _rows(line["least"], line["most"], rows)
    for name in ("fields", "non_empty_fields", "numeric_fields", "sections"):
        item |= {name: line[name]} if line[name] else {}
    for name in ("expected_types", "optional_types", "list_item_types"):
        item |= {name: {t["field"]: t["type"] for t in line[name]}} if line[name] else {}
    return item, (f"{line['hidden']} names hold {PRIVATE}",) if line["hidden"] else ()


def _rows(least: int | None, most: int | None, rows: str) -> dict[str, int]:
    """Rows asked for; that there may be none is always said."""
    if least is None or most is None:
        return {}
    if rows == "any":
        return {} if least else {"min_rows": 0}
    return {"row_count": least} if rows == "exact" and least == most else {"min_rows": least, "max_rows": most}
