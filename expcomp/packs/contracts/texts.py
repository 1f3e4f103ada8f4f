"""Measure Markdown and plain text: the headings that stand in them."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import polars as pl

from expcomp.packs.contracts.kinds import FACTS
from expcomp.packs.contracts.measured import Measured, failed

if TYPE_CHECKING:
    from collections.abc import Collection

MAX_CHARS = 8 << 20
"""A longer Markdown text is not parsed."""


def measure_markdown(data: bytes) -> Measured:
    """Headings of a CommonMark text, in order; what stands in code blocks is no heading."""
    text = _decoded(data)
    if isinstance(text, Measured):
        return text
    if len(text) > MAX_CHARS:
        return failed("file_too_large", f"holds {len(text):,} characters; Markdown is parsed up to {MAX_CHARS:,}")
    from markdown_it import MarkdownIt

    tokens = MarkdownIt("commonmark").disable("inline").parse(text)
    found = [
        (after.content.strip(), token.map[0] if token.map else None)
        for token, after in pairwise(tokens)
        if token.type == "heading_open"
    ]
    return _sections([heading for heading, _ in found], [line for _, line in found])


def measure_text(data: bytes, wanted: Collection[str] = ()) -> Measured:
    """Lines of a plain text that are one of the wanted headings, `#` before and `:` after them aside."""
    text = _decoded(data)
    if isinstance(text, Measured):
        return text
    lines = [line.strip().lstrip("#").strip().rstrip(":").strip() for line in text.split("\n")] if wanted else []
    hits = [(line, number) for number, line in enumerate(lines) if line in set(wanted)]
    return _sections([line for line, _ in hits], [number for _, number in hits])


def _sections(headings: list[str], lines: list[int | None]) -> Measured:
    facts = (
        pl.DataFrame({"field": headings, "row": lines}, schema={"field": pl.String(), "row": pl.Int64()})
        .filter(pl.col("field") != "")
        .group_by("field", maintain_order=True)
        .agg(pl.len().alias("count"), pl.col("row").first())
        .with_row_index("position")
        .with_columns(level=pl.lit("section"), kind=pl.lit("text"), item=pl.lit(None))
        .select(FACTS.names())
        .cast(FACTS)
    )
    return Measured(shape="document", facts=facts)


def _decoded(data: bytes) -> str | Measured:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        return failed("invalid_encoding", f"byte {error.start} is 0x{data[error.start]:02x}, which is not UTF-8")
